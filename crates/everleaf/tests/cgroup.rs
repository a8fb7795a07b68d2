//! A pool that is larger than the memory of a whole control group: nobody is killed, and what pages take
//! stays within what they may. Where no group can be made that is said, and only the process's own
//! figures count.
//!
//! `EVERLEAF_SCALE` says how much pages may take (default 2); the group gets a quarter and 48 MiB
//! more, and the pool holds eight times as much.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everleaf::{Budget, Db, Options, Tree};
use everleaf_testing::size;

const CHILD: &str = "EVERLEAF_GROUP_CHILD";
const VALUE_BYTES: usize = 100;
/// Pools that share memory.
const POOLS: u64 = 500;
/// Bytes that each of them takes beside that memory, whatever it does.
const POOL_BYTES: u64 = 150_000;

/// A control group for memory, which is removed in the end.
struct Group(PathBuf);

impl Group {
    /// None if this system, or this user, can make none.
    fn new(bytes: u64) -> Option<Group> {
        static GROUPS: AtomicU64 = AtomicU64::new(0);
        let number = GROUPS.fetch_add(1, Ordering::Relaxed);
        let name = format!("everleaf-{}-{number}", std::process::id());
        let roots =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        roots.iter().find_map(|(root, limit)| {
            let group = Group(Path::new(root).join(&name));
            fs::create_dir(&group.0).ok()?;
            fs::write(group.0.join(limit), bytes.to_string()).ok()?;
            Some(group)
        })
    }

    fn enter(&self) {
        fs::write(self.0.join("cgroup.procs"), std::process::id().to_string()).expect("a group");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes have ended, which the system may not have noticed yet.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn key(i: u64) -> [u8; 16] {
    let mut key = [7; 16];
    key[..8].copy_from_slice(&i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

fn value(i: u64) -> [u8; VALUE_BYTES] {
    [(i % 251) as u8; VALUE_BYTES]
}

/// Bytes of a process that are in memory and no file's.
fn resident(id: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

struct Job {
    path: PathBuf,
    most: u64,
    pairs: u64,
}

impl Job {
    fn of_environment() -> Option<(String, Job)> {
        let text = std::env::var(CHILD).ok()?;
        let [phase, path, most, pairs, group] = text.split('|').collect::<Vec<_>>()[..] else {
            panic!("{text}");
        };
        if !group.is_empty() {
            let group = std::mem::ManuallyDrop::new(Group(group.into()));
            group.enter();
        }
        let [most, pairs] = [most, pairs].map(|n| n.parse().expect("a number"));
        Some((phase.into(), Job { path: path.into(), most, pairs }))
    }

    fn start(&self, phase: &str, group: Option<&Group>) -> Child {
        let group = group.map_or(String::new(), |group| group.0.display().to_string());
        let job = format!("{phase}|{}|{}|{}|{group}", self.path.display(), self.most, self.pairs);
        let child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "child", "--ignored", "--nocapture"])
            .env(CHILD, job)
            .stdout(Stdio::null())
            .spawn();
        child.expect("a process")
    }

    /// Waits for a child; says how it ended, and the most memory that it took.
    fn watch(&self, mut child: Child, kill: impl Fn(Duration) -> bool) -> (ExitStatus, u64) {
        let (start, mut most) = (Instant::now(), 0);
        loop {
            if let Some(status) = child.try_wait().expect("a child") {
                return (status, most);
            }
            most = most.max(resident(child.id()));
            if kill(start.elapsed()) {
                child.kill().expect("a child");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The work of a child with many pools in one budget: it writes to all of them, in one order and in another, and reads.
    /// Every other pool ends epochs when it likes.
    fn share(&self) {
        let budget = Budget::new(self.most);
        let open = |no: u64| {
            let options = Options::new().budget(&budget).manual_epochs(no.is_multiple_of(2));
            let db = options.open(self.path.join(format!("{no}.ever"))).expect("new");
            let tree = db.tree("t").expect("new");
            (db, tree)
        };
        let pools: Vec<_> = (0..POOLS).map(open).collect();
        let each = self.pairs / POOLS;
        // A few at a time, as their owners have something to write; and all of them in turns.
        for i in 0..each / 2 {
            pools.iter().for_each(|(_, tree)| tree.put(key(i), value(i)).expect("space"));
        }
        for (db, tree) in &pools {
            (each / 2..each).for_each(|i| tree.put(key(i), value(i)).expect("space"));
            db.end_epoch().expect("no fault");
        }
        for (no, (db, tree)) in pools.iter().enumerate() {
            assert_eq!(tree.len().expect("sound"), each);
            for i in (no as u64 % 7..each).step_by(7) {
                assert_eq!(tree.get(key(i)).expect("sound").as_deref(), Some(&value(i)[..]));
            }
            db.end_epoch().expect("no fault");
        }
        assert_eq!(budget.pools(), POOLS);
        println!("{budget:?}");
        let evictions = |(db, _): &(Db, Tree)| db.stats().expect("sound").memory.evictions;
        assert!(pools.iter().map(evictions).sum::<u64>() > POOLS);
        pools.into_iter().for_each(|(db, _)| db.close().expect("no fault"));
    }

    fn tree(&self) -> (everleaf::Db, Tree) {
        let db = Options::new().memory(self.most).open(&self.path).expect("sound");
        let tree = db.tree("t").expect("sound");
        (db, tree)
    }

    /// Runs one phase in a child.
    fn run(&self, phase: &str) {
        if phase == "share" {
            return self.share();
        }
        let (db, tree) = self.tree();
        match phase {
            "load" => {
                for i in 0..self.pairs {
                    tree.put(key(i), value(i)).expect("space");
                }
            }
            "read" => {
                for i in 0..self.pairs / 4 {
                    let i = i * 7919 % self.pairs;
                    assert_eq!(tree.get(key(i)).expect("sound").as_deref(), Some(&value(i)[..]));
                }
                assert_eq!(
                    tree.iter().map(|pair| drop(pair.expect("sound"))).count() as u64,
                    self.pairs
                );
            }
            // Until it is killed.
            _ => loop {
                for i in 0..self.pairs {
                    let i = i * 6007 % self.pairs;
                    tree.put(key(i), value(i)).expect("space");
                }
            },
        }
        let memory = db.stats().expect("sound").memory;
        assert!(memory.evictions > self.pairs / 100, "{memory:?}");
        drop(tree);
        db.close().expect("no fault");
    }
}

#[test]
#[ignore = "started by the others"]
fn child() {
    if let Some((phase, job)) = Job::of_environment() {
        job.run(&phase);
    }
}

#[test]
fn a_pool_is_larger_than_the_memory_of_its_group() {
    let most = size([2, 12, 256]) << 20;
    let group = Group::new(most + most / 4 + (48 << 20));
    if group.is_none() {
        println!("no control group can be made here: only the process's own memory is looked at");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let job = Job {
        path: dir.path().join("p.ever"),
        most,
        // About 170 bytes of a page each.
        pairs: 8 * most / 170,
    };
    // Journal, buffers and threads come on top of pages.
    let bound = most + most / 20 + (16 << 20);
    for phase in ["load", "read", "write", "read"] {
        let child = job.start(phase, group.as_ref());
        let kill = |after: Duration| phase == "write" && after > Duration::from_millis(700);
        let (status, peak) = job.watch(child, kill);
        println!("{phase}: {} MiB at most, {status}", peak >> 20);
        assert!(status.success() || phase == "write", "{phase}: {status}");
        assert!(peak <= bound, "{phase}: {} MiB, {} for pages", peak >> 20, most >> 20);
    }
    let pool = fs::metadata(&job.path).expect("there").len();
    assert!(pool > 4 * most, "{} MiB are no large pool", pool >> 20);
}

#[test]
fn five_hundred_pools_share_the_memory_of_their_group() {
    let most = size([64, 64, 256]) << 20;
    // Buffers of threads and of steps, and the heap's own.
    let bound = most + most / 8 + POOLS * POOL_BYTES + (16 << 20);
    let group = Group::new(bound + (16 << 20));
    if group.is_none() {
        println!("no control group can be made here: only the process's own memory is looked at");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let job = Job { path: dir.path().into(), most, pairs: 2 * most / 170 };
    let (status, peak) = job.watch(job.start("share", group.as_ref()), |_| false);
    println!("{} MiB at most, {} may be, {status}", peak >> 20, bound >> 20);
    assert!(status.success(), "{status}");
    assert!(peak <= bound, "{} MiB, {} for all pools", peak >> 20, most >> 20);
}
