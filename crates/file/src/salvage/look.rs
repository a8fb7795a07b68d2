//! The journal of a damaged pool, as a person looks at it: block by block, record by record.

use everleaf_pmem::page::PageNo;

use crate::journal::{RECORD_HEAD, TAG_ADOPT, TAG_COUNTS, TAG_FORGET, record_bytes};
use crate::store::format::u32_at;

use super::DamagedFile;

/// A block of the journal that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalBlock<'j> {
    /// Rises by one with each block, for ever.
    pub number: u64,
    /// The epoch that it is of.
    pub epoch: u64,
    /// Which block of the epoch it is, from 0 on.
    pub piece: u32,
    /// Whether it is the last one of its epoch.
    pub ends_epoch: bool,
    /// The open of the pool that wrote it.
    pub generation: u32,
    /// The checksum of the block before it, as this one says.
    pub link: u32,
    /// Its first byte in the file.
    pub place: u64,
    /// The first byte of its records in the file.
    start: u64,
    payload: &'j [u8],
}

/// A block's record of one page, or of one large value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalRecord<'j> {
    /// Its first byte in the file.
    pub place: u64,
    /// Its kind: see [`own_tag`] and the functions of the layers above.
    pub tag: u8,
    /// The page that it changes, or the first one of a large value.
    pub page: PageNo,
    /// The number of the change among those of the page; of a large value, how many pages it has.
    pub seq: u32,
    /// Its contents.
    pub bytes: &'j [u8],
}

impl<'j> JournalBlock<'j> {
    /// How many bytes its records take.
    pub fn payload_bytes(&self) -> usize {
        self.payload.len()
    }

    /// Its records in their order. Behind one that is malformed, none can be told.
    pub fn records(&self) -> impl Iterator<Item = JournalRecord<'j>> + use<'j> {
        let (mut rest, mut place) = (self.payload, self.start);
        std::iter::from_fn(move || {
            let whole = Some(rest).filter(|rest| rest.len() >= RECORD_HEAD).map(record_bytes)?;
            let (record, behind) = rest.split_at_checked(whole)?;
            let bytes = &record[RECORD_HEAD..];
            let (tag, page, seq) = (record[0], u32_at(record, 3), u32_at(record, 7));
            let told = JournalRecord { place, tag, page, seq, bytes };
            (rest, place) = (behind, place + whole as u64);
            Some(told)
        })
    }
}

/// The meaning of a tag that is the file's own: counts of pairs, and large values that come and go.
pub fn own_tag(tag: u8) -> Option<&'static str> {
    Some(match tag {
        TAG_COUNTS => "counts of pairs",
        TAG_ADOPT => "large value comes",
        TAG_FORGET => "large value goes",
        _ => return None,
    })
}

impl DamagedFile {
    /// The blocks of the journal that count, in their order; [`findings`](Self::findings) say which are missing.
    pub fn journal(&self) -> impl Iterator<Item = JournalBlock<'_>> {
        self.journal.pieces.iter().map(|piece| {
            let facts = piece.facts;
            JournalBlock {
                number: facts.number,
                epoch: facts.epoch,
                piece: facts.piece,
                ends_epoch: facts.ends_epoch,
                generation: facts.generation,
                link: facts.link,
                place: facts.place,
                start: piece.place,
                payload: &self.journal.bytes[piece.start..piece.start + piece.len],
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(payload: &[u8]) -> JournalBlock<'_> {
        let (number, epoch, piece, generation, link, place) = (1, 1, 0, 1, 0, 4096);
        let start = place + 64;
        JournalBlock {
            number,
            epoch,
            piece,
            ends_epoch: true,
            generation,
            link,
            place,
            start,
            payload,
        }
    }

    #[test]
    fn records_are_told_up_to_a_malformed_one() {
        let mut payload = vec![7, 2, 0, 9, 0, 0, 0, 3, 0, 0, 0, b'a', b'b'];
        payload.extend([254, 0, 0, 8, 0, 0, 0, 2, 0, 0, 0]);
        let told: Vec<_> = block(&payload).records().collect();
        let first = JournalRecord { place: 4160, tag: 7, page: 9, seq: 3, bytes: b"ab" };
        let second = JournalRecord { place: 4173, tag: 254, page: 8, seq: 2, bytes: b"" };
        assert_eq!(told, [first, second]);
        assert_eq!(own_tag(second.tag), Some("large value comes"));
        // The second one claims more than is there, and then has half a head.
        payload[14] = 1;
        assert_eq!(block(&payload).records().collect::<Vec<_>>(), [first]);
        assert_eq!(block(&payload[..20]).records().collect::<Vec<_>>(), [first]);
        assert_eq!(block(&[]).records().count(), 0);
    }
}
