//! Where the pages of a medium are in memory, and which [lines that were loaded](crate::lines_read) are
//! there. All others are lines of frames, or of media beside it: trees that keep inner nodes in DRAM
//! have one of their own for these.

use std::ops::Range;

use crate::error::Result;
use crate::lines_read::LinesRead;
use crate::medium::Medium;
use crate::page::LINE_BYTES;

/// The lines of all pages of a medium, used or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageSpan(Range<usize>);

/// How many distinct lines were loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// Lines in the span.
    pub inside: u64,
    /// Runs of them: lines that lie side by side count as one. So often is memory waited for if the
    /// first load of a run has all of it fetched.
    pub runs: u64,
    /// Lines elsewhere.
    pub outside: u64,
}

impl PageSpan {
    /// That of a medium which keeps its pages one behind the other in memory, as all do.
    ///
    /// # Errors
    /// The medium cannot show its first or last page.
    pub fn of(medium: &impl Medium) -> Result<Self> {
        let line = |no| -> Result<usize> {
            Ok(std::ptr::from_ref(medium.page(no)?.line(0)).expose_provenance() / LINE_BYTES)
        };
        let lines = medium.geometry().page_bytes() / LINE_BYTES;
        Ok(Self(line(0)?..line(medium.limit().saturating_sub(1))? + lines))
    }

    /// The addresses of their bytes, for those who look at memory from outside.
    pub fn bytes(&self) -> Range<usize> {
        self.0.start * LINE_BYTES..self.0.end * LINE_BYTES
    }

    /// How many of these lines are in the span, and how many are not.
    pub fn counts(&self, read: &LinesRead) -> SpanCounts {
        let mut counts = SpanCounts::default();
        let mut before = None;
        for line in read.0.range(self.0.clone()) {
            counts.inside += 1;
            counts.runs += u64::from(before != Some(line - 1));
            before = Some(*line);
        }
        counts.outside = read.0.len() as u64 - counts.inside;
        counts
    }
}

#[cfg(all(test, feature = "lines-read"))]
mod tests {
    use super::*;
    use crate::lines_read::record;
    use crate::{Dram, Geometry, HEAD_WORDS, Page};

    /// A page of 64 slots: a header and 16 lines.
    fn medium() -> Dram {
        Dram::new(Geometry::new(64).expect("valid"), 3).expect("memory")
    }

    /// Lines and runs of page 1 that `read` loads, and lines elsewhere.
    fn lines(read: impl FnOnce(Page<'_>)) -> (u64, u64, u64) {
        let medium = medium();
        let (page, span) = (medium.page(1).expect("there"), PageSpan::of(&medium).expect("memory"));
        let counts = span.counts(&record(|| read(page)).1);
        (counts.inside, counts.runs, counts.outside)
    }

    fn words(page: Page<'_>, words: &[usize]) {
        words.iter().for_each(|word| assert_eq!(page.word(*word).load(), 0));
    }

    #[test]
    fn a_line_counts_once_however_often_it_is_loaded() {
        assert_eq!(lines(|_| ()), (0, 0, 0));
        assert_eq!(lines(|page| words(page, &[0, 7, 3, 0])), (1, 1, 0));
        assert_eq!(lines(|page| words(page, &[0, 8, 24, 1])), (3, 2, 0));
        assert_eq!(lines(|page| words(page, &[24, 16, 8])), (3, 1, 0), "side by side, backwards");
    }

    #[test]
    fn bytes_are_on_each_line_that_they_touch() {
        assert_eq!(lines(|page| assert_eq!(page.load_le(60), 0)), (2, 1, 0));
        assert_eq!(lines(|page| assert!(page.copy_out(63, &mut [0; 66]))), (3, 1, 0));
        assert_eq!(lines(|page| assert!(page.copy_out(64, &mut []))), (0, 0, 0));
        let append = |page: Page<'_>| assert!(page.append_to(64, 64, &mut Vec::with_capacity(64)));
        assert_eq!(lines(append), (1, 1, 0));
        let differ = |page: Page<'_>| assert!(page.cmp_bytes(64, 640, &[1; 640]).is_lt());
        assert_eq!(lines(differ), (1, 1, 0), "the first word decides");
    }

    #[test]
    fn a_vector_search_loads_its_window_and_the_words_that_narrow_it() {
        // Of 32 words all; of 128 first number 64 and then number 32, which are greater.
        assert_eq!(lines(|page| assert_eq!(page.words_le(8, 32, 0), 32)), (4, 1, 0));
        let medium = medium();
        let (page, span) = (medium.page(2).expect("there"), PageSpan::of(&medium).expect("memory"));
        (0..128).for_each(|j| medium.store(page.body(j), 1 + j as u64));
        let (rank, lines) = record(|| page.words_le(HEAD_WORDS, 128, 3));
        let counts = span.counts(&lines);
        assert_eq!((rank, counts.inside, counts.runs), (3, 6, 2));
        let (equal, lines) = record(|| page.line_bytes_eq(3, 99).count_ones());
        assert_eq!((equal, span.counts(&lines).inside), (0, 1));
    }

    #[test]
    fn slots_that_move_are_loaded_and_stores_alone_are_not() {
        let medium = medium();
        let (page, span) = (medium.page(0).expect("there"), PageSpan::of(&medium).expect("memory"));
        let ((), stored) = record(|| medium.store(page.body(0), 1));
        assert_eq!(span.counts(&stored).inside, 0);
        let ((), moved) = record(|| medium.move_slots(page, 4, 8, true));
        assert_eq!(span.counts(&moved).inside, 2);
        let ((), moved) = record(|| medium.move_words(page, 8, 24, 16));
        assert_eq!(span.counts(&moved).inside, 2);
    }

    #[test]
    fn aids_and_pages_of_other_media_are_outside_and_latches_are_not_seen() {
        assert_eq!(lines(|page| assert_eq!(page.aid(0) + page.aid(8), 0)), (0, 0, 2));
        assert_eq!(lines(|page| assert!(!page.latch().is_locked())), (0, 0, 0));
        let other = medium();
        let elsewhere = |_: Page<'_>| words(other.page(1).expect("there"), &[0]);
        assert_eq!(lines(elsewhere), (0, 0, 1));
    }

    #[test]
    fn a_record_within_another_one_is_apart_from_it() {
        let medium = medium();
        let (page, span) = (medium.page(0).expect("there"), PageSpan::of(&medium).expect("memory"));
        let (inner, outer) = record(|| {
            words(page, &[0]);
            record(|| words(page, &[8, 16])).1
        });
        assert_eq!((span.counts(&inner).inside, span.counts(&outer).inside), (2, 1));
    }
}
