//! The file of a pool as bytes, to be damaged (docs/FORMAT.md).
#![allow(dead_code, reason = "each test program uses a part")]

pub mod sample;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use everleaf::io::{Io, SimIo};
use everleaf::{Db, Options, Result};
use everleaf_salvage::{SalvageOptions, Salvaged, salvage_on};
use everleaf_testing::vecs;

pub const OLD: &str = "/pools/old";
pub const NEW: &str = "/pools/new";
pub const NODE: u8 = 1;
pub const RECORD: u8 = 2;
pub const MAP: u8 = 3;
pub const ANCHOR: u8 = 4;

const SUPERS: usize = 8192;
const HEAD: usize = 48;
const LEAF_PAGES: usize = 512;

/// All pairs of a pool, by tree.
pub type Trees = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// The file of a pool, and where everything is in it that the superblock's root names. That is looked for
/// in the sound pool, and stays known when the bytes are damaged.
#[derive(Clone)]
pub struct Files {
    pub data: Vec<u8>,
    pub page_bytes: usize,
    /// The checksum of the uuid.
    seed: u32,
    /// The image of the root.
    pub root: Range<usize>,
    /// Those of the leaves of the table.
    pub leaves: BTreeMap<usize, Range<usize>>,
    /// Those of the pages, and of the pages of large values.
    images: BTreeMap<usize, Range<usize>>,
    /// The journal's blocks, as offset and length.
    pub blocks: Vec<(usize, usize)>,
    /// Images of large values that it names.
    adopted: Vec<Range<usize>>,
}

/// An entry of a leaf, by the format's description.
pub struct LeafEntry {
    /// The part of the key that the leaf has.
    pub key: Vec<u8>,
    /// Whether the key goes on.
    pub is_cut: bool,
    /// Byte of the data file where the value is, if there is one.
    pub value_at: usize,
    /// The value, or the name of its record.
    pub value: Vec<u8>,
    /// The record, as page and unit, if there is one.
    pub record: Option<(usize, usize)>,
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// The image at a byte, if one is there: its bytes, and its kind and number.
fn image_at(data: &[u8], seed: u32, at: usize) -> Option<(Range<usize>, u8, usize)> {
    let head = data.get(at..at + HEAD)?;
    let end = at + HEAD + u32_at(head, 24) as usize;
    let is_image = head.starts_with(b"EVLI") && u64_at(head, 8) == at as u64;
    let image = data.get(at..end).filter(|_| is_image)?;
    (u32_at(image, 4) == crc32c::crc32c_append(seed, &image[8..]))
        .then(|| (at..end, head[20], u32_at(head, 16) as usize))
}

impl Files {
    /// The file as a process that is killed now leaves it.
    pub fn of(io: &SimIo, page_bytes: u32) -> Self {
        let data = io.peek(Path::new(OLD)).expect("there is a pool");
        let seed = crc32c::crc32c(&data[24..40]);
        let mut files = Self {
            data,
            page_bytes: page_bytes as usize,
            seed,
            root: 0..0,
            leaves: BTreeMap::new(),
            images: BTreeMap::new(),
            blocks: Vec::new(),
            adopted: Vec::new(),
        };
        let newest = 4096 * files.newest_super();
        if let Some(root) = files.placed(newest + 80) {
            let (leaves, at) =
                (u32_at(&files.data, root.start + HEAD) as usize, root.start + HEAD + 24);
            files.root = root;
            for i in 0..leaves {
                let Some(leaf) = files.placed(at + 16 * i) else { continue };
                let entries = everleaf_testing::images::entries(&files.data[leaf.clone()]);
                for (k, entry) in entries.chunks_exact(16).enumerate() {
                    let image = files.named(entry);
                    image.map(|image| files.images.insert(LEAF_PAGES * i + k, image));
                }
                files.leaves.insert(i, leaf);
            }
        }
        let first = u64_at(&files.data, newest + 104);
        let is_closed = u64_at(&files.data, newest + 96) == 0;
        let mut blocks: Vec<_> = (0..files.data.len().saturating_sub(64))
            .step_by(4096)
            .filter(|at| files.data[*at..].starts_with(b"EBLK") && !is_closed)
            .filter(|at| u64_at(&files.data, at + 8) >= first)
            .map(|at| (at, 64 + u32_at(&files.data, at + 24) as usize))
            .collect();
        blocks.sort_unstable_by_key(|(at, _)| u64_at(&files.data, at + 8));
        for (at, len) in &blocks {
            let (mut record, end) = (at + 64, at + len);
            while record < end {
                let bytes = u32_at(&files.data, record + 1) as usize & 0xffff;
                if files.data[record] == 254 {
                    let list = (record + 11..record + 11 + bytes).step_by(16);
                    let adopted: Vec<_> = list.filter_map(|at| files.placed(at)).collect();
                    files.adopted.extend(adopted);
                }
                record += 11 + bytes;
            }
        }
        files.blocks = blocks;
        files
    }

    /// The image that an entry of a table names, which is good.
    fn placed(&self, at: usize) -> Option<Range<usize>> {
        self.named(&self.data[at..at + 16])
    }

    fn named(&self, entry: &[u8]) -> Option<Range<usize>> {
        let place = u64_at(entry, 0) as usize;
        let image = (place != 0).then(|| image_at(&self.data, self.seed, place).expect("sound"));
        image.map(|(image, ..)| image)
    }

    /// A disk with this file.
    pub fn disk(&self) -> SimIo {
        let io = SimIo::new(1);
        io.poke(Path::new(OLD), 0, &self.data);
        io
    }

    /// Behind the last page that has an image.
    pub fn pages(&self) -> usize {
        self.images.keys().next_back().map_or(0, |no| no + 1)
    }
    /// Where the image of a page is.
    pub fn image(&self, no: usize) -> Option<Range<usize>> {
        self.images.get(&no).cloned()
    }
    /// The pages that have images.
    pub fn imaged(&self) -> Vec<usize> {
        self.images.keys().copied().collect()
    }
    /// The bytes of a page.
    pub fn page(&self, no: usize) -> Vec<u8> {
        let Some(image) = self.image(no) else { return vec![0; self.page_bytes] };
        let (head, payload) = self.data[image].split_at(HEAD);
        let (raw, gap_at) = (u32_at(head, 28) as usize, u32_at(head, 32) as usize);
        let gap = vec![0; raw - payload.len()];
        let gap_at = if gap.is_empty() { 0 } else { gap_at };
        [&payload[..gap_at], &gap, &payload[gap_at..]].concat()
    }
    /// Where a byte of a page is in the file.
    pub fn at(&self, no: usize, byte: usize) -> usize {
        let image = self.image(no).expect("it has an image");
        let (stored, raw) = (image.len() - HEAD, u32_at(&self.data, image.start + 28) as usize);
        let gap_at = u32_at(&self.data, image.start + 32) as usize;
        let gap = if raw == stored { 0..0 } else { gap_at..gap_at + raw - stored };
        assert!(!gap.contains(&byte) && byte < raw, "byte {byte} of page {no} is not in the file");
        image.start
            + HEAD
            + if byte < gap.start || gap.is_empty() { byte } else { byte - gap.len() }
    }
    pub fn word(&self, no: usize, word: usize) -> u64 {
        u64_at(&self.page(no), 8 * word)
    }
    /// The kind of a page, by its header.
    pub fn kind(&self, no: usize) -> u8 {
        self.page(no)[40]
    }
    pub fn level(&self, no: usize) -> u8 {
        self.page(no)[41]
    }
    fn is_good_at(&self, image: &Range<usize>) -> bool {
        image_at(&self.data, self.seed, image.start).is_some()
    }
    /// Whether the image is one of a page, and good.
    pub fn is_good(&self, no: usize) -> bool {
        let image = self.image(no);
        image.is_some_and(|image| self.is_good_at(&image) && self.data[image.start + 20] == 1)
    }
    /// Makes the checksum of an image right, and says it.
    fn seal_image(&mut self, image: &Range<usize>) -> [u8; 4] {
        let crc = crc32c::crc32c_append(self.seed, &self.data[image.start + 8..image.end]);
        self.data[image.start + 4..image.start + 8].copy_from_slice(&crc.to_le_bytes());
        crc.to_le_bytes()
    }
    /// Puts the checksum of a page's image into the leaf that names it. In a compressed one it stands as it is, too;
    /// if another entry was made of these bytes, nothing is done, and the answer is false.
    fn seal_leaf(&mut self, no: usize, crc: [u8; 4]) -> bool {
        let (leaf, at) = (self.leaves[&(no / LEAF_PAGES)].clone(), 16 * (no % LEAF_PAGES) + 12);
        let before = self.data[leaf.clone()].to_vec();
        let mut wanted = everleaf_testing::images::entries(&before);
        let place = match wanted.len() == leaf.len() - HEAD {
            true => Some(at),
            false => before[HEAD..].windows(4).position(|four| four == &wanted[at..at + 4]),
        };
        let Some(place) = place.map(|at| leaf.start + HEAD + at) else { return false };
        wanted[at..at + 4].copy_from_slice(&crc);
        self.data[place..place + 4].copy_from_slice(&crc);
        let is_right = everleaf_testing::images::entries(&self.data[leaf.clone()]) == wanted;
        if !is_right {
            self.data[leaf].copy_from_slice(&before);
        }
        is_right
    }
    /// Makes the checksum of a page's image right, and those of all that name it. Says whether that was possible.
    pub fn seal(&mut self, no: usize) -> bool {
        let image = self.image(no).expect("it has an image");
        let crc = crc32c::crc32c_append(self.seed, &self.data[image.start + 8..image.end]);
        if !self.seal_leaf(no, crc.to_le_bytes()) {
            return false;
        }
        self.seal_image(&image);
        let (leaf, root) = (self.leaves[&(no / LEAF_PAGES)].clone(), self.root.clone());
        let crc = self.seal_image(&leaf);
        let at = root.start + HEAD + 24 + 16 * (no / LEAF_PAGES) + 12;
        self.data[at..at + 4].copy_from_slice(&crc);
        let crc = self.seal_image(&root);
        for copy in 0..2 {
            self.data[4096 * copy + 92..4096 * copy + 96].copy_from_slice(&crc);
            self.seal_super(copy);
        }
        true
    }
    /// Makes the checksum of a page's image wrong, and sees to it that there is no other image of it.
    pub fn ruin(&mut self, no: usize) {
        let at = self.at(no, 0);
        self.data[at + 6] ^= 1;
        self.forget_old();
    }
    /// Of each byte, whether the superblock, the root or the journal names it.
    pub fn live(&self) -> Vec<bool> {
        let mut live = vec![false; self.data.len()];
        let mut keep = |range: Range<usize>| {
            let end = range.end.min(live.len());
            live[range.start.min(end)..end].fill(true);
        };
        keep(0..SUPERS);
        keep(self.root.clone());
        self.leaves.values().chain(self.images.values()).cloned().for_each(&mut keep);
        self.adopted.iter().cloned().for_each(&mut keep);
        self.blocks.iter().for_each(|(at, len)| keep(*at..at + len));
        live
    }
    /// All else becomes zero.
    pub fn forget_old(&mut self) {
        let live = self.live();
        self.data.iter_mut().zip(live).filter(|(_, live)| !live).for_each(|(byte, _)| *byte = 0);
    }
    /// Puts a copy of a page's image behind all others, which nothing names.
    pub fn copy_image(&mut self, no: usize) {
        let image = self.image(no).expect("it has an image");
        let place = self.data.len().next_multiple_of(4096);
        let bytes = self.data[image].to_vec();
        self.data.resize(place, 0);
        self.data.extend(&bytes);
        self.data[place + 8..place + 16].copy_from_slice(&(place as u64).to_le_bytes());
        self.seal_image(&(place..place + bytes.len()));
    }
    /// Good images of pages that the table does not name, as page and place.
    pub fn old_images(&self) -> Vec<(usize, usize)> {
        let all = (SUPERS..self.data.len()).step_by(16);
        let images = all.filter_map(|at| image_at(&self.data, self.seed, at));
        let pages = images.filter(|(_, kind, _)| *kind == 1).map(|(image, _, no)| (no, image));
        let is_old = |(no, image): &(usize, Range<usize>)| self.image(*no).as_ref() != Some(image);
        pages.filter(is_old).map(|(no, image)| (no, image.start)).collect()
    }
    /// The good pages of a kind, and for nodes of a level.
    pub fn all(&self, kind: u8, level: u8) -> Vec<usize> {
        let is = |no: &usize| self.kind(*no) == kind && self.level(*no) == level;
        self.imaged().into_iter().filter(|no| self.is_good(*no)).filter(is).collect()
    }
    /// The entries of a leaf.
    pub fn entries_of(&self, leaf: usize) -> Vec<LeafEntry> {
        let page = &self.page(leaf)[..];
        let u16_at = |at: usize| usize::from(u16::from_le_bytes([page[at], page[at + 1]]));
        let (prefix_at, prefix_len) = (u16_at(16), u32_at(page, 44) as usize);
        let prefix = if prefix_len == 0 { &[] } else { &page[prefix_at..][..prefix_len] };
        let entry = |i: usize| {
            let slot = u64_at(page, 64 + 8 * i);
            let at = slot as usize & 0xffff;
            let (low, high, mut next) = (page[at] & 15, page[at] >> 4, at + 1);
            let mut number = |bytes: usize| {
                next += bytes;
                if bytes == 1 { usize::from(page[next - 1]) } else { u16_at(next - 2) }
            };
            let suffix = match low {
                14 => number(1),
                15 => number(2),
                short => usize::from(short),
            };
            let value_len = match high {
                13 => number(1),
                14 => number(2),
                15 => 8,
                short => usize::from(short),
            };
            let (suffix, is_cut) = (suffix & 0x7fff, suffix >> 15 != 0);
            let value_at = next + suffix.saturating_sub(6);
            let head = &slot.to_be_bytes()[..suffix.min(6)];
            let key = [prefix, head, &page[next..value_at]].concat();
            let value = page[value_at..][..value_len].to_vec();
            let record = (high == 15).then(|| {
                let name = u64_at(&value, 0);
                ((name >> 16) as usize, name as usize & 0xffff)
            });
            LeafEntry {
                key,
                is_cut,
                value_at: if value.is_empty() { 0 } else { self.at(leaf, value_at) },
                value,
                record,
            }
        };
        (0..u16_at(0)).map(entry).collect()
    }
    /// The records that a leaf names, as page and unit.
    pub fn records_of(&self, leaf: usize) -> Vec<(usize, usize)> {
        self.entries_of(leaf).into_iter().filter_map(|entry| entry.record).collect()
    }
    /// Makes a superblock copy's checksum right.
    pub fn seal_super(&mut self, copy: usize) {
        let bytes = &mut self.data[4096 * copy..4096 * (copy + 1)];
        let crc = crc32c::crc32c(&bytes[..4092]);
        bytes[4092..].copy_from_slice(&crc.to_le_bytes());
    }
    /// Which superblock copy counts.
    pub fn newest_super(&self) -> usize {
        usize::from(u64_at(&self.data, 4096 + 64) > u64_at(&self.data, 64))
    }
    /// Makes the checksums of the journal's blocks right, and their links.
    pub fn seal_blocks(&mut self) {
        let mut link = None;
        for (at, len) in self.blocks.clone() {
            let block = &mut self.data[at..at + len];
            if let Some(link) = link {
                block[48..52].copy_from_slice(&u32::to_le_bytes(link));
            }
            let crc = crc32c::crc32c_append(self.seed, &block[8..56]);
            let crc = crc32c::crc32c_append(crc, &block[64..]);
            let head = crc32c::crc32c_append(self.seed, &block[..4]);
            let head = crc32c::crc32c_append(head, &block[8..56]);
            block[4..8].copy_from_slice(&crc.to_le_bytes());
            block[56..60].copy_from_slice(&head.to_le_bytes());
            link = Some(crc);
        }
    }
}

/// Everything in a pool.
pub fn all_pairs(db: &Db) -> Result<Trees> {
    let mut trees = Trees::new();
    for name in db.tree_names()? {
        let tree = db.open_tree(&name)?.expect("it is in the catalog");
        trees.insert(name, tree.iter().map(|pair| pair.map(vecs)).collect::<Result<_>>()?);
    }
    Ok(trees)
}

/// Salvages the pool on a disk, and looks at what comes out: the new pool must be sound, the old
/// one as it was, and the report must count what is there.
pub fn salvage(io: &SimIo) -> Result<(Salvaged, Trees)> {
    let old = || io.peek(Path::new(OLD));
    let before = old();
    let shared: Arc<dyn Io> = Arc::new(io.clone());
    let salvaged = salvage_on(Arc::clone(&shared), OLD, NEW, &SalvageOptions::new());
    assert!(old() == before, "the old pool has changed");
    for name in ["", "-new"] {
        let left = io.peek(Path::new(&format!("{NEW}-salvage{name}")));
        assert!(left.is_none(), "an unfinished file is left: {name:?}");
    }
    if salvaged.is_err() {
        assert!(io.peek(Path::new(NEW)).is_none(), "there is a pool after an error");
    }
    let salvaged = salvaged?;
    // The synced data is enough.
    let after: Arc<dyn Io> = Arc::new(io.power_cut(7));
    let db = Options::new().read_only(true).create(false).open_on(after, NEW)?;
    assert_eq!(db.check()?, [], "the new pool is damaged");
    let trees = all_pairs(&db)?;
    let counted: Vec<_> =
        salvaged.trees.iter().map(|t| (t.name.clone(), t.pairs as usize)).collect();
    let there: Vec<_> = trees.iter().map(|(name, pairs)| (name.clone(), pairs.len())).collect();
    assert_eq!(counted, there, "{salvaged:#?}");
    Ok((salvaged, trees))
}

/// How many pairs of `now` are not in their trees; those that are there must be right.
#[track_caller]
pub fn missing(now: &Trees, out: &Trees) -> usize {
    let mut missing = 0;
    for (name, pairs) in now {
        let Some(own) = out.get(name) else {
            missing += pairs.len();
            continue;
        };
        assert!(own.iter().all(|(key, value)| pairs.get(key) == Some(value)), "{name}");
        missing += pairs.len() - own.len();
    }
    missing
}
