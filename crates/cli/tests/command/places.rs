//! Places that are hostile to a pool, or become so while it is open.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use crate::common::{Place, contents, everleaf, run, spawn};
use tempfile::TempDir;

const READERS: [(&str, &[&str]); 4] =
    [("get", &["t", "k"]), ("scan", &["t"]), ("stat", &[]), ("check", &[])];
const WRITERS: [(&str, &[&str]); 3] =
    [("put", &["t", "k", "v"]), ("del", &["t", "k"]), ("load", &["t"])];

fn beside(place: &Place, suffix: &str) -> PathBuf {
    let mut name = place.pool.clone().into_os_string();
    name.push(suffix);
    name.into()
}

fn fifo(path: &Path) -> bool {
    Command::new("mkfifo").arg(path).status().is_ok_and(|status| status.success())
}

/// A load that has acknowledged its first lines and waits for more.
struct Open {
    child: Child,
    stdin: ChildStdin,
    acks: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Open {
    fn new(place: &Place, lines: u64) -> Open {
        let mut load = everleaf();
        load.arg("load").arg(&place.pool).args(["t", "-", "--ack", "--sync"]);
        let mut child = spawn(&mut load);
        let stdin = child.stdin.take().unwrap();
        let acks = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut open = Open { child, stdin, acks };
        (1..=lines).for_each(|line| open.put(line).unwrap());
        open
    }

    /// Sets a pair and waits until it is acknowledged; the error is that of a load that has ended.
    fn put(&mut self, line: u64) -> std::io::Result<()> {
        self.put_pair(line, &format!("k{line:04}\tv{line}"))
    }

    fn put_pair(&mut self, line: u64, pair: &str) -> std::io::Result<()> {
        writeln!(self.stdin, "{pair}")?;
        match self.acks.next() {
            Some(ack) => assert_eq!(ack?, format!("durable {line}")),
            None => return Err(std::io::ErrorKind::BrokenPipe.into()),
        }
        Ok(())
    }

    /// How it ends by itself, and what it says.
    fn end(mut self) -> (ExitStatus, String) {
        drop(self.stdin);
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap(), said)
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Puts something that is no regular file in the place of one; `target` is what a link leads to. Whether
/// that can be done here.
fn put_in_the_way(kind: &str, name: &Path, target: &Path) -> bool {
    match kind {
        "pipe" => return fifo(name),
        "link" => symlink(target, name).unwrap(),
        _ => fs::create_dir(name).unwrap(),
    }
    true
}

#[test]
fn pipes_links_and_directories_in_the_place_of_a_pool_are_refused_at_once() {
    for kind in ["pipe", "link", "directory"] {
        let place = Place::new();
        place.run("put", ["t", "k", "v"]).ended(0);
        let target = place.dir.path().join("elsewhere");
        fs::rename(&place.pool, &target).unwrap();
        if !put_in_the_way(kind, &place.pool, &target) {
            continue;
        }
        let before = fs::read(&target).unwrap();
        for (command, args) in READERS.into_iter().chain(WRITERS) {
            let ran = place.run_with(command, args, b"k\tv\n").ended(3);
            assert!(ran.err.contains("not a regular file"), "{kind}, {command}: {ran}");
            assert!(fs::read(&target).unwrap() == before, "{kind}, {command}: changed the file");
        }
        assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 2, "{kind}");
    }
}

#[test]
fn a_link_to_nothing_in_the_place_of_a_pool_is_refused_and_makes_nothing() {
    let place = Place::new();
    symlink(place.dir.path().join("elsewhere"), &place.pool).unwrap();
    for (command, args) in READERS.into_iter().chain(WRITERS) {
        let ran = place.run_with(command, args, b"k\tv\n").ended(3);
        assert!(ran.err.contains("not a regular file"), "{command}: {ran}");
    }
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 1);
}

#[test]
fn pipes_links_and_directories_in_the_place_of_an_unfinished_pool_are_passed_by_or_refused_at_once()
{
    let suffixes: Vec<_> =
        (0..10).map(|i| if i == 0 { "-new".into() } else { format!("-new{i}") }).collect();
    for kind in ["pipe", "link", "directory"] {
        let place = Place::new();
        let target = place.dir.path().join("elsewhere");
        fs::write(&target, "a text of somebody's").unwrap();
        let names = suffixes.iter().map(|suffix| beside(&place, suffix));
        if !names.clone().all(|name| put_in_the_way(kind, &name, &target)) {
            continue;
        }
        for (command, args) in WRITERS.into_iter().filter(|writer| writer.0 != "del") {
            let ran = place.run_with(command, args, b"k\tv\n").ended(4);
            assert!(ran.err.contains("are taken"), "{kind}, {command}: {ran}");
        }
        // One free name is enough.
        let free = beside(&place, "-new7");
        if kind == "directory" { fs::remove_dir(&free) } else { fs::remove_file(&free) }.unwrap();
        place.run("put", ["t", "k", "v"]).ended(0);
        place.run("get", ["t", "k"]).ended(0).says("v\n");
        assert!(!fs::symlink_metadata(&place.pool).unwrap().is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"a text of somebody's", "{kind}");
        let left = names.filter(|name| fs::symlink_metadata(name).is_ok()).count();
        assert_eq!(left, 9, "{kind}: all are still there");
        assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 11, "{kind}");
    }
}

/// A file system in memory that can become read-only, until the end of the test.
struct Disk(TempDir);

impl Disk {
    fn mount() -> Option<Disk> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(dir.path());
        if mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
            return Some(Disk(dir));
        }
        println!("skipped: a tmpfs cannot be mounted here");
        None
    }

    fn set(&self, how: &str) {
        let remounted = Command::new("mount")
            .args(["-o", &format!("remount,{how}")])
            .arg(self.0.path())
            .status();
        assert!(remounted.unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_read_only_file_system_can_be_read() {
    let Some(disk) = Disk::mount() else { return };
    let place = Place { dir: tempfile::tempdir().unwrap(), pool: disk.0.path().join("p.ever") };
    let open = Open::new(&place, 3);
    open.kill(); // what is acknowledged is in the journal
    place.run("put", ["t", "k", "v"]).ended(0);
    Open::new(&place, 5).kill();
    disk.set("ro");
    for (command, args) in READERS {
        place.run(command, args).ended(0);
    }
    let expected = (1..=5).map(|i| format!("k{i:04}\tv{i}\n")).collect::<String>();
    place.run("scan", ["t"]).ended(0).says(&format!("k\tv\n{expected}"));
    for (command, args) in WRITERS {
        let ran = place.run_with(command, args, b"k\tv\n").ended(4);
        assert!(ran.err.contains("Read-only file system"), "{command}: {ran}");
    }
    disk.set("rw");
    place.run("del", ["t", "k"]).ended(0);
    place.run("scan", ["t"]).ended(0).says(&expected);
}

/// So many pairs that a scan is not through with them when its reader stops.
fn many() -> String {
    (0..150_000).map(|i| format!("{i:08}\t{}\n", i * 7)).collect()
}

#[test]
fn a_file_that_is_cut_under_a_reader_is_damage_and_no_fault() {
    let lines = many();
    for keep in [0, 4096, 100_000, 1 << 20] {
        let place = Place::new();
        place.run_with("load", ["t"], lines.as_bytes()).ended(0);
        let mut scan = everleaf();
        scan.arg("scan").arg(&place.pool).arg("t");
        let mut scan = scan.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = scan.stdout.take().unwrap();
        out.read_exact(&mut [0; 10]).unwrap(); // it is open
        File::options().write(true).open(&place.pool).unwrap().set_len(keep).unwrap();
        std::io::copy(&mut out, &mut std::io::sink()).unwrap();
        let mut said = String::new();
        scan.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let status = scan.wait().unwrap();
        assert_eq!(status.code(), Some(3), "cut to {keep}: {status}: {said}");
        assert!(said.contains("everleaf:") && !said.contains("panicked"), "{said}");
        place.run("check", [""; 0]).ended(3);
    }
}

#[test]
fn a_file_that_is_cut_under_a_writer_harms_nobody_but_itself() {
    for keep in [0, 8192, 200_000] {
        let place = Place::new();
        place.run_with("load", ["t"], many().as_bytes()).ended(0);
        let mut open = Open::new(&place, 1);
        File::options().write(true).open(&place.pool).unwrap().set_len(keep).unwrap();
        let ended = (2..300).find(|&line| open.put(line).is_err());
        let (status, said) = open.end();
        // It touched nothing that was cut, or it met damage, or it could not go on.
        assert!(matches!(status.code(), Some(0 | 3 | 4)), "{ended:?}: {status}: {said}");
        assert!(!said.contains("panicked"), "{said}");
        let ran = place.run("scan", ["t"]);
        assert!(matches!(ran.code, Some(3)), "what was cut is missed: {ran}");
    }
}

#[test]
fn a_pool_that_is_removed_while_open_is_gone_and_harms_no_new_one() {
    for closes in [true, false] {
        let place = Place::new();
        place.run("put", ["t", "k", "v"]).ended(0);
        let mut open = Open::new(&place, 2);
        fs::remove_file(&place.pool).unwrap();
        open.put(3).unwrap();
        for (command, args) in READERS {
            let ran = place.run(command, args).ended(4);
            assert!(ran.err.contains("No such file"), "{command}: {ran}");
            assert!(contents(place.dir.path()).is_empty(), "{command}: made a file");
        }
        // A process that has the old file open neither hinders a new pool of that name nor writes to it.
        place.run("put", ["t", "new", "w"]).ended(0);
        let before = contents(place.dir.path());
        open.put(4).unwrap();
        if closes {
            let (status, said) = open.end();
            assert!(status.success(), "{said}");
        } else {
            open.kill();
        }
        assert!(contents(place.dir.path()) == before, "the new pool was changed");
        place.run("scan", ["t"]).ended(0).says("new\tw\n");
        place.run("put", ["t", "new", "x"]).ended(0);
        place.run("check", [""; 0]).ended(0);
    }
}

/// The places of the blocks of journals in a pool's file (docs/FORMAT.md).
fn blocks(file: &[u8]) -> Vec<usize> {
    (0..file.len()).step_by(4096).filter(|&at| file[at..].starts_with(b"EBLK")).collect()
}

#[test]
fn blocks_of_another_pool_are_told_from_ones_own() {
    let (place, other) = (Place::new(), Place::new());
    Open::new(&place, 3).kill();
    let mut open = Open::new(&other, 0);
    (1..=3).for_each(|line| open.put_pair(line, &format!("c{line:04}\tw{line}")).unwrap());
    open.kill();
    let [own, others] = [&place, &other].map(|place| fs::read(&place.pool).unwrap());
    let at = blocks(&own);
    assert!(at.len() >= 3 && blocks(&others) == at, "{at:?}, {:?}", blocks(&others));
    // Each block alone, and then all of them.
    let each = at.iter().map(|&at| vec![at]);
    for hit in each.chain([at.clone()]) {
        let mut bytes = own.clone();
        for &at in &hit {
            bytes[at..at + 4096].copy_from_slice(&others[at..at + 4096]);
        }
        // The last block alone passes for one that a power cut tore, for within an extent a value may have such bytes.
        // One behind it shows that it was not torn; and at the start of an extent nobody but the pool writes.
        let is_torn = hit == at[at.len() - 1..];
        for (command, args) in READERS.into_iter().chain(WRITERS) {
            fs::write(&place.pool, &bytes).unwrap();
            let before = contents(place.dir.path());
            let ran = place.run_with(command, args, b"k\tv\n");
            if !is_torn {
                let ran = ran.ended(3);
                assert!(ran.err.contains("everleaf:"), "{hit:?}, {command}: {ran}");
                assert!(contents(place.dir.path()) == before, "{command}: changed the files");
                continue;
            }
            assert!(matches!(ran.code, Some(0 | 1)), "{hit:?}, {command}: {ran}");
            if command == "scan" {
                let truth = "k0001\tv1\nk0002\tv2\nk0003\tv3\n";
                let is_start = truth.starts_with(ran.text()) && ran.text() != truth;
                assert!(is_start, "{hit:?}: {ran}");
            }
        }
    }
}

#[test]
fn files_are_private_whatever_the_mask_and_closed_on_exec() {
    const O_CLOEXEC: u32 = 0o2_000_000;
    let place = Place::new();
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 0; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_everleaf"), "put"]);
    assert_eq!(run(shell.arg(&place.pool).args(["t", "k", "v"]), b"").code, Some(0));
    for (path, _) in contents(place.dir.path()) {
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }

    let open = Open::new(&place, 1);
    let of_process = PathBuf::from(format!("/proc/{}", open.child.id()));
    let mut files = 0;
    for entry in fs::read_dir(of_process.join("fd")).unwrap() {
        let entry = entry.unwrap();
        let Ok(target) = fs::read_link(entry.path()) else { continue };
        if !target.starts_with(fs::canonicalize(place.dir.path()).unwrap()) {
            continue;
        }
        let info = fs::read_to_string(of_process.join("fdinfo").join(entry.file_name())).unwrap();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
        let flags = u32::from_str_radix(flags, 8).unwrap();
        assert!(flags & O_CLOEXEC != 0, "{}: {flags:o}", target.display());
        files += 1;
    }
    assert_eq!(files, 1, "the pool is one file");
    assert!(open.end().0.success());
}
