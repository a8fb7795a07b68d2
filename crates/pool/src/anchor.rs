//! Anchors: pages that hold the root of a tree. A tree's name leads to its anchor, which never
//! moves, so a split of the root changes one word.
//!
//! ```text
//! w0 pairs and 1, 0 if not known | w1 root page, 0 for none | w5 kind
//! ```

use everleaf_pmem::{Change, Medium, Page, PageNo, Result};

use crate::change::{TAG_ANCHOR_INIT, TAG_SET_ROOT, damaged, fence, flush};
use crate::kind::{ANCHOR, KIND_WORD, kind_of, pack};

/// Header word of an anchor: the page of the root, 0 if there is none. The words behind it are the
/// tree's.
pub const ROOT_WORD: usize = 1;
const PAIRS_WORD: usize = 0;

const _: () = assert!(ROOT_WORD != KIND_WORD && PAIRS_WORD != KIND_WORD);

fn put_root<M: Medium>(m: &M, page: Page<'_>, root: PageNo) {
    m.store(page.head(ROOT_WORD), u64::from(root));
    flush(m, page, 0);
}

fn put_anchor<M: Medium>(m: &M, page: Page<'_>, root: PageNo) {
    for i in [0, 2, 3, 4] {
        m.store(page.head(i), 0);
    }
    m.store(page.head(KIND_WORD), pack(ANCHOR, 0, 0, 0));
    put_root(m, page, root);
}

/// Makes an anchor of a new page that the caller has latched; durable on strict media when it
/// returns. The map's byte comes after ([`Step::publish_alloc`](crate::Step::publish_alloc)).
pub fn init<M: Medium>(m: &M, op: &mut M::Op<'_>, page: Page<'_>, root: PageNo) {
    debug_assert!(page.latch().is_held(), "the caller has latched the new page");
    put_anchor(m, page, root);
    fence(m);
    m.note(op, page, Change { tag: TAG_ANCHOR_INIT, bytes: &root.to_le_bytes() });
}

/// Gives a tree a new root, in one store; on strict media it is durable when this returns. The caller
/// has latched the anchor, and on strict media the root's bytes are durable before.
pub fn set_root<M: Medium>(m: &M, op: &mut M::Op<'_>, page: Page<'_>, root: PageNo) {
    debug_assert!(page.latch().is_held(), "the caller has latched the anchor");
    debug_assert_eq!(kind_of(page.head(KIND_WORD).load()), ANCHOR, "roots are set in anchors");
    debug_assert_ne!(root, page.no(), "an anchor is no root");
    put_root(m, page, root);
    fence(m);
    m.note(op, page, Change { tag: TAG_SET_ROOT, bytes: &root.to_le_bytes() });
}

/// The root that an anchor holds, of a page that the caller has latched or validates after.
///
/// # Errors
/// [`Error::Corrupt`](everleaf_pmem::Error::Corrupt) if the page is no anchor or the root no page number.
pub fn root_of(page: Page<'_>) -> Result<PageNo> {
    if kind_of(page.head(KIND_WORD).load()) != ANCHOR {
        return Err(damaged(page, 8 * KIND_WORD, "should be an anchor"));
    }
    PageNo::try_from(page.head(ROOT_WORD).load())
        .map_err(|_| damaged(page, 8 * ROOT_WORD, "the root is no page number"))
}

/// Keeps how many pairs the tree has, on a medium that is memory, or that it is not known any more; durable when
/// this returns. The caller has latched the anchor.
pub fn set_pairs<M: Medium>(m: &M, page: Page<'_>, pairs: Option<u64>) {
    debug_assert!(page.latch().is_held(), "the caller has latched the anchor");
    debug_assert!(!M::JOURNALED, "the medium counts");
    m.store(page.head(PAIRS_WORD), pairs.map_or(0, |pairs| pairs.saturating_add(1)));
    flush(m, page, 0);
    fence(m);
}

/// How many pairs the tree has, if an anchor says so; of a page that the caller has latched.
pub fn pairs_of(page: Page<'_>) -> Option<u64> {
    page.head(PAIRS_WORD).load().checked_sub(1)
}

/// Whether a page, whatever it is, has no root where an anchor has one.
pub(crate) fn is_rootless(page: Page<'_>) -> bool {
    page.head(ROOT_WORD).load() == 0
}

fn root_operand(page: Page<'_>, operands: &[u8]) -> Result<PageNo> {
    let bytes: [u8; 4] =
        operands.try_into().map_err(|_| damaged(page, 0, "a change of root without its root"))?;
    Ok(PageNo::from_le_bytes(bytes))
}

pub(crate) fn redo_root<M: Medium>(m: &M, page: Page<'_>, operands: &[u8]) -> Result<()> {
    put_root(m, page, root_operand(page, operands)?);
    Ok(())
}

pub(crate) fn redo_init<M: Medium>(m: &M, page: Page<'_>, operands: &[u8]) -> Result<()> {
    put_anchor(m, page, root_operand(page, operands)?);
    Ok(())
}
