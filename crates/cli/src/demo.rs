//! `everleaf demo`: the whole promise on real data, in seconds.

mod cities;
mod crash;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use everleaf::{Batch, Db, Pair, Tree};

use crate::failure::{CommandError, Result, expect_no_signal, watch_signals};
use crate::message::{count_bar, tell};
use crate::numbers::grouped;
use crate::output::say;
use cities::City;

/// Load 135,233 real cities, query them, kill a load with SIGKILL and recover
///
/// SIGINT, SIGTERM and SIGHUP end it in order: what it has made and does not keep is deleted.
#[derive(clap::Args)]
pub struct Args {
    /// Where to make the pool, and keep it; else in a folder here that is deleted afterwards
    pool: Option<PathBuf>,
    /// Keep the folder
    #[arg(long)]
    keep: bool,
}

const THREADS: usize = 4;

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    watch_signals()?;
    let place = DemoPlace::new(args)?;
    let path = &place.pool;
    let text = cities::unpack()?;
    let cities: Vec<_> = cities::cities(&text).collect();
    say(format_args!(
        "{} cities of the world, from GeoNames (geonames.org, CC BY 4.0)",
        grouped(cities.len() as u64)
    ))?;
    say(format_args!("The pool is {}", path.display()))?;
    load(path, &cities)?;
    let db = Db::open(path)?;
    query(&db)?;
    query_from_threads(&db, &cities)?;
    db.close()?;
    crash::run(path, &cities)?;
    match place.kept {
        true => say(format_args!(
            "\nKept. Try: everleaf scan {} by-population --reverse --limit 5",
            path.display()
        ))?,
        false => say("\nDone; the pool is deleted (--keep keeps it).")?,
    }
    Ok(())
}

/// Where the pool is made; deletes it at the end if it is not to be kept.
struct DemoPlace {
    pool: PathBuf,
    folder: Option<PathBuf>,
    kept: bool,
}

impl DemoPlace {
    fn new(args: &Args) -> Result<Self> {
        if let Some(pool) = args.pool.clone() {
            if pool.symlink_metadata().is_ok() {
                let what = format!("{}: exists; the demo makes a new pool", pool.display());
                return Err(CommandError::Usage(what));
            }
            return Ok(DemoPlace { pool, folder: None, kept: true });
        }
        let folder = PathBuf::from(format!("everleaf-demo-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| {
            CommandError::Blocked(format!("cannot make the folder {}: {error}", folder.display()))
        })?;
        let pool = folder.join("cities.ever");
        Ok(DemoPlace { pool, folder: Some(folder), kept: args.keep })
    }
}

impl Drop for DemoPlace {
    fn drop(&mut self) {
        if let (Some(folder), false) = (&self.folder, self.kept)
            && let Err(error) = fs::remove_dir_all(folder)
        {
            tell(format_args!("everleaf: cannot delete {}: {error}", folder.display()));
        }
    }
}

/// Each city goes into both trees by one batch, so no crash can leave it in one of them only.
fn load(path: &Path, cities: &[City]) -> Result<()> {
    say("\n1. Load: each city into two trees, by-place and by-population, in one batch")?;
    let db = Db::open(path)?;
    let (by_place, by_population) = (db.tree("by-place")?, db.tree("by-population")?);
    let start = Instant::now();
    let bar = count_bar(cities.len() as u64, "cities");
    for city in cities {
        expect_no_signal()?;
        let mut batch: Batch = db.batch();
        batch.put(&by_place, city.place_key(), city.place_value())?;
        batch.put(&by_population, city.population_key(), city.population_value())?;
        batch.commit()?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let loaded = start.elapsed();
    db.sync()?;
    let (pairs, all) = (cities.len() as u64 * 2, start.elapsed());
    say(format_args!(
        "   {} pairs in {:.2} s, {} a second; {:.1} ms later all of it is on disk",
        grouped(pairs),
        loaded.as_secs_f64(),
        grouped((pairs as f64 / loaded.as_secs_f64()) as u64),
        (all - loaded).as_secs_f64() * 1e3,
    ))?;
    Ok(db.close()?)
}

fn query(db: &Db) -> Result<()> {
    say("\n2. Reopened; some questions, in order")?;
    let (by_place, by_population) = (db.tree("by-place")?, db.tree("by-population")?);
    let time = Instant::now();
    show("first by place", time, by_place.first()?.into_iter().collect())?;
    let time = Instant::now();
    show("last by place", time, by_place.last()?.into_iter().collect())?;
    let time = Instant::now();
    let pairs = by_place.prefix("IS/R").collect::<everleaf::Result<_>>()?;
    show("in Iceland, with R", time, pairs)?;
    let time = Instant::now();
    let pairs = by_population.range("01000000".."01005000").collect::<everleaf::Result<_>>()?;
    show("1,000,000 to 1,004,999 inhabitants", time, pairs)?;
    let time = Instant::now();
    let pairs = by_population.iter().rev().take(10).collect::<everleaf::Result<_>>()?;
    show("the ten largest, from the end", time, pairs)?;
    Ok(())
}

fn show(question: &str, start: Instant, pairs: Vec<Pair>) -> Result<()> {
    say(format_args!(
        "   {question}: {} found in {} us",
        pairs.len(),
        grouped(start.elapsed().as_micros() as u64)
    ))?;
    for (key, value) in pairs {
        let (key, value) = (String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
        say(format_args!("      {key:<30}  {value}"))?;
    }
    Ok(())
}

/// Each thread walks its part of one tree in order and looks each city up in the other.
fn query_from_threads(db: &Db, cities: &[City]) -> Result<()> {
    say(format_args!(
        "\n3. {THREADS} threads: walk by-place in order, look each city up in by-population"
    ))?;
    let (by_place, by_population) = (db.tree("by-place")?, db.tree("by-population")?);
    let mut wanted: Vec<_> = cities.iter().map(|city| (city.place_key(), city)).collect();
    wanted.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let start = Instant::now();
    let (places, populations) = (&by_place, &by_population);
    std::thread::scope(|scope| {
        let parts = wanted.chunks(wanted.len().div_ceil(THREADS));
        let threads: Vec<_> =
            parts.map(|part| scope.spawn(move || walk(places, populations, part))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let (seconds, count) = (start.elapsed().as_secs_f64(), cities.len() as u64);
    say(format_args!(
        "   all {} found, in order and alike in both trees, in {seconds:.2} s: {} a second",
        grouped(count),
        grouped((count as f64 / seconds) as u64),
    ))?;
    Ok(())
}

fn walk(by_place: &Tree, by_population: &Tree, part: &[(String, &City)]) -> Result<()> {
    let wrong = |key: &str| CommandError::Damaged(format!("{key} is not as it was loaded"));
    let Some((first, _)) = part.first() else { return Ok(()) };
    let mut pairs = by_place.range(first.as_str()..);
    for (key, city) in part {
        expect_no_signal()?;
        let (found, value) = pairs.next().ok_or_else(|| wrong(key))??;
        if found != key.as_bytes() || value != city.place_value().as_bytes() {
            return Err(wrong(key));
        }
        let other = by_population.get(city.population_key())?;
        if other.as_deref() != Some(city.population_value().as_bytes()) {
            return Err(wrong(key));
        }
    }
    Ok(())
}
