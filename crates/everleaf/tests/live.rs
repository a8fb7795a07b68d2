//! `check`, `count` and `stats` beside writers: no damage that is not there, and all that is.
//!
//! `EVERLEAF_SCALE` sets how many checks run beside the writers (100).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everleaf::{Db, Options, Storage, Tree};

const WRITERS: u64 = 4;

fn rounds() -> u64 {
    everleaf_testing::times(100)
}

fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) ^ x >> 31
}

/// One step of a writer: puts, removals, large values, batches, keys that pass by.
fn step(db: &Db, trees: &[Tree], own: u64, n: u64, large: bool) -> everleaf::Result<()> {
    let x = mix(n << 3 | own);
    let tree = &trees[(x >> 8) as usize % trees.len()];
    let key = format!("{:06}", (x >> 16) % 800);
    match x % 16 {
        0 if large => drop(tree.insert(&key, vec![n as u8; 3000 + (x >> 40) as usize % 9000])?),
        1 => {
            let mut batch = db.batch();
            for i in 0..8 {
                batch.put(tree, format!("{:06}", (x >> 16) % 800 + i), "batch")?;
            }
            batch.delete(&trees[0], &key)?;
            batch.commit()?;
        }
        2 if x >> 32 & 63 == 0 => drop(db.tree(&format!("new {:03}", (x >> 40) % 20))?),
        3..=6 => drop(tree.remove(&key)?),
        7 => {
            // A queue: leaves come on one side and go on the other.
            trees[1].insert(format!("q{own}{n:012}"), "queued")?;
            trees[1].remove(format!("q{own}{:012}", n.saturating_sub(2000)))?;
        }
        _ => drop(tree.insert(&key, vec![n as u8; (x >> 40) as usize % 120])?),
    }
    Ok(())
}

/// Runs `look` beside the writers, until it has had its rounds.
fn beside_writers(db: &Db, names: [&str; 3], large: bool, look: impl Fn(u64)) {
    let trees = names.map(|name| db.tree(name).unwrap());
    let (stop, writes) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for own in 0..WRITERS {
            let (trees, stop, writes) = (&trees, &stop, &writes);
            scope.spawn(move || {
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    step(db, trees, own, n, large).expect("there is room");
                    writes.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // The writers end with a panic here, too.
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _stop = Stop(&stop);
        (0..rounds()).for_each(&look);
    });
    eprintln!("{} looks beside {} writes", rounds(), writes.into_inner());
    assert_eq!(db.check().unwrap(), [], "at rest");
}

fn check_and_stats_are_true(options: &Options, large: bool) {
    let dir = tempfile::tempdir().unwrap();
    let db = options.open(dir.path().join("p.ever")).unwrap();
    beside_writers(&db, ["a", "b", "c"], large, |round| {
        assert_eq!(db.check().unwrap(), [], "round {round}");
        assert!(db.stats().unwrap().file_bytes > 0, "round {round}");
        assert!(db.count().unwrap().trees.len() >= 3, "round {round}");
    });
}

#[test]
fn a_check_beside_writers_reports_no_damage_that_is_not_there() {
    check_and_stats_are_true(&Options::new().page_bytes(512), false);
}

/// Pages come to memory and leave it all the while, so that a check finds some there and makes copies of others.
#[test]
fn a_check_beside_writers_in_a_tiny_memory_reports_none_either() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new().memory(128 << 10).open(dir.path().join("p.ever")).unwrap();
    let cold = db.tree("cold").unwrap();
    (0..20_000u32).for_each(|i| cold.put(i.to_be_bytes(), [1; 40]).unwrap());
    beside_writers(&db, ["a", "b", "c"], false, |round| {
        assert_eq!(db.check().unwrap(), [], "round {round}");
        let counts = db.count().unwrap();
        let cold = counts.trees.iter().find(|tree| tree.name == "cold").unwrap();
        assert_eq!(cold.entries, 20_000, "round {round}");
    });
    // However much the writers did: the cold tree is ten times as large as memory, and read twice in a round.
    let memory = db.stats().unwrap().memory;
    assert!(memory.evictions > 100 && memory.misses > 200 * rounds(), "{memory:?}");
}

#[test]
fn a_check_beside_writers_of_large_values_reports_none_either() {
    check_and_stats_are_true(&Options::new().page_bytes(1024), true);
}

#[test]
fn a_check_beside_writers_on_persistent_memory_reports_none_either() {
    let options = Options::new().page_bytes(256).max_bytes(64 << 20);
    check_and_stats_are_true(&options.storage(Storage::EmulatedDax), true);
}

/// The keys that are still there are counted whatever others do to their neighbours.
#[test]
fn stats_beside_writers_count_each_key_that_stays_once() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new().page_bytes(512).open(dir.path().join("p.ever")).unwrap();
    let tree = db.tree("t").unwrap();
    (0..4_000u32).for_each(|i| drop(tree.insert((2 * i).to_be_bytes(), "stays").unwrap()));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for own in 0..2u64 {
            let (tree, stop) = (&tree, &stop);
            scope.spawn(move || {
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    // One at a time beside those that stay: leaves split and merge all the while.
                    let burst = mix(n << 1 | own) as u32 % 3_900;
                    (burst..burst + 64).for_each(|i| {
                        tree.insert((2 * i + 1).to_be_bytes(), "").unwrap();
                    });
                    (burst..burst + 64).for_each(|i| {
                        tree.remove((2 * i + 1).to_be_bytes()).unwrap();
                    });
                }
            });
        }
        // Those that pass have no value.
        let bytes_of = |_| db.count().map_or(0, |counts| counts.trees[0].value_bytes);
        let counted: Vec<u64> = (0..rounds()).map(bytes_of).collect();
        stop.store(true, Ordering::Relaxed);
        let right = 4_000 * "stays".len() as u64;
        assert!(counted.iter().all(|bytes| *bytes == right), "{right}: {counted:?}");
    });
}

/// A page of a tree that nobody writes to fails its checksum.
#[test]
fn a_check_beside_writers_finds_the_damage_that_is_there() {
    use std::os::unix::fs::FileExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.ever");
    let options = Options::new().page_bytes(512);
    {
        let db = options.open(&path).unwrap();
        let tree = db.tree("cold").unwrap();
        for i in 0..2000u32 {
            tree.insert(i.to_be_bytes(), [0xA5; 40]).unwrap();
        }
        db.close().unwrap();
    }
    let bytes = std::fs::read(&path).unwrap();
    let at = everleaf_testing::images::find(&bytes, &[0xA5; 40]).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0], at as u64 + 7).unwrap();
    let db = options.open(&path).unwrap();
    let trees = ["a", "b", "c"].map(|name| db.tree(name).unwrap());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for own in 0..WRITERS {
            let (db, trees, stop) = (&db, &trees, &stop);
            scope.spawn(move || {
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    step(db, trees, own, n, true).expect("there is room");
                }
            });
        }
        let found: Vec<_> = (0..20).map(|_| db.check()).collect();
        stop.store(true, Ordering::Relaxed);
        for damages in found {
            let damages = damages.unwrap();
            let near = |offset: u64| offset.abs_diff(at as u64) < 400;
            assert!(!damages.is_empty() && damages.iter().any(|d| near(d.offset)), "{damages:?}");
            assert!(damages.iter().all(|d| d.what.contains("checksum")), "{damages:?}");
        }
    });
}
