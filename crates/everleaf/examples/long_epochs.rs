//! What long epochs cost: `cargo run --release -p everleaf --features heavy --example long_epochs [directory] [rounds]`.
//! Puts a million pairs in epochs of 10 ms that the pool ends itself, and in one epoch that the program
//! ends. Prints the time of both, until everything is durable, and how long the end of epochs took that
//! had all these pairs, or a tenth of them.

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use everleaf::{Db, Options, Result, Tree};

const PUTS: u64 = 1_000_000;

fn put(tree: &Tree, keys: std::ops::Range<u64>, salt: u64) -> Result<()> {
    for i in keys {
        // In no order.
        let key = i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        tree.put(key, (i ^ salt).to_be_bytes())?;
    }
    Ok(())
}

fn new_pool(path: &Path, options: &Options) -> Result<Db> {
    if path.exists() {
        std::fs::remove_file(path).expect("a pool of an earlier round");
    }
    options.open(path)
}

/// Times the puts, and the end of them.
fn load(path: &Path, options: &Options) -> Result<(Duration, Duration)> {
    let db = new_pool(path, options)?;
    let tree = db.tree("t")?;
    let begun = Instant::now();
    put(&tree, 0..PUTS, 0)?;
    let end = Instant::now();
    db.sync()?;
    let times = (begun.elapsed(), end.elapsed());
    drop(tree);
    db.abandon()?;
    Ok(times)
}

/// Times the end of epochs with `puts` updates each, in a pool that is there.
fn ends(path: &Path, puts: u64, n: u64) -> Result<Vec<Duration>> {
    let db = Options::new().background(false).open(path)?;
    let tree = db.tree("t")?;
    let mut times = Vec::new();
    for i in 0..n {
        let from = i * puts % PUTS;
        put(&tree, from..(from + puts).min(PUTS), i + 1)?;
        let end = Instant::now();
        db.sync()?;
        times.push(end.elapsed());
        if i % 20 == 19 {
            db.checkpoint()?;
        }
    }
    times.sort_unstable();
    drop(tree);
    db.abandon()?;
    Ok(times)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let rounds = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(5);
    let path = dir.join("everleaf-long-epochs.ever");
    let mut ratios = Vec::new();
    for round in 0..rounds {
        let (short, _) = load(&path, &Options::new())?;
        let (long, end) = load(&path, &Options::new().background(false))?;
        let ratio = long.as_secs_f64() / short.as_secs_f64();
        writeln!(
            stdout(),
            "round {round}: 10 ms {short:.3?}, one epoch {long:.3?}, {ratio:.2} x, its end {end:.1?}"
        )?;
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    writeln!(stdout(), "median {:.2} x", ratios[ratios.len() / 2])?;
    for (puts, n) in [(PUTS / 10, 100), (PUTS, 10)] {
        let times = ends(&path, puts, n)?;
        let (median, p99, most) =
            (times[times.len() / 2], times[times.len() * 99 / 100], times[times.len() - 1]);
        writeln!(
            stdout(),
            "ends of {n} epochs of {puts}: median {median:.1?}, p99 {p99:.1?}, most {most:.1?}"
        )?;
    }
    std::fs::remove_file(&path).expect("a pool of this run");
    Ok(())
}
