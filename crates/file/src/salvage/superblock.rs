//! The superblock of a pool of which a copy, or both, may be gone.

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::page::Geometry;

use crate::io::IoFile;
use crate::store::format::{SUPER_BYTES, u32_at};
use crate::store::image::IMAGE_ALIGN;
use crate::store::superblock::{DAX, Super};

use super::scan::Finding;

/// Whether the numbers in a superblock can be.
fn is_possible(s: &Super) -> bool {
    Geometry::from_slots(s.slots).is_some()
        && s.root.place.is_multiple_of(IMAGE_ALIGN as u64)
        && s.root.place < 1 << 52
        && u32::try_from(s.open_generation).is_ok()
}

/// Reads both copies and takes the newer good one. Each of them is enough: before the extents are used
/// again that only an older one names, both have been written.
///
/// # Errors
/// Foreign, for an intact superblock of something that cannot be salvaged here.
pub(super) fn read(
    data: &dyn IoFile,
    layout_hash: u64,
    findings: &mut Vec<Finding>,
) -> Result<Option<Super>> {
    let mut good = Vec::new();
    for i in 0..2 {
        let at = i * SUPER_BYTES as u64;
        let mut copy = vec![0; SUPER_BYTES];
        let n = match data.read_at(&mut copy, at) {
            Ok(n) => n,
            Err(e) => {
                findings.push(Finding::data(at, format!("superblock copy {i}: {e}")));
                continue;
            }
        };
        let crc_at = SUPER_BYTES - 4;
        let is_intact =
            n == SUPER_BYTES && u32_at(&copy, crc_at) == crc32c::crc32c(&copy[..crc_at]);
        match Super::choose(&copy[..n], &[]) {
            Ok(s) if s.features & DAX != 0 => {
                let what = "a pool on persistent memory: only pools on files can be salvaged or looked into";
                return Err(Error::foreign(what));
            }
            Ok(s) if s.layout_hash != layout_hash => {
                let what = format!("layout {:#x}, not {layout_hash:#x}", s.layout_hash);
                return Err(Error::foreign(what));
            }
            Ok(s) if is_possible(&s) => good.push(s),
            Err(error @ Error::Foreign { .. }) if is_intact && copy[..8] == *b"EVERLEAF" => {
                return Err(error);
            }
            _ => findings.push(Finding::data(at, format!("superblock copy {i} is damaged"))),
        }
    }
    Ok(good.into_iter().max_by_key(|s| s.counter))
}
