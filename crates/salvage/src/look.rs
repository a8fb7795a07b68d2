//! A pool as a person looks at it: one page, the journal, the shape of one tree. Damage is part of what is seen.
//!
//! Nothing here decides what to believe, as [`salvage`](crate::salvage) does: a page is what the page table or the
//! newest image says, and whatever may be wrong with it is told beside it.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use everleaf::io::{Io, RealIo};
use everleaf::{Error, Result};
use everleaf_file::DamagedFile;
use everleaf_file::salvage::JournalBlock;
use everleaf_pmem::PageNo;
use everleaf_pool::{CATALOG_ANCHOR, Pool, kind};
use everleaf_tree::salvage::{NodeBound, NodeEntry, NodeView, name_of, node};

use crate::report::Loss;
use crate::survey::Pair;
use crate::trees::catalog_entry;

/// Pages that stay in memory at most, before all are given back.
const PAGES_HELD: usize = 1 << 14;

/// A pool on a file, sound or damaged, that is looked at and never written.
///
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("days.ever");
/// # let db = everleaf::Db::open(&path)?;
/// # db.tree("days")?.insert("05-30", "rain")?;
/// # db.close()?;
/// use everleaf_salvage::look::{Content, Look};
/// let mut look = Look::open(&path)?;
/// let tree = look.tree("days")?;
/// let root = look.page(tree.root)?;
/// assert!(matches!(root.content, Content::Node(node) if node.entries.len() == 1));
/// # Ok(())
/// # }
/// ```
pub struct Look {
    pool: Pool<DamagedFile>,
}

impl fmt::Debug for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Look").finish_non_exhaustive()
    }
}

/// One page.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageLook {
    /// Its number.
    pub number: u32,
    /// The first byte of its image in the file; 0 if it has none.
    pub place: u64,
    /// Its kind according to the map, if the map can be read.
    pub owner: Option<&'static str>,
    /// The eight words of its header, if it can be read and has one.
    pub header: Option<[u64; 8]>,
    /// Its faults: damage, or changes that are missing.
    pub damages: Vec<Loss>,
    /// Its content.
    pub content: Content,
}

/// The content of a page.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// It cannot be read: [`PageLook::damages`] says why.
    Unreadable,
    /// Nothing: it is free.
    Free,
    /// A node of a tree.
    Node(NodeLook),
    /// Records, which hold what is too long for a node, by their first unit of 16 bytes.
    Records(Vec<RecordLook>),
    /// The map of a group of pages: how many there are of each kind.
    Map {
        /// Whether the other pages of the group hold large values.
        holds_extents: bool,
        /// Kinds and how many pages are of each, the map page itself included.
        owners: Vec<(&'static str, u32)>,
    },
    /// The anchor of a tree, which names its root; 0: none yet.
    Anchor {
        /// The page of the root.
        root: u32,
    },
    /// A part of a large value: bytes without a header.
    Value,
}

/// A node of a tree.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLook {
    /// Its page.
    pub page: u32,
    /// The first byte of its image in the file; 0 if it has none.
    pub place: u64,
    /// 0: a leaf.
    pub level: u8,
    /// Its right sibling.
    pub sibling: Option<u32>,
    /// The fence below: no key is less.
    pub low: Fence,
    /// The fence above: all keys are less.
    pub high: Fence,
    /// Bytes at the beginning of all keys, which entries do not repeat.
    pub prefix_bytes: usize,
    /// Bytes of the page.
    pub page_bytes: usize,
    /// Bytes that are free after a compaction.
    pub free_bytes: usize,
    /// In the order of their keys.
    pub entries: Vec<EntryLook>,
}

impl NodeLook {
    /// How much of the page is in use, from 0 to 1.
    pub fn fill(&self) -> f64 {
        1.0 - self.free_bytes as f64 / self.page_bytes as f64
    }
}

/// One end of the keys of a node.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fence {
    /// There is none.
    Open,
    /// This key.
    At(Vec<u8>),
    /// The record that holds it cannot be read.
    Unknown,
}

/// An entry of a node.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryLook {
    /// Byte of the page where it is.
    pub offset: usize,
    /// As much of its key as the node keeps.
    pub key: Vec<u8>,
    /// Whether the key goes on in a record.
    pub is_cut: bool,
    /// Its content beside the key.
    pub value: EntryValue,
}

/// The content of a node's entry beside its key.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryValue {
    /// A value.
    Inline(Vec<u8>),
    /// The page and the unit of a record that has the value.
    Record(u32, u16),
    /// The page of a child.
    Child(u32),
    /// It cannot be an entry.
    Damaged,
}

/// A record.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordLook {
    /// Its first unit of 16 bytes in the page.
    pub unit: u16,
    /// How long its key is, in bytes.
    pub key_bytes: usize,
    /// How long its value is, in bytes.
    pub value_bytes: u64,
    /// How many runs of pages the value has; 0: the record holds it.
    pub extents: usize,
}

/// A block of the journal.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockLook {
    /// Rises by one with each block, for ever.
    pub number: u64,
    /// The first byte of the block in the file.
    pub place: u64,
    /// The epoch that it is of.
    pub epoch: u64,
    /// Which block of its epoch it is, from 0 on.
    pub piece: u32,
    /// Whether it is the last one of its epoch.
    pub ends_epoch: bool,
    /// The open of the pool that wrote it.
    pub generation: u32,
    /// The checksum of the block before it, as this one says.
    pub link: u32,
    /// How many bytes its records take.
    pub payload_bytes: usize,
    /// Its records.
    pub records: Vec<ChangeLook>,
}

/// A record of the journal: one change.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeLook {
    /// Its first byte in the file.
    pub place: u64,
    /// Its effect, in words.
    pub what: &'static str,
    /// The page that it changes, or the first one of a large value.
    pub page: u32,
    /// The number of the change among those of its page; of a large value, how many pages it has.
    pub seq: u32,
    /// How many bytes say what is changed.
    pub bytes: usize,
}

/// The shape of a tree.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeLook {
    /// The page of its anchor.
    pub anchor: u32,
    /// The page of its root; 0 if it has none.
    pub root: u32,
    /// Its nodes from the root down, each level in the order of keys. They are without their entries.
    pub nodes: Vec<NodeLook>,
    /// How many entries each of [`nodes`](Self::nodes) has.
    pub entries: Vec<usize>,
    /// Nodes that cannot be read, or are not what their parents say.
    pub damages: Vec<Loss>,
}

fn kind_name(kind: u8) -> &'static str {
    match kind {
        kind::FREE => "free",
        kind::NODE => "node",
        kind::RECORD => "record page",
        kind::MAP => "map page",
        kind::ANCHOR => "anchor",
        kind::EXTENT_HEAD => "first page of a large value",
        kind::EXTENT_TAIL => "further page of a large value",
        _ => "unknown",
    }
}

impl From<NodeBound> for Fence {
    fn from(bound: NodeBound) -> Self {
        match bound {
            NodeBound::Open => Fence::Open,
            NodeBound::At(key) => Fence::At(key),
            NodeBound::Unknown => Fence::Unknown,
        }
    }
}

impl EntryLook {
    fn new(node: &NodeView, entry: &NodeEntry) -> Self {
        let (key, is_cut) = node.kept_key(entry);
        let record = || entry.record().map(|r| EntryValue::Record(r.page(), r.unit()));
        let inline = || node.kept_value(entry).map(|value| EntryValue::Inline(value.to_vec()));
        let value = entry.child().map(EntryValue::Child).or_else(record).or_else(inline);
        let value = value.unwrap_or(EntryValue::Damaged);
        EntryLook { offset: entry.offset, key: key.to_vec(), is_cut, value }
    }
}

impl Look {
    /// Opens the pool at `path` to look at it, under a shared lock. Reads all of the file once.
    ///
    /// # Errors
    /// [`Foreign`](Error::Foreign) if there is no pool, or one on persistent memory; [`Locked`](Error::Locked) if
    /// somebody writes to it; [`Io`](Error::Io).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_on(&RealIo, path)
    }

    /// Like [`open`](Self::open), on a file system that the caller provides.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_on(io: &dyn Io, path: impl AsRef<Path>) -> Result<Self> {
        Ok(Look { pool: everleaf_tree::salvage::open(io, path.as_ref())? })
    }

    /// The damage of superblock, page table and journal.
    pub fn damages(&self) -> Vec<Loss> {
        let findings = self.pool.medium().findings().iter();
        findings.map(|found| Loss::new(found.file, found.offset, found.what.clone())).collect()
    }

    /// How many pages the pool has, as far as anything names them.
    pub fn pages(&self) -> u32 {
        let further = self.pool.medium().further_pages();
        further.last().map_or(self.pool.medium().pages(), |no| no.saturating_add(1))
    }

    /// One page, whatever it is. The answer tells what is wrong with it.
    ///
    /// # Errors
    /// [`Invalid`](Error::Invalid) for a page behind [`pages`](Self::pages).
    pub fn page(&mut self, number: u32) -> Result<PageLook> {
        self.tidy()?;
        if number >= self.pages() {
            let what = format!("page {number}: the pool has {} pages", self.pages());
            return Err(Error::Invalid { what });
        }
        let first = number / self.pool.group_pages() * self.pool.group_pages();
        let group = self.pool.group(first).ok().flatten();
        let owner = group.as_ref().and_then(|group| group.owners.get((number - first) as usize));
        let owner = owner.copied();
        let mut page = PageLook {
            number,
            place: self.pool.medium().place_of(number),
            owner: owner.map(kind_name),
            header: None,
            damages: Vec::new(),
            content: Content::Value,
        };
        if matches!(owner, Some(kind::EXTENT_HEAD | kind::EXTENT_TAIL)) {
            return Ok(page);
        }
        match self.content(number) {
            Ok((header, content)) => (page.header, page.content) = (Some(header), content),
            Err(error) => {
                page.header = self.pool.header(number).ok();
                page.damages.push(self.loss(number, &error));
                page.content = Content::Unreadable;
            }
        }
        let medium = self.pool.medium();
        for finding in [medium.replaced(number), medium.stale(number)].into_iter().flatten() {
            page.damages.push(Loss::new(finding.file, finding.offset, finding.what));
        }
        Ok(page)
    }

    fn content(&self, no: PageNo) -> Result<([u64; 8], Content)> {
        let (header, (found, _)) = (self.pool.header(no)?, self.pool.kind_and_level(no)?);
        let content = match found {
            kind::NODE => {
                let view = self.view(no)?;
                let entries = view.entries.iter().map(|entry| EntryLook::new(&view, entry));
                Content::Node(NodeLook { entries: entries.collect(), ..self.node(view.clone()) })
            }
            kind::RECORD => Content::Records(self.records(no)?),
            kind::ANCHOR => Content::Anchor { root: self.pool.anchor(no)? },
            kind::MAP => self.map(no)?,
            kind::FREE => Content::Free,
            other => {
                return Err(Error::corrupt(0, format!("page {no} is of no kind: {other}")));
            }
        };
        Ok((header, content))
    }

    fn records(&self, no: PageNo) -> Result<Vec<RecordLook>> {
        let of = |r: everleaf_pool::RecordRef| {
            let sizes = self.pool.record_sizes(r)?;
            let (key_bytes, value_bytes) = (sizes.key_bytes, sizes.value_bytes);
            Ok(RecordLook { unit: r.unit(), key_bytes, value_bytes, extents: sizes.extents })
        };
        self.pool.records_on(no)?.into_iter().map(of).collect()
    }

    fn map(&self, no: PageNo) -> Result<Content> {
        let Some(group) = self.pool.group(no)? else { return Ok(Content::Free) };
        let kinds = [
            kind::FREE,
            kind::NODE,
            kind::RECORD,
            kind::MAP,
            kind::ANCHOR,
            kind::EXTENT_HEAD,
            kind::EXTENT_TAIL,
        ];
        let count = |kind: u8| group.owners.iter().filter(|owner| **owner == kind).count() as u32;
        let owners = kinds.map(|kind| (kind_name(kind), count(kind)));
        let owners = owners.into_iter().filter(|(_, pages)| *pages > 0).collect();
        Ok(Content::Map { holds_extents: group.holds_extents, owners })
    }

    /// The blocks of the journal that count, in their order. [`damages`](Self::damages) says which are missing.
    pub fn journal(&self) -> impl Iterator<Item = BlockLook> {
        let to_look = |block: JournalBlock<'_>| {
            let records = block.records().map(|record| ChangeLook {
                place: record.place,
                what: name_of(record.tag),
                page: record.page,
                seq: record.seq,
                bytes: record.bytes.len(),
            });
            BlockLook {
                number: block.number,
                place: block.place,
                epoch: block.epoch,
                piece: block.piece,
                ends_epoch: block.ends_epoch,
                generation: block.generation,
                link: block.link,
                payload_bytes: block.payload_bytes(),
                records: records.collect(),
            }
        };
        self.pool.medium().journal().map(to_look)
    }

    /// The shape of a tree: its nodes by level. The time grows with the tree.
    ///
    /// # Errors
    /// [`NoTree`](Error::NoTree) if the catalog, as far as it can be read, has no such name;
    /// [`Corrupt`](Error::Corrupt) if the anchor cannot be read; [`Io`](Error::Io).
    pub fn tree(&mut self, name: &str) -> Result<TreeLook> {
        let catalog = self.walk(CATALOG_ANCHOR)?;
        let mut found = None;
        for leaf in catalog.nodes.iter().filter(|node| node.level == 0) {
            let view = self.view(leaf.page)?;
            let pairs = view.entries.iter().map(|entry| self.pair(&view, entry));
            let entries = pairs.flatten().filter_map(|pair| catalog_entry(&pair));
            found = found.or(entries.into_iter().find(|(own, _)| own.as_deref() == Some(name)));
        }
        match (found, catalog.damages.into_iter().next()) {
            (Some((_, anchor)), _) => self.walk(anchor),
            (None, None) => Err(Error::NoTree),
            (None, Some(damage)) => {
                let what =
                    format!("no tree {name:?} in what is left of the catalog: {}", damage.what);
                Err(Error::corrupt(damage.offset, what))
            }
        }
    }

    /// All nodes below an anchor, level by level.
    fn walk(&mut self, anchor: PageNo) -> Result<TreeLook> {
        let root = self.pool.anchor(anchor)?;
        let mut tree =
            TreeLook { anchor, root, nodes: Vec::new(), entries: Vec::new(), damages: Vec::new() };
        let mut seen = HashSet::new();
        let mut level = Vec::from_iter(Some(root).filter(|root| *root != 0));
        let mut expected = None;
        while !level.is_empty() {
            let mut below = Vec::new();
            let mut at = 0;
            while let Some(no) = level.get(at).copied() {
                at += 1;
                if !seen.insert(no) {
                    continue;
                }
                self.tidy()?;
                let view = match self.view(no) {
                    Ok(view) if expected.is_none_or(|expected| view.level == expected) => view,
                    Ok(view) => {
                        let what =
                            format!("page {no} is of level {}, not {expected:?}", view.level);
                        tree.damages.push(Loss::new("data", self.pool.medium().place_of(no), what));
                        continue;
                    }
                    Err(error) => {
                        tree.damages.push(self.loss(no, &error));
                        continue;
                    }
                };
                expected = Some(view.level);
                below.extend(view.entries.iter().filter_map(NodeEntry::child));
                // A node that no parent names yet comes behind its sibling.
                let next = level.get(at);
                if let Some(sibling) = view.sibling.filter(|no| Some(no) != next) {
                    level.insert(at, sibling);
                }
                tree.entries.push(view.entries.len());
                tree.nodes.push(self.node(view));
            }
            expected = match expected {
                Some(level) if level > 0 => Some(level - 1),
                _ => break,
            };
            level = below;
        }
        Ok(tree)
    }

    fn view(&self, no: PageNo) -> Result<NodeView> {
        node(&self.pool, no, self.pool.medium().data_bytes())
    }

    fn pair(&self, view: &NodeView, entry: &NodeEntry) -> Result<Pair> {
        view.pair(&self.pool, entry, self.pool.medium().data_bytes())
    }

    /// A node without its entries.
    fn node(&self, view: NodeView) -> NodeLook {
        NodeLook {
            page: view.page,
            place: self.pool.medium().place_of(view.page),
            level: view.level,
            sibling: view.sibling,
            low: view.low.into(),
            high: view.high.into(),
            prefix_bytes: view.prefix_bytes,
            page_bytes: self.pool.geometry().page_bytes(),
            free_bytes: view.free_bytes,
            entries: Vec::new(),
        }
    }

    fn loss(&self, no: PageNo, error: &Error) -> Loss {
        let mut loss = Loss::of(error, self.pool.medium().place_of(no));
        loss.page = Some(no);
        loss
    }

    /// Gives memory back when there is much of it.
    fn tidy(&mut self) -> Result<()> {
        if self.pool.medium().fetched() > PAGES_HELD {
            self.pool.medium_mut().forget()?;
        }
        Ok(())
    }
}
