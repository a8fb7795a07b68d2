//! Medians over rounds. A time that was taken once is not quoted.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::metric;
use crate::rows::Row;

/// The fewest rounds of which a time is quoted.
pub const MIN_ROUNDS: usize = 2;

/// Rounds of a run have numbers of as many: those of the first from 1, of the second from 101.
pub const RUN: u32 = 100;

/// How often rounds are drawn anew for an interval.
const RESAMPLES: usize = 2000;

/// A figure that may be quoted: the median over rounds, with its range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quote {
    /// The median.
    pub median: f64,
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// The number of rounds.
    pub rounds: usize,
}

/// The figures of rounds: those of one cell and metric, by round.
pub type Rounds = BTreeMap<u32, f64>;

/// The median; the mean of the two in the middle of an even number.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// The figures of a metric, by round, of the cells that fit. Of several cells those of the last.
pub fn rounds<'a>(
    rows: impl IntoIterator<Item = &'a Row>,
    metric: &str,
    fits: impl Fn(&Row) -> bool,
) -> Rounds {
    let of = rows.into_iter().filter(|row| row.metric == metric && fits(row));
    of.map(|row| (row.round, row.value)).collect()
}

/// The figures of one cell over another's, within each round, so that what slows both down for a while cancels
/// out.
pub fn paired(of: &Rounds, over: &Rounds) -> Rounds {
    of.iter().filter_map(|(round, a)| over.get(round).map(|b| (*round, a / b))).collect()
}

/// How many runs the rounds are of.
pub fn runs(rounds: &Rounds) -> usize {
    by_run(rounds).len()
}

fn by_run(rounds: &Rounds) -> Vec<Vec<f64>> {
    let mut runs: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (round, v) in rounds {
        runs.entry(round.saturating_sub(1) / RUN).or_default().push(*v);
    }
    runs.into_values().collect()
}

/// The interval in which the median lies with 95 %, by the bootstrap: runs are drawn with replacement, and rounds
/// within each, 2,000 times. Of few rounds it reaches about from the least to the greatest, and one run says
/// nothing of how much runs differ.
pub fn interval(rounds: &Rounds) -> [f64; 2] {
    let runs = by_run(rounds);
    let first = rounds.values().next().copied().unwrap_or(f64::NAN);
    if rounds.values().all(|v| *v == first) {
        return [first; 2];
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let drawn = (0..runs.len()).flat_map(|_| {
                let run = &runs[random.random_range(0..runs.len())];
                let one = |_| run[random.random_range(0..run.len())];
                run.iter().map(one).collect::<Vec<f64>>()
            });
            median(&drawn.collect::<Vec<f64>>())
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    [medians[RESAMPLES / 40], medians[RESAMPLES - 1 - RESAMPLES / 40]]
}

/// The figure of a metric's rounds that may be quoted: none of a time that was taken once.
pub fn quote(metric: &str, rounds: &Rounds) -> Option<Quote> {
    let figures: Vec<f64> = rounds.values().copied().collect();
    if figures.is_empty() || (metric::is_timed(metric) && figures.len() < MIN_ROUNDS) {
        return None;
    }
    Some(Quote {
        median: median(&figures),
        low: figures.iter().copied().fold(f64::INFINITY, f64::min),
        high: figures.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        rounds: figures.len(),
    })
}

/// The ratio of one cell's figures over another's that may be quoted, see [`paired`].
pub fn ratio(metric: &str, of: &Rounds, over: &Rounds) -> Option<Quote> {
    quote(metric, &paired(of, over))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(figures: &[f64]) -> Rounds {
        (1..).zip(figures.iter().copied()).collect()
    }

    #[test]
    fn a_time_that_was_taken_once_is_not_quoted_but_a_count_is() {
        assert_eq!(quote("insert_mean_ns", &of(&[5.0])), None);
        assert_eq!(quote("insert_flushed_lines", &of(&[5.0])).map(|q| q.median), Some(5.0));
        assert_eq!(quote("insert_flushed_lines", &of(&[])), None);
        let quoted = quote("insert_mean_ns", &of(&[9.0, 5.0, 6.0])).expect("three rounds");
        assert_eq!((quoted.median, quoted.low, quoted.high, quoted.rounds), (6.0, 5.0, 9.0, 3));
        assert_eq!(quote("insert_mean_ns", &of(&[9.0, 5.0])).map(|q| q.median), Some(7.0));
    }

    #[test]
    fn intervals_are_wider_where_runs_differ() {
        assert_eq!(interval(&of(&[2.0, 2.0, 2.0])), [2.0, 2.0]);
        let near = [1.00, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06];
        let [low, high] = interval(&of(&near));
        assert!((1.0..1.03).contains(&low) && (1.03..=1.06).contains(&high), "{low} {high}");
        assert_eq!(interval(&of(&near)), [low, high], "the same each time");
        let mut two = of(&near);
        two.extend((RUN + 1..).zip(near.map(|v| v + 0.2)));
        assert_eq!(runs(&two), 2);
        let [low, high] = interval(&two);
        assert!(low < 1.04 && high > 1.22, "each run may be the one that counts: {low} {high}");
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let ratio = ratio("get_kops", &of(&[10.0, 40.0, 90.0]), &of(&[5.0, 20.0, 30.0]));
        assert_eq!(ratio.map(|q| (q.median, q.rounds)), Some((2.0, 3)));
        let other = Rounds::from([(7, 1.0)]);
        assert_eq!(super::ratio("get_kops", &of(&[1.0, 2.0]), &other), None, "no round in common");
    }
}
