//! Short histories of transactions; long ones are in the test of that name.

use everleaf::{Isolation, Options, Storage};

use crate::histories::record;

#[test]
fn transactions_are_serializable() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Options::new().page_bytes(512).open(dir.path().join("p")).expect("opens");
    let history = record(&db, (Isolation::Serializable, 4), 4_000, 1);
    assert_eq!(history.anomalies(Isolation::Serializable), [""; 0]);
    assert!(history.conflicts > 0, "one in twenty is aborted");
}

#[test]
fn transactions_on_persistent_memory_are_serializable() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options::new().storage(Storage::EmulatedDax).max_bytes(64 << 20);
    let db = options.open(dir.path().join("p")).expect("opens");
    let history = record(&db, (Isolation::Serializable, 16), 2_000, 2);
    assert_eq!(history.anomalies(Isolation::Serializable), [""; 0]);
}

#[test]
fn transactions_whose_pages_leave_memory_are_serializable() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Options::new().memory(64 << 10).open(dir.path().join("p")).expect("opens");
    let history = record(&db, (Isolation::Serializable, 3), 1_000, 4);
    assert_eq!(history.anomalies(Isolation::Serializable), [""; 0]);
    let evictions = db.stats().expect("open").memory.evictions;
    assert!(evictions > 100, "{evictions}");
}

/// Whether two of its transactions meet in a skew is chance here. That a history with one is told from the rest is
/// in `db_schedules`, where a seed decides.
#[test]
fn snapshot_isolation_allows_nothing_but_write_skew() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Options::new().open(dir.path().join("p")).expect("opens");
    let history = record(&db, (Isolation::Snapshot, 4), 2_000, 3);
    assert_eq!(history.anomalies(Isolation::Snapshot), [""; 0]);
}
