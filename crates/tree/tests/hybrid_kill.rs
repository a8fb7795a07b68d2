//! A BD+Tree on emulated persistent memory, whose process is killed again and again. Alone in its
//! file: while a child is being started it holds the locks of the tests beside it.
//!
//! Everything stored stays in the file, so each open finds leaves of epochs that were not durable.
//! `EVERLEAF_SCALE` sets how many kills there are (12). With `EVERLEAF_DAX` set the directory for
//! temporary files is on DAX, and nothing is emulated.

use std::io::{self, BufRead, BufReader};
use std::ops::Bound::{Excluded, Unbounded};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use everleaf_file::{Dax, DaxOptions};
use everleaf_pmem::BufferedOptions;
use everleaf_tree::hybrid::{Keeper, Rebuild, Rebuilt};
use everleaf_tree::{BdTree, Index, open_bd_dax};

const VICTIM: &str = "EVERLEAF_HYBRID_VICTIM";
/// Keys that stay below the newest one, and the keys of the batch.
const KEPT: u64 = 3000;
const BATCH: u64 = 1 << 63;
const BATCH_KEYS: u64 = 5;

fn open(path: &Path) -> (BdTree<Dax>, Rebuilt) {
    let emulate = std::env::var_os("EVERLEAF_DAX").is_none();
    let options =
        DaxOptions { slots: 32, pages: 4000, create: true, emulate, ..Default::default() };
    let epochs =
        BufferedOptions { interval: Duration::from_millis(1), ..BufferedOptions::default() };
    open_bd_dax(path, &options, &epochs, &Rebuild::default()).expect("a sound pool")
}

/// The newest key, if there is one.
fn newest(tree: &BdTree<Dax>) -> Option<u64> {
    let below = tree.range_back(Unbounded, Excluded(BATCH), 1);
    below.expect("readable").pop().map(|(key, _)| key)
}

/// Counts until it is killed: each number is one batch, and removes an old number. Does nothing by
/// itself.
#[test]
#[ignore = "started by a_killed_process_leaves_the_end_of_an_epoch"]
fn victim() {
    let Some(path) = std::env::var_os(VICTIM) else { return };
    let (tree, _) = open(Path::new(&path));
    let tree = Arc::new(tree);
    let _keeper = Keeper::start(&tree, Duration::from_millis(3)).expect("a thread");
    let first = newest(&tree).map_or(0, |key| key + 1);
    for n in first.. {
        let epoch = {
            let _one_epoch = tree.medium().pin_epoch();
            // Scattered over few leaves, so that they change in every epoch.
            for i in 0..BATCH_KEYS {
                tree.insert(BATCH + i * 1000 + n % 7, n).expect("room");
                Index::remove(&*tree, BATCH + i * 1000 + (n + 6) % 7).expect("no fault");
            }
            if let Some(old) = n.checked_sub(KEPT) {
                Index::remove(&*tree, old).expect("no fault");
            }
            tree.put(n, !n, everleaf_tree::blink::Condition::Absent).expect("room")
        };
        if n % 40 == 0 {
            tree.wait_for(&epoch).expect("no fault");
            println!("durable {n}");
        }
    }
}

fn verify(tree: &BdTree<Dax>, durable: Option<u64>) {
    let report = tree.check().expect("a map");
    assert!(report.damages.is_empty() && report.leaked.is_empty(), "{report:?}");
    let all = tree.range(Unbounded, Unbounded, usize::MAX).expect("readable");
    let (numbers, batch) = all.split_at(all.partition_point(|(key, _)| *key < BATCH));
    let last = newest(tree);
    assert!(last >= durable, "{durable:?} was durable, {last:?} is the last");
    let Some(last) = last else { return assert!(batch.is_empty()) };
    let first = (last + 1).saturating_sub(KEPT);
    let wanted: Vec<(u64, u64)> = (first..=last).map(|n| (n, !n)).collect();
    assert_eq!(numbers, wanted, "the end of a batch");
    let keys = (0..BATCH_KEYS).map(|i| (BATCH + i * 1000 + last % 7, last));
    assert_eq!(batch, keys.collect::<Vec<_>>(), "all of its keys");
}

#[test]
fn a_killed_process_leaves_the_end_of_an_epoch() {
    let kills = everleaf_testing::count(12, 60);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    let (mut durable, mut rolled_back) = (None, 0);
    for round in 0..kills {
        let mut victim = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "victim", "--ignored", "--nocapture"])
            .env(VICTIM, &path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut lines = BufReader::new(victim.stdout.take().expect("piped")).lines();
        let number =
            |line: io::Result<String>| line.ok()?.strip_prefix("durable ")?.parse::<u64>().ok();
        let last = lines.by_ref().filter_map(number).nth(round as usize % 7 * 20);
        std::thread::sleep(Duration::from_micros(round % 5 * 450));
        victim.kill().expect("runs");
        victim.wait().expect("ends");
        durable = lines.filter_map(number).last().or(last).or(durable);
        let (tree, rebuilt) = open(&path);
        rolled_back += rebuilt.rolled_back;
        verify(&tree, durable);
    }
    println!("{rolled_back} leaves rolled back, {durable:?} durable");
    assert!(durable.is_some() && rolled_back > 0);
}
