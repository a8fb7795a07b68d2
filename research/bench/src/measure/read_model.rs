//! A model of slow reads, and no measurement: the lines of persistent memory that an operation loads,
//! each once, times a latency.
//!
//! Each operation begins with empty caches, which no real one does. Nothing else takes time: no
//! instruction, no load from DRAM, no store. A processor that overlaps loads lies between two figures: in the one each
//! line is waited for, in the other lines that lie side by side are fetched together.

use anyhow::Result;
use everleaf_pmem::lines_read::{RECORDS, record};
use everleaf_pmem::page_span::{PageSpan, SpanCounts};

use super::kind::Figures;

/// Names what a build lacks that does not record loads.
pub fn lacks() -> Option<String> {
    (!RECORDS).then(|| "this build has no lines-read".into())
}

/// The lines of operations of one kind.
pub struct ReadTally<'a> {
    span: &'a PageSpan,
    lines: SpanCounts,
    operations: u64,
}

impl<'a> ReadTally<'a> {
    /// That of no operation; lines in the span are persistent memory.
    pub fn new(span: &'a PageSpan) -> Self {
        Self { span, lines: SpanCounts::default(), operations: 0 }
    }

    /// Does an operation and adds the lines that it loads.
    ///
    /// # Errors
    /// Those of the operation.
    pub fn of<T>(&mut self, operation: impl FnOnce() -> Result<T>) -> Result<T> {
        let (made, read) = record(operation);
        let own = self.span.counts(&read);
        self.lines.inside += own.inside;
        self.lines.runs += own.runs;
        self.lines.outside += own.outside;
        self.operations += 1;
        made
    }

    /// Means of an operation, with the times that a latency of `read_ns` makes of them.
    pub fn figures(&self, name: &str, read_ns: u64) -> Figures {
        let mean = |count: u64| count as f64 / self.operations.max(1) as f64;
        let (lines, runs) = (mean(self.lines.inside), mean(self.lines.runs));
        vec![
            (format!("{name}_pm_lines"), lines),
            (format!("{name}_pm_runs_count"), runs),
            (format!("{name}_dram_lines"), mean(self.lines.outside)),
            (format!("{name}_modelled_ns"), lines * read_ns as f64),
            (format!("{name}_modelled_runs_ns"), runs * read_ns as f64),
        ]
    }
}
