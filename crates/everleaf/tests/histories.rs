//! Long histories of transactions on threads: none has an anomaly.
//!
//! `EVERLEAF_TRANSACTIONS` sets how many (20,000), `EVERLEAF_SEED` where the random numbers start (1).

#[path = "histories/mod.rs"]
mod histories;

use everleaf::{Isolation, Options, Storage};
use everleaf_testing::setting;

/// Transactions of one pool.
const AT_A_TIME: u64 = 20_000;

#[test]
fn no_history_has_an_anomaly() {
    let (all, first) = (setting("EVERLEAF_TRANSACTIONS", 20_000), setting("EVERLEAF_SEED", 1));
    let (mut run, mut conflicts) = (0, 0);
    for seed in first..first + all.div_ceil(AT_A_TIME) {
        let dir = tempfile::tempdir().expect("a directory");
        let options = match seed % 4 {
            0 => Options::new().storage(Storage::EmulatedDax).max_bytes(256 << 20),
            1 => Options::new().page_bytes(512),
            _ => Options::new(),
        };
        let db = options.open(dir.path().join("p")).expect("opens");
        let history = histories::record(&db, Isolation::Serializable, AT_A_TIME, seed);
        assert_eq!(history.anomalies(Isolation::Serializable), [""; 0], "EVERLEAF_SEED={seed}");
        assert_eq!(db.check().expect("readable"), []);
        (run, conflicts) = (run + AT_A_TIME, conflicts + history.conflicts);
    }
    println!("{run} transactions, {conflicts} of them refused or aborted, no anomaly");
}
