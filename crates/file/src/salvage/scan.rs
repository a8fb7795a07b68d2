//! The contents of the file: all good images and blocks, whoever names them, and what was found wrong.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::page::{LINE_BYTES, PageNo, SEQ_WORD};

use crate::io::IoFile;
use crate::journal::{BLOCK_ALIGN, BLOCK_HEAD, BlockFacts, BlockKey, next_block};
use crate::store::format::{EXTENT_BYTES, u64_at};
use crate::store::image::{self, FIRST_IMAGE, IMAGE_ALIGN, ImageHead, ImageKey, ImageKind, Placed};

const WHAT: &str = "what a damaged file holds";

/// Something that is not as it should be, by its place in the pool's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Always `data`: the pool's only file.
    pub file: &'static str,
    /// Bytes from the start of the file.
    pub offset: u64,
    /// A description of it.
    pub what: String,
}

impl Finding {
    pub(super) fn data(offset: u64, what: String) -> Self {
        Self { file: "data", offset, what }
    }

    /// The finding that an error reports; at `offset` if it names no place.
    pub(super) fn of(error: &Error, offset: u64) -> Self {
        match error {
            Error::Corrupt { offset, what, .. } => Self::data(*offset, what.clone()),
            other => Self::data(offset, other.to_string()),
        }
    }

    /// As the error that a live pool would have had.
    pub fn as_error(&self) -> Error {
        let Finding { file, offset, what } = self.clone();
        Error::Corrupt { file, offset, what }
    }
}

/// A good image.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundImage {
    pub placed: Placed,
    pub stamp: u64,
    /// Of a page: the changes that it has seen.
    seq: u64,
}

impl FoundImage {
    fn is_newer(&self, other: &Self) -> bool {
        let rank = |one: &Self| (one.stamp, one.seq, one.placed.place);
        rank(self) > rank(other)
    }
}

/// A good block.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundBlock {
    pub facts: BlockFacts,
    /// Bytes of its payload.
    pub len: usize,
    /// The next block has this as its link.
    pub crc: u32,
}

/// The newest good image of each page, value and leaf, and all good blocks.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub pages: HashMap<PageNo, FoundImage>,
    pub values: HashMap<PageNo, FoundImage>,
    pub leaves: BTreeMap<u32, FoundImage>,
    pub root: Option<FoundImage>,
    pub blocks: Vec<FoundBlock>,
    /// The highest stamp of a page or a leaf.
    pub newest: u64,
    /// How many images there are of pages with so many bytes.
    sizes: BTreeMap<usize, u64>,
    /// Whether a part of the file could not be read.
    pub is_unread: bool,
}

/// Where the extents of a file start.
pub(super) fn extents(len: u64) -> impl Iterator<Item = u64> {
    (0..len.div_ceil(EXTENT_BYTES)).map(|no| no * EXTENT_BYTES)
}

/// The first byte of an extent that can be an image's.
pub(super) fn first_of(start: u64) -> usize {
    if start == 0 { FIRST_IMAGE as usize } else { 0 }
}

/// Reads an extent of a file with `len` bytes; says how much of it is there, or what the system says.
///
/// # Errors
/// NoMemory.
pub(super) fn read_extent(
    data: &dyn IoFile,
    start: u64,
    len: u64,
    out: &mut Vec<u8>,
) -> Result<std::io::Result<usize>> {
    let n = EXTENT_BYTES.min(len.saturating_sub(start)) as usize;
    out.clear();
    fallible::just(out, n, "an extent")?;
    out.resize(n, 0);
    Ok(data.read_at(out, start).inspect(|read| out.truncate(*read)))
}

struct Scanner<'s> {
    data: &'s dyn IoFile,
    len: u64,
    images: ImageKey,
    blocks: BlockKey,
    /// Pages and leaves with a higher stamp were written by a checkpoint that did not end.
    bound: u64,
    found: Found,
}

/// Looks at the whole file. Images of pages and leaves with a stamp above `bound` are left out.
///
/// # Errors
/// NoMemory.
pub(super) fn scan(
    data: &dyn IoFile,
    len: u64,
    seed: u32,
    bound: u64,
    findings: &mut Vec<Finding>,
) -> Result<Found> {
    let (images, blocks) = (ImageKey::of_seed(seed), BlockKey::of_seed(seed));
    let found = Found::default();
    let mut scanner = Scanner { data, len, images, blocks, bound, found };
    let mut bytes = Vec::new();
    for start in extents(len) {
        match read_extent(data, start, len, &mut bytes)? {
            Ok(_) => scanner.extent(start, &bytes)?,
            Err(e) => {
                scanner.found.is_unread = true;
                let what = format!("this part of the file cannot be read: {e}");
                findings.push(Finding::data(start, what));
            }
        }
    }
    Ok(scanner.found)
}

impl Scanner<'_> {
    fn extent(&mut self, start: u64, bytes: &[u8]) -> Result<()> {
        let mut at = first_of(start);
        while at < bytes.len() {
            let place = start + at as u64;
            let rest = &bytes[at..];
            if let Some(head) = self.image(rest, place)? {
                at = at.saturating_add(head.placed.room() as usize);
            } else if place.is_multiple_of(BLOCK_ALIGN)
                && let Some(block) = self.block(rest, place)
            {
                fallible::push(&mut self.found.blocks, block, WHAT)?;
                at = (next_block(place, block.len) - start) as usize;
            } else {
                at += IMAGE_ALIGN;
            }
        }
        Ok(())
    }

    /// The good block at the start of `bytes`.
    fn block(&self, bytes: &[u8], place: u64) -> Option<FoundBlock> {
        let head = bytes.get(..BLOCK_HEAD)?;
        let (facts, len) = self.blocks.head(head)?;
        let payload = bytes.get(BLOCK_HEAD..BLOCK_HEAD.checked_add(len)?)?;
        let is_good = facts.place == place && self.blocks.is_payload_good(head, payload);
        is_good.then(|| FoundBlock { facts, len, crc: crate::store::format::u32_at(head, 4) })
    }

    /// The good image at the start of `bytes`, which is noted.
    fn image(&mut self, bytes: &[u8], place: u64) -> Result<Option<ImageHead>> {
        let Some(head) = self.images.read(bytes, place) else {
            return self.long_root(bytes, place);
        };
        let number = head.name.number;
        let image = FoundImage { placed: head.placed, stamp: head.stamp, seq: 0 };
        let found = &mut self.found;
        match head.name.kind {
            ImageKind::Value => keep(&mut found.values, number, image)?,
            ImageKind::Root => found.root = newer(found.root, image),
            ImageKind::Page | ImageKind::Table if head.stamp > self.bound => {}
            ImageKind::Page => {
                found.newest = found.newest.max(head.stamp);
                *found.sizes.entry(head.raw).or_default() += 1;
                keep(&mut found.pages, number, FoundImage { seq: seq_of(bytes, &head)?, ..image })?;
            }
            ImageKind::Table => {
                found.newest = found.newest.max(head.stamp);
                let newest = newer(found.leaves.get(&number).copied(), image);
                newest.map(|newest| found.leaves.insert(number, newest));
            }
        }
        Ok(Some(head))
    }

    /// A root that goes on in further extents.
    fn long_root(&mut self, bytes: &[u8], place: u64) -> Result<Option<ImageHead>> {
        let claim =
            place.is_multiple_of(EXTENT_BYTES) && bytes.get(20) == Some(&(ImageKind::Root as u8));
        let Some(stored) = bytes.get(24..28).filter(|_| claim) else { return Ok(None) };
        let end = image::IMAGE_HEAD as u64 + u64::from(crate::store::format::u32_at(stored, 0));
        if end <= bytes.len() as u64 || end > self.len - place {
            return Ok(None);
        }
        let mut whole = fallible::filled(0_u8, end as usize, "the root of the page table")?;
        let is_read = self.data.read_at(&mut whole, place).is_ok_and(|n| n == whole.len());
        let head = self.images.read(&whole, place).filter(|_| is_read);
        if let Some(head) = head {
            let image = FoundImage { placed: head.placed, stamp: head.stamp, seq: 0 };
            self.found.root = newer(self.found.root, image);
        }
        Ok(head)
    }
}

/// The changes that a page's image has seen.
fn seq_of(bytes: &[u8], head: &ImageHead) -> Result<u64> {
    let mut raw = Vec::new();
    if head.raw < LINE_BYTES || head.raw as u64 > EXTENT_BYTES {
        return Ok(0);
    }
    image::unpack(bytes, head, &mut raw)?;
    Ok(u64_at(&raw, 8 * SEQ_WORD))
}

fn newer(old: Option<FoundImage>, new: FoundImage) -> Option<FoundImage> {
    Some(old.filter(|old| !new.is_newer(old)).unwrap_or(new))
}

fn keep<K: Eq + Hash>(map: &mut HashMap<K, FoundImage>, key: K, new: FoundImage) -> Result<()> {
    fallible::more_keys(map, 1, WHAT)?;
    let kept = map.entry(key).or_insert(new);
    if new.is_newer(kept) {
        *kept = new;
    }
    Ok(())
}

impl Found {
    /// Whether nothing of a pool is there.
    pub fn is_nothing(&self) -> bool {
        self.pages.is_empty()
            && self.values.is_empty()
            && self.leaves.is_empty()
            && self.root.is_none()
            && self.blocks.is_empty()
    }

    /// The bytes of a page, as most images say.
    pub fn page_bytes(&self) -> Option<usize> {
        let most = self.sizes.iter().max_by_key(|(_, images)| **images);
        most.map(|(bytes, _)| *bytes)
    }
}
