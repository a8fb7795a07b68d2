//! The pool that the tests of events and of figures watch.

use everleaf::{Db, Error, Options, Stats};

/// Old values take about that.
pub const KEPT_BYTES: u64 = 256 << 10;

/// Figures of what happened, as the pool says itself.
pub struct Happened {
    /// With a snapshot and a transaction open, and old values kept for them.
    pub during: Stats,
    pub after: Stats,
}

/// A pool with a transaction that commits, one that conflicts, one that only reads, and a snapshot that is given up.
pub fn a_pool_with_transactions(options: &Options) -> Happened {
    let dir = tempfile::tempdir().expect("a directory");
    let options = options.clone().snapshot_memory(KEPT_BYTES);
    let db = options.open(dir.path().join("p.ever")).expect("a pool");
    let tree = db.tree("t").expect("a tree");
    db.transact(|tx| tx.put(&tree, "a", "1")).expect("nobody is in the way");

    let late = db.begin();
    late.get(&tree, "a").expect("a read");
    late.put(&tree, "b", "2").expect("a write");
    tree.put("a", "3").expect("a write of another");
    let outcome = late.commit();
    assert!(matches!(outcome, Err(Error::Conflict { .. })), "{outcome:?}");

    let reader = db.begin();
    reader.get(&tree, "a").expect("a read");
    reader.commit().expect("who only reads is never in the way");

    let during = kept(&db);
    Happened { during, after: db.stats().expect("figures") }
}

/// Replaces more than is kept for a snapshot, with a transaction open as well; says how it was half-way.
fn kept(db: &Db) -> Stats {
    let tree = db.tree("t").expect("a tree");
    let put_all = |byte: u8| {
        for key in 0..600_u32 {
            tree.put(key.to_be_bytes(), [byte; 300]).expect("a put");
        }
    };
    put_all(1);
    let snapshot = db.snapshot().expect("a snapshot");
    put_all(2);
    let reader = db.begin();
    reader.get(&tree, "a").expect("a read");
    let during = db.stats().expect("figures");
    assert_eq!((during.snapshots, during.snapshot_values), (2, 600), "{during:?}");
    assert!(during.snapshot_bytes > 600 * 300, "{during:?}");
    put_all(3);
    let outcome = snapshot.of(&tree).expect("its tree").get("a");
    assert!(matches!(outcome, Err(Error::SnapshotTooOld { .. })), "{outcome:?}");
    drop((snapshot, reader));
    during
}
