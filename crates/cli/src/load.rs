//! `everleaf load`: many pairs from an input.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use everleaf::{Db, Durability, Options, Tree};

use crate::ack::Acks;
use crate::failure::{CommandError, Result};
use crate::format::{Format, InputItem, InputPair, PairSource};
use crate::message::tell;
use crate::numbers::{counted, grouped};
use crate::pool::{self, MakeArgs, PoolArgs};
use crate::progress;
use crate::skipped::Skipped;

/// Set the values of many keys from lines, CSV, JSON or a dump
///
/// Lines may have any length; the last one may lack its newline. What follows the first TAB is the
/// value. Of several values of a key the last one stays.
///
/// What cannot be understood is skipped and told at the end with its number and its reason; the exit
/// code is 2 then, unless --skip-bad is given. All other lines are on disk.
#[derive(clap::Args)]
#[command(override_usage = "everleaf load [OPTIONS] <POOL> <TREE> [FILE]\n       \
                            everleaf load [OPTIONS] --format mdb --all <POOL> [FILE]")]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
    /// The tree's name, with escapes; created if missing. Not with --all
    #[arg(required_unless_present = "all")]
    tree: Option<String>,
    /// The input; `-`, and none, is stdin
    file: Option<PathBuf>,
    /// What the input is
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// With --format mdb: each database goes to the tree of its name
    #[arg(long)]
    all: bool,
    /// A carriage return before the newline is a part of the line's end (csv and json: always)
    #[arg(long)]
    crlf: bool,
    /// With --format csv: the first record names the columns and is passed over
    #[arg(long)]
    header: bool,
    /// Lines that cannot be understood do not count as a failure
    #[arg(long)]
    skip_bad: bool,
    /// Print `durable N` whenever the first N lines (csv: records, mdb: pairs) are known to be on
    /// disk, or were skipped
    #[arg(long)]
    ack: bool,
    /// Each line is on disk before the next is set
    #[arg(long)]
    sync: bool,
    /// How long an epoch lasts: the most that a crash may take
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    interval: Option<u64>,
    #[command(flatten)]
    make: MakeArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let (target, file) = args.places()?;
    // Before the pool, which is made if it is missing.
    let (input, input_bytes) = open_input(&file)?;
    let mut options = Options::new();
    if let Some(interval_ms) = args.interval {
        options = options.interval(Duration::from_millis(interval_ms));
    }
    let db = args.at.open_or_make(options, &args.make)?;
    let acks = match (args.ack, args.sync) {
        (false, _) => None,
        (true, true) => Some(Acks::told()),
        (true, false) => Some(Acks::start(&db).map_err(|error| {
            CommandError::Blocked(format!("starting the thread everleaf-ack: {error}"))
        })?),
    };
    let durability = if args.sync { Durability::Sync } else { Durability::Buffered };
    let skipped = Skipped::default();
    let mut load = RunningLoad { db, target, tree: None, durability, acks, count: 0, skipped };
    let start = Instant::now();
    let mut source = args.format.read(input, args.crlf, args.header);
    let read = load.read(&mut *source, input_bytes, args.format.unit());
    if let Some(hint) = source.hint() {
        tell(format_args!("note: {hint}"));
    }
    load.finish(read, start, args)
}

impl Args {
    /// What the pairs go to, and the input.
    fn places(&self) -> Result<(LoadTarget, PathBuf)> {
        let usage = |what: &str| Err(CommandError::Usage(what.into()));
        if self.all && self.format != Format::Mdb {
            return usage("--all is for --format mdb: other inputs name no trees");
        }
        if self.header && self.format != Format::Csv {
            return usage("--header is for --format csv");
        }
        let (target, file) = match (self.all, &self.tree, &self.file) {
            (true, Some(_), Some(_)) => return usage("with --all there is no TREE"),
            (true, file, None) => (LoadTarget::All, file.as_ref().map(PathBuf::from)),
            (_, Some(tree), file) => {
                let name = pool::tree_name(tree).map_err(CommandError::Usage)?;
                (LoadTarget::Named { name, databases: 0 }, file.clone())
            }
            (_, None, _) => return usage("the tree is not named"),
        };
        Ok((target, file.unwrap_or_else(|| "-".into())))
    }
}

fn open_input(path: &Path) -> Result<(Box<dyn BufRead>, Option<u64>)> {
    const BUFFER_BYTES: usize = 1 << 18;
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { Path::new("stdin") } else { path };
    let blocked = |error| CommandError::Blocked(format!("cannot read {}: {error}", name.display()));
    let file = if is_stdin {
        io::stdin().as_fd().try_clone_to_owned().map(File::from)
    } else {
        File::open(path)
    };
    let file = file.map_err(blocked)?;
    let metadata = file.metadata().map_err(blocked)?;
    if metadata.is_dir() {
        return Err(blocked(io::ErrorKind::IsADirectory.into()));
    }
    let bytes = metadata.is_file().then_some(metadata.len());
    let mut input = BufReader::with_capacity(BUFFER_BYTES, file);
    if !is_stdin {
        // What cannot be read makes no pool.
        input.fill_buf().map_err(blocked)?;
    }
    Ok((Box::new(input), bytes))
}

/// Which trees the pairs go to.
enum LoadTarget {
    /// One, and how many databases of a dump have begun.
    Named { name: String, databases: u64 },
    /// Those that the dump names.
    All,
}

struct RunningLoad {
    db: Db,
    target: LoadTarget,
    /// Made for the first pair, so that an input without one leaves none behind.
    tree: Option<Tree>,
    durability: Durability,
    acks: Option<Acks>,
    /// How many lines are in a tree, or were skipped.
    count: u64,
    skipped: Skipped,
}

impl RunningLoad {
    fn read(&mut self, source: &mut dyn PairSource, bytes: Option<u64>, unit: &str) -> Result<()> {
        let bar = progress::input(bytes);
        let (mut pair, mut taken) = (InputPair::default(), 0);
        loop {
            match source.next(&mut pair)? {
                InputItem::End => break,
                InputItem::Tree(name) => {
                    let at = format_args!("line {}", source.line()).to_string();
                    self.begin(name).map_err(|failure| failure.context(at))?;
                    continue;
                }
                InputItem::Bad(reason) => self.skipped.add(source.line(), reason),
                InputItem::Pair => match self.set(&pair) {
                    Err(CommandError::Usage(reason)) => self.skipped.add(source.line(), reason),
                    set => {
                        let at = format_args!("line {}", source.line()).to_string();
                        set.map_err(|failure| failure.context(at))?;
                    }
                },
            }
            self.count += 1;
            if let Some(acks) = &self.acks {
                match self.durability {
                    Durability::Sync => acks.durable(self.count),
                    Durability::Buffered => acks.returned(self.count),
                }
            }
            bar.inc(source.bytes() - taken);
            taken = source.bytes();
            if self.count.is_multiple_of(4096) {
                bar.set_message(format!("{} {unit}", grouped(self.count)));
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// The next database of a dump.
    fn begin(&mut self, name: Option<String>) -> Result<()> {
        let usage = |what: &str| Err(CommandError::Usage(what.into()));
        match (&mut self.target, name) {
            (LoadTarget::Named { databases: databases @ 0, .. }, _) => *databases = 1,
            (LoadTarget::Named { .. }, _) => {
                return usage("another database begins; --all gives each a tree of its own");
            }
            (LoadTarget::All, None) => {
                return usage("the dump does not name this database: load it into a TREE");
            }
            (LoadTarget::All, Some(name)) => {
                let name = pool::tree_name_of(name.into()).map_err(CommandError::Usage)?;
                self.tree = Some(self.db.tree(&name)?);
            }
        }
        Ok(())
    }

    fn tree(&mut self) -> Result<&Tree> {
        if self.tree.is_none()
            && let LoadTarget::Named { name, .. } = &self.target
        {
            self.tree = Some(self.db.tree(name)?);
        }
        self.tree.as_ref().ok_or_else(|| CommandError::Usage("no database has begun".into()))
    }

    fn set(&mut self, pair: &InputPair) -> Result<()> {
        let durability = self.durability;
        self.tree()?.insert_with(&pair.key, &pair.value, durability)?;
        Ok(())
    }

    /// Whatever ended the load: what came before it is made durable and reported.
    fn finish(mut self, read: Result<()>, start: Instant, args: &Args) -> Result<()> {
        let made = match (&read, self.skipped.count == 0 || args.skip_bad, args.all) {
            (Ok(()), true, false) => self.tree().map(drop),
            _ => Ok(()),
        };
        let synced = self.db.sync();
        let seconds = start.elapsed().as_secs_f64();
        let acked = self.acks.map(|acks| acks.finish(synced.is_ok().then_some(self.count)));
        let unit = args.format.unit();
        let count = counted(self.count, unit.trim_end_matches('s'));
        let rate = grouped((self.count as f64 / seconds.max(1e-9)) as u64);
        tell(format_args!("{count} in {seconds:.3} s: {rate} {unit}/s"));
        self.skipped.tell();
        drop(self.tree);
        read?;
        made?;
        synced?;
        self.db.close()?;
        if let Some(Err(error)) = acked {
            return Err(CommandError::stdout(error).context("cannot acknowledge"));
        }
        match (self.skipped.count, args.skip_bad) {
            (0, _) => Ok(()),
            (_, true) => {
                tell(&self.skipped);
                Ok(())
            }
            (_, false) => Err(CommandError::Usage(self.skipped.to_string())),
        }
    }
}
