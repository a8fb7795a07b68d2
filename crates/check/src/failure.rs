//! What an exploration answers: how much it looked at, or the first image that does not hold.

use std::fmt;

use crate::images::Choice;

/// How much was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Images that were recovered and checked.
    pub images: u64,
    /// Legal images that were left out because the same bytes had been checked since the last
    /// mark.
    pub deduplicated: u64,
    /// Of `images`, those of a crash inside recovery.
    pub nested: u64,
    /// Crash points, at all depths.
    pub crash_points: u64,
    /// Of `crash_points`, those whose legal images were all built.
    pub exhaustive_points: u64,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Stats) {
        self.images += other.images;
        self.deduplicated += other.deduplicated;
        self.nested += other.nested;
        self.crash_points += other.crash_points;
        self.exhaustive_points += other.exhaustive_points;
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} images checked ({} inside recovery), {} duplicates left out, {} crash points \
             ({} exhaustive)",
            self.images, self.nested, self.deduplicated, self.crash_points, self.exhaustive_points
        )
    }
}

/// One power cut: when, and what it left of each line that was not settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    /// Events that came before: an index into the record, of recovery's own record if nested.
    pub event: usize,
    /// Events in that record.
    pub events: usize,
    /// The lines that were not settled. All others hold everything that was stored to them.
    pub choices: Vec<Choice>,
}

/// An image that recovery or the checker refused. [`Explorer::replay`](crate::Explorer::replay)
/// builds it again.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The explorer's seed.
    pub seed: u64,
    /// What recovery or the checker said.
    pub message: String,
    /// The crash of the workload, then that of its recovery, and so on.
    pub crashes: Vec<Crash>,
    /// Operations that had answered at the workload's crash.
    pub responded: Vec<u64>,
    /// Operations that had begun and not answered.
    pub in_flight: Vec<u64>,
    /// Lines of a page, to print lines by page.
    pub lines_per_page: u32,
    /// What had been looked at before.
    pub stats: Stats,
}

impl Failure {
    /// How many crashes it takes: 1 is the workload's, 2 is one inside recovery.
    pub fn depth(&self) -> usize {
        self.crashes.len()
    }
    /// Index of the event before which the workload crashed.
    pub fn crash_point(&self) -> usize {
        self.crashes[0].event
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} (seed {}, depth {})", self.message, self.seed, self.depth())?;
        write!(f, "  {} operations had answered", self.responded.len())?;
        if let Some(last) = self.responded.last() {
            write!(f, ", the last was {last}")?;
        }
        writeln!(f, "; in flight: {:?}", self.in_flight)?;
        for (crash, depth) in self.crashes.iter().zip(1..) {
            let whose = if depth == 1 { "the workload" } else { "recovery" };
            writeln!(
                f,
                "  crash {depth}: {whose} after {} of {} events",
                crash.event, crash.events
            )?;
            for choice in &crash.choices {
                let (page, line) =
                    (choice.line / self.lines_per_page, choice.line % self.lines_per_page);
                let Choice { kept, floor, stores, .. } = choice;
                writeln!(
                    f,
                    "    page {page} line {line}: {kept} of {stores} stores (floor {floor})"
                )?;
            }
        }
        write!(f, "  after {}", self.stats)
    }
}

impl std::error::Error for Failure {}
