//! Reading single nodes of a damaged pool: what one says, as far as its own records can be read.
//!
//! Nothing here walks; the caller decides which nodes to believe.

use std::ops::Range;
use std::path::Path;

use everleaf_file::DamagedFile;
use everleaf_file::io::Io;
use everleaf_file::salvage::DamagedFileOptions;
use everleaf_pmem::{Error, Medium, Page, PageNo, Result, fallible};
use everleaf_pool::salvage::KeyValue;
use everleaf_pool::{ExtentIo, Hooks, Pool, RecordRef};

use crate::blink;
use crate::node::{NodeChecks, damaged};
use crate::slotted::{self, FenceAt, Slotted, View};

/// Slots of a page where nothing says how many there are: those of a new Db, 4 KiB.
const LIKELY_SLOTS: u32 = 252;

/// Opens what is left of a pool of byte strings on a file; see [`DamagedFile::open`].
///
/// # Errors
/// The same as for [`DamagedFile::open`].
pub fn open(io: &dyn Io, path: &Path) -> Result<Pool<DamagedFile>> {
    let whole = |tag| slotted::is_whole(tag) || everleaf_pool::salvage::is_whole(tag);
    let options = DamagedFileOptions { layout_hash: Slotted::HASH, whole, slots: LIKELY_SLOTS };
    let damaged_file = DamagedFile::open(io, path, &options)?;
    if !damaged_file.geometry().is_whole() {
        let slots = damaged_file.geometry().slots();
        return Err(Error::foreign(format!("pages of {slots} slots: no slotted nodes")));
    }
    let write = |_: &DamagedFile, _, _, _: &[u8]| Err(Error::ReadOnly);
    let extents = Some(ExtentIo::in_place(write, DamagedFile::extent_read));
    let redo = blink::redo::<DamagedFile, Slotted>;
    Pool::unformatted(damaged_file, Hooks { redo, extents, ..Hooks::default() })
}

/// The name of a change in the journal with this tag, in a word or two.
pub fn name_of(tag: u8) -> &'static str {
    let names = [
        slotted::name_of(tag),
        everleaf_pool::salvage::name_of(tag),
        everleaf_file::salvage::own_tag(tag),
    ];
    names.into_iter().flatten().next().unwrap_or("unknown")
}

/// One end of the range of keys that a node is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeBound {
    /// There is none.
    Open,
    /// The lower end is in the range, the upper one is not.
    At(Vec<u8>),
    /// The record that says it cannot be read.
    Unknown,
}

/// One entry of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEntry {
    /// Byte of the page where it is.
    pub offset: usize,
    /// The part of its key that the node knows, in [`NodeView::bytes`].
    key: Range<usize>,
    /// Whether the key goes on behind that.
    is_cut: bool,
    value: EntryValue,
}

/// The part of an entry beside its key.
#[derive(Debug, Clone, PartialEq, Eq)]
enum EntryValue {
    /// These of [`NodeView::bytes`].
    Inline(Range<usize>),
    Record(RecordRef),
    Child(PageNo),
    /// The entry cannot be one.
    None,
}

/// A node of byte strings.
#[derive(Debug, Clone)]
pub struct NodeView {
    /// Its page.
    pub page: PageNo,
    /// 0: a leaf.
    pub level: u8,
    /// Its right sibling.
    pub sibling: Option<PageNo>,
    /// From this key on.
    pub low: NodeBound,
    /// Up to this key.
    pub high: NodeBound,
    /// The records of its bounds, if they are long.
    pub bounds: [Option<RecordRef>; 2],
    /// In the order of their keys.
    pub entries: Vec<NodeEntry>,
    /// Bytes that are free after a compaction.
    pub free_bytes: usize,
    /// Bytes at the beginning of all keys that stand once, in the bounds.
    pub prefix_bytes: usize,
    /// Keys and values of the entries.
    bytes: Vec<u8>,
    file_offset: u64,
}

/// Reads the node on a page.
///
/// # Errors
/// Those of fetching the page; Corrupt, if it is no sound node of byte strings.
pub fn node<M: Medium>(pool: &Pool<M>, no: PageNo, most_bytes: u64) -> Result<NodeView> {
    let (page, held) = pool.latch(no)?;
    held.unlock_unchanged();
    let view = slotted::check_header(page)?;
    let (low, high) = (view.low(), view.high());
    let record = |fence: Option<FenceAt>| fence?.record.map(RecordRef::from_bits);
    let bounds = [record(low), record(high)];
    let sibling = view.sibling();
    let (low, mut high) =
        (bound(pool, &view, low, most_bytes)?, bound(pool, &view, high, most_bytes)?);
    if high == NodeBound::Open && sibling.is_some() {
        high = NodeBound::Unknown;
    }
    let is_empty =
        matches!((&low, &high), (NodeBound::At(low), NodeBound::At(high)) if low >= high);
    if is_empty {
        return Err(damaged(page, "ends where it begins, or before"));
    }
    let (entries, bytes) = entries(page, &view)?;
    let (level, file_offset) = (view.level(), page.file_offset());
    let (free_bytes, prefix_bytes) = (view.free_bytes(), view.prefix_len());
    Ok(NodeView {
        page: no,
        level,
        sibling,
        low,
        high,
        bounds,
        entries,
        free_bytes,
        prefix_bytes,
        bytes,
        file_offset,
    })
}

/// The bound of a fence: the bytes that the node keeps, or those of its record, which begin with them.
fn bound<M: Medium>(
    pool: &Pool<M>,
    view: &View<'_>,
    fence: Option<FenceAt>,
    most_bytes: u64,
) -> Result<NodeBound> {
    let Some(fence) = fence else { return Ok(NodeBound::Open) };
    let mut kept = Vec::new();
    view.fence_into(fence, &mut kept)?;
    let Some(record) = fence.record else { return Ok(NodeBound::At(kept)) };
    Ok(match pool.pair(RecordRef::from_bits(record), most_bytes) {
        Ok((key, value)) if value.is_empty() && is_begun_by(&key, &kept) => NodeBound::At(key),
        _ => NodeBound::Unknown,
    })
}

/// Whether a string begins with what is kept of a longer one.
fn is_begun_by(key: &[u8], kept: &[u8]) -> bool {
    key.len() > kept.len() && key.starts_with(kept)
}

/// The entries of a node and their bytes. An entry that cannot be one has no value.
fn entries(page: Page<'_>, view: &View<'_>) -> Result<(Vec<NodeEntry>, Vec<u8>)> {
    let (mut entries, mut bytes) = (fallible::list(view.count(), "a node")?, Vec::new());
    let mut part = Vec::new();
    for pos in 0..view.count() {
        let parts = view.entry(pos);
        let mut entry = NodeEntry {
            offset: parts.at.min(page.geometry().page_bytes()),
            key: bytes.len()..bytes.len(),
            is_cut: parts.cut,
            value: EntryValue::None,
        };
        if slotted::is_entry(view, pos) && view.key_into(pos, &mut part).is_ok() {
            entry.key = append(&mut bytes, &part)?;
            entry.value = match view.reference_of(&parts) {
                Some(record) => EntryValue::Record(RecordRef::from_bits(record)),
                None if view.is_leaf() => {
                    view.value_into(pos, &mut part)?;
                    EntryValue::Inline(append(&mut bytes, &part)?)
                }
                None => EntryValue::Child(view.child_of(&parts)),
            };
        }
        entries.push(entry);
    }
    Ok((entries, bytes))
}

fn append(to: &mut Vec<u8>, bytes: &[u8]) -> Result<Range<usize>> {
    let at = to.len();
    fallible::append(to, bytes, "a node")?;
    Ok(at..to.len())
}

impl NodeEntry {
    /// The page that an entry of an inner node leads to; none if it is damaged.
    pub fn child(&self) -> Option<PageNo> {
        match self.value {
            EntryValue::Child(no) => Some(no),
            _ => None,
        }
    }

    /// The record that holds the pair of an entry of a leaf, if the leaf itself does not.
    pub fn record(&self) -> Option<RecordRef> {
        match self.value {
            EntryValue::Record(r) => Some(r),
            _ => None,
        }
    }
}

impl NodeView {
    /// Whether an entry of an inner node can lead to a node that begins at `low`.
    pub fn leads_to(&self, entry: &NodeEntry, low: &NodeBound) -> bool {
        match low {
            NodeBound::Open => self.has(entry, &[]),
            NodeBound::At(low) => self.has(entry, low),
            NodeBound::Unknown => true,
        }
    }

    /// Whether the keys of this node can include `key`.
    pub fn includes(&self, key: &[u8]) -> bool {
        let above = !matches!(&self.low, NodeBound::At(low) if key < &low[..]);
        above && !matches!(&self.high, NodeBound::At(high) if key >= &high[..])
    }

    /// The part of an entry's key that the node itself keeps, and whether the key goes on behind that.
    pub fn kept_key(&self, entry: &NodeEntry) -> (&[u8], bool) {
        (&self.bytes[entry.key.clone()], entry.is_cut)
    }

    /// The value of an entry of a leaf, if the leaf holds it.
    pub fn kept_value(&self, entry: &NodeEntry) -> Option<&[u8]> {
        match &entry.value {
            EntryValue::Inline(value) => Some(&self.bytes[value.clone()]),
            _ => None,
        }
    }

    /// Where an entry is in the file, in bytes.
    pub fn entry_offset(&self, entry: &NodeEntry) -> u64 {
        self.file_offset + entry.offset as u64
    }

    /// Whether an entry can be that of a key.
    fn has(&self, entry: &NodeEntry, key: &[u8]) -> bool {
        let known = &self.bytes[entry.key.clone()];
        let is_its = if entry.is_cut { is_begun_by(key, known) } else { key == known };
        is_its && self.includes(key)
    }

    /// The pair of an entry of a leaf: what the leaf holds, or the record that it names, if that is of
    /// the entry's key.
    ///
    /// # Errors
    /// Corrupt, if the entry or the record is damaged, or the key is not one of this node; I/O errors.
    pub fn pair<M: Medium>(
        &self,
        pool: &Pool<M>,
        entry: &NodeEntry,
        most_bytes: u64,
    ) -> Result<KeyValue> {
        let bad = |what: &str| {
            let what = format!("page {}: {what}", self.page);
            Err(Error::corrupt(self.entry_offset(entry), what))
        };
        match &entry.value {
            EntryValue::Inline(value) => {
                let key = &self.bytes[entry.key.clone()];
                if !self.has(entry, key) {
                    return bad("a key outside its bounds");
                }
                Ok((key.to_vec(), self.bytes[value.clone()].to_vec()))
            }
            EntryValue::Record(r) => {
                let pair = pool.pair(*r, most_bytes)?;
                if self.has(entry, &pair.0) {
                    return Ok(pair);
                }
                let what = format!("page {}: another key than page {} says", r.page(), self.page);
                Err(Error::corrupt(pool.record_offset(*r), what))
            }
            EntryValue::Child(_) | EntryValue::None => bad("no entry of a leaf"),
        }
    }
}
