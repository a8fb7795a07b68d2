//! A control group that bounds the memory of the processes in it, what the system caches of their files
//! included.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Where groups are, what bounds one, and what says its peak: of version 1 and version 2.
const ROOTS: [(&str, &str, &str); 2] = [
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
    ("/sys/fs/cgroup", "memory.max", "memory.peak"),
];

/// A control group. It goes when this is dropped.
pub struct Group {
    path: PathBuf,
    peak: &'static str,
}

impl Group {
    /// None if this system, or this user, can make none.
    pub fn new(bytes: u64) -> Option<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("everleaf-bench-{}-{number}", std::process::id());
        ROOTS.iter().find_map(|(root, limit, peak)| {
            let group = Self { path: Path::new(root).join(&name), peak };
            fs::create_dir(&group.path).ok()?;
            fs::write(group.path.join(limit), bytes.to_string()).ok()?;
            Some(group)
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The most bytes that it had at once, if the system tells.
    pub fn peak(&self) -> Option<u64> {
        fs::read_to_string(self.path.join(self.peak)).ok()?.trim().parse().ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes have ended, which the system may not have noticed yet.
        for _ in 0..100 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
