//! Answers to a medium with a journal about the pool's pages: how a change is redone, and which bytes need not be kept on disk.
//!
//! A page that comes back with zeros in its gap is the same to all who use it, and so it is to redo: no
//! change reads what is there. The bytes may be those of any page, also of a damaged one.

use std::ops::Range;

use everleaf_pmem::{Change, LINE_BYTES, Medium, Page, Result};

use crate::change::{
    TAG_ANCHOR_INIT, TAG_FREE_PAGE, TAG_MAP, TAG_MAP_INIT, TAG_RECORD_FREE, TAG_RECORD_INIT,
    TAG_RECORD_PUT, TAG_SET_ROOT, damaged,
};
use crate::kind::{self, ANCHOR, KIND_WORD, RECORD};
use crate::{anchor, layout, map};

/// Redoes one change of the pool on a page, by the functions that made it: each tag goes to
/// the module that made the change.
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

/// The kind word in the bytes of a page; none if they are too few.
pub fn kind_word(bytes: &[u8]) -> Option<u64> {
    if bytes.len() < LINE_BYTES { None } else { Some(kind::word_in(bytes, KIND_WORD)) }
}

/// The bytes of a page that need not be kept, if the page is no node; none of it needs to be kept if the
/// answer is `None`, because the page is free.
///
/// The first change of a page that is used again sets all that counts: a node is built whole, and the
/// other kinds are initialized by a change of their own. So nothing looks at what a free page held.
pub fn gap(bytes: &[u8]) -> Option<Range<usize>> {
    match kind_word(bytes) {
        // A page that somebody freed has no more bits set.
        Some(0) => None,
        Some(word) if kind::kind_of(word) == RECORD => {
            Some(layout::unused(bytes).unwrap_or_else(|| zeros_at_end(bytes)))
        }
        // All that it says is in its header; behind that is what the page held before.
        Some(word) if word == kind::pack(ANCHOR, 0, 0, 0) => Some(LINE_BYTES..bytes.len()),
        _ => Some(zeros_at_end(bytes)),
    }
}

/// The zeros that a page ends with, without the header.
pub fn zeros_at_end(bytes: &[u8]) -> Range<usize> {
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    used.max(LINE_BYTES.min(bytes.len()))..bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::kind::{MAP, pack};

    fn page(kind: u64, words: &[(usize, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; LINE_BYTES + 16 * 8];
        for (at, word) in [(KIND_WORD, kind)].iter().chain(words) {
            bytes[8 * at..8 * at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn what_counts_is_never_in_the_gap() {
        let records = |bits, shape| page(pack(RECORD, 0, 0, 0), &[(0, shape), (1, bits), (20, 7)]);
        let shape = 3 | 2 << 16;
        assert_eq!(gap(&records(0, shape)), Some(64..192), "no record");
        assert_eq!(gap(&records(1, shape)), Some(64 + 48..192));
        assert_eq!(gap(&records(2, shape)), Some(64 + 96..192));
        let end = 8 * 20 + 1;
        assert_eq!(gap(&records(4, shape)), Some(end..192), "there is no third place");
        assert_eq!(gap(&records(1, 3 | 3 << 16)), Some(end..192), "no shape of a record page");
        assert_eq!(gap(&records(1, 0)), Some(end..192));
        assert_eq!(gap(&records(1, u64::MAX)), Some(end..192));

        assert_eq!(gap(&page(0, &[(9, 1)])), None, "a free page");
        assert_eq!(gap(&page(1 << 8, &[(9, 1)])), Some(8 * 9 + 1..192), "none that was freed");
        assert_eq!(gap(&page(pack(ANCHOR, 0, 0, 0), &[])), Some(64..192));
        assert_eq!(gap(&page(pack(ANCHOR, 0, 0, 0), &[(23, 1)])), Some(64..192), "left by a node");
        assert_eq!(gap(&page(pack(ANCHOR, 0, 1, 0), &[(23, 1)])), Some(185..192), "no anchor");
        assert_eq!(gap(&page(pack(MAP, 0, 0, 0), &[(23, 1 << 56)])), Some(192..192));
        for len in 0..64 {
            assert_eq!(gap(&vec![0; len]), Some(len..len), "that is no page");
        }
    }
}
