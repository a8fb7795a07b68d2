//! Medians over rounds. A time that was taken once is not quoted.

use std::collections::BTreeMap;

use crate::metric;
use crate::rows::Row;

/// The fewest rounds of which a time is quoted.
pub const MIN_ROUNDS: usize = 2;

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

/// What may be quoted of a metric's rounds: nothing of a time that was taken once.
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

/// What may be quoted of one cell's figures over another's: the ratio is taken within each round, so
/// that what slows both down for a while cancels out.
pub fn ratio(metric: &str, of: &Rounds, over: &Rounds) -> Option<Quote> {
    let paired = of.iter().filter_map(|(round, a)| over.get(round).map(|b| (*round, a / b)));
    quote(metric, &paired.collect())
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
    fn ratios_are_taken_within_rounds() {
        let ratio = ratio("get_kops", &of(&[10.0, 40.0, 90.0]), &of(&[5.0, 20.0, 30.0]));
        assert_eq!(ratio.map(|q| (q.median, q.rounds)), Some((2.0, 3)));
        let other = Rounds::from([(7, 1.0)]);
        assert_eq!(super::ratio("get_kops", &of(&[1.0, 2.0]), &other), None, "no round in common");
    }
}
