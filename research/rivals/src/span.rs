//! The bounds of a range, as the lowest and the greatest key that it has.

use std::ops::Bound;

/// A range that is being collected.
pub(crate) struct Span {
    /// The lowest key.
    pub low: u64,
    /// The greatest key.
    pub high: u64,
    /// Whether keys descend.
    pub back: bool,
    /// How many entries are wanted.
    pub limit: usize,
    /// Those that were found.
    pub found: Vec<(u64, u64)>,
}

impl Span {
    /// `None` if no key lies between the bounds, or no entry is wanted.
    pub fn of(from: Bound<u64>, to: Bound<u64>, limit: usize, back: bool) -> Option<Self> {
        let low = match from {
            Bound::Unbounded => 0,
            Bound::Included(key) => key,
            Bound::Excluded(key) => key.checked_add(1)?,
        };
        let high = match to {
            Bound::Unbounded => u64::MAX,
            Bound::Included(key) => key,
            Bound::Excluded(key) => key.checked_sub(1)?,
        };
        let found = Vec::new();
        (low <= high && limit > 0).then_some(Self { low, high, back, limit, found })
    }

    /// Whether there are as many entries as wanted.
    pub fn is_full(&self) -> bool {
        self.found.len() >= self.limit
    }

    /// Whether a key lies between the bounds.
    pub fn contains(&self, key: u64) -> bool {
        self.low <= key && key <= self.high
    }
}
