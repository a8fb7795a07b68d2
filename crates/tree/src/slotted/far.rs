//! Keys that a node keeps in part: comparing and reading them where they are whole.

use std::cmp::Ordering;

use everleaf_pmem::{Medium, Page, Result};
use everleaf_pool::{Pool, RecordRef};

use crate::damaged::damaged;
use crate::node::slotted::{Far, FenceAt, View};
use crate::record::{child_page, key_of_record, read};

/// The low fence of a child. It changes only under the parent's latch, which the caller holds or
/// validates.
fn low_of<'m, M: Medium>(
    pool: &'m Pool<M>,
    no: everleaf_pmem::PageNo,
) -> Result<(View<'m>, FenceAt)> {
    let child = child_page(pool, no)?;
    let view = View::read(child);
    let low = view.low().ok_or_else(|| damaged(child, "has no lower bound"))?;
    Ok((view, low))
}

/// The order of a key that a node keeps in part to another one.
#[cold]
pub(super) fn compare<M: Medium>(pool: &Pool<M>, far: Far, key: &[u8]) -> Result<Ordering> {
    let record = match far {
        Far::Record(record) => record,
        Far::LowFence(child) => {
            let (view, low) = low_of(pool, child)?;
            match low.record {
                Some(record) => record,
                None => return Ok(view.page().cmp_bytes(low.at, low.kept, key)),
            }
        }
    };
    read(pool, RecordRef::from_bits(record), |record| pool.compare_key(record, 0, key))
}

/// All of a key that a node keeps in part.
#[cold]
pub(super) fn whole<M: Medium>(pool: &Pool<M>, far: Far) -> Result<Vec<u8>> {
    match far {
        Far::Record(record) => key_of_record(pool, RecordRef::from_bits(record)),
        Far::LowFence(child) => {
            let (view, low) = low_of(pool, child)?;
            fence(pool, &view, low)
        }
    }
}

/// All of a fence.
pub(super) fn fence<M: Medium>(pool: &Pool<M>, view: &View<'_>, at: FenceAt) -> Result<Vec<u8>> {
    if let Some(record) = at.record {
        return key_of_record(pool, RecordRef::from_bits(record));
    }
    let mut key = Vec::new();
    view.fence_into(at, &mut key)?;
    Ok(key)
}

/// The record of a fence, if it is long.
pub(super) fn record(fence: Option<FenceAt>) -> Option<RecordRef> {
    fence.and_then(|fence| fence.record).map(RecordRef::from_bits)
}

/// All of the key at a position.
#[inline]
pub(super) fn key_at<M: Medium>(pool: &Pool<M>, page: Page<'_>, pos: usize) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    match View::read(page).key_into(pos, &mut key)? {
        None => Ok(key),
        Some(far) => whole(pool, far),
    }
}
