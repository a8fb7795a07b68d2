//! A process on persistent memory is killed again and again. Alone in its file: while a child is
//! being started it holds the locks of the tests beside it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use everleaf_file::{Dax, DaxOptions};
use everleaf_pmem::{Medium, PageNo};

/// Rounds, and the number of words that are in use at a time.
const ROUNDS: usize = 5;
const RING: u64 = 60;

fn open(path: &Path, read_only: bool) -> Dax {
    // `ci/dax_qemu.sh` sets it where the directory for temporary files is on DAX.
    let emulate = std::env::var_os("EVERLEAF_DAX").is_none();
    let options =
        DaxOptions { slots: 8, pages: 64, create: true, emulate, read_only, ..Default::default() };
    Dax::open(path, &options).expect("opens")
}

fn set(dax: &Dax, no: PageNo, word: usize, value: u64) {
    dax.enter().expect("writable");
    let page = dax.page(no).expect("inside");
    dax.store(page.body(word), value);
    dax.flush(page, page.line_of(word));
    dax.fence();
}

fn get(dax: &Dax, no: PageNo, word: usize) -> u64 {
    dax.page(no).expect("inside").body(word).load()
}

/// Where number `n` is kept.
fn place(n: u64) -> (PageNo, usize) {
    (1 + (n % RING) as PageNo, n as usize)
}

/// Counts until it is killed. Does nothing by itself.
#[test]
#[ignore = "started by what_was_fenced_survives_a_kill"]
fn victim() {
    let Some(path) = std::env::var_os("EVERLEAF_DAX_VICTIM") else { return };
    let dax = open(Path::new(&path), false);
    for n in get(&dax, 0, 0) + 1.. {
        let (no, word) = place(n);
        set(&dax, no, word, n);
        set(&dax, 0, 0, n);
        println!("durable {n}");
    }
}

#[test]
fn what_was_fenced_survives_a_kill() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("p");
    let mut before = 0;
    for round in 0..ROUNDS {
        let mut victim = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "victim", "--ignored", "--nocapture"])
            .env("EVERLEAF_DAX_VICTIM", &path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let mut lines = BufReader::new(victim.stdout.take().expect("piped")).lines();
        let durable = |line: std::io::Result<String>| {
            line.ok()?.strip_prefix("durable ")?.parse::<u64>().ok()
        };
        let last = lines.by_ref().filter_map(durable).nth(500 * round + 7).expect("counts");
        victim.kill().expect("killed");
        victim.wait().expect("gone");
        let dax = open(&path, true);
        let count = get(&dax, 0, 0);
        assert!(count >= last && last > before, "{last} was durable, {count} is here");
        assert!(!dax.was_clean());
        // The oldest may have given way to a number that is not counted.
        for n in count.saturating_sub(RING - 2).max(1)..=count {
            let (no, word) = place(n);
            assert_eq!(get(&dax, no, word), n);
        }
        before = last;
    }
}
