//! The double-write area: pages are written here, synced, and only then to their homes.
//!
//! ```text
//! half   0 magic "EVLFDOUB"   8 batch number u64   16 pages u32   20 page bytes u32
//!        24 crc32c of bytes 0 … 23, 28 … 31 if not zero, the numbers and the images, seeded with the
//!           uuid                            28 epoch of the last durable block, lower 32 bits
//!        32 page numbers, u32 each, rising; then the images, back to back
//! ```
//!
//! A crash while homes are written leaves torn pages, whose images are here. A crash while a half is
//! written leaves that half without a good checksum and all homes whole. The halves take turns: when
//! a half is written again, the other half has been synced since, and with it all homes of the
//! first. Batch numbers rise over all opens (the open generation is their upper half), so that of
//! two images the newer is known.
//!
//! The superblock says which batch was the first whose homes are not all durable. Images of earlier
//! ones are never taken: their homes were good, and may have been written again since, by a batch
//! that is not in the area any more. Of those that count, the epoch says how far the journal must go:
//! homes may hold what was done until then.

use std::collections::BTreeMap;

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::page::{Geometry, LARGEST_PAGE, PageNo};

use crate::format::{
    DOUBLE_OFFSET, HALF_BYTES, Super, Verdict, judge, page_offset, u32_at, u64_at,
};
use crate::io::IoFile;

pub(crate) const MAGIC: [u8; 8] = *b"EVLFDOUB";
pub(crate) const HEAD: usize = 32;
const CRC_AT: usize = 24;
const EPOCH_AT: usize = 28;

const _: () = {
    assert!(CRC_AT + 4 == EPOCH_AT && EPOCH_AT + 4 == HEAD, "the head has no gap");
    assert!(HEAD + 4 + LARGEST_PAGE <= HALF_BYTES as usize, "a half takes the largest page");
};

/// How many pages fit into a half.
pub(crate) fn batch_pages(g: Geometry) -> usize {
    (HALF_BYTES as usize - HEAD) / (g.page_bytes() + 4)
}

/// Byte of the data file where the half of that batch starts.
pub(crate) fn half_offset(batch: u64) -> u64 {
    DOUBLE_OFFSET + (batch & 1) * HALF_BYTES
}

fn crc(uuid: &[u8; 16], half: &[u8]) -> u32 {
    // A half that knows no epoch is one of an older build, which left these bytes out.
    let from = if u32_at(half, EPOCH_AT) == 0 { HEAD } else { EPOCH_AT };
    let crc = crc32c::crc32c_append(crc32c::crc32c(uuid), &half[..CRC_AT]);
    crc32c::crc32c_append(crc, &half[from..])
}

/// Whether these bytes of a half are as they were written.
pub(crate) fn is_whole(uuid: &[u8; 16], half: &[u8]) -> bool {
    u32_at(half, CRC_AT) == crc(uuid, half)
}

/// Bytes of a half with so many pages.
pub(crate) fn half_bytes(g: Geometry, pages: usize) -> usize {
    debug_assert!(pages <= batch_pages(g), "{pages} pages do not fit a half");
    HEAD + pages * (4 + g.page_bytes())
}

/// Makes the bytes of a half, in room that is there. The journal is durable up to the block of
/// `epoch`.
pub(crate) fn encode(
    half: &mut Vec<u8>,
    uuid: &[u8; 16],
    batch: u64,
    epoch: u64,
    pages: &[PageNo],
    images: &[u8],
) {
    let bytes = HEAD + 4 * pages.len() + images.len();
    debug_assert!(images.len().is_multiple_of(pages.len().max(1)), "an image for each page");
    debug_assert!(pages.is_sorted_by(|a, b| a < b), "a page goes home once in a batch");
    debug_assert!(bytes <= half.capacity() && bytes <= HALF_BYTES as usize, "{bytes} bytes");
    half.clear();
    half.extend_from_slice(&MAGIC);
    half.extend_from_slice(&batch.to_le_bytes());
    half.extend_from_slice(&(pages.len() as u32).to_le_bytes());
    half.extend_from_slice(&((images.len() / pages.len().max(1)) as u32).to_le_bytes());
    half.extend_from_slice(&[0; EPOCH_AT - CRC_AT]);
    half.extend_from_slice(&(epoch as u32).to_le_bytes());
    pages.iter().for_each(|no| half.extend_from_slice(&no.to_le_bytes()));
    half.extend_from_slice(images);
    let crc = crc(uuid, half);
    half[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    debug_assert!(half.len() == bytes && is_whole(uuid, half));
}

/// A half that was written whole.
struct Half {
    batch: u64,
    bytes: Vec<u8>,
    pages: usize,
}

impl Half {
    fn read(data: &dyn IoFile, i: u64, uuid: &[u8; 16], g: Geometry) -> Result<Option<Half>> {
        let mut head = [0; HEAD];
        let offset = half_offset(i);
        let n = data.read_at(&mut head, offset).map_err(failed)?;
        let pages = u32_at(&head, 16) as usize;
        if n < HEAD
            || head[..8] != MAGIC
            || u32_at(&head, 20) as usize != g.page_bytes()
            || pages > batch_pages(g)
        {
            return Ok(None);
        }
        let mut bytes =
            fallible::filled(0, half_bytes(g, pages), "a half of the double-write area")?;
        let n = data.read_at(&mut bytes, offset).map_err(failed)?;
        let good = n == bytes.len() && is_whole(uuid, &bytes);
        Ok(good.then(|| Half { batch: u64_at(&bytes, 8), bytes, pages }))
    }

    fn each(&self, g: Geometry) -> impl Iterator<Item = (PageNo, &[u8])> {
        let images = &self.bytes[HEAD + 4 * self.pages..];
        debug_assert!(images.len() == self.pages * g.page_bytes());
        let no = |i| u32_at(&self.bytes, HEAD + 4 * i);
        images.chunks_exact(g.page_bytes()).enumerate().map(move |(i, image)| (no(i), image))
    }
}

fn failed(e: std::io::Error) -> Error {
    Error::io("reading the double-write area", e)
}

/// Images of pages whose homes are torn.
pub(crate) type TornHomes = BTreeMap<PageNo, Vec<u8>>;

/// An epoch that homes hold changes of, and the journal does not.
#[derive(Debug)]
pub(crate) struct Ahead(pub u32);

/// Reads both halves after an unclean end and compares them with the homes of their pages, and with
/// the last epoch of the journal.
///
/// Images of pages that no finished checkpoint has written are left alone: the journal has all of
/// their changes, and their homes do not count.
///
/// All that is compared is read from the disk: after a sync that failed, memory may pass for clean
/// what never got there, and the area is about to be overwritten.
///
/// # Errors
/// I/O errors.
pub(crate) fn find(
    data: &dyn IoFile,
    superblock: &Super,
    last_epoch: u64,
    g: Geometry,
) -> Result<(TornHomes, Option<Ahead>)> {
    data.drop_cached(0..u64::MAX).map_err(failed)?;
    let mut halves = Vec::new();
    for i in 0..2 {
        halves.extend(Half::read(data, i, &superblock.uuid, g)?);
    }
    halves.retain(|half| half.batch >= superblock.first_batch);
    let epochs =
        halves.iter().map(|half| u32_at(&half.bytes, EPOCH_AT)).filter(|epoch| *epoch != 0);
    let ahead = |epoch: &u32| epoch.wrapping_sub(last_epoch as u32) as i32 > 0;
    let ahead = epochs.filter(ahead).map(Ahead).next();
    halves.sort_by_key(|half| half.batch);
    let mut torn = TornHomes::new();
    let mut home = fallible::filled(0, g.page_bytes(), "a page's image")?;
    for half in &halves {
        for (no, image) in half.each(g).filter(|(no, _)| u64::from(*no) < superblock.pages_end) {
            home.fill(0);
            let offset = page_offset(no, g);
            data.read_at(&mut home, offset).map_err(failed)?;
            // A blank home counts as torn: its write was lost altogether, or the file is too short.
            if judge(no, &home) != Verdict::Good && judge(no, image) == Verdict::Good {
                torn.insert(no, fallible::copy(image, "a page's image")?);
            }
        }
    }
    Ok((torn, ahead))
}
