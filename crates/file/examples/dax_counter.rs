//! How an application uses persistent memory by itself: a ring of records that survives a kill.
//!
//! `cargo run --release --example dax_counter POOL [--emulate] [RECORDS]` checks what the last run
//! left, then appends so many records (10), and says `durable N` as soon as record N is. Kill it, or
//! cut the power, at any time: the next run finds every record that was said to be durable, as far
//! as the ring still holds it. Without `--emulate` the pool must be on a DAX file system.
//!
//! Page 0 holds the number of records in one word. Record n is a line in one of the other pages:
//! it is written, flushed and fenced before the number in page 0 says n, so a crash leaves it whole or
//! not counted.

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use everleaf_file::{Dax, DaxOptions};
use everleaf_pmem::{Medium, Page, Result};

const PAGES: u32 = 64;
const WORDS: u64 = 8;

/// Word `i` of record `n`: something that a torn or misplaced record does not have.
fn content(n: u64, i: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(i as u32 * 8) ^ i
}

struct Ring {
    pool: Dax,
}

impl Ring {
    fn open(path: PathBuf, emulate: bool) -> Result<Self> {
        let options = DaxOptions { pages: PAGES, create: true, emulate, ..DaxOptions::default() };
        Ok(Ring { pool: Dax::open(&path, &options)? })
    }

    /// Records that are durable, the first being 1.
    fn count(&self) -> Result<u64> {
        Ok(self.pool.page(0)?.body(0).load())
    }

    fn places(&self) -> u64 {
        u64::from(self.pool.limit()) - 1
    }

    fn place(&self, n: u64) -> Result<Page<'_>> {
        self.pool.page(1 + (n % self.places()) as u32)
    }

    fn is_whole(&self, n: u64) -> Result<bool> {
        let page = self.place(n)?;
        Ok((0..WORDS).all(|i| page.body(i as usize).load() == content(n, i)))
    }

    fn append(&self) -> Result<u64> {
        let pool = &self.pool;
        pool.enter()?;
        let n = self.count()? + 1;
        let place = self.place(n)?;
        for i in 0..WORDS {
            pool.store(place.body(i as usize), content(n, i));
        }
        pool.flush(place, place.line_of(0));
        pool.fence(); // the record, before the number that counts it
        let head = pool.page(0)?;
        pool.store(head.body(0), n);
        pool.flush(head, head.line_of(0));
        pool.fence(); // the number, before anybody is told
        Ok(n)
    }

    /// The first record that is counted, not yet overwritten, and not whole.
    fn damaged(&self) -> Result<Option<u64>> {
        let count = self.count()?;
        // The oldest place may have been half overwritten by a record that is not counted.
        for n in 1 + count.saturating_sub(self.places() - 1)..=count {
            if !self.is_whole(n)? {
                return Ok(Some(n));
            }
        }
        Ok(None)
    }
}

fn run() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let (mut path, mut emulate, mut records) = (None, false, 10);
    for arg in std::env::args_os().skip(1) {
        match (arg.to_str(), &path) {
            (Some("--emulate"), _) => emulate = true,
            (_, None) => path = Some(PathBuf::from(arg)),
            (Some(n), _) => records = n.parse()?,
            (None, _) => return Err("the number of records is not a number".into()),
        }
    }
    let path = path.ok_or("usage: dax_counter POOL [--emulate] [RECORDS]")?;
    let ring = Ring::open(path, emulate)?;
    let (pool, mut out) = (&ring.pool, stdout().lock());
    writeln!(
        out,
        "{}, {}, open {}, {}",
        if pool.is_fresh() { "fresh" } else { "found" },
        if pool.was_clean() { "clean" } else { "not closed" },
        pool.open_generation(),
        pool.flush_instruction(),
    )?;
    if let Some(n) = ring.damaged()? {
        return Err(format!("record {n} is damaged").into());
    }
    writeln!(out, "whole {}", ring.count()?)?;
    for _ in 0..records {
        writeln!(out, "durable {}", ring.append()?)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("dax_counter: {e}");
            ExitCode::FAILURE
        }
    }
}
