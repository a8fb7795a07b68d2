//! Filling and emptying, in the orders and with the keys that trees get wrong.

use rand::RngExt;
use rand::seq::SliceRandom;

use super::compare::{CheckResult, ModelMap, equal, get, insert, remove, update};
use super::suite::Suite;
use crate::index::Index;

/// Keys at the ends of ranges and of signs; values that an index might use for "nothing".
const SPECIAL: [u64; 12] = [
    0,
    1,
    2,
    (1 << 32) - 1,
    1 << 32,
    (1 << 63) - 1,
    1 << 63,
    (1 << 63) + 1,
    0xFFFF_FFFF_0000_0000,
    u64::MAX - 2,
    u64::MAX - 1,
    u64::MAX,
];

/// No key and no value is reserved; equal values are values like others.
///
/// # Errors
/// A message that says what the index does wrong; likewise in all checks.
pub fn special_keys(index: &(impl Index + ?Sized)) -> CheckResult {
    let mut model = ModelMap::new();
    equal(index, &model)?;
    for key in SPECIAL {
        get(index, &model, key)?;
        update(index, &mut model, key, 1)?;
        remove(index, &mut model, key)?;
        insert(index, &mut model, key, 0)?;
        get(index, &model, key)?;
    }
    equal(index, &model)?;
    for value in [0, u64::MAX, 1, u64::MAX, 0] {
        for key in SPECIAL {
            insert(index, &mut model, key, value)?;
        }
        equal(index, &model)?;
        for key in SPECIAL {
            update(index, &mut model, key, value ^ key)?;
        }
        equal(index, &model)?;
    }
    for key in SPECIAL {
        remove(index, &mut model, key)?;
        remove(index, &mut model, key)?;
        equal(index, &model)?;
    }
    Ok(())
}

/// The number of orders that [`fill_orders`] knows.
pub(super) const ORDERS: usize = 5;

/// Fills in one of five orders: ascending, descending, random, from the middle out, and in runs
/// that meet.
///
/// # Errors
/// As above.
pub fn fill_orders(index: &(impl Index + ?Sized), suite: &Suite, order: usize) -> CheckResult {
    let n = suite.keys as u64;
    let mut keys: Vec<u64> = (0..n).map(|i| i * 3 + 1).collect();
    match order {
        0 => {}
        1 => keys.reverse(),
        2 => keys.shuffle(&mut suite.rng()),
        3 => keys.sort_by_key(|key| key.abs_diff(n * 3 / 2)),
        _ => keys.sort_by_key(|key| (key % 5, if key % 2 == 0 { *key } else { u64::MAX - key })),
    }
    let mut model = ModelMap::new();
    for (i, &key) in keys.iter().enumerate() {
        insert(index, &mut model, key, i as u64)?;
        if i.is_power_of_two() {
            equal(index, &model)?;
        }
    }
    for key in keys {
        get(index, &model, key - 1)?;
        insert(index, &mut model, key, key)?;
    }
    equal(index, &model)
}

/// Empties the index and fills it again, from each end and at random.
///
/// # Errors
/// As above.
pub fn drain_and_refill(index: &(impl Index + ?Sized), suite: &Suite) -> CheckResult {
    let (mut model, mut rng) = (ModelMap::new(), suite.rng());
    let keys: Vec<u64> = (0..suite.keys as u64).map(|i| i.wrapping_mul(0x9E37_79B9)).collect();
    for round in 0..4 {
        for &key in &keys {
            insert(index, &mut model, key, key ^ round)?;
        }
        equal(index, &model)?;
        let mut order: Vec<u64> = model.keys().copied().collect();
        match round {
            0 => {}
            1 => order.reverse(),
            _ => order.shuffle(&mut rng),
        }
        for (i, key) in order.into_iter().enumerate() {
            remove(index, &mut model, key)?;
            get(index, &model, key)?;
            if i.is_power_of_two() || model.len() < 10 {
                equal(index, &model)?;
            }
        }
    }
    Ok(())
}

/// Inserts and removes a few keys again and again between others that stay: rotation, wrap-around
/// and the void slots of one leaf.
///
/// # Errors
/// As above.
pub fn churn(index: &(impl Index + ?Sized), suite: &Suite) -> CheckResult {
    let (mut model, mut rng) = (ModelMap::new(), suite.rng());
    for key in (0..64).map(|i| i * 1000) {
        insert(index, &mut model, key, 0)?;
    }
    for i in 0..4 * suite.keys as u64 {
        let key = 7001 + rng.random_range(0..12);
        match i % 3 {
            0 => insert(index, &mut model, key, i)?,
            1 => remove(index, &mut model, key)?,
            _ => update(index, &mut model, key, i)?,
        }
        // A queue that moves through the keys: grows at one end, shrinks at the other.
        insert(index, &mut model, 1 << 40 | i, i)?;
        if i >= 5 {
            remove(index, &mut model, 1 << 40 | (i - 5))?;
        }
        if i % 256 == 0 {
            equal(index, &model)?;
        }
    }
    equal(index, &model)
}
