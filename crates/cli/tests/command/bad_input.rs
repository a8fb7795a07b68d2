//! Pools that are missing, foreign or in the way, and arguments that make no sense: the exit code
//! says which, nothing panics, nothing changes on disk.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;

use crate::common::{Place, contents, everleaf, run};

/// Each command with arguments that would do for a sound pool.
const COMMANDS: [(&str, &[&str]); 13] = [
    ("put", &["t", "k", "v"]),
    ("get", &["t", "k"]),
    ("del", &["t", "k"]),
    ("load", &["t"]),
    ("scan", &["t"]),
    ("stat", &[]),
    ("count", &[]),
    ("count", &["t"]),
    ("check", &[]),
    ("trees", &[]),
    ("dump", &[]),
    ("rename", &["t", "u"]),
    ("drop", &["u"]),
];

/// All commands end with one of `codes` and leave the directory as it is.
#[track_caller]
fn all_refuse(place: &Place, codes: &[i32]) {
    let before = contents(place.dir.path());
    for (command, args) in COMMANDS {
        let ran = place.run_with(command, args, b"k\tv\n");
        let code = ran.code.unwrap_or(-1);
        assert!(codes.contains(&code), "{command}: {ran}");
        assert_eq!(ran.ended(code).out, b"", "{command}");
        assert_eq!(contents(place.dir.path()), before, "{command} changed the files");
    }
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_missing_pool_is_not_made_by_those_who_only_look() {
    for (command, args) in COMMANDS {
        let place = Place::new();
        let makes = ["put", "load"].contains(&command);
        let ran = place.run_with(command, args, b"k\tv\n");
        assert_eq!(ran.ended(if makes { 0 } else { 4 }).out, b"");
        assert_eq!(place.pool.exists(), makes, "{command}");
    }
}

#[test]
fn a_missing_directory_or_input_is_an_io_error() {
    let mut place = Place::new();
    place.run("load", ["t", "no such file"]).ended(4);
    assert!(!place.pool.exists());
    place.pool = place.dir.path().join("no/such/place.ever");
    all_refuse(&place, &[4]);
}

#[test]
fn foreign_files_are_refused() {
    for bytes in [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], b"text\n", &[0; 100_000], &[0xFF; 1 << 20]]
    {
        let place = Place::new();
        write(&place.pool, bytes);
        all_refuse(&place, &[3]);
    }
}

#[test]
fn an_empty_file_is_no_pool() {
    let place = Place::new();
    write(&place.pool, "");
    all_refuse(&place, &[3]);
}

#[test]
fn directories_symlinks_and_devices_are_refused() {
    let mut place = Place::new();
    fs::create_dir(&place.pool).unwrap();
    all_refuse(&place, &[3, 4]);

    place.pool = place.dir.path().join("real.ever");
    place.run("put", ["t", "k", "v"]).ended(0);
    let link = place.dir.path().join("link.ever");
    symlink(&place.pool, &link).unwrap();
    place.pool = link;
    all_refuse(&place, &[3, 4]);

    place.pool = "/dev/null".into();
    all_refuse(&place, &[3, 4]);
}

#[test]
fn a_refusal_names_the_pool_once() {
    let mut place = Place::new();
    let dir = place.dir.path().to_owned();
    fs::create_dir(dir.join("folder")).unwrap();
    write(&dir.join("text"), "no pool");
    let new = dir.join("new").display().to_string();
    let new = [&new[..]];
    for name in ["no/such", "folder", "text"] {
        place.pool = dir.join(name);
        let commands = COMMANDS.into_iter().chain([("compact", &[][..]), ("salvage", &new)]);
        let rans = commands.map(|(command, args)| place.run_with(command, args, b"k\tv\n"));
        let looks = [["page", "0"], ["journal", "--blocks"], ["tree", "t"]].map(|[what, arg]| {
            run(everleaf().args(["debug", what]).arg(&place.pool).arg(arg), b"")
        });
        for ran in rans.chain(looks) {
            assert!(matches!(ran.code, Some(3 | 4)), "{name}: {ran}");
            let names = ran.err.matches(&place.pool.display().to_string()).count();
            assert_eq!(names, 1, "{name}: {ran}");
        }
    }
}

#[test]
fn a_pool_without_permission_is_an_io_error() {
    let place = Place::new();
    place.run("put", ["t", "k", "v"]).ended(0);
    fs::set_permissions(&place.pool, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&place.pool).is_ok() {
        return; // the superuser may open anything
    }
    for (command, args) in COMMANDS {
        place.run_with(command, args, b"k\tv\n").ended(4);
    }
}

#[test]
fn a_read_only_place_takes_no_pool() {
    let mut place = Place::new();
    let dir = place.dir.path().join("read-only");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o555)).unwrap();
    let writable = fs::write(dir.join("probe"), "").is_ok();
    // The superuser may write anywhere but here.
    place.pool = if writable { "/proc/p.ever".into() } else { dir.join("p.ever") };
    all_refuse(&place, &[4]);
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn new_pools_are_private() {
    let place = Place::new();
    place.run("put", ["t", "k", "v"]).ended(0);
    for (path, _) in contents(place.dir.path()) {
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
}

#[test]
fn a_pool_that_is_being_written_is_locked() {
    let place = Place::new();
    place.run("put", ["t", "k", "v"]).ended(0);
    let mut load = everleaf();
    load.arg("load").arg(&place.pool).args(["t", "-", "--ack", "--sync"]);
    load.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = load.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"a\tb\n").unwrap();
    std::io::Read::read_exact(&mut stdout, &mut [0; 10]).unwrap(); // "durable 1\n": it is open
    for (command, args) in COMMANDS {
        let ran = place.run_with(command, args, b"k\tv\n").ended(4);
        assert!(ran.err.contains("open in another process"), "{ran}");
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
    place.run("scan", ["t"]).ended(0).says("a\tb\nk\tv\n");
}

#[test]
fn readers_change_nothing_on_disk() {
    let place = Place::new();
    place.run_with("load", ["t"], b"a\t1\nb\t2\n").ended(0);
    let before = contents(place.dir.path());
    for (command, args) in COMMANDS {
        if ["get", "scan", "stat", "count", "check", "trees", "dump"].contains(&command) {
            place.run(command, args).ended(if command == "get" { 1 } else { 0 });
            assert_eq!(contents(place.dir.path()), before, "{command}");
        }
    }
}

#[test]
fn usage_errors() {
    let place = Place::new();
    place.run("put", ["t", "k", "v"]).ended(0);
    let before = contents(place.dir.path());
    let refused: [(&str, &[&str]); 15] = [
        ("put", &["t", "k"]),
        ("put", &["t", "k", "v", "w"]),
        ("put", &["t", r"\", "v"]),
        ("put", &["t", "k", r"\xZZ"]),
        ("put", &["", "k", "v"]),
        ("get", &["t"]),
        ("get", &["", "k"]),
        ("get", &["t", r"\q"]),
        ("get", &["t", "k", "--rwa"]),
        ("scan", &["t", "--limit", "many"]),
        ("scan", &["t", "--from", r"\x1"]),
        ("load", &["t", "-", "--interval", "0"]),
        ("load", &["t", "-", "--interval", "soon"]),
        ("stat", &["t", "extra"]),
        ("no-such-command", &[]),
    ];
    for (command, args) in refused {
        assert_eq!(place.run(command, args).ended(2).out, b"", "{command} {args:?}");
    }
    assert_eq!(run(&mut everleaf(), b"").code, Some(2));
    assert_eq!(contents(place.dir.path()), before);
}
