//! Real files into a pool: CSV with many columns, objects of JSON, byte order marks, UTF-16.

use std::io::Write;
use std::process::Stdio;

use crate::common::{Place, contents, everleaf, run};

/// As a spreadsheet writes it: a byte order mark, CRLF, quotes, commas and newlines inside of them.
const ORDERS: &str = "\u{feff}id,country,city,name,price,\"note, long\",date,active\r\n\
    10,DE,Berlin,\"Müller, Anna\",1.50,\"said \"\"hi\"\"\r\nand went\",2026-01-02,true\r\n\
    9,DE,Aachen,Bob,2,,2026-01-03,false\r\n\
    \r\n\
    11,AT,Wien,Carla,3\r\n\
    12,AT,Wien,\"D\",4,\"x\",2026-01-04,true\r\n";

fn load(place: &Place, args: &[&str], input: &str) -> crate::common::Ran {
    place.run_with("load", args, input.as_bytes())
}

#[test]
fn a_csv_of_eight_columns_is_loaded_by_the_names_of_columns() {
    let place = Place::new();
    let csv = ["orders", "-", "--format", "csv", "--key"];
    let ran = load(&place, &[&csv[..], &["id"]].concat(), ORDERS).ended(2);
    assert!(ran.err.contains("note: a byte order mark of UTF-8"), "{ran}");
    assert!(ran.err.contains("line 6: columns: 5, and not 8"), "{ran}");
    assert!(
        ran.err.contains("4 records in") && ran.err.ends_with("1 skipped, at line 6\n"),
        "{ran}"
    );
    place
        .run("get", ["orders", "10", "--raw"])
        .ended(0)
        .says("DE,Berlin,\"Müller, Anna\",1.50,\"said \"\"hi\"\"\r\nand went\",2026-01-02,true");
    place.run("get", ["orders", "9"]).ended(0).says("DE,Aachen,Bob,2,,2026-01-03,false\n");
    // Several columns, in the order of their parts.
    let key =
        ["by place", "-", "--format", "csv", "--skip-bad", "--key", "country,city", "--key=id"];
    load(&place, &[&key[..], &["--value", "name"]].concat(), ORDERS).ended(0);
    place.run("scan", ["by place"]).ended(0).says(
        "AT\\x00Wien\\x0012\tD\nDE\\x00Aachen\\x009\tBob\nDE\\x00Berlin\\x0010\tMüller, Anna\n",
    );
    let prefix = ["by place", "--prefix", r"DE\x00B"];
    assert_eq!(place.run("scan", prefix).ended(0).text().lines().count(), 1);
    // As JSON, and columns by their numbers, and a comma in a name.
    let json = ["json", "-", "--format", "csv", "--skip-bad", "--value-format", "json"];
    let columns = ["--key", "1", "--value", r"note\, long,8"];
    load(&place, &[&json[..], &columns].concat(), ORDERS).ended(0);
    place
        .run("get", ["json", "10", "--raw"])
        .ended(0)
        .says(r#"{"note, long":"said \"hi\"\r\nand went","active":"true"}"#);
    let rest = ["rest", "-", "--format", "csv", "--skip-bad", "--value-format", "json"];
    load(&place, &[&rest[..], &["--key", "id"]].concat(), ORDERS).ended(0);
    let value = place.run("get", ["rest", "9", "--raw"]).ended(0).out;
    let value: serde_json::Value = serde_json::from_slice(&value).unwrap();
    assert_eq!((value.as_object().unwrap().len(), &value["city"]), (7, &"Aachen".into()));
    // One column as a record: it is quoted, unless it is taken as it is.
    let one = ["one", "-", "--format", "csv", "--skip-bad", "--key", "id", "--value", "name"];
    load(&place, &[&one[..], &["--value-format", "csv"]].concat(), ORDERS).ended(0);
    place.run("get", ["one", "10"]).ended(0).says("\"Müller, Anna\"\n");
}

#[test]
fn a_csv_without_a_header_has_numbers_for_columns() {
    let place = Place::new();
    let csv = ["t", "-", "--format", "csv", "--no-header", "--key"];
    load(&place, &[&csv[..], &["2"]].concat(), "a,k1,b\nc,k2,d\ne,k1,f\n").ended(0);
    place.run("scan", ["t"]).ended(0).says("k1\te,f\nk2\tc,d\n");
    let json = ["u", "-", "--format", "csv", "--no-header", "--value-format", "json", "--key=2,1"];
    load(&place, &json, "a,k1,\"\"\n").ended(0);
    place.run("scan", ["u"]).ended(0).says("k1\\x00a\t[\"\"]\n");
    // All columns are in the key.
    load(&place, &["v", "-", "--format", "csv", "--key", "a,b"], "a,b\n1,2\n").ended(0);
    place.run("scan", ["v"]).ended(0).says("1\\x002\t\n");
    load(&place, &["empty", "-", "--format", "csv", "--no-header", "--key=1"], "").ended(0);
    place.run("scan", ["empty"]).ended(0).says("");
}

#[test]
fn columns_that_are_not_there_are_told_with_those_that_are() {
    let header = "id,name,name,\"a\tb\"\n1,2,3,4\n";
    for (args, what) in [
        (&["--key", "nme"][..], "no column is called \"nme\"; there are: id, name, name, a\\tb\n"),
        (&["--key", "id", "--value", "id,0"], "no column is called \"0\""),
        (&["--key", "name"], "columns 2 and 3 are both called \"name\": say a number"),
        (&["--key", "5", "--no-header"], "columns are numbers, from 1 to 4"),
        (&["--key", "id", "--no-header"], "columns are numbers, from 1 to 4"),
    ] {
        let place = Place::new();
        let ran = load(&place, &[&["t", "-", "--format", "csv"], args].concat(), header).ended(2);
        assert!(ran.err.contains(what), "{ran}");
        assert!(contents(place.dir.path()).is_empty(), "{args:?}");
    }
    let many: String = (0..1000).map(|i| format!("column {i},")).collect();
    let place = Place::new();
    let ran = load(&place, &["t", "-", "--format", "csv", "--key", "x"], &many).ended(2);
    assert!(ran.err.contains("column 39, and more") && ran.err.len() < 1000, "{ran}");
}

#[test]
fn objects_of_json_are_loaded_by_the_names_of_fields() {
    let lines = "\u{feff}{\"id\":7,\"user\":{\"name\":\"Änne\",\"tags\":[\"a\"]},\"n\":1.50}\r\n\
                 {\"id\":\"x\\ty\",\"user\":{\"name\":\"Bob\"}, \"n\" : null }\n\
                 \n\
                 {\"id\":8}\n\
                 {\"id\":[9],\"user\":{\"name\":1}}\n\
                 {\"id\":9,\"user\"\n";
    let place = Place::new();
    let json = ["t", "-", "--format", "json", "--key", "id"];
    let ran = load(&place, &json, lines).ended(2);
    assert!(ran.err.contains("line 5: the field \"id\" is an array, and no key"), "{ran}");
    assert!(ran.err.contains("line 6: no JSON"), "{ran}");
    assert!(ran.err.ends_with("2 skipped, at line 5-6\n"), "{ran}");
    place
        .run("get", ["t", "7", "--raw"])
        .ended(0)
        .says("{\"id\":7,\"user\":{\"name\":\"Änne\",\"tags\":[\"a\"]},\"n\":1.50}");
    place
        .run("get", ["t", r"x\ty", "--raw"])
        .ended(0)
        .says("{\"id\":\"x\\ty\",\"user\":{\"name\":\"Bob\"}, \"n\" : null }");
    let nested = ["u", "-", "--format", "json", "--skip-bad", "--key", "user.name,id", "--value"];
    let ran = load(&place, &[&nested[..], &["user"]].concat(), lines).ended(0);
    assert!(ran.err.contains("line 4: no field \"user.name\""), "{ran}");
    place.run("scan", ["u"]).ended(0).says(
        "Bob\\x00x\\x01\\x02ty\t{\"name\":\"Bob\"}\nÄnne\\x007\t{\"name\":\"Änne\",\"tags\":[\"a\"]}\n"
            .replace("x\\x01\\x02ty", "x\\ty").as_str(),
    );
    let two = ["v", "-", "--format", "json", "--skip-bad", "--key", "id", "--value", "n,user.name"];
    load(&place, &two, lines).ended(0);
    place.run("get", ["v", "7"]).ended(0).says("{\"n\":1.50,\"user.name\":\"Änne\"}\n");
    let array = "[{\"key\":\"a\",\"value\":\"1\"},\n {\"key\":\"b\",\n  \"value\":\"2\"}\n]\n";
    load(&place, &["w", "-", "--format", "json"], array).ended(0);
    place.run("scan", ["w"]).ended(0).says("a\t1\nb\t2\n");
    let open =
        load(&place, &["x", "-", "--format", "json"], "[{\"key\":\"a\",\"value\":\"1\"},").ended(2);
    assert!(open.err.contains("the array does not end"), "{open}");
    place.run("scan", ["x"]).ended(0).says("a\t1\n");
}

#[test]
fn marks_of_byte_order_are_told_and_utf_16_is_refused() {
    let place = Place::new();
    let pair = |format| match format {
        "text" | "raw" => "k\tv\n",
        "csv" => "k,v\n",
        "json" => "{\"key\":\"k\",\"value\":\"v\"}\n",
        _ => "VERSION=3\nformat=bytevalue\ntype=btree\nHEADER=END\n 6b\n 76\nDATA=END\n",
    };
    for format in ["text", "raw", "csv", "json", "mdb"] {
        let options = [format, "-", "--format", format];
        let input = format!("\u{feff}{}", pair(format));
        let ran = load(&place, &options, &input).ended(0);
        assert!(ran.err.contains("note: a byte order mark of UTF-8"), "{ran}");
        let key = if format == "raw" { "\\xef\\xbb\\xbfk" } else { "k" };
        place.run("scan", [format]).ended(0).says(&format!("{key}\tv\n"));
        for little in [true, false] {
            let other = Place::new();
            let units = input.encode_utf16();
            let bytes: Vec<u8> = units
                .flat_map(|unit| if little { unit.to_le_bytes() } else { unit.to_be_bytes() })
                .collect();
            let ran = other.run_with("load", options, &bytes);
            if format == "raw" {
                assert!(ran.err.contains("byte order mark of UTF-16; raw takes"), "{ran}");
                continue;
            }
            assert!(ran.err.contains("iconv -f UTF-16 -t UTF-8"), "{ran}");
            ran.ended(2);
            assert!(contents(other.dir.path()).is_empty(), "no pool was made");
        }
    }
    let script = run(everleaf().arg("shell").arg(&place.pool), "\u{feff}get csv k\n".as_bytes());
    assert!(script.err.contains("note: a byte order mark"), "{script}");
    script.ended(0).says("v\n");
    // A dump has none, whatever the first key is.
    for (key, forms) in [
        ("\\xef\\xbb\\xbfk", &["text", "csv", "json", "mdb"][..]),
        ("\\xff\\xfe", &["text", "csv", "mdb"]),
    ] {
        let place = Place::new();
        place.run("put", ["t", key, key]).ended(0);
        for form in forms {
            let dumped = place.run("dump", ["t", "--format", form]).ended(0).out;
            let ran = place.run_with("load", [form, "-", "--format", form], &dumped).ended(0);
            assert!(!ran.err.contains("note:"), "{ran}");
            place.run("scan", [form]).ended(0).says(&format!("{key}\t{key}\n"));
        }
    }
}

#[test]
fn a_load_that_is_refused_makes_neither_pool_nor_tree() {
    let key = "k".repeat(65_537);
    let long = format!("{key}\tv\n");
    let missing = ["t", "/no/such/file"];
    let runs: [(&str, &[&str], &[u8], i32); 16] = [
        ("load", &["t"], b"no tab\nnor here\n", 2),
        ("load", &["t", "-", "--ack"], b"no tab\n", 2),
        ("load", &["t"], long.as_bytes(), 2),
        ("load", &["t", "-", "--max-line", "10"], b"0123456789\tv\n", 2),
        ("load", &missing, b"", 4),
        ("load", &["t", "-", "--format", "csv"], b"a,b,c\n", 2),
        ("load", &["t", "-", "--format", "csv", "--key", "a"], b"", 2),
        ("load", &["t", "-", "--format", "json"], b"[7", 2),
        ("load", &["t", "-", "--format", "mdb"], b"VERSION=3\nHEADER=END\nbad\n", 2),
        (
            "load",
            &["--all", "-", "--format", "mdb"],
            b"VERSION=3\ndatabase=a\nHEADER=END\nbad\n",
            2,
        ),
        ("load", &["t", "-", "--key", "a"], b"a\tb\n", 2),
        (
            "load",
            &["t", "-", "--format", "json", "--key=a", "--value-format=csv"],
            b"{\"a\":1}\n",
            2,
        ),
        ("load", &["t", "-", "--format", "csv", "--value=a"], b"a,b\n", 2),
        ("put", &["t", &key, "v"], b"", 2),
        ("put", &["t", "k", "--file", "/no/such/file"], b"", 4),
        ("put", &["t", "k", "--file", "/"], b"", 4),
    ];
    for (command, args, input, code) in runs {
        let place = Place::new();
        let ran = place.run_with(command, args, input).ended(code);
        assert!(contents(place.dir.path()).is_empty(), "{args:?} {ran}");
        // Nor a tree in one that is there.
        place.run("put", ["other", "k", "v"]).ended(0);
        place.run_with(command, args, input).ended(code);
        place.run("trees", [""; 0]).ended(0).says("other\n");
    }
    let place = Place::new();
    place.run("put", ["other", "k", "v"]).ended(0);
    let put = format!("put t {key} v\n");
    run(everleaf().arg("shell").arg(&place.pool), put.as_bytes()).ended(2);
    place.run("trees", [""; 0]).ended(0).says("other\n");
    // An empty database of a dump is a tree, and so is an empty input.
    let dump = "VERSION=3\ndatabase=none\nHEADER=END\nDATA=END\n\
                VERSION=3\ndatabase=nor this\nHEADER=END\nDATA=END\n";
    load(&place, &["--all", "-", "--format", "mdb"], dump).ended(0);
    place.run("trees", [""; 0]).ended(0).says("none\nnor this\nother\n");
}

/// An input that is written while it is read, and how a load of it ends that may have so much address space.
fn stream(
    args: &[&str],
    kib: u64,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()> + Send,
) -> (Place, crate::common::Ran) {
    let place = Place::new();
    let mut command = crate::common::everleaf_under(&format!("ulimit -c 0; ulimit -v {kib}"));
    command.arg("load").arg(&place.pool).args(args);
    let mut child = crate::common::spawn(command.stdin(Stdio::piped()));
    let mut stdin = std::io::BufWriter::with_capacity(1 << 16, child.stdin.take().unwrap());
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = write(&mut stdin); // a command that ends early need not read it
        });
        child.wait_with_output().unwrap()
    });
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    let ran = crate::common::Ran { code: output.status.code(), out: output.stdout, err };
    (place, ran)
}

/// More than a vector that grows by doubling finds room for where a load may use this much address space.
const LONG_BYTES: usize = 300 << 20;
const SPACE_KIB: u64 = 500 << 10;

fn long(out: &mut dyn Write, piece: &[u8]) -> std::io::Result<()> {
    (0..LONG_BYTES / piece.len()).try_for_each(|_| out.write_all(piece))
}

#[test]
fn no_line_is_too_long_for_memory() {
    let x = [b'x'; 1 << 16];
    let deep = [b'['; 1 << 16];
    let commas = [b','; 1 << 16];
    let lines = [b'x', b'\n'].repeat(1 << 15);
    type Case<'c> = (&'c [&'c str], &'c [u8], &'c [u8], &'c [u8], &'c str);
    let cases: [Case; 7] = [
        (&["--format", "text"], b"a\t1\n", &x, b"\nb\t2\n", "a\t1\nb\t2\n"),
        (&["--format", "csv"], b"a,1\n\"", &x, b"\",2\nb,2\n", "a\t1\nb\t2\n"),
        // The quote is open to the end.
        (&["--format", "csv"], b"a,1\n\"", &lines, b"\nb,2\n", "a\t1\n"),
        (
            &["--format", "csv", "--key=1", "--no-header"],
            b"a,1\n",
            &commas,
            b"\nb,2\n",
            "a\t1\nb\t2\n",
        ),
        (
            &["--format", "json", "--key=a"],
            b"{\"a\":1}\n",
            &deep,
            b"\n{\"a\":2}\n",
            "1\t{\"a\":1}\n2\t{\"a\":2}\n",
        ),
        (
            &["--format", "json", "--key=a"],
            b"[{\"a\":1},\"",
            &x,
            b"\",{\"a\":2}]\n",
            "1\t{\"a\":1}\n2\t{\"a\":2}\n",
        ),
        (
            &["--format", "mdb"],
            b"VERSION=3\nHEADER=END\n 61\n 31\n ",
            &x,
            b"\n 31\n 62\n 32\nDATA=END\n",
            "a\t1\nb\t2\n",
        ),
    ];
    for (args, before, piece, behind, scanned) in cases {
        let args = [&["t", "-", "--max-line", "8M"], args].concat();
        let (place, ran) = stream(&args, SPACE_KIB, |out| {
            out.write_all(before)?;
            long(out, piece)?;
            out.write_all(behind)
        });
        assert!(ran.err.contains("line ") && ran.err.contains("1 skipped"), "{args:?} {ran}");
        ran.ended(2);
        place.run("scan", ["t"]).ended(0).says(scanned);
    }
    // A header has no line that could be passed over.
    let (place, ran) =
        stream(&["t", "-", "--max-line", "8M", "--format", "mdb"], SPACE_KIB, |out| {
            out.write_all(b"VERSION=3\n")?;
            long(out, &x)
        });
    assert!(ran.err.contains("line 2: longer than 8,388,608 bytes"), "{ran}");
    ran.ended(2);
    assert!(contents(place.dir.path()).is_empty());
}

#[test]
fn a_large_csv_takes_no_more_memory_than_a_small_one() {
    let (place, ran) = stream(
        &["t", "-", "--format", "csv", "--key", "group,id", "--max-line", "1M"],
        SPACE_KIB,
        |out| {
            out.write_all(b"id,group,text\n")?;
            (0..60_000).try_for_each(|i| {
                writeln!(out, "{i:06},{},\"a \"\"quoted\"\"\n{}\"", i % 7, "text ".repeat(20))
            })
        },
    );
    assert!(ran.err.starts_with("60,000 records in"), "{ran}");
    ran.ended(0);
    let scanned = place.run("scan", ["t", "--prefix", r"3\x00", "--limit", "1"]).ended(0);
    assert!(
        scanned.text().starts_with("3\\x00000003\t\"a \"\"quoted\"\"\\ntext text "),
        "{scanned}"
    );
}

#[test]
fn a_line_of_a_script_has_a_bound_too() {
    let place = Place::new();
    let mut shell = everleaf();
    let mut child = crate::common::spawn(shell.arg("shell").arg(&place.pool).arg("--keep-going"));
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = long(&mut stdin, &[b'x'; 1 << 16]);
            let _ = stdin.write_all(b"\nput t k v\nget t k\n");
        });
        child.wait_with_output().unwrap()
    });
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.starts_with("everleaf: line 1: longer than 268,435,456 bytes"), "{err}");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &b"v\n"[..]));
}
