//! What can be learned of a pool whose superblock may be gone.

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::page::{Geometry, PageNo};

use crate::double;
use crate::format::{
    DOUBLE_OFFSET, FIRST_PAGE_OFFSET, HALF_BYTES, SUPER_BYTES, Super, Verdict, judge, page_offset,
    u32_at, u64_at,
};
use crate::io::IoFile;

use super::finding::Finding;

/// Pages that are looked at first when the size of a page must be found.
const FIRST_PAGES: u64 = 1024;

/// The superblock, as far as there is one.
pub(super) struct FoundSuper {
    pub superblock: Option<Super>,
    /// Whether both copies are good, so that there is no newer one.
    pub is_newest: bool,
}

/// Whether the numbers in a superblock can be.
fn is_possible(s: &Super) -> bool {
    Geometry::from_slots(s.slots).is_some()
        && PageNo::try_from(s.pages_end).is_ok()
        && s.journal_generation != 0
        && s.journal_generation <= u64::MAX / 2
}

/// Reads both copies and takes the newer good one.
///
/// # Errors
/// Foreign, for an intact superblock of something that cannot be salvaged here.
pub(super) fn read(
    data: &dyn IoFile,
    layout_hash: u64,
    findings: &mut Vec<Finding>,
) -> Result<FoundSuper> {
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
        match Super::choose(&copy[..n], &[]).map(|(one, _)| one) {
            Ok(s) if s.features != 0 => {
                let what = "a pool on persistent memory: only pools on files can be salvaged";
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
    let is_newest = good.len() == 2;
    Ok(FoundSuper { superblock: good.into_iter().max_by_key(|s| s.counter), is_newest })
}

/// Pages of that geometry whose checksum is right, among the first `most`.
fn good_pages(data: &dyn IoFile, g: Geometry, len: u64, most: u64) -> u64 {
    let pages = len.saturating_sub(FIRST_PAGE_OFFSET) / g.page_bytes() as u64;
    let mut image = vec![0; g.page_bytes()];
    let mut good = 0;
    for no in 0..pages.min(most).min(u32::MAX.into()) {
        let no = no as PageNo;
        let whole = data.read_at(&mut image, page_offset(no, g)).is_ok_and(|n| n == image.len());
        good += u64::from(whole && judge(no, &image) == Verdict::Good);
    }
    good
}

/// The slots of a page by which the most checksums are right; none if no page has a right one.
pub(super) fn find_slots(data: &dyn IoFile, len: u64) -> Option<u32> {
    for most in [FIRST_PAGES, u64::MAX] {
        let shapes = (0..16).flat_map(|log| [Geometry::new(1 << log), Geometry::whole(1 << log)]);
        let counted = shapes.flatten().filter_map(|g| {
            let good = good_pages(data, g, len, most);
            (good > 0).then_some((good, g.slots() as u32))
        });
        if let Some((_, slots)) = counted.max() {
            return Some(slots);
        }
    }
    half_slots(data)
}

/// The slots that the double-write area says.
fn half_slots(data: &dyn IoFile) -> Option<u32> {
    (0..2).find_map(|i| {
        let mut head = [0; double::HEAD];
        let n = data.read_at(&mut head, DOUBLE_OFFSET + i * HALF_BYTES).ok()?;
        if n < head.len() || head[..8] != double::MAGIC {
            return None;
        }
        let slots = u32_at(&head, 20).checked_sub(64)? / 16;
        Geometry::from_slots(slots).filter(|g| g.page_bytes() as u32 == u32_at(&head, 20))?;
        Some(slots)
    })
}

/// A good image of a page in the double-write area.
#[derive(Debug)]
pub(super) struct SavedImage {
    pub no: PageNo,
    pub bytes: Vec<u8>,
    /// Whether the home may have been written again since, by a batch that is not there any more.
    pub may_be_old: bool,
}

/// Good images of pages in the double-write area, whether the half that holds them is whole or not:
/// nothing goes there before it is durable in the journal.
///
/// # Errors
/// NoMemory.
pub(super) fn saved_images(
    data: &dyn IoFile,
    g: Geometry,
    found: &FoundSuper,
) -> Result<Vec<SavedImage>> {
    let newest = found.superblock.as_ref().filter(|_| found.is_newest);
    let mut saved = Vec::new();
    for i in 0..2 {
        let mut half = fallible::filled(0, HALF_BYTES as usize, "a half of the double-write area")?;
        let Ok(n) = data.read_at(&mut half, DOUBLE_OFFSET + i * HALF_BYTES) else { continue };
        if n < double::HEAD || half[..8] != double::MAGIC {
            continue;
        }
        let pages = u32_at(&half, 16) as usize;
        if u32_at(&half, 20) as usize != g.page_bytes() || pages > double::batch_pages(g) {
            continue;
        }
        // The number of a half that is not whole may be wrong.
        let written = &half[..double::half_bytes(g, pages)];
        let may_be_old = newest.is_none_or(|s| {
            u64_at(&half, 8) < s.first_batch || !double::is_whole(&s.uuid, written)
        });
        let images = half[double::HEAD + 4 * pages..].chunks_exact(g.page_bytes()).take(pages);
        for (k, image) in images.enumerate() {
            let no = u32_at(&half, double::HEAD + 4 * k);
            if judge(no, image) == Verdict::Good {
                let bytes = fallible::copy(image, "a page's image")?;
                saved.push(SavedImage { no, bytes, may_be_old });
            }
        }
    }
    Ok(saved)
}
