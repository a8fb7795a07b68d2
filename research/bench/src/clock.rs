//! Times of single operations: percentiles, and both means.

use std::hint::black_box;
use std::time::Instant;

use hdrhistogram::Histogram;

use crate::measure::kind::Figures;

/// The times of many operations.
pub struct Times {
    histogram: Histogram<u64>,
    /// Sum of the logarithms of nanoseconds: the geometric mean is what the Circ-Tree and Sentinel
    /// Array papers quote (Circ-Tree §6.1).
    logarithms: f64,
    sum: u64,
}

impl Default for Times {
    fn default() -> Self {
        let histogram = Histogram::new(3).expect("3 digits are allowed");
        Self { histogram, logarithms: 0.0, sum: 0 }
    }
}

impl Times {
    /// Adds an operation of so many nanoseconds.
    pub fn add(&mut self, ns: u64) {
        self.histogram.record(ns).expect("it resizes");
        self.logarithms += (ns.max(1) as f64).ln();
        self.sum += ns;
    }

    /// Runs `op` for each item and adds its time. An operation begins when the one before ends, so
    /// what it takes to read the clock and to note a time is in each: [`overhead_ns`].
    ///
    /// # Errors
    /// The first error of `op`; the times until then are there.
    pub fn of<T>(
        &mut self,
        items: impl Iterator<Item = T>,
        mut op: impl FnMut(T) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut before = Instant::now();
        for item in items {
            op(item)?;
            let now = Instant::now();
            self.add((now - before).as_nanos() as u64);
            before = now;
        }
        Ok(())
    }

    /// Adds the times of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("it resizes");
        self.logarithms += other.logarithms;
        self.sum += other.sum;
    }

    /// The number of operations.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The time of all operations together, in nanoseconds.
    pub fn sum_ns(&self) -> u64 {
        self.sum
    }

    /// The time that this share of all operations took at most, in nanoseconds, within a thousandth.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.histogram.value_at_quantile(quantile)
    }

    /// Arithmetic and geometric mean, percentiles and maximum of a phase.
    pub fn figures(&self, phase: &str) -> Figures {
        let count = self.count().max(1) as f64;
        let at = |quantile| self.quantile_ns(quantile) as f64;
        let figures = [
            ("mean", self.sum as f64 / count),
            ("geo", (self.logarithms / count).exp()),
            ("p50", at(0.5)),
            ("p99", at(0.99)),
            ("p999", at(0.999)),
            ("max", self.histogram.max() as f64),
        ];
        figures.into_iter().map(|(name, ns)| (format!("{phase}_{name}_ns"), ns)).collect()
    }
}

/// Nanoseconds in each time that [`Times::of`] takes, beside those of the operation itself.
pub fn overhead_ns() -> f64 {
    let mut times = Times::default();
    let nothing = |i: u32| {
        black_box(i);
        Ok(())
    };
    times.of(0..200_000, nothing).expect("nothing fails");
    times.sum as f64 / times.count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_means_and_the_percentiles_are_those_of_the_times() {
        let (mut one, mut two) = (Times::default(), Times::default());
        (1..=999).for_each(|_| one.add(10));
        two.add(1_000_000);
        one.merge(&two);
        let figures = one.figures("get");
        let of = |name: &str| {
            let found = figures.iter().find(|(own, _)| own == name);
            found.map(|(_, value)| *value).expect("it is there")
        };
        assert_eq!(one.count(), 1000);
        assert!((of("get_mean_ns") - 1009.99).abs() < 1e-6);
        // 10^(1 + 5/1000)
        assert!((of("get_geo_ns") - 10f64.powf(1.005)).abs() < 1e-6);
        assert_eq!((of("get_p50_ns"), of("get_p99_ns"), of("get_p999_ns")), (10.0, 10.0, 10.0));
        assert!((of("get_max_ns") / 1e6 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn an_error_ends_it() {
        let mut times = Times::default();
        let refuse = |i| if i < 3 { Ok(()) } else { anyhow::bail!("full") };
        assert!(times.of(0..9, refuse).is_err());
        assert_eq!(times.count(), 3);
    }
}
