//! Keys that a node keeps in part: comparing and reading them where they are whole.

use std::cmp::Ordering;

use everleaf_pmem::{Medium, Page, PageNo, Result, Seen};
use everleaf_pool::{Pool, RecordRef};

use crate::node::slotted::{FenceAt, View};
use crate::record::{key_of_record, read};

/// The order of a key that a record holds to another one.
#[cold]
pub(super) fn compare<M: Medium>(pool: &Pool<M>, record: u64, key: &[u8]) -> Result<Ordering> {
    read(pool, RecordRef::from_bits(record), |record| pool.compare_key(record, 0, key))
}

/// All of a key that a record holds.
#[cold]
pub(super) fn whole<M: Medium>(pool: &Pool<M>, record: u64) -> Result<Vec<u8>> {
    key_of_record(pool, RecordRef::from_bits(record))
}

/// The record of a node's low fence, if it is long. Waits for who changes the node.
pub(super) fn low_record<M: Medium>(pool: &Pool<M>, no: PageNo) -> Result<Option<u64>> {
    let page = pool.page(no)?;
    loop {
        match page.latch().read_version() {
            Seen::Ready(version) => {
                let record = View::read(page).low().and_then(|low| low.record);
                if page.latch().validate(version) {
                    return Ok(record);
                }
            }
            Seen::Absent => pool.latch(no)?.1.unlock_unchanged(),
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
