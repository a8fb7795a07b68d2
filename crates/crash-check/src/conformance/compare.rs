//! An index beside its model: each helper does the same to both and compares the answers.

use std::collections::BTreeMap;
use std::fmt::Debug;

use crate::index::Index;

/// The answer of a check.
pub type CheckResult = Result<(), String>;
/// The entries that the index should hold.
pub(super) type ModelMap = BTreeMap<u64, u64>;

/// That an index answered `expected`.
pub(super) fn same<T: PartialEq + Debug>(
    found: everleaf_pmem::Result<T>,
    expected: T,
    what: impl FnOnce() -> String,
) -> CheckResult {
    match found {
        Ok(found) if found == expected => Ok(()),
        Ok(found) => Err(format!("{}: {found:?} instead of {expected:?}", what())),
        Err(error) => Err(format!("{}: {error}", what())),
    }
}

pub(super) fn insert(
    index: &(impl Index + ?Sized),
    model: &mut ModelMap,
    key: u64,
    value: u64,
) -> CheckResult {
    same(index.insert(key, value), model.insert(key, value), || format!("insert {key} {value}"))
}

pub(super) fn add(
    index: &(impl Index + ?Sized),
    model: &mut ModelMap,
    key: u64,
    value: u64,
) -> CheckResult {
    let there = model.get(&key).copied();
    model.entry(key).or_insert(value);
    same(index.add(key, value), there, || format!("add {key} {value}"))
}

pub(super) fn remove(index: &(impl Index + ?Sized), model: &mut ModelMap, key: u64) -> CheckResult {
    same(index.remove(key), model.remove(&key), || format!("remove {key}"))
}

pub(super) fn update(
    index: &(impl Index + ?Sized),
    model: &mut ModelMap,
    key: u64,
    value: u64,
) -> CheckResult {
    let old = model.get_mut(&key).map(|slot| std::mem::replace(slot, value));
    same(index.update(key, value), old, || format!("update {key} {value}"))
}

pub(super) fn get(index: &(impl Index + ?Sized), model: &ModelMap, key: u64) -> CheckResult {
    same(index.get(key), model.get(&key).copied(), || format!("get {key}"))
}

/// That an index holds just what the model does, seen from both ends and by each key.
pub(super) fn equal(index: &(impl Index + ?Sized), model: &ModelMap) -> CheckResult {
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
pub(super) fn alike(
    found: everleaf_pmem::Result<Vec<(u64, u64)>>,
    expected: &[(u64, u64)],
) -> CheckResult {
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
