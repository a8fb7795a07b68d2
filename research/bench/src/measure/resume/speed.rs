//! When full speed is reached, from the times of equal portions of work.

use std::time::Duration;

/// The share of the steady rate that is full speed.
const FULL: f64 = 0.9;

/// How speed came back after an open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// When the first portion began that was done at full speed, from the start of the open on.
    pub full: Duration,
    /// The time of a portion in the end: the median of the second half of all.
    pub steady: Duration,
    /// The time of the first portion.
    pub first: Duration,
}

/// Looks at portions, the first of which began at `begin`, and which ended at `ends`; both are counted from the
/// start of the open. Full speed is a rate of 90 % of that of [`Speed::steady`]. `None` without portions.
/// O(n log(n)).
pub fn speed(begin: Duration, ends: &[Duration]) -> Option<Speed> {
    let begins = || std::iter::once(begin).chain(ends.iter().copied());
    let took: Vec<Duration> = begins().zip(ends).map(|(from, to)| *to - from).collect();
    let mut late = took[took.len() / 2..].to_vec();
    late.sort();
    // The lower one of two in the middle, so that a portion took no longer.
    let steady = *late.get(late.len().checked_sub(1)? / 2)?;
    let (full, _) = begins().zip(&took).find(|(_, took)| took.mul_f64(FULL) <= steady)?;
    Some(Speed { full, steady, first: took[0] })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The speed of portions that took so many milliseconds, behind an open of 100 ms.
    fn of(took: &[u64]) -> Option<Speed> {
        let mut end = 100;
        let ends: Vec<Duration> = took
            .iter()
            .map(|ms| {
                end += ms;
                Duration::from_millis(end)
            })
            .collect();
        speed(Duration::from_millis(100), &ends)
    }

    fn ms(full: u64, steady: u64, first: u64) -> Option<Speed> {
        let [full, steady, first] = [full, steady, first].map(Duration::from_millis);
        Some(Speed { full, steady, first })
    }

    #[test]
    fn full_speed_begins_with_the_first_portion_that_is_fast_enough() {
        assert_eq!(of(&[40, 30, 20, 10, 10, 10, 10, 10]), ms(190, 10, 40));
        assert_eq!(of(&[10, 10, 10, 10]), ms(100, 10, 10), "at once");
        assert_eq!(of(&[20, 11, 10, 10]), ms(120, 10, 20), "11 ms are a rate of 91 %");
        assert_eq!(of(&[20, 12, 10, 10]), ms(132, 10, 20), "12 ms are one of 83 %");
        assert_eq!(of(&[30, 5, 30, 10, 10, 10, 10, 10]), ms(130, 10, 30), "it may be lost again");
    }

    #[test]
    fn the_median_of_the_second_half_is_what_is_steady() {
        assert_eq!(of(&[90, 90, 90, 90, 10, 10, 80, 10]), ms(460, 10, 90), "one is disturbed");
        assert_eq!(of(&[10, 20]), ms(100, 20, 10), "slower in the end");
        assert_eq!(of(&[7]), ms(100, 7, 7));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[0, 0, 0]), ms(100, 0, 0), "below what a clock tells");
    }
}
