//! What the journal holds for each page, where some of it may be missing.

use everleaf_pmem::page::PageNo;

use crate::format::u32_at;
use crate::journal::{BLOCK_HEAD, RECORD_HEAD};

use super::blocks::{FoundJournal, FoundJournals};
use super::finding::Finding;

/// One change in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ChangePlace {
    page: PageNo,
    part: u32,
    /// Byte in [`FoundJournal::bytes`].
    at: usize,
}

/// One change of one page.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundChange<'j> {
    pub seq: u32,
    pub tag: u8,
    pub bytes: &'j [u8],
    pub file: &'static str,
    /// Byte of the file.
    pub offset: u64,
}

/// All changes, by page.
#[derive(Debug, Default)]
pub(super) struct PageChanges {
    places: Vec<ChangePlace>,
}

/// Byte of the journal file where byte `at` of the part's payloads is.
fn offset_of(part: &FoundJournal, at: usize) -> u64 {
    let i = part.blocks.partition_point(|block| block.start <= at);
    let block = part.blocks[i.saturating_sub(1)];
    block.at + (BLOCK_HEAD + at - block.start) as u64
}

impl PageChanges {
    /// Finds the changes in all blocks. A block with a malformed one is good up to it.
    pub(super) fn new(journal: &mut FoundJournals, findings: &mut Vec<Finding>) -> Self {
        let mut places = Vec::new();
        for (i, part) in journal.parts.iter().enumerate() {
            for block in &part.blocks {
                let (mut at, end) = (block.start, block.start + block.len);
                while at < end {
                    let head = &part.bytes[at..end];
                    let next = at + RECORD_HEAD + head.get(1..3).map_or(0, len);
                    if head.len() < RECORD_HEAD || head[0] == 0 || next > end {
                        let (file, offset) = (part.name, offset_of(part, at));
                        findings.push(Finding { file, offset, what: "malformed change".into() });
                        journal.has_gaps = true;
                        break;
                    }
                    places.push(ChangePlace { page: u32_at(head, 3), part: i as u32, at });
                    at = next;
                }
            }
        }
        places.sort_unstable();
        Self { places }
    }

    /// The changes of a page in the order of their numbers, each once, those up to `base` left out.
    pub(super) fn of<'j>(
        &self,
        journal: &'j FoundJournals,
        no: PageNo,
        base: u32,
    ) -> Vec<FoundChange<'j>> {
        let first = self.places.partition_point(|place| place.page < no);
        let own = self.places[first..].iter().take_while(|place| place.page == no);
        let mut entries: Vec<_> = own
            .map(|place| {
                let part = &journal.parts[place.part as usize];
                let record = &part.bytes[place.at..];
                let n = len(&record[1..3]);
                FoundChange {
                    seq: u32_at(record, 7),
                    tag: record[0],
                    bytes: &record[RECORD_HEAD..RECORD_HEAD + n],
                    file: part.name,
                    offset: offset_of(part, place.at),
                }
            })
            .filter(|entry| entry.seq.wrapping_sub(base).cast_signed() > 0)
            .collect();
        entries.sort_by_key(|entry| entry.seq.wrapping_sub(base));
        entries.dedup_by_key(|entry| entry.seq);
        entries
    }

    /// Whether there is a change of a page.
    pub(super) fn has(&self, no: PageNo) -> bool {
        self.places.binary_search_by_key(&no, |place| place.page).is_ok()
    }

    /// The pages from `from` on that have changes, rising.
    pub(super) fn pages(&self, from: PageNo) -> Vec<PageNo> {
        let first = self.places.partition_point(|place| place.page < from);
        let mut pages: Vec<_> = self.places[first..].iter().map(|place| place.page).collect();
        pages.dedup();
        pages
    }
}

fn len(bytes: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// Which of a page's changes can be applied, and to what.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RedoPlan {
    /// Whether the changes go onto the home image; else onto an empty page.
    pub on_home: bool,
    /// The changes to apply.
    pub first: usize,
    /// One behind the last.
    pub end: usize,
    /// Whether later ones, or all, are missing.
    pub is_stale: bool,
}

/// Decides how to bring a page up to date. `has_base`: there is an image to begin with, a blank one
/// of a page that has no number yet included. `whole` says which changes need no image. `None` if
/// there is no state of the page at all.
pub(super) fn plan(
    entries: &[FoundChange<'_>],
    base: u32,
    has_base: bool,
    whole: impl Fn(u8) -> bool,
) -> Option<RedoPlan> {
    let mut end = entries.len();
    let mut is_stale = false;
    // Runs without a gap, the last one first.
    while end > 0 {
        let mut start = end - 1;
        while start > 0 && entries[start - 1].seq.wrapping_add(1) == entries[start].seq {
            start -= 1;
        }
        if has_base && entries[start].seq == base.wrapping_add(1) {
            return Some(RedoPlan { on_home: true, first: start, end, is_stale });
        }
        if let Some(i) = (start..end).find(|i| whole(entries[*i].tag)) {
            return Some(RedoPlan { on_home: false, first: i, end, is_stale });
        }
        (end, is_stale) = (start, true);
    }
    has_base.then_some(RedoPlan { on_home: true, first: 0, end: 0, is_stale })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(
        seqs: &[(u32, u8)],
        base: u32,
        has_base: bool,
    ) -> Option<(bool, usize, usize, bool)> {
        let entry =
            |&(seq, tag): &(u32, u8)| FoundChange { seq, tag, bytes: &[], file: "j", offset: 0 };
        let entries: Vec<_> = seqs.iter().map(entry).collect();
        plan(&entries, base, has_base, |tag| tag == 5)
            .map(|p| (p.on_home, p.first, p.end, p.is_stale))
    }

    #[test]
    fn changes_apply_up_to_a_gap_or_from_a_whole_image_on() {
        assert_eq!(plan_of(&[], 7, true), Some((true, 0, 0, false)));
        assert_eq!(plan_of(&[], 0, false), None);
        assert_eq!(plan_of(&[(8, 1), (9, 1)], 7, true), Some((true, 0, 2, false)));
        // 9 is missing.
        assert_eq!(plan_of(&[(8, 1), (10, 1)], 7, true), Some((true, 0, 1, true)));
        assert_eq!(plan_of(&[(8, 1), (10, 1), (11, 5)], 7, true), Some((false, 2, 3, false)));
        // No home.
        assert_eq!(plan_of(&[(8, 1), (9, 5), (10, 1)], 0, false), Some((false, 1, 3, false)));
        assert_eq!(plan_of(&[(8, 5), (10, 1)], 0, false), Some((false, 0, 1, true)));
        assert_eq!(plan_of(&[(8, 1), (9, 1)], 0, false), None);
        // All of them come too late.
        assert_eq!(plan_of(&[(9, 1)], 7, true), Some((true, 0, 0, true)));
        assert_eq!(plan_of(&[(0, 1)], u32::MAX, true), Some((true, 0, 1, false)));
    }
}
