//! The content of a record: a key and a value.
//!
//! ```text
//! inline    u32 key length | u32 value length | key | value
//! extents   u32 key length, bit 31 set | u32 value length | u32 CRC-32C | u32 n
//!           n × (u32 first page, u32 pages) | key, if bit 30 is set
//! ```
//!
//! If the list does not fit the record, bit 29 is set, and the one pair in the record is an extent
//! that holds the list: its n pairs, 8 bytes each.
//!
//! The extents hold the key, unless it stays in the record (bit 30), and then the value. Short keys
//! stay, so that a search need not read extents. The checksum covers what the extents hold.

use everleaf_pmem::{Geometry, Medium, Result, fallible};

use crate::change::damaged;
use crate::class::max_record;
use crate::map::{PageRun, group_pages};
use crate::pool::Pool;
use crate::record::RecordView;

/// The longest key.
pub const MAX_KEY_BYTES: usize = 1 << 16;
/// The longest value.
pub const MAX_VALUE_BYTES: u64 = u32::MAX as u64;
/// The longest key that stays in the record of a large value.
const KEPT_KEY_BYTES: usize = 256;

/// A pool that may have so many groups keeps the values in extents that its medium wants there.
const MANY_GROUPS: u32 = 8;

const IN_EXTENTS: u32 = 1 << 31;
const KEY_KEPT: u32 = 1 << 30;
const LISTED: u32 = 1 << 29;
pub(crate) const HEADER_BYTES: usize = 8;
const CRC_AT: usize = 8;
const LIST_AT: usize = 16;

const _: () = assert!(
    MAX_KEY_BYTES as u32 & (IN_EXTENTS | KEY_KEPT | LISTED) == 0 && MAX_KEY_BYTES < LISTED as usize,
    "the length of a key and its flags share a word"
);
const _: () = assert!(KEPT_KEY_BYTES <= MAX_KEY_BYTES);
const _: () = assert!(MAX_VALUE_BYTES <= u32::MAX as u64, "a value's length has 32 bits");

/// The first 8 bytes of an inline record.
pub fn pair_header(key_bytes: usize, value_bytes: usize) -> [u8; 8] {
    debug_assert!(key_bytes <= MAX_KEY_BYTES && value_bytes as u64 <= MAX_VALUE_BYTES);
    (key_bytes as u64 | (value_bytes as u64) << 32).to_le_bytes()
}

/// The lengths in a record, checked against its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lens {
    /// Bytes of the key.
    pub key_bytes: usize,
    /// Bytes of the value.
    pub value_bytes: u64,
    /// Where the key starts in the record, or none if extents hold it.
    pub key_at: Option<usize>,
    /// How many extents there are; 0 for inline records.
    pub extents: usize,
    /// Whether the extents are listed in an extent of their own.
    pub listed: bool,
}

impl Lens {
    /// Bytes of the record itself.
    pub fn record_bytes(&self) -> usize {
        let key = if self.key_at.is_some() { self.key_bytes } else { 0 };
        match self.extents {
            0 => HEADER_BYTES + key + self.value_bytes as usize,
            n => LIST_AT + 8 * if self.listed { 1 } else { n } + key,
        }
    }
    /// How many bytes of the value there are from byte `from` of it on, but no more than `len`.
    pub fn part(&self, from: u64, len: usize) -> usize {
        self.value_bytes.saturating_sub(from).min(len as u64) as usize
    }
    /// Bytes that the extents hold.
    pub fn extent_bytes(&self) -> u64 {
        let key = if self.key_at.is_none() { self.key_bytes } else { 0 };
        if self.extents == 0 { 0 } else { key as u64 + self.value_bytes }
    }
}

/// The record of a pair whose bytes are in extents, if it fits a page, but for their checksum, which
/// [`seal`] adds. `list` is the extent that holds the list of `runs`, if there is one.
pub(crate) fn large_record(
    geometry: Geometry,
    key: &[u8],
    value_bytes: u64,
    runs: &[PageRun],
    list: Option<PageRun>,
) -> Option<Result<Vec<u8>>> {
    debug_assert!(!runs.is_empty(), "a large pair has extents");
    debug_assert!(key.len() <= MAX_KEY_BYTES && value_bytes <= MAX_VALUE_BYTES);
    let kept = keeps_key(geometry, key.len());
    let mut flags = IN_EXTENTS | if kept { KEY_KEPT } else { 0 };
    if list.is_some() {
        flags |= LISTED;
    }
    let listed = list.as_ref().map_or(runs, std::slice::from_ref);
    let key_bytes = if kept { key } else { &[] };
    let len = LIST_AT + 8 * listed.len() + key_bytes.len();
    if len > max_record(geometry) {
        return None;
    }
    Some(fallible::list(len, "the record of a large value").map(|mut bytes: Vec<u8>| {
        bytes.extend((key.len() as u32 | flags).to_le_bytes());
        bytes.extend((value_bytes as u32).to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend((runs.len() as u32).to_le_bytes());
        bytes.extend(list_bytes(listed));
        bytes.extend(key_bytes);
        debug_assert_eq!(bytes.len(), len, "the record is as long as planned");
        bytes
    }))
}

/// Writes the checksum of what extents hold into their record.
pub(crate) fn seal(record: &mut [u8], crc: u32) {
    debug_assert!(record.len() >= LIST_AT, "no record of a large pair");
    if let Some(place) = record.get_mut(CRC_AT..CRC_AT + 4) {
        place.copy_from_slice(&crc.to_le_bytes());
    }
}

/// A list of extents as it is stored.
pub(crate) fn list_bytes(runs: &[PageRun]) -> impl Iterator<Item = u8> {
    let word = |run: &PageRun| u64::from(run.first) | u64::from(run.pages) << 32;
    runs.iter().flat_map(move |run| word(run).to_le_bytes())
}

/// Whether the key of a large pair stays in the record.
pub(crate) fn keeps_key(geometry: Geometry, key_bytes: usize) -> bool {
    key_bytes <= KEPT_KEY_BYTES.min(max_record(geometry) / 4)
}

impl RecordView<'_> {
    /// The lengths that the record says, if they fit.
    ///
    /// # Errors
    /// [`Error::Corrupt`](everleaf_pmem::Error::Corrupt) if they do not.
    pub fn lens(&self) -> Result<Lens> {
        let head = self.word(0);
        let key_bytes = (head as u32 & !(IN_EXTENTS | KEY_KEPT | LISTED)) as usize;
        let in_extents = head as u32 & IN_EXTENTS != 0;
        let kept = head as u32 & KEY_KEPT != 0;
        let listed = head as u32 & LISTED != 0;
        let extents = if in_extents { (self.word(1) >> 32) as usize } else { 0 };
        let key_at = match (in_extents, kept) {
            (false, _) => Some(HEADER_BYTES),
            (true, true) => Some(LIST_AT + 8 * if listed { 1 } else { extents }),
            (true, false) => None,
        };
        let lens = Lens { key_bytes, value_bytes: head >> 32, key_at, extents, listed };
        let empty =
            self.capacity() == 0 || (kept || listed) && !in_extents || in_extents != (extents > 0);
        if key_bytes > MAX_KEY_BYTES || empty || lens.record_bytes() > self.capacity() {
            let what = format!("no lengths of a record: {head:#018x}");
            return Err(damaged(self.page(), self.offset_in_page(), what));
        }
        Ok(lens)
    }

    /// The value of an inline record of these lengths.
    ///
    /// # Errors
    /// NoMemory.
    #[inline]
    pub(crate) fn inline_value(&self, lens: &Lens) -> Result<Vec<u8>> {
        self.bytes(HEADER_BYTES + lens.key_bytes, lens.value_bytes as usize, "a value")
    }

    /// The checksum of the extents' bytes.
    pub(crate) fn crc(&self) -> u32 {
        self.word(1) as u32
    }

    /// Extent `i` of the list.
    pub(crate) fn run(&self, i: usize) -> PageRun {
        let word = self.word(LIST_AT / 8 + i);
        PageRun { first: word as u32, pages: (word >> 32) as u32 }
    }
}

impl<M: Medium> Pool<M> {
    /// Whether the pool may become so large that it is no matter if extents take groups of their own.
    fn has_many_groups(&self) -> bool {
        self.medium.limit() / group_pages(self.geometry()) >= MANY_GROUPS
    }

    /// Whether a pair of these lengths goes to a record: it fits one, and the medium does not want a value of
    /// this length in an extent.
    pub fn fits_record(&self, key_bytes: usize, value_bytes: usize) -> bool {
        let most = self.hooks.extents.as_ref().map_or(usize::MAX, |io| (io.most)(self.geometry()));
        if value_bytes > most && self.has_many_groups() {
            return false;
        }
        self.holds_record(key_bytes, value_bytes)
    }

    /// Whether a record can hold a pair of these lengths, whatever the medium wants.
    pub fn holds_record(&self, key_bytes: usize, value_bytes: usize) -> bool {
        let room = max_record(self.geometry()) - HEADER_BYTES;
        key_bytes <= room && value_bytes <= room - key_bytes
    }
}
