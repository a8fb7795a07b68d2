//! `everleaf load`: many pairs from lines of text.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use everleaf::{Db, Durability, Options, Tree};

use crate::ack::Acks;
use crate::escape::unescape;
use crate::failure::{Failure, Result};
use crate::pool::{self, PoolArgs};
use crate::progress;

/// Set the values of many keys from lines KEY<TAB>VALUE
///
/// Lines may have any length; escapes stand for any byte; the last line may lack its newline. What
/// follows the first TAB is the value. A line that cannot be understood ends the load with exit
/// code 2; the lines before it are on disk then.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
    /// The tree's name; created if missing
    #[arg(value_parser = pool::tree_name)]
    tree: String,
    /// The lines; `-` is stdin
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Print `durable N` whenever the first N lines are known to be on disk
    #[arg(long)]
    ack: bool,
    /// Each line is on disk before the next is set
    #[arg(long)]
    sync: bool,
    /// How long an epoch lasts: the most that a crash may take
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    interval: Option<u64>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let (mut input, input_bytes) = open_input(&args.file)?;
    let mut options = Options::new();
    if let Some(interval_ms) = args.interval {
        options = options.interval(Duration::from_millis(interval_ms));
    }
    let db = args.at.open(options)?;
    let acks = match (args.ack, args.sync) {
        (false, _) => None,
        (true, true) => Some(Acks::told()),
        (true, false) => Some(Acks::start(&db).map_err(|error| {
            Failure::Blocked(format!("starting the thread everleaf-ack: {error}"))
        })?),
    };
    let durability = if args.sync { Durability::Sync } else { Durability::Buffered };
    let mut load = Load { tree: db.tree(&args.tree)?, durability, acks, lines: 0 };
    let start = Instant::now();
    let read = load.read(&mut *input, input_bytes);
    finish(db, load, read, start)
}

/// Whatever ended the load: what came before it is made durable and reported.
fn finish(db: Db, load: Load, read: Result<()>, start: Instant) -> Result<()> {
    let synced = db.sync();
    let seconds = start.elapsed().as_secs_f64();
    let acked = load.acks.map(|acks| acks.finish(synced.is_ok().then_some(load.lines)));
    eprintln!("{} lines in {seconds:.3} s: {:.0} lines/s", load.lines, load.lines as f64 / seconds);
    drop(load.tree);
    read?;
    synced?;
    db.close()?;
    match acked {
        Some(Err(error)) => Err(Failure::Blocked(format!("cannot acknowledge: {error}"))),
        _ => Ok(()),
    }
}

fn open_input(path: &Path) -> Result<(Box<dyn BufRead>, Option<u64>)> {
    const BUFFER_BYTES: usize = 1 << 18;
    if path == Path::new("-") {
        return Ok((Box::new(BufReader::with_capacity(BUFFER_BYTES, io::stdin().lock())), None));
    }
    let blocked = |error| Failure::Blocked(format!("cannot read {}: {error}", path.display()));
    let file = File::open(path).map_err(blocked)?;
    let metadata = file.metadata().map_err(blocked)?;
    let bytes = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(BufReader::with_capacity(BUFFER_BYTES, file)), bytes))
}

struct Load {
    tree: Tree,
    durability: Durability,
    acks: Option<Acks>,
    /// How many lines are in the tree.
    lines: u64,
}

impl Load {
    fn read(&mut self, input: &mut dyn BufRead, input_bytes: Option<u64>) -> Result<()> {
        let bar = progress::input(input_bytes);
        let (mut line, mut key, mut value) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            line.clear();
            let bytes = input
                .read_until(b'\n', &mut line)
                .map_err(|error| Failure::Blocked(format!("cannot read the input: {error}")))?;
            if bytes == 0 {
                bar.finish_and_clear();
                return Ok(());
            }
            line.pop_if(|byte| *byte == b'\n');
            self.set(&line, &mut key, &mut value)
                .map_err(|failure| failure.context(format_args!("line {}", self.lines + 1)))?;
            self.lines += 1;
            if let Some(acks) = &self.acks {
                match self.durability {
                    Durability::Sync => acks.durable(self.lines),
                    Durability::Buffered => acks.returned(self.lines),
                }
            }
            bar.inc(bytes as u64);
            if self.lines.is_multiple_of(4096) {
                bar.set_message(format!("{} lines", self.lines));
            }
        }
    }

    fn set(&self, line: &[u8], key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<()> {
        let Some(tab) = line.iter().position(|&byte| byte == b'\t') else {
            return Err(Failure::Usage("no TAB between KEY and VALUE".into()));
        };
        unescape(&line[..tab], key).map_err(Failure::Usage)?;
        unescape(&line[tab + 1..], value).map_err(Failure::Usage)?;
        self.tree.insert_with(key, value, self.durability)?;
        Ok(())
    }
}
