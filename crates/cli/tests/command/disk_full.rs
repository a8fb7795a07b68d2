//! A disk that runs full: a clear end, nothing acknowledged is lost, and all is well once there is
//! space again. The disk is a small tmpfs; where it cannot be mounted the tests say so and pass.
//!
//! It has 300 MiB before a release (`EVERLEAF_SCALE`), so that it fills during checkpoints.

use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Place, Ran, everleaf, spawn};
use tempfile::TempDir;

/// A small file system in memory, until the end of the test.
struct Disk {
    dir: TempDir,
}

impl Disk {
    fn mount(mib: u64) -> Option<Disk> {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={mib}m");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(dir.path())
            .stderr(Stdio::null())
            .status();
        if mount.is_ok_and(|status| status.success()) {
            return Some(Disk { dir });
        }
        println!("skipped: a tmpfs cannot be mounted here");
        None
    }

    fn grow(&self, mib: u64) {
        let size = format!("remount,size={mib}m");
        let mount = Command::new("mount").args(["-o", &size]).arg(self.path()).status();
        assert!(mount.unwrap().success());
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Leaves no byte free.
    fn fill(&self) {
        let mut file = fs::File::create(self.path().join("filler")).unwrap();
        for block in [1 << 20, 4096] {
            while file.write_all(&vec![7; block]).is_ok() {}
        }
    }

    /// A place whose pool is on this disk.
    fn place(&self) -> Place {
        Place { dir: tempfile::tempdir().unwrap(), pool: self.path().join("p.ever") }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmount = |lazily: &[&str]| {
            let status = Command::new("umount").args(lazily).arg(self.dir.path()).status();
            status.is_ok_and(|status| status.success())
        };
        if !unmount(&[]) {
            unmount(&["-l"]);
        }
    }
}

/// The key in a line of the load.
fn key(line: u64) -> String {
    format!("{:016x}", line.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Of each hundred values `large` are in extents.
fn value(line: u64, large: u64) -> String {
    let hash = line.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 20;
    let length = if hash % 100 < large { 3000 + hash % 40_000 } else { hash % 300 };
    format!("{line}.{}", "x".repeat(length as usize))
}

/// Loads until something ends it. Returns how it ended and how many lines it acknowledged.
fn load(pool: &PathBuf, large: u64, options: &[&str]) -> (Ran, u64) {
    let mut load = everleaf();
    load.arg("load").arg(pool).args(["t", "-", "--ack"]).args(options);
    let mut child = spawn(&mut load);
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut stderr = child.stderr.take().unwrap();
    let (acked, err) =
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut out = BufWriter::new(stdin);
                let mut lines = 0..u64::MAX;
                while lines.next().is_some_and(|line| {
                    writeln!(out, "{}\t{}", key(line), value(line, large)).is_ok()
                }) {}
            });
            let errors = scope.spawn(move || {
                let mut err = String::new();
                stderr.read_to_string(&mut err).unwrap();
                err
            });
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            let numbers = lines.filter_map(|line| line.strip_prefix("durable ")?.parse().ok());
            (numbers.last().unwrap_or(0), errors.join().unwrap())
        });
    (Ran { code: child.wait().unwrap().code(), out: Vec::new(), err }, acked)
}

/// That the pool holds the first lines of the load and nothing else, but maybe the pair of a put
/// that failed. Returns how many.
fn found(place: &Place, large: u64) -> u64 {
    let scanned = place.run("scan", ["t"]).ended(0);
    let mut pairs: Vec<_> = scanned.text().lines().map(|l| l.split_once('\t').unwrap()).collect();
    pairs.retain(|pair| pair.0 != "more");
    let line_of = |value: &str| value.split_once('.').unwrap().0.parse::<u64>().unwrap();
    pairs.sort_by_key(|pair| line_of(pair.1));
    for (line, pair) in (0..).zip(&pairs) {
        assert!(pair.0 == key(line) && pair.1 == value(line, large), "line {line}");
    }
    pairs.len() as u64
}

fn says_that_the_disk_is_full(ran: Ran) {
    let ran = ran.ended(4);
    assert!(ran.err.contains("No space left on device"), "{ran}");
}

fn fill_and_recover(mib: u64, large: u64, options: &[&str]) {
    let Some(disk) = Disk::mount(mib) else { return };
    let place = disk.place();
    let (ran, acked) = load(&place.pool, large, options);
    says_that_the_disk_is_full(ran);
    assert!(acked > 0, "some lines came before");
    // A reader needs no space.
    let kept = found(&place, large);
    assert!(kept >= acked, "{acked} acknowledged, {kept} found");
    place.run("check", [""; 0]).ended(0);
    disk.fill();
    let put = place.run("put", ["t", "more", &"v".repeat(100_000)]);
    if put.code == Some(0) {
        // It fit into what the load had reserved for its journal.
        assert_eq!(place.run("get", ["t", "more"]).ended(0).text().len(), 100_001);
    } else {
        says_that_the_disk_is_full(put);
    }
    assert_eq!(found(&place, large), kept);

    disk.grow(4 * mib + 64);
    assert_eq!(found(&place, large), kept);
    place.run("check", [""; 0]).ended(0);
    place.run("put", ["t", "more", "v"]).ended(0);
    place.run("get", ["t", "more"]).ended(0).says("v\n");
    place.run("del", ["t", "more"]).ended(0);
    assert_eq!(found(&place, large), kept);
    place.run("check", [""; 0]).ended(0);
}

#[test]
fn small_values_fill_the_disk() {
    fill_and_recover(everleaf_testing::size([12, 12, 300]), 0, &[]);
}

#[test]
fn large_values_fill_the_disk() {
    fill_and_recover(everleaf_testing::size([24, 24, 300]), 10, &[]);
}

#[test]
fn lines_that_are_synced_one_by_one_fill_the_disk() {
    fill_and_recover(6, 2, &["--sync"]);
}

#[test]
fn a_pool_that_does_not_fit_is_made_when_there_is_space() {
    let Some(disk) = Disk::mount(4) else { return };
    let place = disk.place();
    disk.fill();
    says_that_the_disk_is_full(place.run("put", ["t", "k", "v"]));
    disk.grow(64);
    place.run("put", ["t", "k", "v"]).ended(0);
    place.run("get", ["t", "k"]).ended(0).says("v\n");
    place.run("check", [""; 0]).ended(0);
}
