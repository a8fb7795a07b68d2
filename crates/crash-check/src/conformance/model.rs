//! Random operations against the model, with reboots between.

use std::ops::Bound::{Excluded, Included};

use rand::RngExt;

use super::compare::{CheckResult, ModelMap, add, equal, get, insert, remove, update};
use super::ranges::range_of;
use super::suite::Suite;
use crate::index::Index;

/// Phases that grow, shrink and stir the index, over few and over many keys; after each phase it
/// is compared as a whole, rebooted, and compared again.
///
/// # Errors
/// A message that says what the index does wrong.
pub fn random_operations<I: Index>(
    mut index: I,
    suite: &Suite,
    mut reboot: impl FnMut(I) -> I,
) -> CheckResult {
    let (mut model, mut rng) = (ModelMap::new(), suite.rng());
    for phase in 0..8 {
        // Of 100 operations: inserts, removes; the rest are adds, updates, reads and ranges.
        let (inserts, removes) = [(70, 10), (40, 40), (10, 70), (35, 35)][phase % 4];
        let keys = if phase < 4 { 100 } else { 2 * suite.keys as u64 };
        for i in 0..suite.keys as u64 {
            let key = rng.random_range(0..keys).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let value = if rng.random_bool(0.1) { 0 } else { i };
            let what = rng.random_range(0..100);
            if what < inserts {
                insert(&index, &mut model, key, value)?;
            } else if what < inserts + removes {
                remove(&index, &mut model, key)?;
            } else if what < 85 {
                add(&index, &mut model, key, value)?;
                get(&index, &model, key)?;
            } else if what < 95 {
                update(&index, &mut model, key, value)?;
                get(&index, &model, key)?;
            } else {
                range_of(&index, &model, (Included(key), Excluded(rng.random())), 20)?;
            }
        }
        equal(&index, &model).map_err(|what| format!("phase {phase}: {what}"))?;
        index = reboot(index);
        equal(&index, &model).map_err(|what| format!("phase {phase}, rebooted: {what}"))?;
    }
    Ok(())
}
