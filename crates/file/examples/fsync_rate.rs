//! How near group commit comes to what the disk gives: `cargo run --release --example fsync_rate
//! [directory]`. Prints raw syncs a second, then durable steps a second, then the cost of a step and
//! of an open after a crash.

use std::fs::OpenOptions;
use std::io::{Write, stdout};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use everleaf_file::io::RealIo;
use everleaf_file::{File, FileOptions};
use everleaf_pmem::{Change, Medium, Result};

const TIME: Duration = Duration::from_secs(3);

fn raw(path: &Path, ahead_bytes: usize) -> std::io::Result<f64> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    file.write_all_at(&vec![0; ahead_bytes], 0)?;
    file.sync_all()?;
    let (block, start, mut n) = ([1; 4096], Instant::now(), 0);
    while start.elapsed() < TIME {
        file.write_all_at(&block, n * 4096)?;
        file.sync_data()?;
        n += 1;
    }
    Ok(n as f64 / start.elapsed().as_secs_f64())
}

fn step(file: &File, no: u32, value: u64) -> Result<u64> {
    let page = file.page(no)?;
    let mut held = page.latch().lock();
    if !held.is_ready() {
        file.fetch(page, &mut |_, _| Ok(()))?;
        held.set_ready();
    }
    let mut op = file.enter()?;
    file.store(page.body(value as usize), value);
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    file.note(&mut op, page, Change { tag: 1, bytes: &bytes });
    Ok(file.epoch(&op))
}

fn synced(file: &File, threads: u32) -> f64 {
    let (total, start) = (AtomicU64::new(0), Instant::now());
    thread::scope(|scope| {
        for t in 0..threads {
            let total = &total;
            scope.spawn(move || {
                let mut n = 0;
                while start.elapsed() < TIME {
                    let epoch = step(file, t, n).expect("step");
                    file.wait_durable(epoch).expect("durable");
                    n += 1;
                }
                total.fetch_add(n, Ordering::Relaxed);
            });
        }
    });
    total.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64()
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let dir = Path::new(&dir).join(format!("fsync_rate-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let options = FileOptions { create: true, ..FileOptions::default() };
    writeln!(stdout(), "raw append + sync      {:9.0} a second", raw(&dir.join("raw"), 0)?)?;
    let overwrite = raw(&dir.join("raw"), 256 << 20)?;
    writeln!(stdout(), "raw overwrite + sync   {overwrite:9.0} a second")?;
    for threads in [1, 16] {
        let file = File::open(Arc::new(RealIo), &dir.join("pool"), &options)?;
        let rate = synced(&file, threads);
        let factor = rate / overwrite;
        writeln!(
            stdout(),
            "{threads:2} threads, durable     {rate:9.0} steps a second, {factor:.2} of raw"
        )?;
        file.close()?;
    }
    let file = File::open(Arc::new(RealIo), &dir.join("pool"), &options)?;
    let mut rng = 1_u64;
    let (steps, start) = (6_000_000_u64, Instant::now());
    for i in 0..steps {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        step(&file, ((rng >> 33) % 60_000) as u32, i)?;
    }
    let ns = start.elapsed().as_nanos() as f64 / steps as f64;
    writeln!(
        stdout(),
        "a step                 {ns:9.0} ns, with fetch and in the order of no cache"
    )?;
    file.sync()?;
    let mut best_ns = f64::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        for i in 0..10_000 {
            step(&file, 7, i)?;
        }
        best_ns = best_ns.min(start.elapsed().as_nanos() as f64 / 1e4);
    }
    writeln!(stdout(), "a step on one page     {best_ns:9.1} ns, the best of 20 runs")?;
    file.sync()?;
    writeln!(stdout(), "journal                {:9} MiB", file.stats().journal_replay_bytes >> 20)?;
    file.abandon();
    drop(file);
    let start = Instant::now();
    let file = File::open(Arc::new(RealIo), &dir.join("pool"), &options)?;
    writeln!(stdout(), "open                   {:9} ms", start.elapsed().as_millis())?;
    let start = Instant::now();
    while let Some(no) = file.pending() {
        let page = file.page(no)?;
        let mut held = page.latch().lock();
        file.fetch(page, &mut |_, _| Ok(()))?;
        held.set_ready();
    }
    writeln!(stdout(), "drain                  {:9} ms", start.elapsed().as_millis())?;
    let start = Instant::now();
    file.checkpoint()?;
    writeln!(stdout(), "checkpoint             {:9} ms", start.elapsed().as_millis())?;
    drop(file);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
