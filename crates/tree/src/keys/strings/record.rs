//! The records that slots and bounds of byte strings refer to.

use everleaf_pmem::{Medium, Page, PageNo, Result};
use everleaf_pool::{Pool, RecordRef};

use super::slot::place_of;
use crate::node::{LOW_WORD, Slot};
use crate::record::child_page;

/// The record of a bound in a header word, if the bound is finite.
pub(super) fn bound(page: Page<'_>, word: usize) -> Option<RecordRef> {
    Some(page.head(word).load()).filter(|bits| *bits != 0).map(RecordRef::from_bits)
}

/// The lower bound of an inner slot's child: the record of the separator; `None`: no key is below. The
/// bound never changes while the child lives, and the caller holds the parent or validates it.
pub(super) fn separator_of<M: Medium>(pool: &Pool<M>, slot: Slot) -> Result<Option<RecordRef>> {
    Ok(bound(child_page(pool, place_of(slot) as PageNo)?, LOW_WORD))
}
