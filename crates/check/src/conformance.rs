//! What any ordered index of whole numbers must do, against a `BTreeMap` as the model. Each check
//! answers what it expected and what it found, so that broken indexes can be shown to fail.

use std::collections::BTreeMap;
use std::fmt::Debug;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::index::Index;

mod fills;
mod model;
mod ranges;
mod threads;

pub use fills::{churn, drain_and_refill, fill_orders, special_keys};
pub use model::random_operations;
pub use ranges::{all_bounds, long_ranges};
pub use threads::{disjoint_writers, shared_keys};

/// What a check answers.
pub type Verdict = Result<(), String>;
type Model = BTreeMap<u64, u64>;

/// How much is tried.
#[derive(Debug, Clone, Copy)]
pub struct Suite {
    /// The seed of everything random.
    pub seed: u64,
    /// Roughly how many keys a check uses: some splits of inner pages should fit.
    pub keys: usize,
    /// Writing threads of the checks with threads.
    pub threads: usize,
}

impl Default for Suite {
    fn default() -> Self {
        Self { seed: 1, keys: 2000, threads: 4 }
    }
}

impl Suite {
    /// Runs all checks. `make` makes an empty index; `reboot` closes and opens one again, or hands
    /// it back where there is nothing to reopen.
    ///
    /// # Errors
    /// The first thing that an index does wrong, and the name of the check.
    pub fn run<I: Index>(
        &self,
        mut make: impl FnMut() -> I,
        mut reboot: impl FnMut(I) -> I,
    ) -> Verdict {
        let name = |check: &'static str| move |what| format!("{check}: {what}");
        special_keys(&make()).map_err(name("special keys"))?;
        for order in 0..fills::ORDERS {
            fill_orders(&make(), self, order).map_err(name("fills"))?;
        }
        drain_and_refill(&make(), self).map_err(name("drain and refill"))?;
        churn(&make(), self).map_err(name("churn"))?;
        all_bounds(&make(), self).map_err(name("bounds"))?;
        long_ranges(&make(), self).map_err(name("long ranges"))?;
        random_operations(make(), self, &mut reboot).map_err(name("random operations"))?;
        disjoint_writers(&make(), self).map_err(name("disjoint writers"))?;
        shared_keys(&make(), self).map_err(name("shared keys"))
    }

    fn rng(&self) -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(self.seed)
    }
}

/// That an index answered `expected`.
fn same<T: PartialEq + Debug>(
    found: everleaf_pmem::Result<T>,
    expected: T,
    what: impl FnOnce() -> String,
) -> Verdict {
    match found {
        Ok(found) if found == expected => Ok(()),
        Ok(found) => Err(format!("{}: {found:?} instead of {expected:?}", what())),
        Err(error) => Err(format!("{}: {error}", what())),
    }
}

fn insert(index: &(impl Index + ?Sized), model: &mut Model, key: u64, value: u64) -> Verdict {
    same(index.insert(key, value), model.insert(key, value), || format!("insert {key} {value}"))
}

fn remove(index: &(impl Index + ?Sized), model: &mut Model, key: u64) -> Verdict {
    same(index.remove(key), model.remove(&key), || format!("remove {key}"))
}

fn update(index: &(impl Index + ?Sized), model: &mut Model, key: u64, value: u64) -> Verdict {
    let old = model.get_mut(&key).map(|slot| std::mem::replace(slot, value));
    same(index.update(key, value), old, || format!("update {key} {value}"))
}

fn get(index: &(impl Index + ?Sized), model: &Model, key: u64) -> Verdict {
    same(index.get(key), model.get(&key).copied(), || format!("get {key}"))
}

/// That an index holds just what the model does, seen from both ends and by each key.
fn equal(index: &(impl Index + ?Sized), model: &Model) -> Verdict {
    use std::ops::Bound::Unbounded;
    let pair = |(key, value): (&u64, &u64)| (*key, *value);
    same(index.first(), model.first_key_value().map(pair), || "first".into())?;
    same(index.last(), model.last_key_value().map(pair), || "last".into())?;
    let forwards: Vec<_> = model.iter().map(pair).collect();
    let backwards: Vec<_> = model.iter().rev().map(pair).collect();
    let found = index.range(Unbounded, Unbounded, usize::MAX);
    alike(found, &forwards).map_err(|what| format!("full range: {what}"))?;
    let found = index.range_back(Unbounded, Unbounded, usize::MAX);
    alike(found, &backwards).map_err(|what| format!("full range back: {what}"))?;
    model.keys().try_for_each(|&key| get(index, model, key))
}

/// As `same`, for lists that are too long to print.
fn alike(found: everleaf_pmem::Result<Vec<(u64, u64)>>, expected: &[(u64, u64)]) -> Verdict {
    let found = found.map_err(|error| error.to_string())?;
    if found == expected {
        return Ok(());
    }
    let at = found.iter().zip(expected).take_while(|(a, b)| a == b).count();
    Err(format!(
        "entry {at} of {} is {:?} instead of {:?} (of {})",
        found.len(),
        found.get(at),
        expected.get(at),
        expected.len()
    ))
}
