//! A node as it is, in memory, from which another one is made: plain memory is read faster than a page that
//! others may change.

use everleaf_pmem::{PageNo, Result, fallible};

use super::bytes::Flat;
use super::read::{Node, View};

/// What a node uses, copied out of its page.
#[derive(Debug)]
pub(super) struct Source {
    bytes: Vec<u8>,
    page: PageNo,
    offset: u64,
}

impl Source {
    /// Copies a node, which does not change meanwhile.
    pub fn of(view: &View<'_>) -> Result<Self> {
        let (page, page_bytes) = (view.page(), view.page_bytes());
        let mut bytes = fallible::list(page_bytes, "a copy of a node")?;
        let (slots_end, heap_start) = (view.slots_end(), view.heap_start());
        let is_copied = if slots_end < heap_start && heap_start <= page_bytes {
            let slots = page.append_to(0, slots_end, &mut bytes);
            bytes.resize(heap_start, 0);
            slots && page.append_to(heap_start, page_bytes - heap_start, &mut bytes)
        } else {
            page.append_to(0, page_bytes, &mut bytes)
        };
        debug_assert!(is_copied && bytes.len() == page_bytes, "there is memory for a page");
        Ok(Self { bytes, page: page.no(), offset: page.file_offset() })
    }

    /// The node.
    pub fn node(&self) -> Node<Flat<'_>> {
        Node::new(Flat::new(&self.bytes, self.page, self.offset))
    }
}
