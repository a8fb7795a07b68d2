//! When operations arrive.

use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The moments of a Poisson process of `rate` arrivals a second, in nanoseconds from its start: those of the first
/// so many seconds, but `most` of them at most, and the first one in any case: on a busy machine the rate may be so
/// low that none would come. O(1) each. They are the same for the same seed.
///
/// The gaps are exponential, so an arrival says nothing of when the next one comes, as with many users who do
/// not know of each other.
pub fn poisson(seed: u64, rate: f64, seconds: f64, most: u64) -> Vec<u64> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut at = 0.0;
    let gaps = Exp1.sample_iter(&mut random).map(|gap: f64| gap / rate);
    let moments = gaps.map(|gap| {
        at += gap;
        at
    });
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let arrive = moments.enumerate().take_while(|(n, at)| *n == 0 || *at < seconds);
    arrive.take(most).map(|(_, at)| (at * 1e9) as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: u64 = 1_000_000;

    #[test]
    fn gaps_have_the_mean_and_the_deviation_of_a_poisson_process() {
        let moments = poisson(7, 1000.0, 200.0, MANY);
        // 200,000 in the mean; the standard deviation is 447.
        assert!(moments.len().abs_diff(200_000) < 2000, "{}", moments.len());
        let gaps: Vec<f64> = moments.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.01, "a mean of {mean} ns for a millisecond");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "not exponential: {variance}");
    }

    #[test]
    fn a_seed_decides_and_both_bounds_hold() {
        let moments = poisson(1, 5000.0, 1.0, MANY);
        assert_eq!(moments, poisson(1, 5000.0, 1.0, MANY));
        assert_ne!(moments, poisson(2, 5000.0, 1.0, MANY));
        assert!(moments.is_sorted() && moments.iter().all(|at| *at < 1_000_000_000));
        assert_eq!(poisson(1, 5000.0, 1.0, 100), moments[..100]);
        assert!(poisson(1, 5000.0, 1.0, 0).is_empty());
        let late = poisson(1, 0.5, 1e-3, MANY);
        assert!(late.len() == 1 && late[0] > 1_000_000, "{late:?}");
    }
}
