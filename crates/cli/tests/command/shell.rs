//! `everleaf shell` without a terminal: scripts on stdin.

use std::io::Read;
use std::process::Stdio;

use crate::common::{Place, Ran, contents, everleaf, run};

const NONE: [&str; 0] = [];

impl Place {
    /// Runs a script.
    fn shell(&self, script: impl AsRef<[u8]>) -> Ran {
        self.run_with("shell", NONE, script.as_ref())
    }

    #[track_caller]
    fn scan(&self, tree: &str, text: &str) {
        self.run("scan", [tree]).ended(0).says(text);
    }
}

#[test]
fn each_command_does_what_help_says() {
    let place = Place::new();
    place.shell("put t a 1\nput t b 2\nput t c 3").ended(0).says("");
    place.shell("get t a\nuse t\nget b\nget t c\n").ended(0).says("1\n2\n3\n");
    place.shell("del t a\nuse t\ndel b\nscan\n").ended(0).says("c\t3\n");
    place.shell("put other k v\nuse t\nput a 1\nscan\n").ended(0).says("a\t1\nc\t3\n");
    place.shell("trees\n").ended(0).says("other\nt\n");
    place.shell("use t\nuse other\nget k\nuse\nget k\n").ended(2).says("v\n");
    let stat = place.shell("stat\nuse t\nstat\n").ended(0);
    assert_eq!(stat.text().matches("\n  t              2 pairs\n").count(), 2, "{stat}");
    let stat = place.shell("stat t --walk\n").ended(0);
    assert!(stat.text().starts_with("tree             t\n  pairs          2\n  keys "), "{stat}");
    let commands = "get put import del scan count trees use rename clear drop begin commit abort stat check \
                    backup help quit";
    let help = place.shell("help\n").ended(0);
    for command in commands.split(' ') {
        assert!(help.text().lines().any(|line| line.starts_with(command)), "{command}: {help}");
    }
    place.shell("put t d 4\nquit\nput t e 5\nno such\n").ended(0).says("");
    place.scan("t", "a\t1\nc\t3\nd\t4\n");
}

#[test]
fn scan_takes_the_options_of_the_subcommand_also_in_a_transaction() {
    let place = Place::new();
    let pairs: String = ["a", "b", "ba", "c", "d"].map(|key| format!("put t {key} v\n")).join("");
    place.shell(pairs).ended(0);
    let cases = [
        ("", "a b ba c d"),
        ("--from b --to c", "b ba"),
        ("--from=b", "b ba c d"),
        ("--prefix b", "b ba"),
        ("--prefix b --from ba", "ba"),
        ("--prefix b --to ba", "b"),
        ("--prefix b --to x", "b ba"),
        (r"--prefix \x62", "b ba"),
        ("--prefix \"\"", "a b ba c d"),
        (r"--prefix \xff", ""),
        ("--reverse", "d c ba b a"),
        ("--reverse --limit 2 --prefix b", "ba b"),
        ("--limit 2", "a b"),
        ("--limit 0", ""),
        ("--from c --to b", ""),
    ];
    for (options, keys) in cases {
        let lines: String = keys.split_whitespace().map(|key| format!("{key}\tv\n")).collect();
        let many = keys.split_whitespace().count();
        let keys: String = keys.split_whitespace().map(|key| format!("{key}\n")).collect();
        for before in ["", "begin\n"] {
            let more = format!("scan t {options} --keys\nscan t {options} --count\n");
            place.shell(before.to_owned() + &more + "quit").says(&format!("{keys}{many}\n"));
            for scan in [format!("scan t {options}"), format!("use t\nscan {options}")] {
                let end = if before.is_empty() { "" } else { "abort\n" };
                place.shell(format!("{before}{scan}\n{end}")).ended(0).says(&lines);
            }
        }
    }
    for wrong in [
        "scan t --limit x",
        "scan t --other",
        "scan t u",
        "scan t --from",
        "scan t --keys --values",
        "scan t --keys --count",
        "scan t --format raw",
    ] {
        let ran = place.shell(wrong).ended(2).says("");
        assert_eq!(ran.err.lines().count(), 1, "{ran}");
    }
}

#[test]
fn scan_prints_what_it_is_asked_for_also_in_a_transaction() {
    let place = Place::new();
    place.shell("put t a,b x\nput t \\xff 'y\"z'\n").ended(0);
    let cases = [
        ("--keys", "a,b\n\\xff\n"),
        ("--values", "x\ny\"z\n"),
        ("--count", "2\n"),
        ("--format csv", "\"a,b\",x\n\u{fffd},\"y\"\"z\"\n"),
        ("--format csv --keys --limit 1", "\"a,b\"\n"),
        ("--format json --values", "{\"value\":\"x\"}\n{\"value\":\"y\\\"z\"}\n"),
        (
            "--format json --reverse",
            "{\"key_hex\":\"ff\",\"value\":\"y\\\"z\"}\n{\"key\":\"a,b\",\"value\":\"x\"}\n",
        ),
    ];
    for (options, text) in cases {
        for (before, end) in [("", ""), ("begin\n", "abort\n")] {
            let ran = place.shell(format!("{before}scan t {options}\n{end}")).ended(0);
            assert_eq!(String::from_utf8_lossy(&ran.out), text, "{before}{options}");
        }
    }
}

#[test]
fn pairs_are_counted_also_in_a_transaction() {
    let place = Place::new();
    let pairs: String = (0..1200).map(|i| format!("put t {i:04} v\n")).collect();
    place.shell(pairs + "put 'o\\n' k v\n").ended(0);
    place.shell("count\nuse t\ncount\n").ended(0).says("o\\n\t1\nt\t1200\n1200\n");
    place
        .shell("count t --prefix 00\ncount t --from 1\ncount t --to 0009\n")
        .ended(0)
        .says("100\n200\n9\n");
    let script =
        "begin\nuse t\nput new 1\ndel 0000\ndel 0001\ncount\ncount --prefix 000\nabort\ncount\n";
    place.shell(script).ended(0).says("1199\n8\n1200\n");
    place.shell("count none").ended(1).says("");
    place.shell("count --prefix x").ended(2).says("");
    place.shell("begin\ncount").ended(2).says("");
}

#[test]
fn ranges_and_trees_are_removed_and_renamed_by_a_script_without_a_question() {
    let place = Place::new();
    let pairs: String = (0..300).map(|i| format!("put t {i:03} v\n")).collect();
    place.shell(pairs).ended(0);
    place.shell("del t --prefix 00\ndel t --from 29\n").ended(0).says("removed 10\nremoved 10\n");
    place
        .shell("use t\ndel --to 02 --yes\ndel --prefix none")
        .ended(0)
        .says("removed 10\nremoved 0\n");
    place.shell("del t \\x2d-prefix").ended(1);
    place
        .shell("use t\nrename t u\ncount\nrename u 'a b'\ncount 'a b'\n")
        .ended(0)
        .says("270\n270\n");
    place.shell("rename t u").ended(1);
    place.shell("put v k v\nrename v 'a b'").ended(2);
    place.shell("rename v \"\"").ended(2);
    place
        .shell("use v\nclear\nput k 2\nclear 'a b' --yes\n")
        .ended(0)
        .says("removed 1\nremoved 270\n");
    place.shell("drop v\ndrop 'a b' --yes\ntrees\n").ended(0).says("");
    place.shell("drop v").ended(1);
    for wrong in ["drop", "clear", "del t --from", "del t --yes", "rename v", "clear a b"] {
        place.shell(wrong).ended(2).says("");
    }
    place.run("check", NONE).ended(0);
}

#[test]
fn a_range_is_removed_with_its_transaction() {
    let place = Place::new();
    place.shell("put t a 1\nput t b 2\nput t ba 3\nput t c 4\n").ended(0);
    let removes = "begin\nuse t\nput bb 5\ndel --prefix b\nscan --keys\n";
    place.shell(format!("{removes}abort\n")).ended(0).says("removed 3\na\nc\n");
    place.scan("t", "a\t1\nb\t2\nba\t3\nc\t4\n");
    place.shell(format!("{removes}commit\n")).ended(0).says("removed 3\na\nc\n");
    place.scan("t", "a\t1\nc\t4\n");
}

#[test]
fn what_cannot_be_part_of_a_transaction_says_so_and_leaves_it_open() {
    let place = Place::new();
    place.shell("put t a 1\n").ended(0);
    for command in ["rename t u", "clear t", "drop t --yes", "backup copy.ever"] {
        let script = format!("begin\nput t b 2\n{command}\ncommit\n");
        let ran = place.run_with("shell", ["--keep-going"], script.as_bytes()).ended(2).says("");
        let name = command.split(' ').next().unwrap();
        let what =
            format!("line 3: {name} cannot be a part of a transaction: say `commit` or `abort`");
        assert!(ran.err.contains(&what), "{ran}");
        place.scan("t", "a\t1\nb\t2\n");
        place.shell("del t b").ended(0);
    }
    place.shell("begin\ncheck\nstat\ntrees\nabort\n").ended(0);
}

#[test]
fn the_shell_imports_what_load_reads() {
    let place = Place::new();
    let file = |name: &str, text: &str| {
        let path = place.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (text, table) = (file("a file", "a\t1\nb\t2\n"), file("t.csv", "n,id\nx,7\ny,3\n"));
    let ran =
        place.shell(format!("import t '{text}'\nuse u\nimport {table} --format csv --key id"));
    let ran = ran.ended(0).says("");
    assert!(ran.err.contains("a file: 2 pairs\n") && ran.err.contains("t.csv: 2 pairs\n"), "{ran}");
    place.scan("t", "a\t1\nb\t2\n");
    place.scan("u", "3\ty\n7\tx\n");
    // In a transaction it is a part of that.
    let again = file("more", "b\t3\nc\t4\n");
    place.shell(format!("begin\nimport t {again}\nabort\n")).ended(0);
    place.scan("t", "a\t1\nb\t2\n");
    place.shell(format!("begin\nimport t {again}\ncommit\n")).ended(0);
    place.scan("t", "a\t1\nb\t3\nc\t4\n");
    // An import prints the notes on its input that a load prints.
    let returns = file("returns", "a\t1\r\n");
    let noted = place.shell(format!("import other {returns}\n")).ended(0);
    assert!(noted.err.contains("note: every line ends in a carriage return"), "{noted}");
    place.shell(format!("import other {returns} --crlf\ndrop other --yes\n")).ended(0);
    // A bad line is told by its number, and the good ones are there.
    let bad = file("bad", "d\t5\nno tab\ne\t6\n");
    let ran = place.shell(format!("import t {bad}\n")).ended(2);
    assert!(ran.err.contains("line 2: ") && ran.err.contains("1 skipped, at line 2"), "{ran}");
    place.shell(format!("import t {bad} --skip-bad\n")).ended(0);
    place.scan("t", "a\t1\nb\t3\nc\t4\nd\t5\ne\t6\n");
    let new = format!("import new {}", file("empty", ""));
    for (line, code, what) in [
        ("import", 2, "required arguments"),
        ("import t no-such-file", 4, "no-such-file"),
        ("import t u v", 2, "unexpected value"),
        ("import t x --key a", 2, "--key is for --format csv and json"),
        (&new, 0, "empty: 0 pairs"),
    ] {
        let ran = place.shell(line).ended(code);
        assert!(ran.err.contains(what), "{line}: {ran}");
    }
    // An import without a pair leaves no tree behind.
    place.run("trees", [""; 0]).ended(0).says("t\nu\n");
}

#[test]
fn the_shell_checks_and_copies_its_pool() {
    let place = Place::new();
    let new = place.dir.path().join("a copy.ever");
    let script = format!("put t a 1\ncheck\nbackup '{}'\nput t b 2\n", new.display());
    let ran = place.shell(&script).ended(0).says("");
    assert!(ran.err.starts_with("no damage in 1 tree with 1 pair, "), "{ran}");
    assert!(
        ran.err.contains("a copy.ever: ") && ran.err.contains("MiB, all up to epoch "),
        "{ran}"
    );
    run(everleaf().arg("scan").arg(&new).arg("t"), b"").ended(0).says("a\t1\n");
    // A file that is there is left alone.
    let before = std::fs::read(&new).unwrap();
    let ran = place.shell(format!("backup '{}'", new.display())).ended(2);
    assert!(ran.err.contains("a copy.ever") && std::fs::read(&new).unwrap() == before, "{ran}");
}

#[test]
fn every_byte_can_be_written_and_comes_back_as_it_is_printed() {
    let place = Place::new();
    let every: String = (0..=255).map(|byte| format!("\\x{byte:02X}")).collect();
    place.shell(format!("put t {every} {every}\nput t \"\" ''\n")).ended(0);
    let printed = place.shell("scan t").ended(0);
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(place.run("get", ["t", &every, "--raw"]).ended(0).out, all);
    let line = printed.text().lines().nth(1).unwrap();
    let (key, value) = line.split_once('\t').unwrap();
    assert_eq!((printed.text().lines().next(), key), (Some("\t"), value));
    // A printed word can be written; quotes and the blank in it ask for care.
    let word = key.replace('\'', "\\x27");
    place.shell(format!("get t '{word}'")).ended(0).says(&format!("{value}\n"));
    // Bytes that are no UTF-8 need no escapes in a script.
    place.shell(b"put raw \xff\xfe\x00 \x80\nget raw \"\xff\xfe\\x00\"\n").ended(0).says("\\x80\n");
    place.scan("raw", "\\xff\\xfe\\x00\t\\x80\n");
    place.shell("put q 'a b' \"it's\"\nput q a\" b\"c -v\nput q -k --\n").ended(0);
    place.scan("q", "-k\t--\na b\tit's\na bc\t-v\n");
    for wrong in [r"put t k a\q", r"put t \x1 v", "put t k \"open", "put t k it's"] {
        place.shell(wrong).ended(2).says("");
    }
}

#[test]
fn a_tree_can_have_any_name() {
    let place = Place::new();
    place.run("put", [r"c\\d e", "k", "v"]).ended(0);
    place.shell("trees").ended(0).says("c\\\\d e\n");
    place.shell("use 'c\\\\d e'\nget k\nput 'tab\\there' k 2\n").ended(0).says("v\n");
    place.run("get", ["tab\there", "k"]).ended(0).says("2\n");
    place.shell("use \"\"").ended(2);
    place.shell(format!("use {}", "n".repeat(256))).ended(2);
    place.shell(r"use \xff").ended(2);
}

#[test]
fn the_first_error_ends_a_script_and_names_its_line() {
    let place = Place::new();
    let ran = place.shell("put t a 1\n# a comment\nget t none\nput t b 2\n").ended(1).says("");
    assert_eq!(ran.err, "everleaf: line 3: no such key\n");
    place.scan("t", "a\t1\n");
    for (script, code, what) in [
        ("\n\nfrob x\n", 2, "line 3: unknown command \"frob\""),
        ("get none k", 1, "line 1: no tree is called \"none\""),
        ("get k", 2, "line 1: no tree is in use"),
        ("get", 2, "line 1: usage: get [TREE] KEY"),
        ("put t k", 2, "line 1: no tree is in use"),
        ("put t k v w", 2, "line 1: usage: put [TREE] KEY VALUE"),
        ("del t none", 1, "line 1: no such key"),
        ("scan none", 1, "line 1: no tree is called"),
        ("begin now", 2, "line 1: usage: begin"),
        ("commit", 2, "line 1: no transaction is open"),
        ("abort", 2, "line 1: no transaction is open"),
        ("begin\nbegin", 2, "line 2: a transaction is open already"),
        ("GET t a", 2, "line 1: unknown command"),
    ] {
        let ran = place.shell(script).ended(code).says("");
        assert!(ran.err.contains(what), "{what}: {ran}");
    }
    std::fs::write(place.dir.path().join("no-pool"), "text").unwrap();
    run(everleaf().arg("shell").arg(place.dir.path().join("no-pool")), b"trees").ended(3);
}

#[test]
fn empty_lines_and_comments_are_nothing() {
    let place = Place::new();
    let script =
        "\n   \n\t\n# put t a 1\n  # put t b 2\nput t #c 3\r\n\r\nput t d '4\r'\nput t e 5 # 6";
    place.shell(script).ended(2);
    place.scan("t", "#c\t3\nd\t4\\x0d\n");
    place.shell("").ended(0).says("");
}

#[test]
fn a_script_goes_on_if_it_is_told_so() {
    let place = Place::new();
    let script = "put t a 1\nget t none\nfrob\nput t b 2\nbegin\nget t b\n";
    let ran = place.run_with("shell", ["--keep-going"], script.as_bytes()).ended(1).says("2\n");
    assert!(ran.err.contains("line 2: no such key\neverleaf: line 3: unknown"), "{ran}");
    assert!(ran.err.contains("the open transaction was aborted"), "{ran}");
    place.scan("t", "a\t1\nb\t2\n");
    place.run_with("shell", ["--keep-going"], b"get t a").ended(0).says("1\n");
}

#[test]
fn a_transaction_sees_its_own_writes_and_a_commit_applies_them() {
    let place = Place::new();
    place.shell("put t a old\nput t b old\nput t c old\n").ended(0);
    let script =
        "begin\nuse t\nput a new\ndel b\nput d new\nget a\nscan\nscan --reverse --limit 1\n";
    let seen = "new\na\tnew\nc\told\nd\tnew\nd\tnew\n";
    // A key that the transaction removed is gone for it.
    let ran = place.shell(format!("{script}get b\n")).ended(1).says(seen);
    assert!(ran.err.contains("line 9: no such key\neverleaf: the open transaction was"), "{ran}");
    place.shell(format!("{script}del b\n")).ended(1);
    place.scan("t", "a\told\nb\told\nc\told\n");
    let after = "get a\nput e 5\nbegin\nabort\n";
    place.shell(format!("{script}commit\n{after}")).ended(0).says(&format!("{seen}new\n"));
    place.scan("t", "a\tnew\nc\told\nd\tnew\ne\t5\n");
    // Several trees, one of them new.
    place.shell("begin\nput t a 1\nput u a 2\nscan u\ncommit").ended(0).says("a\t2\n");
    place.scan("u", "a\t2\n");
    place.run("check", NONE).ended(0);
}

#[test]
fn an_aborted_transaction_has_done_nothing() {
    let place = Place::new();
    place.shell("put t a old").ended(0);
    let script = "use t\nbegin\nput a new\nput b new\nabort\nscan\nbegin\nget a\nabort\n";
    place.shell(script).ended(0).says("a\told\nold\n");
    // A transaction that nobody ends is aborted, with a word and an exit code.
    for end in ["", "quit\nput t c 1\n"] {
        let ran = place.shell(format!("put t z 1\nbegin\nput t a new\n{end}")).ended(2).says("");
        assert_eq!(ran.err, "everleaf: the open transaction was aborted\n");
        place.scan("t", "a\told\nz\t1\n");
    }
}

#[test]
fn a_pool_that_is_open_to_be_read_is_not_changed() {
    let place = Place::new();
    let shell = |script: &str| place.run_with("shell", ["--read-only"], script.as_bytes());
    shell("trees").ended(4);
    assert!(!place.pool.exists());
    place.shell("put t a 1").ended(0);
    let before = contents(place.dir.path());
    shell("use t\nget a\nscan\ntrees\nstat\nbegin\nget a\nscan\ncommit").ended(0);
    shell("count t\nstat t\nstat --walk\nscan t --keys\ncheck\n").ended(0);
    for refused in [
        "put t a 2",
        "put new a 2",
        "del t a",
        "del t --prefix a",
        "clear t",
        "drop t",
        "rename t u",
        "begin\nput t a 2",
        "begin\ndel t a",
        "begin\ndel t --prefix a",
    ] {
        let ran = shell(refused).ended(4).says("");
        assert!(ran.err.contains("the pool was opened read-only"), "{ran}");
    }
    shell("use none").ended(1);
    assert!(contents(place.dir.path()) == before);
}

#[test]
fn scans_of_a_script_are_of_one_moment_and_large_ones_are_whole() {
    let place = Place::new();
    let lines: String = (0..20_000).map(|i| format!("k{i:05}\t{i}\n")).collect();
    place.run_with("load", ["t"], lines.as_bytes()).ended(0);
    let script = "scan t\nput t k00000 new\ndel t k00001\nscan t --limit 2\n";
    place.shell(script).ended(0).says(&(lines + "k00000\tnew\nk00002\t2\n"));
}

#[test]
fn the_shell_ends_in_silence_when_its_reader_goes() {
    let place = Place::new();
    let lines: String = (0..50_000).map(|i| format!("{i:08}\tsome value\n")).collect();
    place.run_with("load", ["t"], lines.as_bytes()).ended(0);
    let script = place.dir.path().join("script");
    std::fs::write(&script, "scan t\nput t k v\n").unwrap();
    let mut child = everleaf()
        .arg("shell")
        .arg(&place.pool)
        .stdin(std::fs::File::open(script).unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 100]).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn a_pool_on_persistent_memory_has_a_shell() {
    let place = Place::new();
    let script = "use t\nput a 1\nbegin\nput b 2\nscan\ncommit\nscan --reverse\n";
    let args = ["--dax", "--emulate", "--size", "8M"];
    let ran = place.run_with("shell", args, script.as_bytes());
    ran.ended(0).says("a\t1\nb\t2\nb\t2\na\t1\n");
}
