//! The times of a phase: by threads, by call or by block of calls.

use std::time::Instant;

use anyhow::Result;

use crate::clock::Times;
use crate::measure::kind::Figures;

/// Calls between two looks at the clock where calls are not timed one by one.
pub const BLOCK: usize = 64;

/// The times of one thread in a phase.
pub struct ThreadTimes {
    /// Its operations; more than calls, where a call is a batch.
    pub ops: u64,
    /// The time that they took together.
    ns: u64,
    /// The time of each call, if calls were timed one by one.
    each: Option<Times>,
}

impl ThreadTimes {
    /// So many operations in these calls.
    pub fn new(times: Times, ops: u64) -> Self {
        Self { ops, ns: times.sum_ns(), each: Some(times) }
    }

    /// Makes what a block of `len` calls needs, then times them together, until there are no more.
    ///
    /// # Errors
    /// The first one of `op`.
    pub fn of_blocks<T: Default>(
        len: usize,
        items: impl Iterator<Item = u64>,
        prepare: impl Fn(&mut T, u64),
        op: impl Fn(&T) -> Result<()>,
    ) -> Result<Self> {
        let mut items = items.peekable();
        let mut block: Vec<T> = (0..len).map(|_| T::default()).collect();
        let (mut ns, mut ops) = (0, 0);
        while items.peek().is_some() {
            let mut filled = 0;
            for (ready, i) in block.iter_mut().zip(&mut items) {
                prepare(ready, i);
                filled += 1;
            }
            let start = Instant::now();
            block[..filled].iter().try_for_each(&op)?;
            ns += start.elapsed().as_nanos() as u64;
            ops += filled as u64;
        }
        Ok(Self { ops, ns, each: None })
    }
}

/// Nanoseconds of one operation of a phase, on the thread that does it.
pub fn mean_ns(parts: &[ThreadTimes]) -> f64 {
    let sum = |of: fn(&ThreadTimes) -> u64| parts.iter().map(of).sum::<u64>() as f64;
    sum(|part| part.ns) / sum(|part| part.ops).max(1.0)
}

/// Rate of a phase, and percentiles of its calls if they were timed one by one.
pub fn figures(phase: &str, parts: &[ThreadTimes]) -> Figures {
    let rate = |part: &ThreadTimes| part.ops as f64 / part.ns.max(1) as f64 * 1e6;
    let mut out = vec![(format!("{phase}_kops"), parts.iter().map(rate).sum())];
    let mut all = Times::default();
    parts.iter().filter_map(|part| part.each.as_ref()).for_each(|times| all.merge(times));
    if all.count() == 0 {
        return out;
    }
    for (name, ns) in all.figures(phase) {
        let name = name.trim_end_matches("_ns");
        if ["p50", "p99", "p999", "max"].iter().any(|stat| name.ends_with(stat)) {
            out.push((format!("{name}_us"), ns / 1e3));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn each_item_is_prepared_and_done_once_in_order() {
        for n in [0, 1, 63, 64, 65, 1000] {
            let done = RefCell::new(Vec::new());
            let op = |item: &u64| {
                done.borrow_mut().push(*item);
                Ok(())
            };
            let part = ThreadTimes::of_blocks(BLOCK, 0..n, |slot, i| *slot = 7 * i, op);
            let part = part.expect("no fault");
            assert_eq!(part.ops, n);
            assert_eq!(done.into_inner(), (0..n).map(|i| 7 * i).collect::<Vec<_>>());
            assert_eq!(figures("get", &[part]).len(), 1, "a rate, no percentiles");
        }
        let refuse = |item: &u64| if *item < 70 { Ok(()) } else { anyhow::bail!("full") };
        assert!(ThreadTimes::of_blocks(BLOCK, 0..90, |slot, i| *slot = i, refuse).is_err());
    }
}
