//! How much memory this process may use, and how pools share it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Memory that pools share: pages, large values, old values of snapshots, and changes that wait for the disk.
///
/// All pools that are [opened with it](crate::Options::budget) together take no more than it has. When they would, pages
/// and large values leave memory that were not used recently, whichever pool they are of; they are read again when they
/// are needed. So one busy pool beside many idle ones has nearly all of it. Each part that does not leave by itself
/// (changed pages, changes that wait, old values, page tables) has a bound for all pools together; a pool may always take
/// what would be its part if all took the same, so all of that comes to twice its bound at worst, and for a moment.
///
/// By default all pools of a process share [one](Budget::of_process). A handle is cheap to clone. A process that was forked
/// has no part of its parent's: there each pool has as much memory for itself.
///
/// ```
/// let dir = tempfile::tempdir()?;
/// let budget = everleaf::Budget::new(64 << 20);
/// let open = |name| everleaf::Options::new().budget(&budget).open(dir.path().join(name));
/// let pools = [open("orders.everleaf")?, open("customers.everleaf")?];
/// for db in &pools {
///     db.tree("t")?.put(b"key", [7; 1000])?;
/// }
/// assert_eq!(budget.pools(), 2);
/// assert!(budget.used() < budget.bytes());
/// # pools.into_iter().try_for_each(|db| db.close())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Budget(pub(crate) everleaf_file::Budget);

impl Budget {
    /// Makes one of so many bytes. Any number will do: the pages that operations need are in memory, however low it is.
    pub fn new(bytes: u64) -> Self {
        Self(everleaf_file::Budget::new(bytes))
    }

    /// Returns the one that pools share by default: a quarter of what the process may use, by the machine's memory and by
    /// control groups, as they are when it is first asked for.
    pub fn of_process() -> Self {
        static SHARED: OnceLock<Budget> = OnceLock::new();
        SHARED.get_or_init(|| Self::new(default_bytes())).clone()
    }

    /// Returns how many bytes it has.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Returns how many of them the pools take, about: a pool tells what it takes when pages come or leave, and when an
    /// epoch ends. O(1).
    pub fn used(&self) -> u64 {
        self.0.used()
    }

    /// Returns how many pools are open that share it. O(1).
    pub fn pools(&self) -> u64 {
        self.0.pools()
    }
}

/// Bytes that all pools may take if nobody says it: a quarter of what the process may use when it is first asked,
/// by the machine's memory and by its control groups.
pub(crate) fn default_bytes() -> u64 {
    static BYTES: OnceLock<u64> = OnceLock::new();
    *BYTES.get_or_init(|| usable(Path::new("/")).unwrap_or(4 << 30) / 4)
}

/// The least of the bounds that the system below `root` names, in bytes.
fn usable(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let files = groups.lines().flat_map(|line| limits(root, line).unwrap_or_default());
    let bound = |file: PathBuf| fs::read_to_string(file).ok()?.trim().parse().ok();
    let groups = files.filter_map(bound);
    installed(&fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default())
        .into_iter()
        .chain(groups)
        .min()
}

/// The machine's memory.
fn installed(meminfo: &str) -> Option<u64> {
    let kib = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    kib.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The files that may bound a group and those around it, from its line: `number:controllers:path`.
fn limits(root: &Path, line: &str) -> Option<Vec<PathBuf>> {
    let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
    let (mount, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        some if some.split(',').any(|one| one == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let groups = Path::new(path.trim_start_matches('/')).ancestors();
    Some(groups.map(|group| root.join(mount).join(group).join(file)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_bound_counts_of_the_machine_and_of_all_groups() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        assert_eq!(usable(root), None);
        let write = |file: &str, text: &str| {
            let path = root.join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\n");
        assert_eq!(usable(root), Some(1_024_000));
        write("proc/self/cgroup", "12:cpu:/x\n4:memory,other:/a\n0::/b/c\n");
        assert_eq!(usable(root), Some(1_024_000));
        write("sys/fs/cgroup/b/c/memory.max", "max\n");
        write("sys/fs/cgroup/b/memory.max", "900000\n");
        assert_eq!(usable(root), Some(900_000));
        write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "800000\n");
        assert_eq!(usable(root), Some(800_000));
        write("sys/fs/cgroup/b/c/memory.max", "700000\n");
        assert_eq!(usable(root), Some(700_000));
    }
}
