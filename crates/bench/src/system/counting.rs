//! What media have counted, and what pools take.

use everleaf_file::Dax;
use everleaf_pmem::{Counted, Counts, Dram, Geometry, Latency, Medium};
use everleaf_pool::PageCounts;

/// A medium that may count.
pub trait Counting: Medium {
    fn counts(&self) -> Option<Counts> {
        None
    }
}

impl Counting for Dram {}
impl Counting for Latency<Dram> {}
impl Counting for Latency<Dax> {}

impl<M: Medium> Counting for Counted<M> {
    fn counts(&self) -> Option<Counts> {
        Some(Self::counts(self))
    }
}

/// Bytes of pages in use, and of their frames.
pub fn bytes(geometry: Geometry, pages: PageCounts) -> [u64; 2] {
    let used = u64::from(pages.nodes + pages.maps + pages.anchors);
    [used * geometry.page_bytes() as u64, used * geometry.frame_bytes() as u64]
}
