//! Many pairs a call, for languages in which a call is dear.
//!
//! A scan fills a buffer of the caller with pairs, one behind the other:
//!
//! ```text
//!   key length (u32) | value length (u32) | key | value | key length …
//! ```
//!
//! Over a tree it keeps a cursor. A cursor of a transaction borrows it, so over a transaction the scan keeps the last key
//! that it gave, and begins anew behind it with each call. Steps from there that have failed fail again, and are passed
//! over then.

use std::ffi::{c_int, c_void};
use std::ops::Bound;
use std::sync::Arc;

use db::{Cursor, Db, Error, ReadCursor, Tree};

use crate::batch::tree_of;
use crate::call::{self, Handle, boxed, buffer, expect_out, give, on, on_mut};
use crate::codes::{EVERLEAF_NOT_FOUND, EVERLEAF_OK};
use crate::failure::{Failure, Result};
use crate::pairs::{BOUNDS, EVERLEAF_KEYS_ONLY, EVERLEAF_REVERSE, Keys, keys};
use crate::tree::{everleaf_tree, of_either};
use crate::txn::{Shared, everleaf_txn};

/// Bytes before each pair: two lengths.
const HEAD: usize = 8;

/// The flags that a scan knows.
const SCAN: u32 = BOUNDS | EVERLEAF_REVERSE | EVERLEAF_KEYS_ONLY;

/// A walk over a range of a tree, of a tree of a snapshot, or of a tree as a transaction sees it. One thread at a time may use
/// it. Free it with everleaf_scan_free.
pub struct everleaf_scan {
    db: Db,
    over: Over,
    rest: Rest,
    /// What the next call fails with: it came up behind pairs that were given.
    failed: Option<Failure>,
}

enum Over {
    Tree(Box<Cursor>),
    /// And how many steps have failed since the last key.
    Txn(Arc<Shared>, Tree, usize),
}

/// What a scan has not given yet.
struct Rest {
    /// Where it begins, until it has.
    near: Bound<Vec<u8>>,
    far: Bound<Vec<u8>>,
    is_reverse: bool,
    keys_only: bool,
    /// The cursor has come to its first pair.
    has_begun: bool,
    /// The cursor is at a pair that was not given, because it did not fit.
    waits: bool,
    has_ended: bool,
}

impl Handle for everleaf_scan {
    fn db(&self) -> Option<&Db> {
        Some(&self.db)
    }
}

fn owned(bound: Bound<&[u8]>) -> Bound<Vec<u8>> {
    bound.map(<[u8]>::to_vec)
}

impl everleaf_scan {
    fn new(db: &Db, over: Over, range: &Keys<'_>, flags: u32) -> Self {
        let is_reverse = flags & EVERLEAF_REVERSE != 0;
        let (near, far) = if is_reverse { (range.to, range.from) } else { (range.from, range.to) };
        let rest = Rest {
            near: owned(near),
            far: owned(far),
            is_reverse,
            keys_only: flags & EVERLEAF_KEYS_ONLY != 0,
            has_begun: false,
            waits: false,
            has_ended: false,
        };
        everleaf_scan { db: db.clone(), over, rest, failed: None }
    }

    fn fill(&mut self, pairs: &mut Pairs<'_>) -> Result<()> {
        if let Some(failure) = self.failed.take() {
            return Err(failure);
        }
        let filled = match &mut self.over {
            Over::Tree(cursor) => self.rest.fill(&mut **cursor, pairs, &mut ()),
            Over::Txn(txn, tree, failed) => txn.with(|txn| {
                let mut track = Anew { last: None, failed: *failed, told: *failed };
                let mut cursor = txn.of(tree)?.cursor();
                (self.rest.has_begun, self.rest.waits) = (false, false);
                let filled = self.rest.fill(&mut cursor, pairs, &mut track);
                *failed = track.failed;
                if let Some(key) = track.last {
                    self.rest.near = Bound::Excluded(key);
                }
                filled
            }),
        };
        match filled {
            Err(failure @ Failure::Db(_)) if pairs.count > 0 => self.failed = Some(failure),
            filled => filled?,
        }
        Ok(())
    }
}

/// A way that is told what it comes to.
trait Track {
    /// A pair was given, or cannot be.
    fn passed(&mut self, key: &[u8]);

    /// A step has failed; says whether the caller has heard of that already.
    fn was_told(&mut self, error: &Error) -> bool;
}

/// A cursor that stays knows where it is.
impl Track for () {
    fn passed(&mut self, _key: &[u8]) {}

    fn was_told(&mut self, _error: &Error) -> bool {
        false
    }
}

/// The way of a cursor that is made anew for each call.
struct Anew {
    last: Option<Vec<u8>>,
    /// Steps that have failed since the last key. They tell no key to go on behind.
    failed: usize,
    /// How many of them, from calls before, this call has not come to.
    told: usize,
}

impl Track for Anew {
    fn passed(&mut self, key: &[u8]) {
        (self.last, self.failed, self.told) = (Some(key.to_vec()), 0, 0);
    }

    fn was_told(&mut self, error: &Error) -> bool {
        // After other errors the next step tries the same again.
        if !matches!(error, Error::Corrupt { .. } | Error::Io { .. }) {
            return false;
        }
        match self.told.checked_sub(1) {
            Some(told) => self.told = told,
            None => {
                self.failed += 1;
                return false;
            }
        }
        true
    }
}

impl Rest {
    /// Goes on from where it was. `track` is told what it comes to.
    fn fill(
        &mut self,
        cursor: &mut impl ReadCursor,
        pairs: &mut Pairs<'_>,
        track: &mut impl Track,
    ) -> Result<()> {
        while !self.has_ended {
            if !self.waits {
                match self.step(cursor) {
                    Ok(true) => {}
                    Ok(false) => {
                        self.has_ended = true;
                        break;
                    }
                    Err(Failure::Db(error)) if track.was_told(&error) => continue,
                    Err(failure) => return Err(failure),
                }
            }
            self.waits = true;
            let Some(key) = cursor.key() else {
                self.waits = false;
                continue;
            };
            if self.is_behind(key) {
                self.has_ended = true;
                break;
            }
            let (key, value) = match self.keys_only {
                true => (key, &[][..]),
                false => match cursor.pair() {
                    Ok(Some(pair)) => pair,
                    // Its value was large, and was removed before it was read.
                    Ok(None) => {
                        self.waits = false;
                        continue;
                    }
                    Err(error) => {
                        // That pair is lost, and the next ones are not.
                        self.waits = false;
                        if let Some(key) = cursor.key() {
                            track.passed(key);
                        }
                        return Err(error.into());
                    }
                },
            };
            if !pairs.push(key, value)? {
                return Ok(());
            }
            track.passed(key);
            self.waits = false;
        }
        Ok(())
    }

    /// Takes the cursor to the next pair, or the first one.
    fn step(&mut self, cursor: &mut impl ReadCursor) -> Result<bool> {
        if self.has_begun {
            return Ok(if self.is_reverse { cursor.prev() } else { cursor.next() }?);
        }
        let is_there = match (&self.near, self.is_reverse) {
            (Bound::Unbounded, false) => cursor.first(),
            (Bound::Unbounded, true) => cursor.last(),
            (Bound::Included(key) | Bound::Excluded(key), false) => cursor.seek(key),
            (Bound::Included(key) | Bound::Excluded(key), true) => cursor.seek_for_prev(key),
        };
        // Also after an error: the cursor goes on behind a pair that cannot be read.
        self.has_begun = true;
        match &self.near {
            Bound::Excluded(near) if is_there.clone()? && cursor.key() == Some(&near[..]) => {
                Ok(if self.is_reverse { cursor.prev() } else { cursor.next() }?)
            }
            _ => Ok(is_there?),
        }
    }

    fn is_behind(&self, key: &[u8]) -> bool {
        match (&self.far, self.is_reverse) {
            (Bound::Unbounded, _) => false,
            (Bound::Included(far), false) => key > &far[..],
            (Bound::Excluded(far), false) => key >= &far[..],
            (Bound::Included(far), true) => key < &far[..],
            (Bound::Excluded(far), true) => key <= &far[..],
        }
    }
}

/// A caller's buffer, and what is in it.
struct Pairs<'a> {
    buffer: &'a mut [u8],
    used: usize,
    count: usize,
}

impl Pairs<'_> {
    /// Adds a pair; says whether it had room. The first one must have.
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        // Lengths of keys and values are below 2³² each.
        let needed = HEAD + key.len() + value.len();
        let Some(place) = self.buffer.get_mut(self.used..).and_then(|rest| rest.get_mut(..needed))
        else {
            return match self.count {
                0 => Err(Failure::BufferTooSmall { bytes: self.buffer.len(), needed }),
                _ => Ok(false),
            };
        };
        let (lengths, bytes) = place.split_at_mut(HEAD);
        lengths[..4].copy_from_slice(&(key.len() as u32).to_ne_bytes());
        lengths[4..].copy_from_slice(&(value.len() as u32).to_ne_bytes());
        let (key_place, value_place) = bytes.split_at_mut(key.len());
        key_place.copy_from_slice(key);
        value_place.copy_from_slice(value);
        self.used += needed;
        self.count += 1;
        Ok(true)
    }
}

/// Makes a walk in `*out` over the pairs from the key `from` up to the key `to`, which is not part of it; it is yours to free
/// with everleaf_scan_free. NULL with a length of 0 stands for no bound. `flags` is 0 or a sum of EVERLEAF_FROM_EXCLUDED,
/// EVERLEAF_TO_INCLUDED, EVERLEAF_REVERSE and EVERLEAF_KEYS_ONLY. It reads nothing yet, and the bounds are copied.
///
/// Errors: EVERLEAF_INVALID for other flags.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_scan_new(
    tree: *const everleaf_tree,
    from: *const c_void,
    from_len: usize,
    to: *const c_void,
    to_len: usize,
    flags: u32,
    out: *mut *mut everleaf_scan,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        give(out, std::ptr::null_mut());
        on("everleaf_scan_new", tree, |tree| {
            boxed(out, || {
                let range = keys((from, from_len), (to, to_len), (flags, SCAN))?;
                let cursor = of_either!(tree, tree => tree.cursor());
                Ok(Some(everleaf_scan::new(&tree.db, Over::Tree(Box::new(cursor)), &range, flags)))
            })
        })
    }
}

/// Makes a walk in `*out` over a range of a tree as the transaction sees it, as everleaf_scan_new does over the tree; it is yours
/// to free with everleaf_scan_free, before or after the transaction. Keys that it passes count as read. It ends with the
/// transaction: everleaf_scan_fill returns EVERLEAF_INVALID then.
///
/// Errors: those of everleaf_txn_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_txn_scan_new(
    txn: *const everleaf_txn,
    tree: *const everleaf_tree,
    from: *const c_void,
    from_len: usize,
    to: *const c_void,
    to_len: usize,
    flags: u32,
    out: *mut *mut everleaf_scan,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        give(out, std::ptr::null_mut());
        on("everleaf_txn_scan_new", txn, |txn| {
            boxed(out, || {
                let range = keys((from, from_len), (to, to_len), (flags, SCAN))?;
                let tree = tree_of(tree)?;
                txn.shared.with(|txn| Ok(txn.of(tree).map(drop)?))?;
                let over = Over::Txn(Arc::clone(&txn.shared), tree.clone(), 0);
                Ok(Some(everleaf_scan::new(&txn.db, over, &range, flags)))
            })
        })
    }
}

/// Fills a buffer with the next pairs, as many as fit. Each is the length of the key (uint32_t), the length of the value
/// (uint32_t), the key and the value, without gaps and not aligned: use memcpy. Writes to `*pairs` how many there are, to
/// `*used_len` how many bytes they take, and to `*needed_len`, if the first pair alone does not fit, how many bytes it takes;
/// else 0. `used_len` and `needed_len` may be NULL. EVERLEAF_NOT_FOUND, and no pairs, at the end.
///
/// Errors: EVERLEAF_BUFFER_TOO_SMALL if the first pair does not fit: call again with more room. Otherwise those of
/// everleaf_get. Pairs before a failure are given first, and the next call fails; a pair that cannot be read is passed over by
/// the call after that. After EVERLEAF_SNAPSHOT_TOO_OLD the walk cannot go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_scan_fill(
    scan: *mut everleaf_scan,
    buf: *mut c_void,
    buf_len: usize,
    pairs: *mut usize,
    used_len: *mut usize,
    needed_len: *mut usize,
) -> c_int {
    // SAFETY: the promise of a caller.
    unsafe {
        on_mut("everleaf_scan_fill", scan, |scan| {
            expect_out(pairs)?;
            [pairs, used_len, needed_len].into_iter().for_each(|place| give(place, 0));
            let mut filled = Pairs { buffer: buffer(buf, buf_len)?, used: 0, count: 0 };
            let outcome = scan.fill(&mut filled);
            if let Err(Failure::BufferTooSmall { needed, .. }) = outcome {
                give(needed_len, needed);
            }
            outcome?;
            give(pairs, filled.count);
            give(used_len, filled.used);
            Ok(if filled.count == 0 { EVERLEAF_NOT_FOUND } else { EVERLEAF_OK })
        })
    }
}

/// Frees the walk. NULL may be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_scan_free(scan: *mut everleaf_scan) {
    // SAFETY: the promise of a caller.
    unsafe { call::free("everleaf_scan_free", scan) }
}
