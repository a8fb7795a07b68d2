//! Metrics: a name says what was measured, of which phase, and ends in the unit.
//!
//! `insert_p99_ns` is the 99th percentile of the phase *insert* in nanoseconds. Where the unit is one
//! of time or of a rate, or bytes depend on what runs in the background, the figure is noisy and only
//! medians over rounds are quoted; all others are counts, and exact.

use anyhow::{Result, bail};

/// The unit at the end of a metric's name, and what it means.
const UNITS: [(&str, &str, bool); 12] = [
    ("ns", "ns", true),
    ("us", "µs", true),
    ("ms", "ms", true),
    ("mops", "Mop/s", true),
    ("kops", "kop/s", true),
    ("mib_s", "MiB/s", true),
    ("bytes", "B", false),
    ("mib", "MiB", false),
    ("lines", "lines", false),
    ("fences", "fences", false),
    ("count", "", false),
    ("share", "", false),
];

fn entry(metric: &str) -> Result<&'static (&'static str, &'static str, bool)> {
    let ends = |unit: &str| metric == unit || metric.ends_with(&format!("_{unit}"));
    match UNITS.iter().find(|(name, ..)| ends(name)) {
        Some(entry) => Ok(entry),
        None => bail!("the metric {metric:?} ends in none of the units there are"),
    }
}

/// The unit of a metric, as a reader sees it.
///
/// # Errors
/// The name ends in no unit.
pub fn unit(metric: &str) -> Result<&'static str> {
    Ok(entry(metric)?.1)
}

/// Metrics that depend on when something else ran: bytes on disk, in a journal, in memory; transactions that were run
/// again, writes that a crash took.
const NOISY: [&str; 13] = [
    "size_",
    "journal",
    "replay",
    "peak",
    "resident",
    "written_share",
    "calls_share",
    "disk_share",
    "beside_share",
    "again_share",
    "late_share",
    "checkpoint",
    "lost_share",
];

/// A part of the name of times that no clock has measured: they follow from counts, and are as exact.
const MODELLED: &str = "modelled";

/// Whether a metric is noisy: a time that was measured, a rate, or bytes that depend on times.
pub fn is_timed(metric: &str) -> bool {
    if metric.contains(MODELLED) {
        return false;
    }
    entry(metric).is_ok_and(|entry| entry.2) || NOISY.iter().any(|part| metric.contains(part))
}

/// Whether more of it is better: rates.
pub fn more_is_better(metric: &str) -> bool {
    entry(metric).is_ok_and(|(_, unit, _)| unit.ends_with("/s"))
}

/// A part of a name as it is read: `p999` is the percentile 99.9.
fn word(part: &str) -> String {
    match part {
        "p999" => "p99.9".into(),
        "p9999" => "p99.99".into(),
        part => part.into(),
    }
}

/// A metric in words: `insert p99`, without its unit.
pub fn words(metric: &str) -> String {
    let unit = entry(metric).map_or("", |entry| entry.0);
    let rest = metric.strip_suffix(unit).unwrap_or(metric).trim_end_matches('_');
    let name = if rest.is_empty() { unit } else { rest };
    name.split('_').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_in_its_unit() {
        assert_eq!(unit("insert_p99_ns").expect("a unit"), "ns");
        assert_eq!(unit("kops").expect("a unit"), "kop/s");
        assert_eq!(words("insert_geo_ns"), "insert geo");
        assert_eq!(words("latency_p9999_us"), "latency p99.99");
        assert_eq!((words("kops"), words("mib_s")), ("kops".into(), "mib s".into()));
        assert!(unit("turns").is_err() && unit("").is_err());
        assert!(is_timed("open_ms") && !is_timed("insert_flushed_lines"));
        assert!(is_timed("size_closed_mib") && !is_timed("pool_mib"));
        assert!(!is_timed("get_modelled_ns") && is_timed("get_mean_ns"));
        assert!(is_timed("again_share") && !is_timed("search_share"));
        assert!(is_timed("late_share") && is_timed("checkpoint_pages_count"));
        assert!(more_is_better("get_kops") && !more_is_better("get_mean_ns"));
    }
}
