//! The files of a pool as bytes, to be damaged (docs/FORMAT.md).
#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use everleaf::io::{Io, SimIo};
use everleaf::{Db, Options, Result};
use everleaf_salvage::{SalvageOptions, Salvaged, salvage_on};

pub const OLD: &str = "/pools/old";
pub const NEW: &str = "/pools/new";
pub const PAGES_AT: usize = 4_202_496;
pub const NODE: u8 = 1;
pub const RECORD: u8 = 2;
pub const MAP: u8 = 3;
pub const ANCHOR: u8 = 4;

/// All pairs of a pool, by tree.
pub type Trees = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// The three files of a pool.
#[derive(Clone)]
pub struct Files {
    pub data: Vec<u8>,
    pub journals: [Option<Vec<u8>>; 2],
    pub page_bytes: usize,
}

/// An entry of a leaf, by the format's description.
pub struct LeafEntry {
    /// What the leaf knows of the key.
    pub key: Vec<u8>,
    /// Whether the key goes on.
    pub is_cut: bool,
    /// Byte of the data file where the value is.
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

impl Files {
    /// The files as a process that is killed now leaves them.
    pub fn of(io: &SimIo, page_bytes: u32) -> Self {
        let file = |suffix| io.peek(Path::new(&format!("{OLD}{suffix}")));
        let journals = [file("-j0"), file("-j1")];
        let data = file("").expect("there is a pool");
        let mut files = Self { data, journals, page_bytes: page_bytes as usize };
        // A large value may end within its last page.
        let pages = files.data.len().saturating_sub(PAGES_AT).div_ceil(files.page_bytes);
        let whole = files.at(pages).max(files.data.len());
        files.data.resize(whole, 0);
        files
    }

    /// A disk with these files.
    pub fn disk(&self) -> SimIo {
        let io = SimIo::new(1);
        io.poke(Path::new(OLD), 0, &self.data);
        for (i, journal) in self.journals.iter().enumerate() {
            if let Some(bytes) = journal {
                io.poke(Path::new(&format!("{OLD}-j{i}")), 0, bytes);
            }
        }
        io
    }

    pub fn pages(&self) -> usize {
        self.data.len().saturating_sub(PAGES_AT) / self.page_bytes
    }
    pub fn at(&self, no: usize) -> usize {
        PAGES_AT + no * self.page_bytes
    }
    pub fn page(&self, no: usize) -> &[u8] {
        &self.data[self.at(no)..self.at(no + 1)]
    }
    pub fn page_mut(&mut self, no: usize) -> &mut [u8] {
        let (from, to) = (self.at(no), self.at(no + 1));
        &mut self.data[from..to]
    }
    pub fn word(&self, no: usize, word: usize) -> u64 {
        u64_at(self.page(no), 8 * word)
    }
    /// The kind of a page, by its header.
    pub fn kind(&self, no: usize) -> u8 {
        self.page(no)[40]
    }
    pub fn level(&self, no: usize) -> u8 {
        self.page(no)[41]
    }
    pub fn sum(&self, no: usize) -> u64 {
        let page = self.page(no);
        let crc = crc32c::crc32c(&(no as u32).to_le_bytes());
        let crc = crc32c::crc32c_append(crc, &page[..56]);
        1 << 32 | u64::from(crc32c::crc32c_append(crc, &page[64..]))
    }
    pub fn is_good(&self, no: usize) -> bool {
        self.word(no, 7) == self.sum(no)
    }
    /// Makes a page's checksum right.
    pub fn seal(&mut self, no: usize) {
        let sum = self.sum(no);
        self.page_mut(no)[56..64].copy_from_slice(&sum.to_le_bytes());
    }
    /// Makes a page's checksum wrong, and sees to it that there is no copy.
    pub fn ruin(&mut self, no: usize) {
        self.page_mut(no)[70] ^= 1;
        self.forget_copies();
    }
    pub fn forget_copies(&mut self) {
        let end = PAGES_AT.min(self.data.len());
        self.data[8192.min(end)..end].fill(0);
    }
    /// The good pages of a kind, and for nodes of a level.
    pub fn all(&self, kind: u8, level: u8) -> Vec<usize> {
        let is = |no: &usize| self.kind(*no) == kind && self.level(*no) == level;
        (0..self.pages()).filter(|no| self.is_good(*no)).filter(is).collect()
    }
    /// The entries of a leaf.
    pub fn entries_of(&self, leaf: usize) -> Vec<LeafEntry> {
        let page = self.page(leaf);
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
            LeafEntry { key, is_cut, value_at: self.at(leaf) + value_at, value, record }
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
    /// The good blocks of a journal, as offset and length.
    pub fn blocks(&self, journal: usize) -> Vec<(usize, usize)> {
        let Some(bytes) = &self.journals[journal] else { return Vec::new() };
        let generation = bytes.get(32..40).map(|g| g.to_vec()).unwrap_or_default();
        let (mut at, mut blocks) = (4096, Vec::new());
        while at + 40 <= bytes.len()
            && bytes[at..at + 4] == *b"EBLK"
            && bytes[at + 8..at + 16] == generation
        {
            let len = 40 + u64_at(bytes, at + 24) as usize;
            blocks.push((at, len));
            at = (at + len).next_multiple_of(4096);
        }
        blocks
    }
}

/// Everything in a pool.
pub fn all_pairs(db: &Db) -> Result<Trees> {
    let mut trees = Trees::new();
    for name in db.tree_names()? {
        let tree = db.find_tree(&name)?.expect("it is in the catalog");
        trees.insert(name, tree.iter().collect::<Result<_>>()?);
    }
    Ok(trees)
}

/// Salvages the pool on a disk, and looks at what comes out: the new pool must be sound, the old
/// one as it was, and the report must count what is there.
pub fn salvage(io: &SimIo) -> Result<(Salvaged, Trees)> {
    let names = [OLD.to_owned(), format!("{OLD}-j0"), format!("{OLD}-j1")];
    let old = || names.iter().map(|name| io.peek(Path::new(name))).collect::<Vec<_>>();
    let before = old();
    let shared: Arc<dyn Io> = Arc::new(io.clone());
    let salvaged = salvage_on(Arc::clone(&shared), OLD, NEW, &SalvageOptions::new());
    assert!(old() == before, "the old pool has changed");
    for name in ["", "-j0", "-j1", "-new"] {
        let left = io.peek(Path::new(&format!("{NEW}-salvage{name}")));
        assert!(left.is_none(), "an unfinished file is left: {name:?}");
    }
    if salvaged.is_err() {
        assert!(io.peek(Path::new(NEW)).is_none(), "there is a pool after an error");
    }
    let salvaged = salvaged?;
    // What has been synced is enough.
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

/// The pages that have an image in the double-write area, and where the images are.
pub fn copies(files: &Files) -> Vec<(usize, usize)> {
    let mut copies = Vec::new();
    for half in [8192, 8192 + (2 << 20)] {
        let number = |i: usize| u64_at(&files.data, half + 4 * i) as u32 as usize;
        let n = if files.data[half..].starts_with(b"EVLFDOUB") { number(4) } else { 0 };
        let image = |i| half + 32 + 4 * n + i * files.page_bytes;
        copies.extend((0..n).map(|i| (number(8 + i), image(i))));
    }
    copies
}
