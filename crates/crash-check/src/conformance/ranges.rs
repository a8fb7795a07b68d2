//! Ranges in both directions, with every kind of bound.

use std::ops::Bound::{self, Excluded, Included, Unbounded};

use rand::RngExt;

use super::compare::{CheckResult, ModelMap, alike, insert};
use super::suite::Suite;
use crate::index::Index;

fn above(key: u64, from: Bound<u64>) -> bool {
    match from {
        Included(bound) => key >= bound,
        Excluded(bound) => key > bound,
        Unbounded => true,
    }
}

fn below(key: u64, to: Bound<u64>) -> bool {
    match to {
        Included(bound) => key <= bound,
        Excluded(bound) => key < bound,
        Unbounded => true,
    }
}

/// One range of the index against the model, in both directions. The model's own `range` panics at
/// inverted bounds; here they hold nothing.
pub(super) fn range_of(
    index: &(impl Index + ?Sized),
    model: &ModelMap,
    (from, to): (Bound<u64>, Bound<u64>),
    limit: usize,
) -> CheckResult {
    let all = model.iter().map(|(key, value)| (*key, *value));
    let inside: Vec<_> = all.filter(|&(key, _)| above(key, from) && below(key, to)).collect();
    let forwards: Vec<_> = inside.iter().take(limit).copied().collect();
    let backwards: Vec<_> = inside.iter().rev().take(limit).copied().collect();
    let name = |way: &str, what| format!("{way} {from:?}..{to:?} limit {limit}: {what}");
    alike(index.range(from, to, limit), &forwards).map_err(|what| name("range", what))?;
    alike(index.range_back(from, to, limit), &backwards).map_err(|what| name("range_back", what))
}

/// All kinds of bounds around a few keys: on them, beside them, empty, inverted, at both ends.
///
/// # Errors
/// A message that says what the index does wrong.
pub fn all_bounds(index: &(impl Index + ?Sized), suite: &Suite) -> CheckResult {
    let mut model = ModelMap::new();
    let interesting = [0, 1, 2, 19, 20, 21, 300, u64::MAX - 1, u64::MAX];
    let mut bounds = vec![Unbounded];
    bounds.extend(interesting.iter().flat_map(|&key| [Included(key), Excluded(key)]));
    let mut keys = vec![0, 1, 20, u64::MAX];
    keys.extend((0..suite.keys.min(100) as u64).map(|i| 5 * i + 10));
    for stage in 0..=2 {
        for &from in &bounds {
            for &to in &bounds {
                for limit in [0, 1, 3, usize::MAX] {
                    range_of(index, &model, (from, to), limit)?;
                }
            }
        }
        let upto = [4, keys.len(), keys.len()][stage];
        for &key in &keys[model.len().min(upto)..upto] {
            insert(index, &mut model, key, !key)?;
        }
    }
    Ok(())
}

/// Random ranges over many leaves.
///
/// # Errors
/// A message that says what the index does wrong.
pub fn long_ranges(index: &(impl Index + ?Sized), suite: &Suite) -> CheckResult {
    let (mut model, mut rng) = (ModelMap::new(), suite.rng());
    let span = 4 * suite.keys as u64;
    for i in 0..suite.keys as u64 {
        insert(index, &mut model, rng.random_range(0..span), i)?;
    }
    for _ in 0..200 {
        let mut bound = || match rng.random_range(0..5) {
            0 => Unbounded,
            1 | 2 => Included(rng.random_range(0..=span)),
            _ => Excluded(rng.random_range(0..=span)),
        };
        let bounds = (bound(), bound());
        let limit = if rng.random_bool(0.5) { usize::MAX } else { rng.random_range(0..100) };
        range_of(index, &model, bounds, limit)?;
    }
    Ok(())
}
