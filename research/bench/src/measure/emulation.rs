//! The time that an emulated latency comes to: a word is stored, its line flushed and fenced, again and again.
//!
//! Names of media say the nominal latency. The effective one is what the same work takes longer than in plain
//! memory: the instruction, the delay, how long the clock is read, and the miss of a store to a line that the flush
//! has dropped. That depends on whether the next store is to the same line, as in a shift, or to one of
//! [many](LINES).

use std::time::Instant;

use anyhow::{Result, ensure};
use everleaf_pmem::{Medium, Page};
use serde::Deserialize;
use tempfile::TempDir;

use super::kind::{Context, Figures, Measure};
use crate::medium::MediumName;
use crate::memory::{self, Counting, OnMedium, Size};

const SLOTS: u32 = 1024;
const LINES_OF_PAGE: usize = SLOTS as usize / 4;
/// So many lines are visited before one is again: 64 MiB, which no second cache holds.
const LINES: usize = 1 << 20;

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Emulation {
    medium: MediumName,
    /// Stores, each of which is flushed and fenced.
    ops: u64,
}

/// Nanoseconds of a store that is flushed and fenced: to the same line each time, and to others.
struct Timed {
    ops: u64,
}

fn flushed<M: Medium>(medium: &M, page: Page<'_>, line: usize, value: u64) {
    let word = page.body(8 * line);
    medium.store(word, value);
    medium.flush(page, word.line());
    medium.fence();
}

impl OnMedium for Timed {
    type Made = [f64; 2];

    fn on<M: Counting + 'static>(self, medium: M, _dir: Option<TempDir>) -> Result<[f64; 2]> {
        let each = |start: Instant| start.elapsed().as_nanos() as f64 / self.ops as f64;
        for no in 1..medium.limit() {
            let page = medium.page(no)?;
            (0..LINES_OF_PAGE).for_each(|line| medium.store(page.body(8 * line), 0));
        }
        let page = medium.page(1)?;
        let start = Instant::now();
        (0..self.ops).for_each(|i| flushed(&medium, page, 0, i));
        let same = each(start);
        let start = Instant::now();
        for i in 0..self.ops {
            // An odd step visits all lines, far from one another.
            let line = (i as usize).wrapping_mul(0x9_E377) % LINES;
            let page = medium.page((1 + line / LINES_OF_PAGE) as u32)?;
            flushed(&medium, page, line % LINES_OF_PAGE, i);
        }
        Ok([same, each(start)])
    }
}

impl Measure for Emulation {
    fn check(&self) -> Result<()> {
        ensure!(self.ops > 0, "nothing to do");
        ensure!(self.medium != MediumName::Counted, "a medium that counts has no latency");
        ensure!(!matches!(self.medium, MediumName::File(_)), "a file flushes in another thread");
        Ok(())
    }

    fn run(&self, context: &Context, _round: u32) -> Result<Figures> {
        let pages = (1 + LINES / LINES_OF_PAGE) as u32;
        let dax = context.dax.as_deref();
        let size = Size { slots: SLOTS, pages, scratch: &context.scratch, dax };
        let [same, others] = memory::make(self.medium, &size, Timed { ops: self.ops })?;
        let bare = memory::make(MediumName::Dram, &size, Timed { ops: self.ops })?;
        Ok(vec![
            ("same_line_ns".into(), same - bare[0]),
            ("other_line_ns".into(), others - bare[1]),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cell, of, run};

    #[test]
    fn what_is_nominal_is_the_least_that_a_line_takes() {
        for medium in ["latency:3000", "dax:best:3000"] {
            let figures = run("emulation", &format!("medium = '{medium}'\nops = 200"));
            for metric in ["same_line_ns", "other_line_ns"] {
                assert!(of(&figures, metric) > 2500.0, "{medium}: {figures:?}");
            }
        }
        for medium in ["counted", "file"] {
            let cell = cell(&format!("medium = '{medium}'\nops = 1"));
            assert!(crate::measure::check("emulation", &cell).is_err(), "{medium}");
        }
    }
}
