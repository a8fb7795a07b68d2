//! Redoing the pool's changes from a journal. Each tag goes to the module that made the change.

use everleaf_pmem::{Change, Medium, Page, Result};

use crate::change::{
    TAG_ANCHOR_INIT, TAG_FREE_PAGE, TAG_MAP, TAG_MAP_INIT, TAG_RECORD_FREE, TAG_RECORD_INIT,
    TAG_RECORD_PUT, TAG_SET_ROOT, damaged,
};
use crate::kind::KIND_WORD;
use crate::{anchor, layout, map};

/// Redoes one change of the pool on a page, by the functions that made it.
///
/// # Errors
/// [`Error::Corrupt`](everleaf_pmem::Error::Corrupt) if the tag is not the pool's or the operands do not
/// fit the page.
pub fn redo<M: Medium>(m: &M, page: Page<'_>, change: Change<'_>) -> Result<()> {
    match change.tag {
        TAG_MAP => map::redo_change(m, page, change.bytes),
        TAG_MAP_INIT => map::redo_make(m, page, change.bytes),
        TAG_FREE_PAGE => {
            m.store(page.head(KIND_WORD), 0);
            Ok(())
        }
        TAG_RECORD_INIT => layout::redo_init(m, page, change.bytes),
        TAG_RECORD_PUT => layout::redo_put(m, page, change.bytes),
        TAG_RECORD_FREE => layout::redo_free(m, page, change.bytes),
        TAG_SET_ROOT => anchor::redo_root(m, page, change.bytes),
        TAG_ANCHOR_INIT => anchor::redo_init(m, page, change.bytes),
        tag => Err(damaged(page, 0, format!("a change of unknown tag {tag}"))),
    }
}
