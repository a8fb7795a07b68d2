//! How much memory a value takes while it comes from a reader and while it is read in part: a program of
//! its own, because memory is counted for the whole process.
//!
//! `EVERLEAF_SCALE=release` makes it a value of 4 GiB − 1 instead of 256 MiB.

use std::io::{self, Read};

use everleaf::{Db, VALUE_BYTES_MAX};

const MIB: u64 = 1 << 20;

/// A reader whose bytes come from nowhere, and differ by place.
struct Generated {
    at: u64,
}

fn byte_at(at: u64) -> u8 {
    ((at ^ (at >> 13)).wrapping_mul(0x9E37_79B9) >> 24) as u8
}

impl Read for Generated {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        for (byte, at) in buf.iter_mut().zip(self.at..) {
            *byte = byte_at(at);
        }
        self.at += buf.len() as u64;
        Ok(buf.len())
    }
}

/// The most bytes of this process that were resident so far.
fn most_resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("Linux");
    let kib = line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok());
    kib.expect("a number") * 1024
}

/// The most bytes that were resident while `run` ran, beyond those before it. None where the system does
/// not let a process forget its peak.
fn peak_of(run: impl FnOnce()) -> Option<u64> {
    let forgot = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    let before = most_resident();
    run();
    forgot.then(|| most_resident() - before)
}

#[test]
fn a_value_that_comes_from_a_reader_is_never_in_memory() {
    let len = everleaf_testing::size([256 * MIB, 256 * MIB, VALUE_BYTES_MAX as u64]);
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path().join("p.ever")).expect("opens");
    let tree = db.tree("t").expect("room");
    tree.put_from("warm", Generated { at: 0 }, 4 * MIB).expect("room");
    let peak = peak_of(|| {
        tree.put_from("k", Generated { at: 0 }, len).expect("room");
        db.sync().expect("no fault");
    });
    let Some(peak) = peak else {
        println!("skipped: the peak cannot be forgotten here");
        return;
    };
    // A piece, what gathers for the disk, and for each page of the value a place and a frame.
    let most = 8 * MIB + len / 16;
    println!("{peak} bytes more for a value of {len}, {most} at most");
    assert!(peak <= most, "{peak} bytes more for a value of {len}");
    let mut buf = vec![0; MIB as usize];
    let parts = peak_of(|| {
        for at in (0..len).step_by(buf.len()) {
            let n = tree.read_at("k", at, &mut buf).expect("sound");
            assert_eq!(n.map(|n| n as u64), Some((len - at).min(MIB)));
            let is_same =
                buf[..n.unwrap_or(0)].iter().zip(at..).all(|(byte, at)| *byte == byte_at(at));
            assert!(is_same, "from {at} on");
        }
    });
    let parts = parts.expect("as before");
    assert!(parts <= 8 * MIB, "{parts} bytes more for parts of it");
    db.close().expect("no fault");
}
