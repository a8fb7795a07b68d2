//! A hundred thousand trees in a memory that holds the pages of few: what a tree takes is forgotten when nobody uses
//! the tree. Children do the work, because memory is counted for a whole process.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use everleaf::{Db, Options};
use everleaf_testing::Rng;
use peak_alloc::PeakAlloc;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const CHILD: &str = "EVERLEAF_TREES_CHILD";

/// Bytes of this process that are in memory and no file's.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux");
    let kib = line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok());
    kib.expect("a number") << 10
}

fn name(i: u64) -> String {
    format!("tree {i:06}")
}

/// Figures that were seen while one thing was done.
#[derive(Debug)]
struct Seen {
    /// Bytes that the process took beyond those before the pool, and at the end.
    resident: u64,
    resident_now: u64,
    /// Bytes that the pool says, and at the end.
    counted: u64,
    counted_now: u64,
    /// Bytes of the heap at the end.
    #[expect(dead_code, reason = "printed")]
    heap_now: u64,
    #[expect(dead_code, reason = "printed")]
    misses: u64,
    #[expect(dead_code, reason = "printed")]
    took: Duration,
}

struct Life<'d> {
    db: &'d Db,
    trees: u64,
    before: u64,
    rng: Rng,
}

impl Life<'_> {
    /// Looks at a pool again and again while `run` uses it.
    fn watched(&mut self, run: impl FnOnce(&mut Self)) -> Seen {
        let (resident_most, counted_most) = (AtomicU64::new(0), AtomicU64::new(0));
        let (is_over, db, before) = (AtomicBool::new(false), self.db, self.before);
        let look = || {
            let memory = db.stats().expect("open").memory;
            counted_most.fetch_max(memory.bytes, Relaxed);
            let resident = resident().saturating_sub(before);
            resident_most.fetch_max(resident, Relaxed);
            (memory, resident)
        };
        let (start, misses) = (Instant::now(), db.stats().expect("open").memory.misses);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    look();
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let _over = scopeguard::guard((), |()| is_over.store(true, Relaxed));
            run(self);
        });
        let took = start.elapsed();
        let (memory, resident_now) = look();
        Seen {
            resident: resident_most.load(Relaxed),
            resident_now,
            counted: counted_most.load(Relaxed),
            counted_now: memory.bytes,
            heap_now: HEAP.current_usage() as u64,
            misses: memory.misses - misses,
            took,
        }
    }

    /// A tree that stays.
    fn random(&mut self) -> String {
        name(self.rng.below(self.trees / 5) * 5 + 1)
    }

    fn run(&mut self, phase: &str) {
        let (db, trees) = (self.db, self.trees);
        match phase {
            "create" => (0..trees).for_each(|i| {
                db.tree(&name(i)).expect("room").put("k", "v").expect("room");
            }),
            "get" => (0..trees / 2).for_each(|_| {
                let tree = db.tree(&self.random()).expect("there");
                assert!(tree.get("k").expect("sound").is_some());
            }),
            "put" => (0..trees / 2).for_each(|_| {
                db.tree(&self.random()).expect("there").put("k", "w").expect("room");
            }),
            "len" => (0..trees / 2).for_each(|_| {
                assert_eq!(db.tree(&self.random()).expect("there").len().expect("sound"), 1);
            }),
            "drop" => (0..trees / 5).for_each(|i| {
                assert!(db.drop_tree(&name(5 * i)).expect("there"));
            }),
            "checkpoint" => db.checkpoint().expect("no fault"),
            "check" => assert_eq!(db.check().expect("read"), []),
            _ => unreachable!("{phase}"),
        }
    }
}

/// Runs phases in a child: each phase is within `most` bytes, and the process within a quarter more.
fn live(path: &Path, most: u64, trees: u64, phases: &[&str]) {
    let before = resident();
    let db = Options::new().memory(most).open(path).expect("sound");
    let mut life = Life { db: &db, trees, before, rng: Rng(7) };
    for phase in phases {
        let seen = life.watched(|life| life.run(phase));
        println!("{phase}: {seen:?}");
        assert!(seen.counted <= most, "{phase}: {seen:?}");
        assert!(seen.resident <= most / 4 * 5, "{phase}: {seen:?}");
        if *phase == "checkpoint" {
            let live = db.stats().expect("open").live_bytes;
            println!("a tree takes {} bytes of the file", live / trees);
            assert!(live / trees < 600, "{live} bytes for {trees} trees");
        }
        // The pool takes what it reports, beside the heap of the program.
        let is_near = seen.counted_now.abs_diff(seen.resident_now) <= seen.resident_now / 4;
        assert!(is_near, "{phase}: {seen:?}");
    }
    db.close().expect("no fault");
}

#[test]
#[ignore = "started by trees_that_nobody_uses_take_no_memory"]
fn child() {
    let Ok(text) = std::env::var(CHILD) else { return };
    let [path, most, trees, phases] = text.split('|').collect::<Vec<_>>()[..] else {
        panic!("{text}");
    };
    let [most, trees] = [most, trees].map(|n| n.parse().expect("a number"));
    live(Path::new(path), most, trees, &phases.split(' ').collect::<Vec<_>>());
}

/// Runs a child, whose allocator gives back what is large as soon as it is free.
fn spawn(path: &Path, most: u64, trees: u64, phases: &str) {
    let status = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(CHILD, format!("{}|{most}|{trees}|{phases}", path.display()))
        .env("MALLOC_MMAP_THRESHOLD_", "131072")
        .status();
    assert!(status.expect("a process").success(), "{phases}");
}

#[test]
fn trees_that_nobody_uses_take_no_memory() {
    let (trees, most) = (100_000, 32 << 20);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    spawn(&path, most, trees, "create get put len checkpoint check drop");
    spawn(&path, most, trees, "get put len check");
}
