//! The worked example of docs/FORMAT.md, made again: every line of bytes there must be what the pool has.
//!
//! With `EVERLEAF_EXAMPLE=1` all lines that are not zero are printed, to write the text anew.

use std::path::Path;
use std::sync::Arc;

use everleaf::Options;
use everleaf_file::io::SimIo;

const POOL: &str = "/pool/fruit.ever";

/// A new pool, three keys by a process each, a fourth by one that was killed once it was durable; then a
/// copy of the closed pool, with a large value that was durable when the process was killed.
fn pools() -> [SimIo; 2] {
    let disk = SimIo::new(1);
    let open = |disk: &SimIo| {
        let options = Options::new().background(false);
        options.open_on(Arc::new(disk.clone()), POOL).expect("sound")
    };
    for (key, value) in [("apple", "red"), ("apple pie", "sweet"), ("plum", "blue")] {
        let db = open(&disk);
        db.tree("fruit").and_then(|tree| tree.put(key, value)).expect("room");
        db.close().expect("no fault");
    }
    let closed = disk.power_cut(0);
    let killed = |disk: &SimIo, key: &str, value: &[u8]| {
        let db = open(disk);
        db.tree("fruit").and_then(|tree| tree.put(key, value)).expect("room");
        db.sync().expect("no fault");
        let killed = disk.power_cut(0);
        drop(db);
        killed
    };
    [killed(&disk, "banana", b"yellow"), killed(&closed, "tale", &[b'A'; 6000])]
}

fn line(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

fn print(what: &str, bytes: &[u8]) {
    println!("{what}: {} bytes", bytes.len());
    for (i, part) in bytes.chunks(16).enumerate() {
        if part.iter().any(|byte| *byte != 0) {
            println!("{:08x}: {}", 16 * i, line(part));
        }
    }
}

#[test]
fn the_text_has_the_bytes_of_the_pool() {
    let [killed, large] = pools().map(|disk| disk.peek(Path::new(POOL)).expect("there"));
    if std::env::var_os("EVERLEAF_EXAMPLE").is_some() {
        print("killed", &killed);
        print("large", &large);
    }
    let text = include_str!("../../../docs/FORMAT.md");
    let (_, text) = text.split_once("## A worked example\n").expect("there is one");
    let (mut bytes, mut checked) = (&killed, 0);
    for row in text.lines() {
        if row.starts_with("**A large value") {
            bytes = &large;
        }
        let Some((offset, rest)) = row.split_once(": ") else { continue };
        let Ok(offset) = usize::from_str_radix(offset, 16) else { continue };
        // Two spaces stand before what is explained, three for a byte that is left out.
        for i in 0..16 {
            let Some(digits) = rest.get(3 * i..3 * i + 2) else { break };
            if digits == "  " {
                continue;
            }
            let Ok(byte) = u8::from_str_radix(digits, 16) else { break };
            assert_eq!(bytes[offset + i], byte, "byte {i} of the line: {row}");
            checked += 1;
        }
    }
    assert!(checked > 600, "{checked} bytes are in the text");
}
