//! How often each line was written.

use std::collections::HashMap;

/// The writes of one line, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Writes {
    /// Those that a flush asked for.
    pub flushed: u64,
    /// Those of evictions.
    pub evicted: u64,
}

impl Writes {
    /// All of them.
    pub fn all(self) -> u64 {
        self.flushed + self.evicted
    }
}

/// How the writes spread over the lines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Lines that were written.
    pub lines: u64,
    /// Writes of the line that was written most.
    pub hottest: u64,
    /// Writes of the hottest hundredth of the written lines, a line at least, in parts of all writes.
    pub hundredth: f64,
}

/// The writes of each line, by its number.
#[derive(Debug, Default)]
pub struct Wear {
    lines: HashMap<u64, Writes>,
    useless: u64,
}

impl Wear {
    /// A flush has written the line.
    pub fn flush(&mut self, line: u64) {
        self.lines.entry(line).or_default().flushed += 1;
    }

    /// A flush has found nothing to write.
    pub fn flush_of_clean(&mut self) {
        self.useless += 1;
    }

    /// An eviction has written the line.
    pub fn evict(&mut self, line: u64) {
        self.lines.entry(line).or_default().evicted += 1;
    }

    /// Flushes that found nothing to write.
    pub fn useless(&self) -> u64 {
        self.useless
    }

    /// The writes of all lines. O(lines).
    pub fn writes(&self) -> Writes {
        self.lines.values().fold(Writes::default(), |sum, line| Writes {
            flushed: sum.flushed + line.flushed,
            evicted: sum.evicted + line.evicted,
        })
    }

    /// How the writes spread over the lines; `None` if nothing was written. O(lines × log lines).
    pub fn spread(&self) -> Option<Spread> {
        let mut counts: Vec<u64> = self.lines.values().map(|line| line.all()).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let hottest = *counts.first()?;
        let hot: u64 = counts[..counts.len().div_ceil(100)].iter().sum();
        let all: u64 = counts.iter().sum();
        Some(Spread { lines: counts.len() as u64, hottest, hundredth: hot as f64 / all as f64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_summed_by_what_caused_them() {
        let mut wear = Wear::default();
        assert_eq!((wear.writes(), wear.spread()), (Writes::default(), None));
        wear.flush(0);
        wear.flush(u64::MAX);
        wear.evict(0);
        wear.flush_of_clean();
        assert_eq!((wear.writes(), wear.useless()), (Writes { flushed: 2, evicted: 1 }, 1));
    }

    #[test]
    fn the_hottest_hundredth_is_of_the_lines_that_were_written() {
        let mut wear = Wear::default();
        (0..200).for_each(|line| wear.flush(line));
        let even = wear.spread().expect("writes");
        assert_eq!((even.lines, even.hottest, even.hundredth), (200, 1, 0.01));
        (0..99).for_each(|_| wear.evict(7));
        (0..49).for_each(|_| wear.flush(8));
        let skewed = wear.spread().expect("writes");
        assert_eq!((skewed.lines, skewed.hottest), (200, 100));
        assert_eq!(skewed.hundredth, 150.0 / 348.0);
    }

    #[test]
    fn of_few_lines_the_hottest_hundredth_is_one() {
        let mut wear = Wear::default();
        (0..3).for_each(|_| wear.flush(1));
        wear.flush(2);
        assert_eq!(wear.spread().expect("writes").hundredth, 0.75);
    }
}
