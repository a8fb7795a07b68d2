//! Epochs that the program ends, in figures:
//! `cargo run --release -p everleaf --features heavy --example long_epochs [directory] [rounds] [part]`,
//! where a part is `ends`, `puts`, `snapshots`, `pools` or `disk`.
//!
//! - how long the end of an epoch of 10,000 puts takes that is not waited for, and one that is, beside checkpoints;
//! - puts while epochs end each 100 ms, over puts in epochs of 10 ms, which the pool ends;
//! - puts beside a snapshot that is taken at each end, over puts without, in turns;
//! - the ends of 300 pools, until all of them are durable, and their closes;
//! - the most that the file takes over the bytes of all pairs, with epochs of 100 ms, 1 s and 30 s.
//!
//! Pairs are of 16 and 100 bytes, in no order.

use std::io::{Write, stdout};
use std::path::Path;
use std::time::{Duration, Instant};

use everleaf::{Db, Options, Result, Tree};

const PAIRS: u64 = 1_000_000;
const PAIR_BYTES: u64 = 116;
/// The file is looked at each so many puts.
const LOOK_PUTS: u64 = 20_000;
const EPOCH_PUTS: u64 = 10_000;
/// Epochs of a turn.
const TURN: u64 = 10;
const POOLS: u64 = 300;

fn put(tree: &Tree, i: u64) -> Result<()> {
    let hash = (i % PAIRS).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = [0; 16];
    key[..8].copy_from_slice(&hash.to_be_bytes());
    let mut value = [0; 100];
    value[..8].copy_from_slice(&i.to_be_bytes());
    tree.put(key, value)
}

/// Numbers of pairs in no order, other ones each time.
fn scattered(i: u64) -> u64 {
    i.wrapping_mul(0xd1b5_4a32_d192_ed03) >> 20
}

fn manual() -> Options {
    Options::new().manual_epochs(true)
}

fn new_pool(path: &Path, options: &Options) -> Result<Db> {
    if path.exists() {
        std::fs::remove_file(path).expect("a pool of an earlier round");
    }
    options.open(path)
}

/// A new pool with all pairs.
fn loaded(path: &Path, options: &Options) -> Result<Db> {
    let db = new_pool(path, options)?;
    let tree = db.tree("t")?;
    for i in 0..PAIRS {
        put(&tree, i)?;
        if i.is_multiple_of(EPOCH_PUTS) {
            db.end_epoch()?;
        }
    }
    db.sync()?;
    db.checkpoint()?;
    Ok(db)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn say(out: &mut impl Write, line: &str) {
    writeln!(out, "{line}").expect("stdout");
}

fn spread(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |part: usize| ms(times[part * (times.len() - 1) / 100]);
    format!("median {:.3}, p90 {:.3}, worst {:.3} ms", at(50), at(90), at(100))
}

/// Times the ends of epochs.
fn ends(path: &Path, waits: bool) -> Result<String> {
    let db = loaded(path, &manual())?;
    let tree = db.tree("t")?;
    let (mut times, begun) = (Vec::new(), Instant::now());
    for epoch in 0..200 {
        for i in epoch * EPOCH_PUTS..(epoch + 1) * EPOCH_PUTS {
            put(&tree, scattered(i))?;
        }
        let end = Instant::now();
        if waits {
            db.sync()?
        } else {
            db.end_epoch()?;
        }
        times.push(end.elapsed());
    }
    let all = begun.elapsed();
    db.abandon()?;
    Ok(format!("{}, all {:.0} ms", spread(times), ms(all)))
}

/// Millions of puts a second for 5 s, and the CPU time of each; epochs end after so long, if the program ends them.
fn puts(path: &Path, options: &Options, every: Option<Duration>) -> Result<String> {
    let db = loaded(path, options)?;
    let tree = db.tree("t")?;
    let (mut i, mut ended) = (0, Instant::now());
    let (begun, cpu) = (Instant::now(), own_cpu());
    while begun.elapsed() < Duration::from_secs(5) {
        for _ in 0..100 {
            put(&tree, scattered(i))?;
            i += 1;
        }
        if every.is_some_and(|every| ended.elapsed() >= every) {
            db.end_epoch()?;
            ended = Instant::now();
        }
    }
    let (time, cpu) = (begun.elapsed(), own_cpu() - cpu);
    db.abandon()?;
    let rate = i as f64 / time.as_secs_f64() / 1e6;
    Ok(format!("{rate:.3} M/s, {:.0} ns CPU a put", cpu.as_secs_f64() * 1e9 / i as f64))
}

/// CPU time of a put in epochs of so many: in turns some epochs without a snapshot, and some with one that nobody reads
/// and that is taken anew at each end, which is a part of that time.
fn snapshots(path: &Path, epoch_puts: u64) -> Result<String> {
    let db = loaded(path, &manual())?;
    let tree = db.tree("t")?;
    let (mut i, mut cpu) = (0, [Vec::new(), Vec::new()]);
    for turn in 0..8_000_000 / epoch_puts / TURN {
        let (begun, is_kept) = (own_cpu(), turn % 2 == 1);
        let mut then = if is_kept { Some(db.snapshot()?) } else { None };
        for _ in 0..TURN {
            for _ in 0..epoch_puts {
                put(&tree, scattered(i))?;
                i += 1;
            }
            db.end_epoch()?;
            if is_kept {
                then = Some(db.snapshot()?);
            }
        }
        drop(then);
        cpu[turn as usize % 2].push(own_cpu() - begun);
    }
    db.abandon()?;
    let [without, with] = cpu.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e9 / (TURN * epoch_puts) as f64
    });
    Ok(format!("{without:.0} ns CPU a put, {with:.0} with a snapshot, {:.3} times", with / without))
}

/// CPU time of this thread.
fn own_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = stat.split(' ').next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}

/// Ends an epoch of each of many pools, waits until all are durable, and closes them.
fn pools(dir: &Path) -> Result<String> {
    let mut pools = Vec::new();
    for no in 0..POOLS {
        let db = new_pool(&dir.join(format!("pool-{no}")), &manual())?;
        pools.push((db.tree("t")?, db));
    }
    let (mut ends, mut durable) = (Vec::new(), Vec::new());
    for round in 0..5 {
        for (tree, _) in &pools {
            (0..1_000).try_for_each(|i| put(tree, scattered(round * 1_000 + i)))?;
        }
        let begun = Instant::now();
        let ended: Vec<u64> = pools.iter().map(|(_, db)| db.end_epoch()).collect::<Result<_>>()?;
        ends.push(begun.elapsed());
        pools.iter().zip(ended).try_for_each(|((_, db), epoch)| db.wait_durable(epoch))?;
        durable.push(begun.elapsed());
    }
    let begun = Instant::now();
    for (tree, db) in pools {
        drop(tree);
        db.close()?;
    }
    let close = ms(begun.elapsed());
    let (ends, durable) = (spread(ends), spread(durable));
    Ok(format!("ends {ends}; durable {durable}; close of all {close:.0} ms"))
}

/// The most that the file takes over the bytes of all pairs, while they are put so many times.
fn disk(path: &Path, options: &Options, every: Option<Duration>, rounds: u64) -> Result<String> {
    use std::os::unix::fs::MetadataExt;
    let db = new_pool(path, options)?;
    let tree = db.tree("t")?;
    let (mut ended, mut most, mut sum) = (Instant::now(), [0; 3], 0);
    let begun = Instant::now();
    for i in 0..rounds * PAIRS {
        put(&tree, scattered(i))?;
        if i % 1000 == 0 && every.is_some_and(|every| ended.elapsed() >= every) {
            db.end_epoch()?;
            ended = Instant::now();
        }
        if i % LOOK_PUTS == 0 {
            let on_disk = std::fs::metadata(path).map_or(0, |meta| meta.blocks() * 512);
            let stats = db.stats()?;
            let rest = on_disk - stats.journal_file_bytes.min(on_disk);
            sum += on_disk;
            for (most, now) in most.iter_mut().zip([on_disk, stats.journal_file_bytes, rest]) {
                *most = now.max(*most);
            }
        }
    }
    let took = ms(begun.elapsed());
    db.abandon()?;
    let over = |bytes: u64| bytes as f64 / (PAIRS * PAIR_BYTES) as f64;
    let [all, journal, rest] = most.map(over);
    let mean = over(sum / (rounds * PAIRS / LOOK_PUTS));
    Ok(format!(
        "most {all:.2}, mean {mean:.2} of the pairs' bytes; journal {journal:.2}, rest {rest:.2}; {took:.0} ms"
    ))
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().unwrap_or_else(|| std::env::temp_dir().display().to_string());
    let rounds: usize = args.next().map_or(3, |n| n.parse().expect("a number of rounds"));
    let only = args.next().unwrap_or_default();
    let dir = tempfile::tempdir_in(dir).expect("a directory");
    let path = dir.path().join("p.ever");
    let mut out = stdout();
    let is_on = |part: &str| only.is_empty() || only == part;
    let tenth = Some(Duration::from_millis(100));
    for _ in 0..rounds {
        if is_on("ends") {
            say(&mut out, &format!("end_epoch of 10,000: {}", ends(&path, false)?));
            say(&mut out, &format!("sync of 10,000:      {}", ends(&path, true)?));
        }
        if is_on("puts") {
            let own = puts(&path, &Options::new(), None)?;
            say(&mut out, &format!("puts, 10 ms:             {own}"));
            let longer = puts(&path, &manual(), tenth)?;
            say(&mut out, &format!("puts, 100 ms:            {longer}"));
        }
        if is_on("snapshots") {
            for n in [10_000, 100_000] {
                say(&mut out, &format!("epochs of {n} puts: {}", snapshots(&path, n)?));
            }
        }
        if is_on("pools") {
            say(&mut out, &format!("300 pools: {}", pools(dir.path())?));
        }
        for rounds in [1, 10] {
            if is_on("disk") {
                let own = disk(&path, &Options::new(), None, rounds)?;
                say(&mut out, &format!("{rounds} x all, the pool's epochs: {own}"));
                for every in [100, 1_000, 30_000] {
                    let disk = disk(&path, &manual(), Some(Duration::from_millis(every)), rounds)?;
                    say(&mut out, &format!("{rounds} x all, epochs of {every} ms: {disk}"));
                }
            }
        }
    }
    Ok(())
}
