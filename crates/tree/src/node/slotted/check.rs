//! Whether a page can be a node: looked at once, when it comes from a file.
//!
//! After this everything that the header and the slots name lies in the page and apart from all else, and
//! keys ascend between the fences as far as the node knows them. Whoever changes the node can rely on that.

use everleaf_pmem::{Page, Result};

use super::entry::ValueSize;
use super::format::{
    CHILD_BYTES, HEAD_BYTES, KEPT_BYTES, PAGE_BYTES_MAX, PAGE_BYTES_MIN, SLOT_BYTES, SLOTS_AT,
    fence_max, inline_value_max, prefix_max, slots_max, whole_key_max,
};
use super::read::{FenceAt, View};

/// Whether an entry with this suffix (its length, and whether it is cut) and value can be in a node with
/// that prefix.
pub(super) fn entry_fits(
    view: &View<'_>,
    prefix: usize,
    (suffix, cut): (usize, bool),
    value: ValueSize,
) -> bool {
    let page_bytes = view.page_bytes();
    let key = match cut {
        true => HEAD_BYTES <= suffix && prefix + suffix <= prefix_max(page_bytes) + KEPT_BYTES,
        false => prefix + suffix <= whole_key_max(page_bytes),
    };
    let value = match value {
        ValueSize::Inline(bytes) if view.is_leaf() => !cut && bytes <= inline_value_max(page_bytes),
        ValueSize::Inline(bytes) => bytes == CHILD_BYTES,
        ValueSize::Reference => view.is_leaf(),
    };
    key && value
}

/// Whether a fence lies in the heap.
fn fence_fits(view: &View<'_>, fence: Option<FenceAt>) -> bool {
    let (most, prefix) = (fence_max(view.page_bytes()), view.prefix_len());
    match fence {
        Some(fence) => {
            view.heap_start() <= fence.at
                && fence.at + fence.bytes() <= view.page_bytes()
                && fence.kept <= most
                && (fence.record.is_none() || fence.kept == most)
                && prefix <= fence.kept
        }
        None => prefix == 0,
    }
}

/// Whether the header names no place outside the page and its parts are apart: what a change of a node
/// relies on. O(1).
pub(super) fn bounds_fit(view: &View<'_>) -> bool {
    let page_bytes = view.page_bytes();
    (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes)
        && view.page().geometry().is_whole()
        && view.raw_count() <= slots_max(page_bytes)
        && SLOTS_AT + SLOT_BYTES * view.raw_count() <= view.heap_start()
        && view.heap_start() + view.dead_bytes() <= page_bytes
        && fence_fits(view, view.low())
        && fence_fits(view, view.high())
}

/// Checks a node's page.
///
/// # Errors
/// Corrupt, if it cannot be one.
pub fn check_page(page: Page<'_>) -> Result<()> {
    let Some(view) = View::of(page) else {
        return Err(crate::damaged::damaged(page, "it is no node"));
    };
    if !bounds_fit(&view) {
        return Err(view.damage("its header does not fit it"));
    }
    Ok(())
}
