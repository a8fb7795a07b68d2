//! The space that pools take.

use everleaf_pmem::Geometry;
use everleaf_pool::PageCounts;

/// Bytes of pages in use, and of their frames.
pub fn bytes(geometry: Geometry, pages: PageCounts) -> [u64; 2] {
    let used = u64::from(pages.nodes + pages.maps + pages.anchors);
    [used * geometry.page_bytes() as u64, used * geometry.frame_bytes() as u64]
}
