//! Many pairs a call.
//!
//! A scan fills a buffer that Java and this library both see with pairs, one behind the other:
//!
//! ```text
//!   length of the key (u32) | length of the value (u32) | key | value | length of the key …
//! ```
//!
//! Over a tree it keeps a cursor. A cursor of a transaction borrows it, so over a transaction the scan keeps the last key that
//! it gave, and begins anew behind it with each call. Steps from there that have failed fail again, and are passed over then.

use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use jni::objects::{JByteArray, JByteBuffer, JObject};
use jni::sys::{jint, jlong};
use store::{Cursor, Db, Error, ReadCursor, Tree};

use crate::bytes::in_buffer;
use crate::call::native;
use crate::failure::{Failure, Result, invalid};
use crate::read::{AnyTree, KEYS_ONLY, Keys, REVERSE, either};
use crate::table::{keep, kind};
use crate::transaction::{Shared, Txn};

/// Bytes before each pair: two lengths.
const HEAD: usize = 8;

/// A walk over a range, for one thread at a time.
pub(crate) struct Scan {
    pub(crate) db: Db,
    walk: Mutex<Walk>,
}

kind!(Scan, "scan");

/// What is walked over.
pub(crate) enum Over {
    Tree(Box<Cursor>),
    /// And how many steps have failed since the last key.
    Transaction(Arc<Shared>, Tree, usize),
}

struct Walk {
    over: Over,
    rest: Rest,
    /// What the next call fails with: it came up behind pairs that were given.
    failed: Option<Failure>,
}

/// What has not been given yet.
struct Rest {
    /// Where the walk begins, until it has.
    near: Bound<Vec<u8>>,
    far: Bound<Vec<u8>>,
    is_reverse: bool,
    keys_only: bool,
    has_begun: bool,
    /// The cursor is at a pair that was not given, because it did not fit.
    waits: bool,
    has_ended: bool,
}

impl Scan {
    pub(crate) fn new(db: &Db, over: Over, keys: Keys, flags: jint) -> Self {
        let (is_reverse, has_ended) = (flags & REVERSE != 0, keys.is_empty());
        let (near, far) = if is_reverse { (keys.to, keys.from) } else { (keys.from, keys.to) };
        let keys_only = flags & KEYS_ONLY != 0;
        let rest =
            Rest { near, far, is_reverse, keys_only, has_begun: false, waits: false, has_ended };
        Self { db: db.clone(), walk: Mutex::new(Walk { over, rest, failed: None }) }
    }
}

impl Walk {
    fn fill(&mut self, pairs: &mut Pairs<'_>) -> Result<()> {
        if let Some(failure) = self.failed.take() {
            return Err(failure);
        }
        let rest = &mut self.rest;
        let filled = match &mut self.over {
            Over::Tree(cursor) => rest.fill(&mut **cursor, pairs, &mut ()),
            Over::Transaction(shared, tree, failed) => shared.with(|transaction| {
                let mut track = Anew { last: None, failed: *failed, told: *failed };
                let mut cursor = transaction.of(tree)?.cursor();
                (rest.has_begun, rest.waits) = (false, false);
                let filled = rest.fill(&mut cursor, pairs, &mut track);
                *failed = track.failed;
                if let Some(key) = track.last {
                    rest.near = Bound::Excluded(key);
                }
                filled
            }),
        };
        match filled {
            Err(failure) if pairs.used > 0 => self.failed = Some(failure),
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

/// Whether a step that has failed so goes on behind what it has met, if it is done again. Others try the same again.
pub(crate) fn is_of_pair(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Io { .. })
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
        if !is_of_pair(error) {
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
                    Err(Failure::Store(error)) if track.was_told(&error) => continue,
                    Err(failure) => return Err(failure),
                }
            }
            self.waits = false;
            let Some(key) = cursor.key() else { continue };
            if self.is_behind(key) {
                self.has_ended = true;
                break;
            }
            if self.keys_only {
                if !pairs.push(key, &[]) {
                    self.waits = true;
                    break;
                }
                track.passed(key);
                continue;
            }
            match cursor.pair() {
                Ok(Some((key, value))) => {
                    if !pairs.push(key, value) {
                        self.waits = true;
                        break;
                    }
                    track.passed(key);
                }
                // Its value was large, and was removed before it was read.
                Ok(None) => {}
                Err(error) => {
                    // That pair is lost, and the next ones are not.
                    if let Some(key) = cursor.key() {
                        track.passed(key);
                    }
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Takes the cursor to the next pair, or the first one.
    fn step(&mut self, cursor: &mut impl ReadCursor) -> Result<bool> {
        if self.has_begun {
            return Ok(if self.is_reverse { cursor.prev() } else { cursor.next() }?);
        }
        // Also after an error: the cursor goes on behind a pair that cannot be read.
        self.has_begun = true;
        let is_there = match (&self.near, self.is_reverse) {
            (Bound::Unbounded, false) => cursor.first(),
            (Bound::Unbounded, true) => cursor.last(),
            (Bound::Included(key) | Bound::Excluded(key), false) => cursor.seek(key),
            (Bound::Included(key) | Bound::Excluded(key), true) => cursor.seek_for_prev(key),
        }?;
        match &self.near {
            Bound::Excluded(near) if is_there && cursor.key() == Some(&near[..]) => {
                Ok(if self.is_reverse { cursor.prev() } else { cursor.next() }?)
            }
            _ => Ok(is_there),
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

/// The buffer, and what is in it.
struct Pairs<'a> {
    buffer: &'a mut [u8],
    used: usize,
    /// Bytes of a first pair that does not fit.
    needed: usize,
}

impl Pairs<'_> {
    /// Adds a pair; says whether it had room.
    fn push(&mut self, key: &[u8], value: &[u8]) -> bool {
        let needed = HEAD + key.len() + value.len();
        let rest = self.buffer.get_mut(self.used..).unwrap_or_default();
        let Some(place) = rest.get_mut(..needed) else {
            if self.used == 0 {
                self.needed = needed;
            }
            return false;
        };
        let (lengths, bytes) = place.split_at_mut(HEAD);
        // Lengths of keys and values are below 2³² each.
        lengths[..4].copy_from_slice(&(key.len() as u32).to_ne_bytes());
        lengths[4..].copy_from_slice(&(value.len() as u32).to_ne_bytes());
        let (key_place, value_place) = bytes.split_at_mut(key.len());
        key_place.copy_from_slice(key);
        value_place.copy_from_slice(value);
        self.used += needed;
        true
    }
}

native! {
    /// Fills so many bytes of a direct buffer with the next pairs. The bytes that they take; 0 at the end; below 0 if the first pair needs a
    /// larger buffer, of as many bytes.
    fn scan_fill(env, scan: Scan, buffer: JByteBuffer<'l>, bytes: jint) -> jlong {
        scan.db.expect_open()?;
        let mut walk = scan.walk.lock().unwrap_or_else(PoisonError::into_inner);
        in_buffer(env, &buffer, |buffer| {
            let buffer = usize::try_from(bytes).ok().and_then(|bytes| buffer.get_mut(..bytes));
            let buffer = buffer.ok_or_else(|| invalid("the buffer is too short"))?;
            let mut pairs = Pairs { buffer, used: 0, needed: 0 };
            walk.fill(&mut pairs)?;
            Ok(if pairs.needed > 0 { -(pairs.needed as jlong) } else { pairs.used as jlong })
        })
    }
}

native! {
    fn read_scan(env, tree: AnyTree, from: JByteArray<'l>, to: JByteArray<'l>, flags: jint) -> jlong {
        tree.db.expect_open()?;
        let keys = Keys::new(env, (&from, &to), flags)?;
        let cursor = either!(tree, tree => tree.cursor());
        keep(Scan::new(&tree.db, Over::Tree(Box::new(cursor)), keys, flags))
    }
}

native! {
    fn txn_scan(
        env, txn: Txn, _tree: JObject<'l>, tree: jlong, from: JByteArray<'l>, to: JByteArray<'l>, flags: jint
    ) -> jlong {
        let keys = Keys::new(env, (&from, &to), flags)?;
        let tree = txn.with(tree, |txn, tree| {
            txn.of(tree)?;
            Ok(tree.clone())
        })?;
        let over = Over::Transaction(Arc::clone(&txn.shared), tree, 0);
        keep(Scan::new(&txn.db, over, keys, flags))
    }
}
