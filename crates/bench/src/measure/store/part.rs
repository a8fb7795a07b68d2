//! What a phase has measured.

use crate::clock::Times;
use crate::measure::kind::Figures;

/// What one thread did in a phase.
pub struct ThreadTimes {
    /// The times of its calls.
    pub times: Times,
    /// Its operations; more than calls, where a call is a batch.
    pub ops: u64,
}

/// Rate and percentiles of a phase.
pub fn figures(phase: &str, parts: &[ThreadTimes]) -> Figures {
    let rate = |part: &ThreadTimes| part.ops as f64 / part.times.sum_ns().max(1) as f64 * 1e6;
    let mut out = vec![(format!("{phase}_kops"), parts.iter().map(rate).sum())];
    let mut all = Times::default();
    parts.iter().for_each(|part| all.merge(&part.times));
    for (name, ns) in all.figures(phase) {
        let name = name.trim_end_matches("_ns");
        if ["p50", "p99", "p999", "max"].iter().any(|stat| name.ends_with(stat)) {
            out.push((format!("{name}_us"), ns / 1e3));
        }
    }
    out
}
