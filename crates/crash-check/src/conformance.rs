//! Checks of any ordered index of whole numbers, against a `BTreeMap` as the model. Each check
//! answers what it expected and what it found, so that broken indexes can be shown to fail.

use crate::index::Index;

mod compare;
mod fills;
mod model;
mod ranges;
mod suite;
mod threads;

pub use compare::CheckResult;
pub use fills::{churn, drain_and_refill, fill_orders, special_keys};
pub use model::random_operations;
pub use ranges::{all_bounds, long_ranges};
pub use suite::Suite;
pub use threads::{added_once, disjoint_writers, shared_keys};

impl Suite {
    /// Runs all checks. `make` makes an empty index; `reboot` closes and opens one again, or hands
    /// it back where there is nothing to reopen.
    ///
    /// # Errors
    /// The first thing that an index does wrong, and the name of the check.
    ///
    /// # Panics
    /// If the suite has no keys or no threads.
    pub fn run<I: Index>(
        &self,
        mut make: impl FnMut() -> I,
        mut reboot: impl FnMut(I) -> I,
    ) -> CheckResult {
        assert!(
            self.keys > 0 && self.threads > 0,
            "a suite of no keys or no threads checks nothing"
        );
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
        shared_keys(&make(), self).map_err(name("shared keys"))?;
        added_once(&make(), self).map_err(name("added once"))
    }
}
