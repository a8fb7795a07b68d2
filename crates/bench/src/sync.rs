//! Synced operations beside the bare disk.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use everleaf::Durability;

use crate::table::Table;

/// Sizes of a run.
#[derive(clap::Args)]
pub struct Args {
    /// Seconds for each figure
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Rounds; figures are medians
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Threads of the last row
    #[arg(long, default_value_t = 16)]
    threads: u64,
}

/// Operations a second of `op` (which takes the operation's number) in about `span`.
fn rate(span: Duration, mut op: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    let mut done = 0;
    while start.elapsed() < span {
        op(done);
        done += 1;
    }
    done as f64 / start.elapsed().as_secs_f64()
}

/// One thread and many, beside append + fdatasync and overwrite + fdatasync of 4 KiB.
pub fn compare(args: &Args) -> anyhow::Result<()> {
    let span = Duration::from_secs_f64(args.seconds);
    let mut table = Table::new("op/s");
    for round in 0..args.rounds {
        eprintln!("round {}", round + 1);
        let dir = tempfile::tempdir_in(".")?;
        let block = [7u8; 4096];
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .open(dir.path().join("raw"))?;
        let write = |at: u64| {
            file.write_all_at(&block, at * 4096).expect("space");
            file.sync_data().expect("no fault");
        };
        let appended = rate(span, write);
        table.add("append 4 KiB + fdatasync", appended);
        let blocks = (appended * args.seconds) as u64 / 2 + 1;
        table.add("overwrite 4 KiB + fdatasync", rate(span, |i| write(i % blocks)));
        for threads in [1, args.threads] {
            let db = everleaf::Db::open(dir.path().join(format!("{threads}.ever")))?;
            let tree = db.tree("bench")?;
            let tree = &tree;
            let rates: Vec<f64> = std::thread::scope(|scope| {
                let run = |t: u64| {
                    rate(span, |i| {
                        let key = (i * threads + t).to_be_bytes();
                        tree.insert_with(key, [1; 100], Durability::Sync).expect("no fault");
                    })
                };
                let handles: Vec<_> = (0..threads).map(|t| scope.spawn(move || run(t))).collect();
                handles.into_iter().map(|h| h.join().expect("no panic")).collect()
            });
            table.add(&format!("everleaf Sync, {threads} threads"), rates.iter().sum());
        }
    }
    table.print("durable operations");
    Ok(())
}
