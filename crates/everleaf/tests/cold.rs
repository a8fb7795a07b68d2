//! Threads that split and merge right after an open, when most nodes are not in memory yet.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use everleaf::Options;

const ROUNDS: usize = 60;

fn key(number: usize) -> Vec<u8> {
    // More than ten bytes alike after the prefix of a node: searches compare whole separators.
    format!("user:profile:2024:{number:012}").into_bytes()
}

/// One pool: filled, closed, opened again, then split and merged by several threads in one region.
fn round(seed: usize) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("cold.ever");
    let options = Options::new().page_bytes(512).max_bytes(1 << 28);
    let db = options.open(&path).expect("new");
    let tree = db.tree("t").expect("new");
    for i in 0..6000 {
        tree.insert(key(i * 1000), "v").expect("space");
    }
    drop(tree);
    db.close().expect("no fault");
    let db = options.open(&path).expect("reopens");
    let tree = db.tree("t").expect("there");
    let region = AtomicUsize::new(seed);
    thread::scope(|scope| {
        for thread in 0..6 {
            let (tree, region) = (&tree, &region);
            scope.spawn(move || {
                for step in 0..150 {
                    let at = region.load(Ordering::Relaxed) * 97 % 5950;
                    if thread % 2 == 0 {
                        for j in 0..4 {
                            let near = (at + 10 + (step + thread) % 12) * 1000;
                            tree.insert(key(near + 1 + (step * 7 + j) % 900), "w").expect("space");
                        }
                    } else {
                        for j in 0..12 {
                            tree.remove(key((at + j) * 1000)).expect("no fault");
                        }
                        region.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(db.check().expect("readable"), []);
}

#[test]
fn splits_and_merges_of_cold_nodes_never_wait_for_each_other() {
    let (done, finished) = mpsc::channel();
    thread::spawn(move || {
        for seed in 0..ROUNDS {
            round(seed);
            done.send(()).expect("the test waits");
        }
    });
    // Each round has time of its own: a slow machine, or a sanitizer, is no deadlock.
    for _ in 0..ROUNDS {
        finished.recv_timeout(Duration::from_secs(120)).expect("threads wait for each other");
    }
}
