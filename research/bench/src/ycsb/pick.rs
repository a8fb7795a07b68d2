//! How operations pick items: YCSB's generators.
//!
//! These are YCSB's own and not the textbook's, and are kept:
//!
//! - *zipfian* is the approximation of Gray et al. (*Quickly Generating Billion-Record Synthetic
//!   Databases*, SIGMOD 1994): exact for the first two items, off by some percent for the next ones;
//! - *scrambled* draws from 10¹⁰ + 1 items whatever the number of items is, hashes, and takes the
//!   remainder: its hottest item gets 1/26.5 of all picks, and many cold ones share an item;
//! - *latest* goes on with the exponent's correction (`eta`) of the number of items that it began
//!   with: when much is inserted, items of middle age are picked less often than they should be.

use rand::{Rng, RngExt};

/// YCSB's exponent.
const THETA: f64 = 0.99;

/// Items that *scrambled* draws from; the last one counts.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;

/// The sum of `r^-THETA` over all of them but the last, as YCSB has it.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// The sum of `r^-THETA` for the ranks after `from` up to `to`.
fn zeta(from: u64, to: u64) -> f64 {
    (from..to).map(|rank| 1.0 / ((rank + 1) as f64).powf(THETA)).sum()
}

/// Draws ranks from 0 on, by Gray's algorithm.
#[derive(Debug, Clone)]
pub struct Zipfian {
    /// The number of items that it began with.
    items: u64,
    /// The number of items that `zeta` is the sum for.
    counted: u64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    /// O(items).
    pub fn new(items: u64) -> Self {
        Self::with_zeta(items, zeta(0, items))
    }

    fn with_zeta(items: u64, zeta: f64) -> Self {
        Self { items, counted: items, zeta, eta: Self::eta(items, zeta) }
    }

    fn eta(items: u64, all: f64) -> f64 {
        (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - zeta(0, 2) / all)
    }

    /// A rank below `items`, which may have grown since the last call, and does not shrink. O(1)
    /// and O(1) more for each new item.
    fn among(&mut self, items: u64, rng: &mut impl Rng) -> u64 {
        if items > self.counted {
            self.zeta += zeta(self.counted, items);
            self.counted = items;
            self.eta = Self::eta(self.items, self.zeta);
        }
        let u: f64 = rng.random();
        let at = u * self.zeta;
        if at < 1.0 {
            0
        } else if at < 1.0 + 0.5f64.powf(THETA) {
            1
        } else {
            (items as f64 * (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - THETA))) as u64
        }
    }
}

/// Picks items from 0 on.
#[derive(Debug, Clone)]
pub enum Picker {
    /// Each of so many as often as any other.
    Uniform(u64),
    /// Item r with a probability in proportion to `(r + 1)^-0.99`.
    Zipfian(Zipfian),
    /// As Zipfian, with the hot items scattered over all of so many.
    Scrambled(u64, Zipfian),
    /// As Zipfian by age: the item that was inserted last is picked most often.
    Latest(Zipfian),
}

impl Picker {
    /// Zipfian over so many items. O(items).
    pub fn zipfian(items: u64) -> Self {
        Self::Zipfian(Zipfian::new(items))
    }

    /// Scrambled over so many items.
    pub fn scrambled(items: u64) -> Self {
        Self::Scrambled(items, Zipfian::with_zeta(SCRAMBLED_ITEMS + 1, SCRAMBLED_ZETA))
    }

    /// Latest, with so many items to begin with, two or more. O(items).
    pub fn latest(items: u64) -> Self {
        // YCSB counts the items before the last one. The very first is never picked.
        Self::Latest(Zipfian::new(items - 1))
    }

    /// The next item, where `items` are there by now. Only *latest* looks at that.
    pub fn pick(&mut self, items: u64, rng: &mut impl Rng) -> u64 {
        match self {
            Self::Uniform(all) => rng.random_range(0..*all),
            Self::Zipfian(zipfian) => zipfian.among(zipfian.items, rng),
            Self::Scrambled(all, zipfian) => super::hash(zipfian.among(zipfian.items, rng)) % *all,
            Self::Latest(zipfian) => items - 1 - zipfian.among(items - 1, rng),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn no_pick_is_outside() {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(1);
        for items in [2, 3, 10, 1000] {
            for mut picker in [
                Picker::Uniform(items),
                Picker::zipfian(items),
                Picker::scrambled(items),
                Picker::latest(items),
            ] {
                assert!((0..20_000).all(|_| picker.pick(items, rng) < items), "{picker:?}");
            }
        }
    }

    #[test]
    fn the_constant_is_the_sum_that_it_stands_for() {
        // Euler-Maclaurin after the first 10^5 ranks.
        let (from, to) = (1e5f64, SCRAMBLED_ITEMS as f64);
        let whole = |x: f64| x.powf(1.0 - THETA) / (1.0 - THETA);
        let rest = whole(to) - whole(from) + (to.powf(-THETA) - from.powf(-THETA)) / 2.0;
        assert!((zeta(0, 100_000) + rest - SCRAMBLED_ZETA).abs() < 1e-6);
    }

    #[test]
    fn latest_follows_what_is_inserted() {
        let rng = &mut Xoshiro256PlusPlus::seed_from_u64(1);
        let mut latest = Picker::latest(100);
        let newest = |items, latest: &mut Picker, rng: &mut Xoshiro256PlusPlus| {
            (0..10_000).filter(|_| latest.pick(items, rng) == items - 1).count()
        };
        assert!(newest(100, &mut latest, rng) > 1500);
        assert!(newest(200, &mut latest, rng) > 1500);
    }
}
