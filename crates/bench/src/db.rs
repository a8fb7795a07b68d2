//! The Db beside a mutexed `BTreeMap` of byte strings: load rate and latencies of single calls.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use hdrhistogram::Histogram;

use crate::keys::key;
use crate::table::{Table, mops};

/// Sizes of a run.
#[derive(clap::Args)]
pub struct Args {
    /// Number of records
    #[arg(long, default_value_t = 1_000_000)]
    records: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 100)]
    value: usize,
    /// Rounds; figures are medians
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Slots of a node (16 bytes each); 0 = the default
    #[arg(long, default_value_t = 0)]
    slots: u32,
}

/// A key of 16 bytes: hexadecimal digits, as many programs have them.
fn name(i: u64) -> [u8; 16] {
    let mut out = [0; 16];
    for (d, byte) in out.iter_mut().enumerate() {
        *byte = b"0123456789abcdef"[(key(i) >> (60 - 4 * d)) as usize & 15];
    }
    out
}

/// Runs `insert` for each record and returns rate and latencies in nanoseconds.
fn drive(args: &Args, mut insert: impl FnMut(&[u8], &[u8])) -> (f64, Histogram<u64>) {
    let mut latencies = Histogram::new(3).expect("3 digits are allowed");
    let mut value = vec![0; args.value];
    let start = Instant::now();
    let mut before = start;
    for i in 0..args.records {
        let n = value.len().min(8);
        value[..n].copy_from_slice(&i.to_le_bytes()[..n]);
        insert(&name(i), &value);
        let now = Instant::now();
        latencies.record((now - before).as_nanos() as u64).expect("it resizes");
        before = now;
    }
    (mops(args.records, start.elapsed()), latencies)
}

fn row(tables: &mut [Table; 4], name: &str, (rate, latencies): (f64, Histogram<u64>)) {
    tables[0].add(name, rate * 1e3);
    tables[1].add(name, latencies.value_at_quantile(0.99) as f64 / 1e3);
    tables[2].add(name, latencies.value_at_quantile(0.999) as f64 / 1e3);
    tables[3].add(name, latencies.max() as f64 / 1e3);
}

/// Loads records one call at a time, then reads them in another order.
pub fn load(args: &Args) -> anyhow::Result<()> {
    let mut tables = [Table::new("kop/s"), Table::new("µs"), Table::new("µs"), Table::new("µs")];
    let mut gets = Table::new("kop/s");
    for round in 0..args.rounds {
        eprintln!("round {}", round + 1);
        let map = Mutex::new(BTreeMap::<Vec<u8>, Vec<u8>>::new());
        let lock = || map.lock().expect("no panic inside");
        row(
            &mut tables,
            "Mutex<BTreeMap>",
            drive(args, |k, v| drop(lock().insert(k.to_vec(), v.to_vec()))),
        );
        let get = |get: &dyn Fn(&[u8]) -> bool| {
            let start = Instant::now();
            for i in 0..args.records {
                assert!(get(&name(key(i) % args.records)));
            }
            mops(args.records, start.elapsed()) * 1e3
        };
        gets.add("Mutex<BTreeMap>", get(&|k| lock().get(k).cloned().is_some()));
        drop(map);
        let dir = tempfile::tempdir_in(".")?;
        let mut options = everleaf::Options::new();
        if args.slots > 0 {
            options = options.node_slots(args.slots);
        }
        let db = options.open(dir.path().join("bench.ever"))?;
        let tree = db.tree("bench")?;
        row(
            &mut tables,
            "everleaf, buffered",
            drive(args, |k, v| drop(tree.insert(k, v).expect("no fault"))),
        );
        gets.add("everleaf, buffered", get(&|k| tree.get(k).expect("no fault").is_some()));
        drop(tree);
        db.close()?;
    }
    println!(
        "{} records of 16 B keys and {} B values, one operation a call",
        args.records, args.value
    );
    for (table, title) in
        tables.iter().zip(["load", "load, p99", "load, p99.9", "load, worst call"])
    {
        table.print(title);
    }
    gets.print("get");
    Ok(())
}
