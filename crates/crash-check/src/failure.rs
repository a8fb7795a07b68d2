//! The answer of an exploration: how much it looked at, or the first image that does not hold.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, OnceLock};

use everleaf_pmem::HEAD_WORDS;
use everleaf_pmem::sim::Event;

use crate::trace::LINE_WORDS;

/// How much was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Images that were recovered and checked.
    pub images: u64,
    /// Legal images that were skipped because the same bytes had been checked since the last mark.
    pub deduplicated: u64,
    /// Of `images`, those of a crash inside recovery.
    pub nested: u64,
    /// Crash points, at all depths.
    pub crash_points: u64,
    /// Of `crash_points`, those with at most 2^16 legal images.
    pub small_points: u64,
    /// Of `crash_points`, those whose legal images were all built.
    pub exhaustive_points: u64,
}

/// Explorations in which nothing was refused add their figures to the file that this names, a line
/// each, so that those of many test programs can be added up.
const TALLY: &str = "EVERLEAF_TALLY";

impl Coverage {
    /// Whether all legal images of all crash points were looked at, to the chosen depth.
    pub fn is_exhaustive(&self) -> bool {
        self.exhaustive_points == self.crash_points
    }

    /// Adds a line to the file that the environment names, if it names one.
    pub(crate) fn tally(&self) {
        static FILE: OnceLock<Option<Mutex<File>>> = OnceLock::new();
        let file = FILE.get_or_init(|| {
            let path = std::env::var_os(TALLY)?;
            let file = File::options().append(true).create(true).open(&path);
            Some(Mutex::new(file.unwrap_or_else(|e| panic!("{TALLY}={path:?}: {e}"))))
        });
        if let Some(file) = file {
            // One write, so that lines of several programs do not mix.
            let line = format!("{self}\n");
            let mut file = file.lock().expect("nothing panics with this lock");
            file.write_all(line.as_bytes()).unwrap_or_else(|e| eprintln!("{TALLY}: {e}"));
        }
    }
}

impl std::ops::AddAssign for Coverage {
    fn add_assign(&mut self, other: Coverage) {
        self.images += other.images;
        self.deduplicated += other.deduplicated;
        self.nested += other.nested;
        self.crash_points += other.crash_points;
        self.small_points += other.small_points;
        self.exhaustive_points += other.exhaustive_points;
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "images: {}, in recovery: {}, crash points: {}, small: {}, exhaustive: {}, duplicates: {}",
            self.images,
            self.nested,
            self.crash_points,
            self.small_points,
            self.exhaustive_points,
            self.deduplicated
        )
    }
}

/// How many of the stores to one line reached memory in a crash image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Line of the medium.
    pub line: u32,
    /// Stores to the line since the record's start that are in the image.
    pub kept: u32,
    /// The fewest that are legal: what has been flushed and fenced.
    pub floor: u32,
    /// All stores to the line before the power cut.
    pub stores: u32,
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
    /// The stores that are not in the image, in order: word of the medium, value. Another store to
    /// the same word may hide that one is missing.
    pub lost: Vec<(u32, u64)>,
}

impl Crash {
    /// The crash before event `at` that leaves what `choices` say.
    pub(crate) fn new(events: &[Event], at: usize, choices: Vec<Choice>) -> Self {
        debug_assert!(
            choices.iter().all(|c| c.floor <= c.kept && c.kept <= c.stores),
            "a legal image keeps at least the floor of each line"
        );
        let mut seen: HashMap<u32, u32> = HashMap::new();
        let kept: HashMap<u32, u32> = choices.iter().map(|c| (c.line, c.kept)).collect();
        let mut lost = Vec::new();
        for event in &events[..at] {
            let &Event::Store { word, value } = event else { continue };
            let line = word / LINE_WORDS as u32;
            let stores = seen.entry(line).or_default();
            *stores += 1;
            if kept.get(&line).is_some_and(|kept| *stores > *kept) {
                lost.push((word, value));
            }
        }
        Self { event: at, events: events.len(), choices, lost }
    }

    /// The words that a line lacks, named as handles of pages name them.
    fn lost_of(&self, line: u32, lines_per_page: u32) -> String {
        const SHOWN: usize = 4;
        let words = LINE_WORDS as u32;
        let lost: Vec<_> = self.lost.iter().filter(|(word, _)| word / words == line).collect();
        let mut text = String::new();
        for (word, value) in lost.iter().take(SHOWN) {
            let index = word % (lines_per_page * words);
            let (part, index) = match index.checked_sub(HEAD_WORDS as u32) {
                Some(body) => ("body", body),
                None => ("head", index),
            };
            let lead = if text.is_empty() { "; lost: " } else { ", " };
            text += &format!("{lead}{part} word {index} := {value}");
        }
        if lost.len() > SHOWN { text + ", …" } else { text }
    }
}

/// An image that recovery or the checker refused. [`Explorer::replay`](crate::Explorer::replay)
/// builds it again.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The explorer's seed.
    pub seed: u64,
    /// The message of recovery or of the checker.
    pub message: String,
    /// The crash of the workload, then that of its recovery, and so on.
    pub crashes: Vec<Crash>,
    /// Operations that had answered at the workload's crash.
    pub responded: Vec<u64>,
    /// Operations that had begun and not answered.
    pub in_flight: Vec<u64>,
    /// Lines of a page, to print lines by page.
    pub lines_per_page: u32,
    /// How much had been looked at before.
    pub stats: Coverage,
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
                let lost = crash.lost_of(choice.line, self.lines_per_page);
                writeln!(
                    f,
                    "    page {page} line {line}: {kept} of {stores} stores (floor {floor}){lost}"
                )?;
            }
        }
        write!(f, "  after {}", self.stats)
    }
}

impl std::error::Error for Failure {}
