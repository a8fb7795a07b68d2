//! Threads of a Db, and its own, on a simulated disk: small enough for Miri, which then looks for
//! data races and undefined behaviour on every path from the facade to the page words.

use std::sync::Arc;
use std::time::Duration;

use everleaf::{Db, Durability, Options, Tree};
use everleaf_file::io::SimIo;

const THREADS: u32 = 3;
/// Operations of each thread.
const OPS: u32 = if cfg!(miri) { 16 } else { 4_000 };
const BYTES: u64 = if cfg!(miri) { 1 << 20 } else { 4 << 20 };

fn options() -> Options {
    let interval = Duration::from_millis(1);
    Options::new().max_bytes(BYTES).page_bytes(512).journal_bytes(64 << 10).interval(interval)
}

fn key(thread: u32, n: u32) -> String {
    format!("{:03}/{thread}", n % 37)
}

fn value(thread: u32, n: u32) -> String {
    let length = if n.is_multiple_of(10) { 700 } else { n % 50 };
    format!("{thread}.{n}.{}", "x".repeat(length as usize))
}

/// Writes keys of its own among those of the others, reads its own back, and looks at all.
fn work(db: &Db, tree: &Tree, other: &Tree, thread: u32) {
    for n in 0..OPS {
        match n % 8 {
            3 => drop(tree.remove(key(thread, n + 30)).expect("no fault")),
            5 => {
                let mut batch = db.batch();
                batch.put(tree, key(thread, n), value(thread, n)).expect("short");
                batch.put(other, key(thread, n), value(thread, n)).expect("short");
                batch.commit().expect("room");
            }
            6 => {
                let mut last = None;
                for pair in tree.iter() {
                    let (key, _) = pair.expect("readable");
                    assert!(last < Some(key.clone()), "out of order");
                    last = Some(key);
                }
            }
            7 if n.is_multiple_of(3) => db.checkpoint().expect("no fault"),
            kind => {
                let how = if kind == 0 { Durability::Sync } else { Durability::Buffered };
                tree.with(how).insert(key(thread, n), value(thread, n)).expect("room");
                let got = tree.get(key(thread, n)).expect("readable");
                assert_eq!(got, Some(value(thread, n).into_bytes().into()));
            }
        }
    }
}

#[test]
fn threads_find_what_they_wrote_and_a_power_cut_keeps_what_was_synced() {
    let disk = SimIo::new(1);
    let db = options().open_on(Arc::new(disk.clone()), "p").expect("a new pool");
    let trees = [db.tree("a").expect("room"), db.tree("b").expect("room")];
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, [tree, other]) = (&db, &trees);
            scope.spawn(move || work(db, tree, other, thread));
        }
    });
    db.sync().expect("no fault");
    let all = |db: &Db| {
        ["a", "b"].map(|name| {
            let tree = db.open_tree(name).expect("readable").expect("made");
            tree.iter().collect::<Result<Vec<_>, _>>().expect("readable")
        })
    };
    let written = all(&db);
    assert!(written.iter().all(|pairs| !pairs.is_empty()));
    for seed in 0..if cfg!(miri) { 1 } else { 20 } {
        let after = Arc::new(disk.power_cut(seed));
        let db = options().open_on(after, "p").expect("a pool");
        assert!(all(&db) == written, "cut by seed {seed}");
        assert_eq!(db.check().expect("readable"), []);
    }
    db.close().expect("no fault");
}
