//! Each command on sound pools.

use std::io::Read;
use std::process::Stdio;

use crate::common::{Place, everleaf, run};

#[test]
fn put_get_del() {
    let place = Place::new();
    place.run("put", ["t", "key", "value"]).ended(0).says("");
    place.run("get", ["t", "key"]).ended(0).says("value\n");
    place.run("get", ["t", "key", "--raw"]).ended(0).says("value");
    place.run("put", ["t", "key", "other"]).ended(0).says("");
    place.run("get", ["t", "key"]).ended(0).says("other\n");
    place.run("del", ["t", "key"]).ended(0).says("");
    place.run("get", ["t", "key"]).ended(1).says("");
    place.run("del", ["t", "key"]).ended(1).says("");
    place.run("get", ["no tree", "key"]).ended(1).says("");
    place.run("del", ["no tree", "key"]).ended(1).says("");
    place.run("scan", ["no tree"]).ended(1).says("");
}

#[test]
fn arguments_take_escapes_hyphens_and_nothing_at_all() {
    let place = Place::new();
    place.run("put", ["t", r"a\tb\n\\\x00\xff", r"\x80é"]).ended(0);
    place.run("get", ["t", r"a\x09b\x0A\x5c\x00\xFF"]).ended(0).says("\\x80é\n");
    assert_eq!(place.run("get", ["t", r"a\tb\n\\\x00\xff", "--raw"]).ended(0).out, b"\x80\xc3\xa9");
    place.run("put", ["t", "-5", "--minus"]).ended(0);
    place.run("get", ["t", "-5"]).ended(0).says("--minus\n");
    place.run("put", ["t", "", ""]).ended(0);
    place.run("get", ["t", ""]).ended(0).says("\n");
    place.run("scan", ["t", "--limit", "2"]).ended(0).says("\t\n-5\t--minus\n");
}

#[test]
fn values_come_from_files_and_go_to_pipes() {
    let place = Place::new();
    let path = place.dir.path().join("value");
    let file = path.to_str().unwrap();
    for len in [0, 5, 5000, 1 << 20, (1 << 20) + 1, 3_333_333] {
        let value: Vec<u8> = (0..len).map(|i: u32| (i ^ i >> 9) as u8).collect();
        std::fs::write(&path, &value).unwrap();
        place.run("put", ["t", "k", "--file", file]).ended(0).says("");
        assert!(place.run("get", ["t", "k", "--raw"]).ended(0).out == value, "{len} bytes");
        let escaped = place.run("get", ["t", "k"]).ended(0).out;
        assert!(escaped.len() > value.len() && escaped.ends_with(b"\n"), "{len} bytes");
    }
    place.run("check", [""; 0]).ended(0);
    // Nothing is made of what cannot be read: tests of `load` have more.
    let other = Place::new();
    other.run("put", ["t", "k", "--file", "/no/such/file"]).ended(4);
    other.run("put", ["t", "k", "v", "--file", file]).ended(2);
    assert!(!other.pool.exists());
    let dax = |command, args: &[&str]| place.run(command, [&["--dax", "--emulate"], args].concat());
    std::fs::remove_file(&place.pool).unwrap();
    dax("put", &["--size", "64M", "t", "k", "--file", file]).ended(0);
    assert!(dax("get", &["t", "k", "--raw"]).ended(0).out == std::fs::read(&path).unwrap());
}

#[test]
fn a_value_is_what_can_be_read_and_no_length_is_trusted() {
    let place = Place::new();
    let raw = |place: &Place, key| place.run("get", ["t", key, "--raw"]).ended(0).out;
    for path in ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled", "/dev/null"] {
        let Ok(value) = std::fs::read(path) else {
            println!("skipped: no {path}");
            continue;
        };
        place.run("put", ["t", path, "--file", path]).ended(0).says("");
        assert!(raw(&place, path) == value, "{path}");
    }
    let value: Vec<u8> = (0..3_333_333_u32).map(|i| (i ^ i >> 9) as u8).collect();
    for len in [0, 1, 1 << 20, value.len()] {
        let value = &value[..len];
        place.run_with("put", ["t", "stdin", "--file", "-"], value).ended(0);
        assert!(raw(&place, "stdin") == value, "{len}");
        // A FIFO, and a file from its middle on.
        let (fifo, file) = (place.dir.path().join("fifo"), place.dir.path().join("file"));
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
        assert!(made.success());
        let ran = std::thread::scope(|scope| {
            scope.spawn(|| std::fs::write(&fifo, value).unwrap());
            place.run("put", ["t", "fifo", "--file", fifo.to_str().unwrap()])
        });
        ran.ended(0);
        assert!(raw(&place, "fifo") == value, "{len}");
        std::fs::remove_file(&fifo).unwrap();
        std::fs::write(&file, value).unwrap();
        let mut middle = std::fs::File::open(&file).unwrap();
        std::io::Seek::seek(&mut middle, std::io::SeekFrom::Start(len as u64 / 2)).unwrap();
        let mut put = everleaf();
        put.arg("put").arg(&place.pool).args(["t", "middle", "--file", "-"]).stdin(middle);
        assert!(put.status().unwrap().success());
        assert!(raw(&place, "middle") == value[len / 2..], "{len}");
    }
    // Spooled input is gone, and input that cannot be spooled makes nothing.
    let names = std::fs::read_dir(place.dir.path()).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains("spool")), "{names:?}");
    let mut other = Place::new();
    other.pool = other.dir.path().join("no/such/place.ever");
    let ran = other.run_with("put", ["t", "k", "--file", "-"], &value).ended(4);
    assert!(ran.err.contains("cannot keep the input in"), "{ran}");
}

#[test]
fn all_bytes_pass_through_load_and_scan() {
    let place = Place::new();
    let mut input = Vec::new();
    for byte in 0..=255_u8 {
        input.extend(format!("\\x{byte:02X}\\x00k\t\\xFF\\x{byte:02x}\n").bytes());
    }
    place.run_with("load", ["t"], &input).ended(0).says("");
    for byte in 0..=255_u8 {
        let key = format!("\\x{byte:02x}\\x00k");
        assert_eq!(place.run("get", ["t", &key, "--raw"]).ended(0).out, [0xFF, byte]);
    }
    let first = place.run("scan", ["t"]).ended(0).out;
    assert_eq!(first.iter().filter(|&&byte| byte == b'\n').count(), 256);
    place.run_with("load", ["copy", "-"], &first).ended(0);
    assert_eq!(place.run("scan", ["copy"]).ended(0).out, first);
}

#[test]
fn scan_in_both_directions_within_bounds() {
    let place = Place::new();
    place.run_with("load", ["t"], b"b\t2\na\t1\nd\t4\nba\t3\nc\t\n").ended(0);
    let scan = |args: &[&str], keys: &str| {
        let args = ["t"].iter().chain(args);
        let ran = place.run("scan", args).ended(0);
        let got: Vec<_> = ran.text().lines().map(|line| line.split('\t').next().unwrap()).collect();
        assert_eq!(got.join(" "), keys);
    };
    place.run("scan", ["t"]).ended(0).says("a\t1\nb\t2\nba\t3\nc\t\nd\t4\n");
    scan(&["--reverse"], "d c ba b a");
    scan(&["--from", "b"], "b ba c d");
    scan(&["--to", "c"], "a b ba");
    scan(&["--from", "b", "--to", "c"], "b ba");
    scan(&["--from", "c", "--to", "b"], "");
    scan(&["--prefix", "b"], "b ba");
    scan(&["--prefix", "b", "--reverse"], "ba b");
    scan(&["--prefix", "b", "--from", "ba"], "ba");
    scan(&["--prefix", "b", "--to", "ba"], "b");
    scan(&["--prefix", "b", "--to", "x"], "b ba");
    scan(&["--prefix", ""], "a b ba c d");
    scan(&["--prefix", r"\xff"], "");
    scan(&["--limit", "2"], "a b");
    scan(&["--limit", "2", "--reverse"], "d c");
    scan(&["--limit", "0"], "");
}

#[test]
fn scan_ends_in_silence_when_its_reader_goes() {
    let place = Place::new();
    let input: String = (0..50_000).map(|i| format!("{i:08}\tsome value\n")).collect();
    place.run_with("load", ["t"], input.as_bytes()).ended(0);
    let mut child = everleaf()
        .arg("scan")
        .arg(&place.pool)
        .arg("t")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut some = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stderr, b"");
}

#[test]
fn check_is_silent_on_stdout_when_all_is_well() {
    let place = Place::new();
    place.run("put", ["t", "k", "v"]).ended(0);
    let ran = place.run("check", [""; 0]).ended(0).says("");
    assert!(ran.err.contains("no damage in 1 tree with 1 pair, "), "{ran}");
    let json = serde_json::json!({ "sound": true, "damages": [] });
    assert_eq!(place.run("check", ["--json"]).ended(0).json(), json);
}

#[test]
fn help_and_version_go_to_stdout() {
    let commands = "put get del load scan count dump trees drop rename stat check salvage debug shell demo completions man";
    for command in commands.split(' ') {
        let ran = run(everleaf().args([command, "--help"]), b"").ended(0);
        assert!(ran.text().contains("Usage: everleaf"), "{ran}");
        assert!(ran.err.is_empty(), "{ran}");
    }
    run(everleaf().arg("--version"), b"").ended(0).says("everleaf 0.1.0\n");
}

#[test]
fn demo_tells_its_story_and_leaves_nothing_behind() {
    let place = Place::new();
    let ran = run(everleaf().arg("demo").current_dir(place.dir.path()), b"").ended(0);
    for part in ["135,233 cities", "CN/Shanghai", "SIGKILL", "none lost", "no damage"] {
        assert!(ran.text().contains(part), "no {part:?} in {ran}");
    }
    assert_eq!(std::fs::read_dir(place.dir.path()).unwrap().count(), 0);
    place.run("demo", [""; 0]).ended(0);
    place.run("get", ["by-place", "IS/Reykjavík/3413829"]).ended(0);
    place.run("demo", [""; 0]).ended(2);
}

#[test]
fn pools_on_persistent_memory() {
    let place = Place::new();
    const DAX: [&str; 2] = ["--dax", "--emulate"];
    let on = |command, args: &[&str]| place.run(command, args.iter().copied().chain(DAX));
    let ran = on("put", &["t", "key", "value"]).ended(2).says("");
    assert!(
        ran.err.contains("p.ever: a new pool on persistent memory") && ran.err.contains("--size"),
        "{ran}"
    );
    on("put", &["t", "key", "value", "--size", "8M"]).ended(0).says("");
    on("get", &["t", "key"]).ended(0).says("value\n");
    let lines: String = (0..2000).map(|i| format!("k{i:04}\tv{i}\n")).collect();
    let load = ["t", "--ack"].into_iter().chain(DAX);
    // It may say so of the first lines before, as time goes by.
    let said = place.run_with("load", load, lines.as_bytes()).ended(0);
    assert_eq!(said.text().lines().next_back(), Some("durable 2000"));
    on("del", &["t", "key"]).ended(0);
    on("scan", &["t", "--limit", "1"]).ended(0).says("k0000\tv0\n");
    on("check", &[]).ended(0);
    on("stat", &[]).ended(0);
    // Neither kind of pool is taken for the other, nor an ordinary file for persistent memory.
    place.run("get", ["t", "k0000"]).ended(3);
    let other = Place::new();
    other.run("put", ["t", "key", "value"]).ended(0);
    other.run("get", ["t", "key"].into_iter().chain(DAX)).ended(3);
    other.run("get", ["t", "key", "--emulate"]).ended(2);
    let too_small = Place::new();
    too_small.run("put", ["t", "k", "v", "--size", "much"]).ended(2);
}

#[test]
fn trees_are_listed_renamed_and_dropped() {
    let place = Place::new();
    for tree in ["b", "a", r"c\\d"] {
        place.run("put", [tree, "k", "v"]).ended(0);
    }
    place.run("trees", [""; 0]).ended(0).says("a\nb\nc\\\\d\n");
    let json = serde_json::json!(["a", "b", "c\\d"]);
    assert_eq!(place.run("trees", ["--json"]).ended(0).json(), json);
    place.run("rename", ["a", "z"]).ended(0).says("");
    place.run("get", ["z", "k"]).ended(0).says("v\n");
    let ran = place.run("rename", ["z", "b"]).ended(2);
    assert!(ran.err.contains("a tree is called \"b\" already"), "{ran}");
    place.run("rename", ["a", "y"]).ended(1);
    place.run("rename", ["b", ""]).ended(2);
    place.run("drop", ["b"]).ended(0).says("");
    place.run("drop", ["b"]).ended(1);
    place.run("trees", [""; 0]).ended(0).says("c\\\\d\nz\n");
    place.run("check", [""; 0]).ended(0);
    let lines: String = (0..5000).map(|i| format!("{i}\t{}\n", "v".repeat(i % 3000))).collect();
    place.run_with("load", ["large"], lines.as_bytes()).ended(0);
    place.run("drop", ["large"]).ended(0);
    place.run("check", [""; 0]).ended(0);
    place.run("trees", [""; 0]).ended(0).says("c\\\\d\nz\n");
}

#[test]
fn del_removes_a_range_or_a_prefix_and_counts() {
    let place = Place::new();
    let lines: String = (0..3000).map(|i| format!("{:02}/{i:04}\tv\n", i % 30)).collect();
    place.run_with("load", ["t"], lines.as_bytes()).ended(0);
    place.run("del", ["t", "--prefix", "07/"]).ended(0).says("removed 100\n");
    place.run("del", ["t", "--prefix", "07/"]).ended(0).says("removed 0\n");
    place.run("del", ["t", "--from", "10", "--to", "20"]).ended(0).says("removed 1000\n");
    place.run("del", ["t", "--prefix", "2", "--from", "25"]).ended(0).says("removed 500\n");
    place.run("del", ["t", "--to", "05"]).ended(0).says("removed 500\n");
    assert_eq!(place.run("scan", ["t"]).ended(0).text().lines().count(), 900);
    for refused in [&["t"][..], &["t", "k", "--prefix", "p"], &["t", "k", "--to", "p"]] {
        place.run("del", refused).ended(2).says("");
    }
    place.run("del", ["none", "--prefix", "p"]).ended(1).says("");
    place.run("del", ["t", "--prefix", ""]).ended(0).says("removed 900\n");
    place.run("check", [""; 0]).ended(0);
}

#[test]
fn shells_and_man_learn_all_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(everleaf().args(["completions", shell]), b"").ended(0);
        let names = ["salvage", "rename", "count", "skip-bad", "page-size"];
        assert!(names.iter().all(|name| ran.text().contains(name)), "{shell}");
    }
    run(everleaf().args(["completions", "no-shell"]), b"").ended(2);
    let page = run(everleaf().arg("man"), b"").ended(0);
    assert!(page.text().contains(".SH") && page.text().contains("everleaf\\-load(1)"), "{page}");
    let dir = place.dir.path().join("man/man1");
    run(everleaf().arg("man").arg(&dir), b"").ended(0).says("");
    let load = std::fs::read_to_string(dir.join("everleaf-load.1")).unwrap();
    assert!(load.contains("skip\\-bad"), "{load}");
    assert!(std::fs::read_dir(&dir).unwrap().count() >= 16);
    std::fs::write(place.dir.path().join("file"), "").unwrap();
    run(everleaf().arg("man").arg(place.dir.path().join("file/x")), b"").ended(4);
}

/// A demo that a signal ends has cleaned up and tells the signal.
#[test]
fn a_demo_that_is_interrupted_leaves_nothing_behind() {
    use std::os::unix::process::ExitStatusExt;
    for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let steps = ["4. Another", "1. Load", "2. Reopened", "last word"];
        for wait_for in &steps[..if number == 2 { 4 } else { 1 }] {
            let place = Place::new();
            let mut demo = everleaf();
            demo.arg("demo").current_dir(place.dir.path());
            let mut child = demo.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let out = std::io::BufReader::new(child.stdout.take().unwrap());
            let mut lines = std::io::BufRead::lines(out).map(|line| line.unwrap());
            assert!(lines.any(|line| line.contains(wait_for)), "{wait_for}");
            let kill = std::process::Command::new("kill")
                .args(["-s", signal, &child.id().to_string()])
                .status();
            assert!(kill.unwrap().success());
            lines.for_each(drop);
            let status = child.wait().unwrap();
            // Late in its last step it may as well come to its end.
            let ended = *wait_for == "last word" && status.success();
            assert!(ended || status.signal() == Some(number), "{signal} at {wait_for}: {status}");
            let left: Vec<_> = std::fs::read_dir(place.dir.path()).unwrap().collect();
            assert!(left.is_empty(), "{signal} at {wait_for}: {left:?}");
        }
    }
}

#[test]
fn the_first_step_of_the_demo_shows_progress_on_a_terminal() {
    let place = Place::new();
    let demo = format!("'{}' demo", env!("CARGO_BIN_EXE_everleaf"));
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &demo, "/dev/null"]).current_dir(place.dir.path());
    let Ok(output) = script.stdin(Stdio::null()).output() else {
        println!("skipped: no `script`");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(" of 135,233 cities"), "{text}");
}

#[test]
fn a_path_and_a_cause_are_told_once() {
    let place = Place::new();
    let path = place.pool.display().to_string();
    std::fs::create_dir(&place.pool).unwrap();
    let missing = place.dir.path().join("missing");
    for (pool, command, args) in [
        (&place.pool, "put", &["t", "k", "v"][..]),
        (&missing, "get", &["t", "k"]),
        (&missing.join("p"), "put", &["t", "k", "v"]),
    ] {
        let ran = run(everleaf().arg(command).arg(pool).args(args), b"");
        let dir = place.dir.path().display().to_string();
        assert_eq!(ran.err.matches(&dir).count(), 1, "{path}: {ran}");
    }
}
