//! Long histories of transactions and plain operations on threads: none has an anomaly.
//!
//! `EVERLEAF_SCALE` says how many there are, `EVERLEAF_SEED` runs those of one pool.

#[path = "histories/mod.rs"]
#[allow(dead_code, unused_imports, reason = "no thread is scheduled, and no history made by hand")]
mod histories;

use everleaf::{Isolation, Options, Storage};
use everleaf_testing::{count, seeds};

/// Transactions of one pool.
const AT_A_TIME: u64 = 20_000;
/// Nearly every page leaves memory as soon as nobody is in it.
const LITTLE_MEMORY: u64 = 64 << 10;

#[test]
fn no_history_has_an_anomaly() {
    let all = count(20_000, 1_000_000);
    let (mut run, mut conflicts, mut evictions) = (0, 0, 0);
    for seed in seeds(1..1 + all.div_ceil(AT_A_TIME)) {
        let dir = tempfile::tempdir().expect("a directory");
        let options = match seed % 4 {
            0 => Options::new().storage(Storage::EmulatedDax).max_bytes(256 << 20),
            1 => Options::new().page_bytes(512),
            2 => Options::new(),
            _ => Options::new().memory(LITTLE_MEMORY),
        };
        let threads = [2, 3, 4, 6, 8, 12, 16][seed as usize / 4 % 7];
        let db = options.open(dir.path().join("p")).expect("opens");
        let history = histories::record(&db, (Isolation::Serializable, threads), AT_A_TIME, seed);
        assert_eq!(history.anomalies(Isolation::Serializable), [""; 0], "seed {seed}");
        assert_eq!(db.check().expect("readable"), []);
        evictions += db.stats().expect("open").memory.evictions;
        (run, conflicts) = (run + AT_A_TIME, conflicts + history.conflicts);
    }
    println!(
        "{run} transactions, {conflicts} of them refused or aborted, {evictions} evictions, no anomaly"
    );
}
