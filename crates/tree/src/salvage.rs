//! Reading single nodes of a damaged pool: what one says, as far as its own records can be read.
//!
//! Nothing here walks; who salvages decides which nodes to believe.

use std::path::Path;

use everleaf_file::DamagedFile;
use everleaf_file::io::Io;
use everleaf_file::salvage::DamagedFileOptions;
use everleaf_pmem::{Error, LINE_BYTES, Medium, PageNo, Result};
use everleaf_pool::{ExtentIo, Hooks, Pool, RecordRef, salvage::KeyValue};

use crate::blink;
use crate::damaged::damaged;
use crate::keys::{Inspect, Strings};
use crate::node::{self, Circular, Layout, Run, Sentinel, Shape, Slot, change};

/// Slots of a page where nothing says how many there are: those of a new Db.
const LIKELY_SLOTS: u32 = 128;

/// Opens what is left of a pool of byte strings on a file; see [`DamagedFile::open`].
///
/// # Errors
/// The same as for [`DamagedFile::open`].
pub fn open(io: &dyn Io, path: &Path) -> Result<Pool<DamagedFile>> {
    let whole = |tag| change::is_whole(tag) || everleaf_pool::salvage::is_whole(tag);
    let options = DamagedFileOptions { layout_hash: Circular::HASH, whole, slots: LIKELY_SLOTS };
    let damaged_file = DamagedFile::open(io, path, &options)?;
    let extents =
        Some(ExtentIo { write: |_, _, _, _| Err(Error::ReadOnly), read: DamagedFile::extent_read });
    let redo = blink::redo::<DamagedFile, (Circular, Sentinel, Strings)>;
    Pool::unformatted(damaged_file, Hooks { redo, extents, ..Hooks::default() })
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeEntry {
    /// Byte of the page where it is.
    pub offset: usize,
    slot: Slot,
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
    /// The records of its bounds.
    pub bounds: [Option<RecordRef>; 2],
    /// In the order of their keys.
    pub entries: Vec<NodeEntry>,
    shape: Shape,
}

/// Reads the node on a page.
///
/// # Errors
/// Those of fetching the page; Corrupt, if it is no sound node of byte strings.
pub fn node<M: Medium>(pool: &Pool<M>, no: PageNo, most_bytes: u64) -> Result<NodeView> {
    let (page, held) = pool.latch(no)?;
    held.unlock_unchanged();
    let Some(shape) = Shape::of(page).filter(|shape| shape.bytes) else {
        return Err(damaged(page, "should be a node of byte strings"));
    };
    let run = Run::of(page);
    if run.count > page.slots() {
        return Err(damaged(page, format!("holds {} entries", run.count)));
    }
    let entry = |i| {
        let p = run.slot(page, i);
        NodeEntry { offset: LINE_BYTES + 16 * p, slot: Slot::read(page, p) }
    };
    let bounds = Strings::bound_records(page);
    let end = |record: Option<RecordRef>| match record.map(|r| pool.pair(r, most_bytes)) {
        None => NodeBound::Open,
        Some(Ok((key, value))) if value.is_empty() => NodeBound::At(key),
        Some(_) => NodeBound::Unknown,
    };
    let sibling = node::sibling(page);
    let (low, mut high) = (end(bounds[0]), end(bounds[1]));
    if high == NodeBound::Open && sibling.is_some() {
        high = NodeBound::Unknown;
    }
    let is_empty =
        matches!((&low, &high), (NodeBound::At(low), NodeBound::At(high)) if low >= high);
    if is_empty {
        return Err(damaged(page, "ends where it begins, or before"));
    }
    let entries = (0..run.count).map(entry).collect();
    Ok(NodeView { page: no, level: shape.level, sibling, low, high, bounds, entries, shape })
}

impl NodeView {
    /// The page that an entry of an inner node leads to.
    pub fn child(&self, entry: &NodeEntry) -> PageNo {
        (entry.slot.ident >> 16) as PageNo
    }

    /// The record of an entry of a leaf.
    pub fn record(&self, entry: &NodeEntry) -> RecordRef {
        RecordRef::from_bits(entry.slot.ident >> 16)
    }

    /// Whether an entry of an inner node can lead to a node that begins at `low`.
    pub fn leads_to(&self, entry: &NodeEntry, low: &NodeBound) -> bool {
        match low {
            NodeBound::Open => self.has(entry, &Vec::new()),
            NodeBound::At(low) => self.has(entry, low),
            NodeBound::Unknown => true,
        }
    }

    /// Whether the keys of this node can include `key`.
    pub fn includes(&self, key: &[u8]) -> bool {
        let above = !matches!(&self.low, NodeBound::At(low) if key < &low[..]);
        above && !matches!(&self.high, NodeBound::At(high) if key >= &high[..])
    }

    fn has(&self, entry: &NodeEntry, key: &Vec<u8>) -> bool {
        Strings::slot_fits(self.shape, entry.slot, key) && self.includes(key)
    }

    /// The pair of an entry of a leaf, if its record is that of the entry.
    ///
    /// # Errors
    /// Corrupt, if it is not, or if it is damaged; I/O errors.
    pub fn pair<M: Medium>(
        &self,
        pool: &Pool<M>,
        entry: &NodeEntry,
        most_bytes: u64,
    ) -> Result<KeyValue> {
        let r = self.record(entry);
        let pair = pool.pair(r, most_bytes)?;
        if self.has(entry, &pair.0) {
            return Ok(pair);
        }
        let what = format!("page {}: another key than page {} says", r.page(), self.page);
        Err(Error::corrupt(pool.record_offset(r), what))
    }
}
