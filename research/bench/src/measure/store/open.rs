//! The time to open: after a close, and after the kill of a process that was writing.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use super::data::Data;
use super::disk;
use super::setting::{Bench, Phases};
use crate::measure::kind::Figures;
use crate::store::{self, How, KvStore};

/// A process that overwrites pairs of a store and waits to be killed.
#[derive(clap::Args)]
pub struct Child {
    #[arg(long)]
    system: String,
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    keys: u64,
    #[arg(long)]
    key_bytes: usize,
    #[arg(long)]
    value_bytes: usize,
    #[arg(long)]
    dirty: u64,
}

/// The item of the i-th overwrite.
fn overwritten(i: u64, keys: u64) -> u64 {
    i * 7919 % keys
}

impl Child {
    /// Does it.
    ///
    /// # Errors
    /// The store cannot be opened or written to.
    pub fn run(&self) -> Result<()> {
        let work = Phases {
            system: self.system.clone(),
            phases: "load".into(),
            keys: self.keys,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            threads: 1,
            dirty: self.dirty,
            ..Phases::default()
        };
        let (store, data) = (store::open(&self.system, &work.how(&self.dir))?, work.data());
        let (mut key_bytes, mut value) = (Vec::new(), Vec::new());
        for i in 0..self.dirty {
            let id = data.id(overwritten(i, self.keys));
            data.key(id, &mut key_bytes);
            data.value(id, 1, &mut value);
            store.put(&key_bytes, &value)?;
        }
        store.sync()?;
        println!("ready");
        // Until it is killed, or whoever should do that has gone.
        std::io::stdin().lines().for_each(drop);
        Ok(())
    }
}

/// Opens a store, reads a key and returns the milliseconds until then.
fn open_once(work: &Phases, data: &Data, how: &How) -> Result<(Box<dyn KvStore>, f64)> {
    let mut bytes = Vec::new();
    data.key(data.id(work.keys / 2), &mut bytes);
    let start = Instant::now();
    let store = store::open(&work.system, how)?;
    ensure!(store.get(&bytes, &mut |_| ())?, "a key is gone");
    Ok((store, start.elapsed().as_secs_f64() * 1e3))
}

/// Starts a process that overwrites, and kills it when it has.
fn write_and_die(work: &Phases, dir: &Path) -> Result<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["overwrite", "--system", &work.system, "--dir"])
        .arg(dir)
        .args(["--keys", &work.keys.to_string()])
        .args(["--key-bytes", &work.key_bytes.to_string()])
        .args(["--value-bytes", &work.value_bytes.to_string()])
        .args(["--dirty", &work.dirty.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    let read = match child.stdout.take() {
        Some(out) => BufReader::new(out).read_line(&mut line),
        None => bail!("no pipe"),
    };
    child.kill()?;
    child.wait()?;
    read?;
    ensure!(line.trim() == "ready", "the process ended before it had written all");
    Ok(())
}

impl Bench<'_> {
    /// Closes, opens, closes, lets another process write and be killed, opens again.
    pub fn open(self) -> Result<(Self, Figures)> {
        let Bench { work, data, dir, seed, store, begun } = self;
        let how = work.how(dir.path());
        let ms = |name: &str, ms: f64| (name.to_string(), ms);
        let start = Instant::now();
        store.close()?;
        let mut figures = vec![ms("open_close_ms", start.elapsed().as_secs_f64() * 1e3)];
        if work.has("size") {
            // Now: what another process overwrites later is not of the load.
            figures.push(("size_closed_mib".into(), disk::mib(dir.path())?));
        }
        let (store, clean) = open_once(work, &data, &how)?;
        figures.push(ms("open_clean_ms", clean));
        store.close()?;
        write_and_die(work, dir.path())?;
        let (store, killed) = open_once(work, &data, &how).context("after the kill")?;
        figures.push(ms("open_killed_ms", killed));
        if let Some(bytes) = store.replay_bytes() {
            figures.push(ms("open_replay_mib", bytes as f64 / (1 << 20) as f64));
        }
        let bench = Bench { work, data, dir, seed, store, begun };
        bench.expect_overwritten()?;
        Ok((bench, figures))
    }

    /// The last overwrites, which were synced before the kill, are there.
    fn expect_overwritten(&self) -> Result<()> {
        let mut bytes = Vec::new();
        for i in self.work.dirty.saturating_sub(1000)..self.work.dirty {
            let id = self.data.id(overwritten(i, self.work.keys));
            self.data.key(id, &mut bytes);
            let mut version = Ok(0);
            let is = self.store.get(&bytes, &mut |value| version = self.data.version(id, value))?;
            ensure!(is && version? == 1, "a synced overwrite is gone");
        }
        Ok(())
    }
}
