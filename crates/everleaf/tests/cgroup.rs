//! A pool that is larger than the memory of a whole control group: nobody is killed, and what pages take
//! stays within what they may. Where no group can be made that is said, and only the process's own
//! figures count.
//!
//! `EVERLEAF_SCALE` says how much pages may take (default 2); the group gets a quarter and 48 MiB
//! more, and the pool holds eight times as much.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use everleaf::{Options, Tree};
use everleaf_testing::size;

const CHILD: &str = "EVERLEAF_GROUP_CHILD";
const VALUE_BYTES: usize = 100;

/// A control group for memory, which is removed in the end.
struct Group(PathBuf);

impl Group {
    /// None if this system, or this user, can make none.
    fn new(bytes: u64) -> Option<Group> {
        let name = format!("everleaf-{}", std::process::id());
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

    fn tree(&self) -> (everleaf::Db, Tree) {
        let db = Options::new().memory(self.most).open(&self.path).expect("sound");
        let tree = db.tree("t").expect("sound");
        (db, tree)
    }

    /// What a child does.
    fn run(&self, phase: &str) {
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
#[ignore = "started by a_pool_is_larger_than_the_memory_of_its_group"]
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
