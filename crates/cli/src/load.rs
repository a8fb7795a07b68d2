//! `everleaf load`: many pairs from an input; and `import` in the shell, which puts the pairs of a file.

use std::fs::Metadata;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use everleaf::{Db, Durability, Options, Tree};

use crate::ack::Acks;
use crate::escape::escaped;
use crate::failure::{CommandError, Result};
use crate::format::{
    Format, InputItem, InputPair, PairSource, Reading, Selection, Started, ValueForm, names,
};
use crate::input::{self, Input, STDIN};
use crate::message::{Skipped, input_bar, tell};
use crate::numbers::{counted, grouped, parse_size};
use crate::pool::{self, MakeArgs, PoolArgs};

/// Set the values of many keys from lines, CSV, JSON or a dump
///
/// With --key, columns of CSV or fields of JSON become the key, and the rest of the record or the whole object
/// the value. Several parts of a key have a zero byte between them, so that keys are in the order of their
/// parts. Of several values of a key the last one stays.
///
/// Lines that cannot be understood, or are longer than --max-line, are skipped and listed at the end with their
/// numbers and reasons; the exit code is 2 then, unless --skip-bad is given. All other lines are on disk. A byte
/// order mark of UTF-8 is dropped, with a note; UTF-16 is refused. `raw` keeps all bytes. A missing pool is made
/// with the first pair, so an input that is refused leaves none behind; an empty one makes an empty tree.
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
    #[command(flatten)]
    input: InputArgs,
    /// With --format mdb: each database goes to the tree of its name
    #[arg(long)]
    all: bool,
    /// Print `durable N` whenever the first N lines (csv: records, mdb: pairs) are known to be on
    /// disk, or were skipped
    #[arg(long)]
    ack: bool,
    /// Each line is on disk before the next is set
    #[arg(long)]
    sync: bool,
    /// How long an epoch lasts, in milliseconds: a line is on disk about so long after it was set [default: 10]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    interval: Option<u64>,
    #[command(flatten)]
    make: MakeArgs,
}

/// The form of the input, and what of it becomes keys and values.
#[derive(clap::Args)]
pub struct InputArgs {
    /// The format of the input
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// With csv, the columns that become the key, by name or number; with json, the fields. `a.b` means the field b
    /// of the field a; a backslash before a comma or a dot makes it a part of a name
    #[arg(long, value_name = "NAME[,NAME…]")]
    key: Vec<String>,
    /// The columns or fields that become the value. One is taken as it is; several become what --value-format
    /// says
    #[arg(long, value_name = "NAME[,NAME…]", requires = "key")]
    value: Vec<String>,
    /// How the columns or fields of the value are put together. Without it they are put together as the input is
    #[arg(long, value_enum, requires = "key")]
    value_format: Option<ValueForm>,
    /// With --format csv and --key: the first record is a pair, and columns are numbers
    #[arg(long, requires = "key", conflicts_with = "header")]
    no_header: bool,
    /// A carriage return before the newline is a part of the line's end (csv and json: always)
    #[arg(long)]
    crlf: bool,
    /// With --format csv: the first record names the columns and is passed over; with --key it always does
    #[arg(long)]
    header: bool,
    /// The most bytes of a line, a record or an object; a longer one is skipped. Twice to four times as much
    /// may be in memory
    #[arg(long, value_name = "BYTES", value_parser = parse_size, default_value = "256M")]
    max_line: u64,
    /// Lines that cannot be understood do not count as a failure
    #[arg(long)]
    skip_bad: bool,
}

impl InputArgs {
    /// How the input is read.
    fn reading(&self) -> Result<Reading> {
        let usage = |what: &str| Err(CommandError::Usage(what.into()));
        if self.header && self.format != Format::Csv {
            return usage("--header is for --format csv");
        }
        if !self.key.is_empty() && !matches!(self.format, Format::Csv | Format::Json) {
            return usage("--key is for --format csv and json");
        }
        let paths = |texts: &[String]| texts.iter().flat_map(|text| names(text)).collect();
        let (key, value) = (paths(&self.key), paths(&self.value));
        let (form, no_header) = (self.value_format, self.no_header);
        let chosen = Selection { key, value, form, no_header };
        Ok(Reading {
            crlf: self.crlf,
            header: self.header,
            line_bytes_max: usize::try_from(self.max_line).unwrap_or(usize::MAX - 1),
            chosen: (!self.key.is_empty()).then_some(chosen),
        })
    }

    /// Opens a file that is to be read.
    ///
    /// # Errors
    /// That of a file that cannot be read, and of options that do not go together.
    pub fn open(&self, file: &Path) -> Result<OpenInput> {
        let reading = self.reading()?;
        let (input, bytes) = open_input(file)?;
        Ok(OpenInput { input, bytes, format: self.format, reading })
    }

    /// Says what was skipped, which is a failure unless it was not to be one.
    ///
    /// # Errors
    /// Usage, if something was skipped that counts.
    pub fn judge(&self, skipped: &Skipped) -> Result<()> {
        match (skipped.count, self.skip_bad) {
            (0, _) => Ok(()),
            (_, true) => {
                tell(skipped);
                Ok(())
            }
            (_, false) => Err(CommandError::Usage(skipped.to_string())),
        }
    }
}

/// A file that is to be read.
pub struct OpenInput {
    input: Box<dyn BufRead>,
    /// How long it is, if that is known.
    pub bytes: Option<u64>,
    format: Format,
    reading: Reading,
}

impl OpenInput {
    /// Reads how it begins, and says what is peculiar about that. Waits for it.
    ///
    /// # Errors
    /// That of a read, and of an input that is not of its format.
    pub fn begin(self) -> Result<Box<dyn PairSource>> {
        let Started { source, note } = self.format.read(self.input, &self.reading)?;
        if let Some(note) = note {
            tell(format_args!("note: {note}"));
        }
        Ok(source)
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let (target, file) = args.places()?;
    let input = args.input.open(&file)?;
    let durability = if args.sync { Durability::Sync } else { Durability::Buffered };
    let skipped = Skipped::default();
    let mut load =
        RunningLoad { args, open: None, target, tree: None, durability, count: 0, skipped };
    // One that is there is opened before the input is waited for; one that is not, for the first pair.
    if args.at.pool.symlink_metadata().is_ok() {
        load.open()?;
    }
    let start = Instant::now();
    let input_bytes = input.bytes;
    let mut source = input.begin()?;
    let read = load.read(&mut *source, input_bytes, args.input.format.unit());
    tell_hint(&*source);
    load.finish(read, start)
}

/// Prints the hint for a user who wonders about what was read.
pub fn tell_hint(source: &dyn PairSource) {
    if let Some(hint) = source.hint() {
        tell(format_args!("note: {hint}"));
    }
}

impl Args {
    /// The target of the pairs, and the path of the input.
    fn places(&self) -> Result<(LoadTarget, PathBuf)> {
        let usage = |what: &str| Err(CommandError::Usage(what.into()));
        if self.all && self.input.format != Format::Mdb {
            return usage("--all is for --format mdb: other inputs name no trees");
        }
        let (target, file) = match (self.all, &self.tree, &self.file) {
            (true, Some(_), Some(_)) => return usage("with --all there is no TREE"),
            (true, file, None) => {
                (LoadTarget::All { name: None }, file.as_ref().map(PathBuf::from))
            }
            (_, Some(tree), file) => {
                let name = pool::tree_name(tree).map_err(CommandError::Usage)?;
                (LoadTarget::Named { name, databases: 0 }, file.clone())
            }
            (_, None, _) => return usage("the tree is not named"),
        };
        Ok((target, file.unwrap_or_else(|| STDIN.into())))
    }
}

fn open_input(path: &Path) -> Result<(Box<dyn BufRead>, Option<u64>)> {
    const BUFFER_BYTES: usize = 1 << 18;
    let Input { file, name } = Input::open(path)?;
    let bytes = file.metadata().ok().filter(Metadata::is_file).map(|file| file.len());
    let mut input = BufReader::with_capacity(BUFFER_BYTES, file);
    if path != Path::new(STDIN) {
        // A file that cannot be read makes no pool.
        input.fill_buf().map_err(|error| input::unreadable(&name, &error))?;
    }
    Ok((Box::new(input), bytes))
}

/// Which trees the pairs go to.
enum LoadTarget {
    /// One, and how many databases of a dump have begun.
    Named { name: String, databases: u64 },
    /// Those that the dump names; the one whose pairs come.
    All { name: Option<String> },
}

struct RunningLoad<'a> {
    args: &'a Args,
    /// The pool, from the first pair on.
    open: Option<OpenPool>,
    target: LoadTarget,
    /// Made for the first pair, so that an input that is refused leaves none behind.
    tree: Option<Tree>,
    durability: Durability,
    /// How many lines are in a tree, or were skipped.
    count: u64,
    skipped: Skipped,
}

struct OpenPool {
    db: Db,
    acks: Option<Acks>,
}

impl RunningLoad<'_> {
    /// Opens the pool, and makes it if it is missing.
    fn open(&mut self) -> Result<&OpenPool> {
        if self.open.is_none() {
            let args = self.args;
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
            self.open = Some(OpenPool { db, acks });
        }
        Ok(self.open.as_ref().expect("it was opened"))
    }

    fn read(&mut self, source: &mut dyn PairSource, bytes: Option<u64>, unit: &str) -> Result<()> {
        let bar = input_bar(bytes);
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
                // Before a pool or a tree is made for it.
                InputItem::Pair => match pool::check_pair(&pair.key, &pair.value) {
                    Err(CommandError::Usage(reason)) => self.skipped.add(source.line(), reason),
                    checked => {
                        checked?;
                        self.open()?;
                        let at = format_args!("line {}", source.line()).to_string();
                        self.set(&pair).map_err(|failure| failure.context(at))?;
                    }
                },
            }
            self.count += 1;
            if let Some(acks) = self.open.as_ref().and_then(|open| open.acks.as_ref()) {
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
        // A database without a pair is a tree, too.
        if self.args.all && self.has_named() { self.tree().map(drop) } else { Ok(()) }
    }

    /// The next database of a dump.
    fn begin(&mut self, name: Option<String>) -> Result<()> {
        let usage = |what: &str| Err(CommandError::Usage(what.into()));
        match (&mut self.target, name) {
            (LoadTarget::Named { databases: databases @ 0, .. }, _) => *databases = 1,
            (LoadTarget::Named { .. }, _) => {
                return usage("another database begins; --all gives each a tree of its own");
            }
            (LoadTarget::All { .. }, None) => {
                return usage("the dump does not name this database: load it into a TREE");
            }
            (LoadTarget::All { name: begun }, Some(name)) => {
                let name = pool::tree_name_of(name.into()).map_err(CommandError::Usage)?;
                if begun.is_some() {
                    self.tree()?;
                }
                (self.tree, self.target) = (None, LoadTarget::All { name: Some(name) });
            }
        }
        Ok(())
    }

    /// Whether a tree is known that pairs go to.
    fn has_named(&self) -> bool {
        !matches!(self.target, LoadTarget::All { name: None })
    }

    /// The tree that pairs go to; it is made if it is missing, and so is the pool.
    fn tree(&mut self) -> Result<&Tree> {
        if self.tree.is_none() {
            let name = match &self.target {
                LoadTarget::Named { name, .. } | LoadTarget::All { name: Some(name) } => {
                    name.clone()
                }
                LoadTarget::All { name: None } => {
                    return Err(CommandError::Usage("no database has begun".into()));
                }
            };
            let durability = self.durability;
            self.tree = Some(self.open()?.db.tree(&name)?.with(durability));
        }
        Ok(self.tree.as_ref().expect("it was made"))
    }

    fn set(&mut self, pair: &InputPair) -> Result<()> {
        Ok(self.tree()?.put(&pair.key, &pair.value)?)
    }

    /// Makes durable and reports what came before the end of the load, whatever ended it.
    fn finish(mut self, read: Result<()>, start: Instant) -> Result<()> {
        let args = self.args;
        let made = match (&read, self.skipped.count == 0 || args.input.skip_bad, args.all) {
            (Ok(()), true, false) => self.tree().map(drop),
            _ => Ok(()),
        };
        let (count, unit) = (self.count, args.input.format.unit());
        drop(self.tree);
        let (mut synced, mut acks, mut db) = (Ok(()), None, None);
        match self.open {
            Some(open) => {
                synced = open.db.sync();
                (acks, db) = (open.acks, Some(open.db));
            }
            // Nothing was to be put anywhere.
            None if args.ack => acks = Some(Acks::told()),
            None => {}
        }
        let seconds = start.elapsed().as_secs_f64();
        let acked = acks.map(|acks| acks.finish(synced.is_ok().then_some(count)));
        let told = counted(count, unit.trim_end_matches('s'));
        let rate = grouped((count as f64 / seconds.max(1e-9)) as u64);
        tell(format_args!("{told} in {seconds:.3} s: {rate} {unit}/s"));
        self.skipped.tell();
        read?;
        made?;
        synced?;
        db.map_or(Ok(()), |db| db.close())?;
        if let Some(Err(error)) = acked {
            return Err(CommandError::stdout(error).context("cannot acknowledge"));
        }
        args.input.judge(&self.skipped)
    }
}

/// Puts the pairs of a file by `put`, for the shell, in their order; what cannot be understood is told and passed over.
///
/// # Errors
/// Those of the file, with the line, and of `put`; Usage, if something was skipped. Pairs that came before are there.
pub fn import<E: From<CommandError>>(
    file: &Path,
    args: &InputArgs,
    mut put: impl FnMut(&InputPair) -> Result<(), E>,
) -> Result<(), E> {
    let input = args.open(file)?;
    let bar = input_bar(input.bytes);
    let mut source = input.begin()?;
    let (mut pair, mut skipped) = (InputPair::default(), Skipped::default());
    let (mut count, mut taken, mut databases) = (0_u64, 0, 0);
    loop {
        match source.next(&mut pair)? {
            InputItem::End => break,
            InputItem::Tree(_) if databases == 0 => databases = 1,
            InputItem::Tree(_) => {
                let what =
                    "another database begins: `everleaf load --all` gives each a tree of its own";
                let at = format!("line {}", source.line());
                return Err(CommandError::Usage(what.into()).context(at).into());
            }
            InputItem::Bad(reason) => skipped.add(source.line(), reason),
            InputItem::Pair => match pool::check_pair(&pair.key, &pair.value) {
                Err(CommandError::Usage(reason)) => skipped.add(source.line(), reason),
                checked => {
                    checked?;
                    put(&pair)?;
                    count += 1;
                }
            },
        }
        bar.inc(source.bytes() - taken);
        taken = source.bytes();
        if count.is_multiple_of(4096) {
            bar.set_message(grouped(count));
        }
    }
    bar.finish_and_clear();
    tell_hint(&*source);
    skipped.tell();
    let name = escaped(file.as_os_str().as_encoded_bytes());
    tell(format_args!("{name}: {}", counted(count, "pair")));
    Ok(args.judge(&skipped)?)
}
