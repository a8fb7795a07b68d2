//! The changes that the journal holds for each page, where some of them may be missing, and how many pairs each tree had.

use std::collections::HashMap;

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::page::PageNo;

use crate::journal::{RECORD_HEAD, TAG_COUNTS, TAG_OWN, record_bytes};
use crate::store::format::u32_at;
use crate::store::table::RootCounts;

use super::blocks::FoundJournal;
use super::scan::Finding;

const INDEX: &str = "the index of a journal";

/// One change in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ChangePlace {
    page: PageNo,
    /// Byte in [`FoundJournal::bytes`].
    at: usize,
}

/// A record that says what becomes of a large value.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundRun {
    pub epoch: u64,
    /// Byte in [`FoundJournal::bytes`].
    pub at: usize,
}

/// One change of one page.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundChange<'j> {
    pub seq: u32,
    pub tag: u8,
    pub bytes: &'j [u8],
    /// Byte of the file.
    pub offset: u64,
}

/// All changes, by page.
#[derive(Debug, Default)]
pub(super) struct PageChanges {
    places: Vec<ChangePlace>,
    /// How large values come and go, in the order of the journal.
    pub runs: Vec<FoundRun>,
}

impl<'j> FoundChange<'j> {
    /// The record at a byte of the journal's payloads.
    pub fn at(journal: &'j FoundJournal, at: usize) -> Self {
        let record = &journal.bytes[at..];
        let bytes = &record[RECORD_HEAD..record_bytes(record)];
        Self { seq: u32_at(record, 7), tag: record[0], bytes, offset: journal.place_of(at) }
    }
}

impl PageChanges {
    /// Finds the changes in all blocks. A block with a malformed one is good up to it.
    ///
    /// # Errors
    /// NoMemory.
    pub fn new(journal: &mut FoundJournal, findings: &mut Vec<Finding>) -> Result<Self> {
        let mut changes = Self::default();
        for i in 0..journal.pieces.len() {
            let piece = journal.pieces[i];
            let (mut at, end) = (piece.start, piece.start + piece.len);
            while at < end {
                let rest = &journal.bytes[at..end];
                let len = if rest.len() < RECORD_HEAD { usize::MAX } else { record_bytes(rest) };
                if len > rest.len() || rest[0] == 0 {
                    let what = "malformed change".into();
                    findings.push(Finding::data(journal.place_of(at), what));
                    journal.has_gaps = true;
                    break;
                }
                if rest[0] >= TAG_OWN {
                    let run = FoundRun { epoch: piece.facts.epoch, at };
                    fallible::push(&mut changes.runs, run, INDEX)?;
                } else {
                    let place = ChangePlace { page: u32_at(rest, 3), at };
                    fallible::push(&mut changes.places, place, INDEX)?;
                }
                at += len;
            }
        }
        changes.places.sort_unstable();
        Ok(changes)
    }

    fn of_page(&self, no: PageNo) -> impl Iterator<Item = &ChangePlace> {
        let first = self.places.partition_point(|place| place.page < no);
        self.places[first..].iter().take_while(move |place| place.page == no)
    }

    /// The changes of a page in the order of their numbers, each once, those up to `base` left out.
    pub fn of<'j>(&self, journal: &'j FoundJournal, no: PageNo, base: u32) -> Vec<FoundChange<'j>> {
        let mut entries: Vec<_> = self
            .of_page(no)
            .map(|place| FoundChange::at(journal, place.at))
            .filter(|entry| entry.seq.wrapping_sub(base).cast_signed() > 0)
            .collect();
        entries.sort_by_key(|entry| entry.seq.wrapping_sub(base));
        entries.dedup_by_key(|entry| entry.seq);
        entries
    }

    /// Whether the changes of a page go up to number `base` at least. Then what has seen `base` changes
    /// is not older than the journal's first change of the page.
    pub fn reach(&self, journal: &FoundJournal, no: PageNo, base: u32) -> bool {
        self.of_page(no).any(|place| {
            let seq = FoundChange::at(journal, place.at).seq;
            seq.wrapping_sub(base).cast_signed() >= 0
        })
    }

    /// The pages from `from` on that have changes, rising.
    pub fn pages(&self, from: PageNo) -> Vec<PageNo> {
        let first = self.places.partition_point(|place| place.page < from);
        let mut pages: Vec<_> = self.places[first..].iter().map(|place| place.page).collect();
        pages.dedup();
        pages
    }
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

/// The counts of trees that had pairs, by their anchors: what the root says, and what the epochs of the journal behind
/// it have counted. None if a record cannot be so. They are right only if no block is missing.
///
/// # Errors
/// NoMemory.
pub(super) fn found_counts(
    counts: RootCounts,
    journal: &FoundJournal,
    changes: &PageChanges,
    findings: &mut Vec<Finding>,
) -> Result<Option<HashMap<PageNo, u64>>> {
    let RootCounts { epoch, mut pairs } = counts;
    for run in changes.runs.iter().filter(|run| run.epoch > epoch) {
        let record = FoundChange::at(journal, run.at);
        if record.tag != TAG_COUNTS {
            continue;
        }
        match pairs.redo(record.bytes, record.offset) {
            Ok(()) => {}
            Err(error @ Error::NoMemory { .. }) => return Err(error),
            Err(error) => {
                findings.push(Finding::of(&error, record.offset));
                return Ok(None);
            }
        }
    }
    Ok(Some(pairs.into_pairs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(
        seqs: &[(u32, u8)],
        base: u32,
        has_base: bool,
    ) -> Option<(bool, usize, usize, bool)> {
        let entry = |&(seq, tag): &(u32, u8)| FoundChange { seq, tag, bytes: &[], offset: 0 };
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
