//! Many pairs a call, for languages in which a call is dear: see [`db::scan`].

use std::ffi::{c_int, c_void};
use std::ops::Bound;
use std::sync::Arc;

use db::scan::{Pairs, Scan};
use db::{Cursor, Db, Tree};

use crate::batch::tree_of;
use crate::call::{self, Handle, boxed, buffer, expect_out, give, on, on_mut};
use crate::codes::{EVERLEAF_NOT_FOUND, EVERLEAF_OK};
use crate::failure::{Failure, Result};
use crate::pairs::{BOUNDS, EVERLEAF_KEYS_ONLY, EVERLEAF_REVERSE, Keys, keys};
use crate::tree::{everleaf_tree, of_either};
use crate::txn::{Shared, everleaf_txn};

/// The flags that a scan knows.
const SCAN: u32 = BOUNDS | EVERLEAF_REVERSE | EVERLEAF_KEYS_ONLY;

/// A walk over a range of a tree, of a tree of a snapshot, or of a tree as a transaction sees it. One thread at a time may use
/// it. Free it with everleaf_scan_free.
pub struct everleaf_scan {
    db: Db,
    over: Over,
    rest: Scan,
}

enum Over {
    Tree(Box<Cursor>),
    Txn(Arc<Shared>, Tree),
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
        let range = (owned(range.from), owned(range.to));
        let (is_reverse, keys_only) =
            (flags & EVERLEAF_REVERSE != 0, flags & EVERLEAF_KEYS_ONLY != 0);
        everleaf_scan { db: db.clone(), over, rest: Scan::new(range, is_reverse, keys_only) }
    }

    fn fill(&mut self, pairs: &mut Pairs<'_>) -> Result<()> {
        let Self { over, rest, .. } = self;
        rest.expect_no_error()?;
        match over {
            Over::Tree(cursor) => Ok(rest.fill(&mut **cursor, pairs)?),
            Over::Txn(txn, tree) => {
                txn.with(|txn| Ok(rest.fill_anew(&mut txn.of(tree)?.cursor(), pairs)?))
            }
        }
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
                let over = Over::Txn(Arc::clone(&txn.shared), tree.clone());
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
            let mut filled = Pairs::new(buffer(buf, buf_len)?);
            scan.fill(&mut filled)?;
            if let needed @ 1.. = filled.needed {
                give(needed_len, needed);
                return Err(Failure::BufferTooSmall { bytes: buf_len, needed });
            }
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
