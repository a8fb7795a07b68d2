//! Where everything is in the data file, the superblock, and the checksum of a page.
//!
//! All integers are little-endian.
//!
//! ```text
//! data file   0        superblock, copy A                 4 KiB
//!             4096     superblock, copy B                 4 KiB
//!             8192     double-write half 0                2 MiB   (double.rs)
//!             +2 MiB   double-write half 1                2 MiB
//!             +4 MiB   page 0, page 1, …                  64 + 16 × slots bytes each
//!
//! superblock  0  magic "EVERLEAF"    8  format version u32     12 endianness mark u32
//!             16 feature flags u64   24 uuid, 16 bytes          40 slots u32
//!             44 state u32: bit 0 clean, bit 1 unborn           48 layout hash u64
//!             56 open generation     64 counter (higher = newer)
//!             72 durable epoch       80 journal generation to replay from
//!             88 journal floor       96 pages end               104 first batch
//!             112 first link         120 last block             128 … 4091 zero
//!             4092 crc32c of bytes 0 … 4091
//! ```
//!
//! The two copies are written in turn and synced, so that a torn write leaves the other one.
//!
//! *Journal floor*: how many bytes of the journal of that generation were durable when the
//! superblock was written; a shorter one is damaged and not merely torn. *Pages end*: one more than
//! the highest page number that a checkpoint has written; a file that is shorter has been cut.
//! *First batch*: all homes of batches with lower numbers are durable. *First link*: 2³² plus the link of
//! the first block of the journal generation, if that is known; it tells whether the block that lies
//! there is the first one. *Last block*: the epoch of the last block that recovery found, when an open
//! goes on after an unclean end; else 0. Homes may hold changes of that epoch.
//!
//! *Unborn*: the pool is being made under another name and holds nothing. Who makes a pool and finds
//! such a file that nobody has locked may remove it: its maker was killed.
//!
//! A DAX pool has the same file, with feature bit 1: pages are updated in place, so that the
//! double-write halves, the durable epoch and the journal fields stay zero, and *pages end* is the
//! number of pages that have blocks on the device.

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::page::{Geometry, HEAD_WORDS, LINE_BYTES, PageNo, SUM_WORD};

pub use everleaf_pmem::page::FIRST_PAGE_OFFSET;

pub(crate) const SUPER_BYTES: usize = 4096;
pub(crate) const DOUBLE_OFFSET: u64 = 8192;
pub(crate) const HALF_BYTES: u64 = 2 << 20;
const _: () =
    assert!(FIRST_PAGE_OFFSET == DOUBLE_OFFSET + 2 * HALF_BYTES, "pages follow the halves");
/// Version of the file format that this build writes and reads.
pub const FORMAT_VERSION: u32 = 2;

/// Feature bit 1: a DAX pool, whose pages are updated in place, without a journal.
pub(crate) const DAX: u64 = 1 << 1;

const MAGIC: [u8; 8] = *b"EVERLEAF";
const ENDIAN_MARK: u32 = 0x0102_0304;
const CLEAN: u32 = 1;
const UNBORN: u32 = 2;
const CRC_AT: usize = SUPER_BYTES - 4;

/// Where the first of the superblock's ten words stands.
const WORDS_AT: usize = 48;

const _: () = {
    assert!(2 * SUPER_BYTES as u64 == DOUBLE_OFFSET, "both copies, and nothing else, come first");
    assert!(HALF_BYTES.is_multiple_of(4096) && FIRST_PAGE_OFFSET.is_multiple_of(4096));
    assert!(WORDS_AT + 8 * 10 <= CRC_AT, "the fields end before the checksum");
    assert!(CLEAN & UNBORN == 0, "a bit for each state");
    assert!(SUM_WORD < HEAD_WORDS, "the checksum is in the header");
};

/// Reads a u32 out of bytes that are long enough.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// Reads a u64 out of bytes that are long enough.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Byte offset of a page in the data file.
pub(crate) fn page_offset(no: PageNo, g: Geometry) -> u64 {
    FIRST_PAGE_OFFSET + u64::from(no) * g.page_bytes() as u64
}

/// The checksum word of a page image, whatever its own checksum word holds. It covers the page's
/// number, so that a page written to the wrong place is noticed, and is never 0, so that a page
/// which was never written can be told from one that is all zero.
pub(crate) fn page_sum(no: PageNo, image: &[u8]) -> u64 {
    let at = 8 * SUM_WORD;
    debug_assert!(image.len() > at + 8 && image.len().is_multiple_of(LINE_BYTES));
    let crc = crc32c::crc32c(&no.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &image[..at]);
    let crc = crc32c::crc32c_append(crc, &image[at + 8..]);
    1 << 32 | u64::from(crc)
}

/// What a page image read from its home is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Blank,
    Good,
    Bad,
}

pub(crate) fn judge(no: PageNo, image: &[u8]) -> Verdict {
    let sum = u64_at(image, 8 * SUM_WORD);
    if sum == 0 && image.iter().all(|&b| b == 0) {
        Verdict::Blank
    } else if sum == page_sum(no, image) {
        Verdict::Good
    } else {
        Verdict::Bad
    }
}

/// The superblock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Super {
    pub features: u64,
    pub uuid: [u8; 16],
    pub slots: u32,
    pub clean: bool,
    pub unborn: bool,
    pub layout_hash: u64,
    pub open_generation: u64,
    pub counter: u64,
    pub durable_epoch: u64,
    pub journal_generation: u64,
    pub journal_floor: u64,
    pub pages_end: u64,
    pub first_batch: u64,
    pub first_link: u64,
    pub last_block: u64,
}

/// The [first link](Super::first_link) of a generation whose first block has that link.
pub(crate) fn first_link(link: u32) -> u64 {
    1 << 32 | u64::from(link)
}

enum SuperCopy {
    Good(Super),
    /// Has the magic number; its checksum fails.
    Damaged,
    /// Intact but not for this build.
    Unusable(String),
    Alien,
}

impl Super {
    /// That of a new pool, still without its uuid.
    pub(crate) fn new(features: u64, slots: u32, layout_hash: u64, pages_end: PageNo) -> Self {
        Self {
            features,
            uuid: [0; 16],
            slots,
            clean: true,
            unborn: false,
            layout_hash,
            open_generation: 0,
            counter: 0,
            durable_epoch: 0,
            journal_generation: 0,
            journal_floor: 0,
            pages_end: pages_end.into(),
            first_batch: 0,
            first_link: 0,
            last_block: 0,
        }
    }

    pub(crate) fn encode(&self) -> [u8; SUPER_BYTES] {
        let mut b = [0; SUPER_BYTES];
        b[..8].copy_from_slice(&MAGIC);
        b[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        b[12..16].copy_from_slice(&ENDIAN_MARK.to_le_bytes());
        b[16..24].copy_from_slice(&self.features.to_le_bytes());
        b[24..40].copy_from_slice(&self.uuid);
        b[40..44].copy_from_slice(&self.slots.to_le_bytes());
        let state = if self.clean { CLEAN } else { 0 } | if self.unborn { UNBORN } else { 0 };
        b[44..48].copy_from_slice(&state.to_le_bytes());
        let words = [
            self.layout_hash,
            self.open_generation,
            self.counter,
            self.durable_epoch,
            self.journal_generation,
            self.journal_floor,
            self.pages_end,
            self.first_batch,
            self.first_link,
            self.last_block,
        ];
        debug_assert!(!self.unborn || self.clean, "who changes a pool has given it its name");
        for (i, word) in words.iter().enumerate() {
            let at = WORDS_AT + 8 * i;
            b[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let crc = crc32c::crc32c(&b[..CRC_AT]);
        b[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        b
    }

    /// Which copy (0 or 1) this version of the superblock goes to.
    pub(crate) fn copy(&self) -> u64 {
        self.counter & 1
    }

    /// Chooses the newer good one of the two copies; says also whether there is only one, so that
    /// a newer one may have been lost.
    pub(crate) fn choose(a: &[u8], b: &[u8]) -> Result<(Super, bool)> {
        match (decode(a), decode(b)) {
            (SuperCopy::Good(a), SuperCopy::Good(b)) => {
                Ok((if a.counter > b.counter { a } else { b }, false))
            }
            (SuperCopy::Unusable(what), _) | (_, SuperCopy::Unusable(what)) => {
                Err(Error::foreign(what))
            }
            (SuperCopy::Good(one), _) | (_, SuperCopy::Good(one)) => Ok((one, true)),
            (SuperCopy::Alien, SuperCopy::Alien) => {
                Err(Error::foreign("the file has no superblock"))
            }
            _ => Err(Error::corrupt(0, "both copies of the superblock are damaged")),
        }
    }
}

fn decode(b: &[u8]) -> SuperCopy {
    if b.len() < SUPER_BYTES || b[..8] != MAGIC {
        return SuperCopy::Alien;
    }
    if u32_at(b, CRC_AT) != crc32c::crc32c(&b[..CRC_AT]) {
        return SuperCopy::Damaged;
    }
    let version = u32_at(b, 8);
    if version != FORMAT_VERSION {
        return SuperCopy::Unusable(format!(
            "format version {version}; this build has {FORMAT_VERSION}"
        ));
    }
    if u32_at(b, 12) != ENDIAN_MARK {
        return SuperCopy::Unusable("the other byte order".into());
    }
    let features = u64_at(b, 16);
    if features & !DAX != 0 {
        return SuperCopy::Unusable(format!(
            "features {features:#x}, not all of which this build knows"
        ));
    }
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&b[24..40]);
    SuperCopy::Good(Super {
        features,
        uuid,
        slots: u32_at(b, 40),
        clean: u32_at(b, 44) & CLEAN != 0,
        unborn: u32_at(b, 44) & UNBORN != 0,
        layout_hash: u64_at(b, 48),
        open_generation: u64_at(b, 56),
        counter: u64_at(b, 64),
        durable_epoch: u64_at(b, 72),
        journal_generation: u64_at(b, 80),
        journal_floor: u64_at(b, 88),
        pages_end: u64_at(b, 96),
        first_batch: u64_at(b, 104),
        first_link: u64_at(b, 112),
        last_block: u64_at(b, 120),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(counter: u64) -> Super {
        Super {
            uuid: [3; 16],
            open_generation: 6,
            counter,
            durable_epoch: 7,
            journal_generation: 8,
            journal_floor: 9,
            first_batch: 11,
            first_link: 12,
            last_block: 13,
            ..Super::new(DAX, 8, 5, 10)
        }
    }

    #[test]
    fn the_newer_good_copy_wins() {
        let (old, new) = (sample(4).encode(), sample(5).encode());
        assert_eq!(Super::choose(&old, &new).expect("good"), (sample(5), false));
        let mut torn = new;
        torn[4000] ^= 1;
        assert_eq!(Super::choose(&old, &torn).expect("one is good"), (sample(4), true));
        assert!(matches!(Super::choose(&torn, &torn), Err(Error::Corrupt { .. })));
        assert!(matches!(Super::choose(&[0; 4096], &[]), Err(Error::Foreign { .. })));
    }

    #[test]
    fn a_page_sum_knows_its_page_and_is_never_zero() {
        let mut image = vec![0; 128];
        assert_eq!(judge(0, &image), Verdict::Blank);
        let sum = page_sum(3, &image);
        image[8 * SUM_WORD..8 * SUM_WORD + 8].copy_from_slice(&sum.to_le_bytes());
        assert_eq!((judge(3, &image), judge(4, &image)), (Verdict::Good, Verdict::Bad));
    }
}
