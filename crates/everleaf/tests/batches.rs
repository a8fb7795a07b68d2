//! Batches beside one another and beside readers, and in pools that become full.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

use everleaf::{Db, Error, Options};

fn pool(options: &Options) -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = options.open(dir.path().join("p.ever")).unwrap();
    (dir, db)
}

#[test]
fn two_batches_at_once_leave_one_after_the_other() {
    const ROUNDS: u32 = 20_000;
    let (_dir, db) = pool(&Options::new());
    let tree = db.tree("t").unwrap();
    let (start, mixed) = (Barrier::new(2), AtomicU32::new(0));
    let write = |own: u8| {
        for _ in 0..ROUNDS {
            let mut batch = db.batch();
            for key in 0..8u8 {
                batch.insert(&tree, [key], [own]).unwrap();
            }
            start.wait();
            batch.commit().unwrap();
            if start.wait().is_leader() {
                let found: Vec<u8> = tree.iter().map(|pair| pair.unwrap().1[0]).collect();
                let is_mixed = found != [0; 8] && found != [1; 8];
                mixed.fetch_add(u32::from(is_mixed), Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| write(0));
        scope.spawn(|| write(1));
    });
    assert_eq!(mixed.into_inner(), 0, "of {ROUNDS} rounds");
}

#[test]
fn a_full_pool_names_its_limit_in_bytes() {
    let (_dir, db) = pool(&Options::new().max_bytes(1 << 20));
    let tree = db.tree("t").unwrap();
    let full = (0u32..).find_map(|i| tree.insert(i.to_be_bytes(), [7; 500]).err()).unwrap();
    assert!(matches!(full, Error::Full { bytes: 0x10_0000 }), "{full}");
    assert_eq!(full.to_string(), "the pool is full: its limit is 1048576 bytes");
}
