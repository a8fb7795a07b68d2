//! Long histories of transactions on threads: none has an anomaly.
//!
//! `EVERLEAF_SCALE` says how many there are, `EVERLEAF_SEED` runs those of one pool.

#[path = "histories/mod.rs"]
mod histories;

use everleaf::{Isolation, Options, Storage};
use everleaf_testing::{count, seeds};

/// Transactions of one pool.
const AT_A_TIME: u64 = 20_000;

#[test]
fn no_history_has_an_anomaly() {
    let all = count(20_000, 1_000_000);
    let (mut run, mut conflicts) = (0, 0);
    for seed in seeds(1..1 + all.div_ceil(AT_A_TIME)) {
        let dir = tempfile::tempdir().expect("a directory");
        let options = match seed % 4 {
            0 => Options::new().storage(Storage::EmulatedDax).max_bytes(256 << 20),
            1 => Options::new().page_bytes(512),
            _ => Options::new(),
        };
        let db = options.open(dir.path().join("p")).expect("opens");
        let history = histories::record(&db, Isolation::Serializable, AT_A_TIME, seed);
        assert_eq!(history.anomalies(Isolation::Serializable), [""; 0], "seed {seed}");
        assert_eq!(db.check().expect("readable"), []);
        (run, conflicts) = (run + AT_A_TIME, conflicts + history.conflicts);
    }
    println!("{run} transactions, {conflicts} of them refused or aborted, no anomaly");
}
