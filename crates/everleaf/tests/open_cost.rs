//! The cost of an open, and of values that are read from the disk: memory and calls, not times. The
//! tests look at what the process has, and so run one by one.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use everleaf::{Db, Options};

static ALONE: Mutex<()> = Mutex::new(());

const VALUE_BYTES: usize = 900;
const PAGE_BYTES: u64 = 2048;
/// A figure of the kernel's about this process.
fn figure(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(Path::new("/proc/self").join(file)).expect("Linux");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel tells it");
    line.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number")
}

fn resident() -> u64 {
    figure("status", "RssAnon:") << 10
}

fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn value(i: u64) -> Vec<u8> {
    vec![i as u8; VALUE_BYTES]
}

/// A closed pool of so many pairs; its size, and how many pages of it are the map.
fn make(path: &Path, pairs: u64) -> (u64, u64) {
    let db = Options::new().page_bytes(PAGE_BYTES as u32).open(path).expect("new");
    let tree = db.tree("t").expect("new");
    for i in 0..pairs {
        tree.insert(key(i), value(i)).expect("space");
    }
    let counts = db.count().expect("sound").pages;
    let maps = counts.iter().find(|count| count.kind == "map").expect("a map").pages;
    drop(tree);
    db.close().expect("no fault");
    (fs::metadata(path).expect("there").len(), maps)
}

/// Opens a pool of `bytes`; fails if that took much memory, or many reads: one for each page of the map, and
/// one for the leaf of the page table that knows where that is.
fn open(path: &Path, (bytes, maps): (u64, u64), options: &Options) -> Db {
    let (resident_before, reads_before) = (resident(), figure("io", "syscr:"));
    let start = Instant::now();
    let db = options.open(path).expect("sound");
    let took = start.elapsed();
    let reads = figure("io", "syscr:") - reads_before;
    // The pool's threads have done by then what an open makes them do.
    std::thread::sleep(Duration::from_millis(200));
    let more = resident().saturating_sub(resident_before);
    println!("{} MiB opened: {took:?}, {} KiB, {reads} reads", bytes >> 20, more >> 10);
    assert!(more <= 16 << 20, "{} MiB resident of a pool of {} MiB", more >> 20, bytes >> 20);
    assert!(reads <= 2 * maps + 100, "{reads} reads for {maps} pages of the map");
    db
}

#[test]
fn opening_a_closed_pool_costs_little_memory() {
    let _alone = ALONE.lock();
    let mib = everleaf_testing::size([96, 625, 625]);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    // Two pairs fit a page.
    let pairs = (mib << 20) / PAGE_BYTES * 2;
    let (bytes, maps) = make(&path, pairs);
    assert!(bytes >= mib << 20);
    drop(open(&path, (bytes, maps), &Options::new().read_only(true)));
    let db = open(&path, (bytes, maps), &Options::new());
    // Small pages become huge ones meanwhile.
    let tree = db.tree("t").expect("there");
    for i in 0..pairs {
        assert_eq!(tree.get(key(i)).expect("sound"), Some(value(i).into()));
    }
    let huge = figure("smaps_rollup", "AnonHugePages:") >> 10;
    println!("all read: {} MiB, {huge} of them in huge pages", resident() >> 20);
    assert!(resident() < bytes + bytes / 2);
    drop(tree);
    db.close().expect("no fault");
}

#[test]
fn large_values_take_no_more_memory_than_they_may() {
    let _alone = ALONE.lock();
    let dir = tempfile::tempdir().expect("a directory");
    let before = resident();
    const MEMORY: u64 = 32 << 20;
    let db = Options::new().memory(MEMORY).open(dir.path().join("p.ever")).expect("new");
    let tree = db.tree("t").expect("new");
    let value = vec![7; 1 << 20];
    for i in 0..128 {
        tree.insert(key(i), &value).expect("space");
    }
    std::thread::sleep(Duration::from_millis(200));
    let more = resident().saturating_sub(before);
    println!("128 MiB of values: {} KiB", more >> 10);
    let held = db.stats().expect("sound").memory.value_bytes;
    assert!(held > MEMORY / 2 && held <= MEMORY, "{held} bytes of values stay");
    assert!(more <= MEMORY + (16 << 20), "{} MiB resident for 128 MiB of values", more >> 20);
    drop(tree);
    db.close().expect("no fault");
}
