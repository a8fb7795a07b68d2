//! Figures of snapshots and transactions by the crate `metrics`, on both media.

use everleaf::{Options, Storage};
use figures::{Ear, one, values};

#[allow(dead_code)]
#[path = "../../file/tests/ear/figures.rs"]
mod figures;
mod watched;

#[test]
fn a_recorder_gets_what_snapshots_and_transactions_do() {
    metrics::set_global_recorder(Ear).unwrap_or_else(|_| panic!("the first one"));
    let (mut commits, mut conflicts, mut given_up) = (0, 0, 0);
    let dax = Options::new().storage(Storage::EmulatedDax).max_bytes(64 << 20);
    for options in [Options::new(), dax] {
        let watched::Happened { during, after } = watched::a_pool_with_transactions(&options);
        assert_eq!((after.transactions, after.conflicts), (1, 1));
        assert!((1..=2).contains(&after.snapshots_given_up), "{after:?}");
        commits += after.transactions;
        conflicts += after.conflicts;
        given_up += after.snapshots_given_up;
        assert_eq!(one("everleaf_transactions_total"), commits as f64);
        assert_eq!(one("everleaf_transaction_conflicts_total"), conflicts as f64);
        assert_eq!(one("everleaf_snapshots_given_up_total"), given_up as f64);
        let hex: String = during.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        let gauge = |name: &str| {
            let values = values();
            let is_it = |key: &&String| key.replace('-', "") == format!("{name} pool={hex}");
            let key = values.keys().find(is_it).unwrap_or_else(|| panic!("no {name}"));
            values[key][0]
        };
        // Nobody reads any more, so nothing is kept.
        for name in ["everleaf_snapshots", "everleaf_snapshot_values", "everleaf_snapshot_bytes"] {
            assert_eq!(gauge(name), 0.0, "{name}");
        }
    }
}
