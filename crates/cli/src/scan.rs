//! `everleaf scan`: pairs in order, of one moment.

use std::io::{BufWriter, Write};

use clap::ValueEnum;
use everleaf::{Cursor, Pair, SnapshotTree, Transaction, Tree};

use crate::count;
use crate::failure::{CommandError, Result};
use crate::format::{Format, Half, OutputLine};
use crate::keys::{BoundArgs, for_each_key};
use crate::output::{Output, stdout};
use crate::pool::{self, PoolArgs};

/// Print KEY<TAB>VALUE lines in the bytewise order of the keys
///
/// All output shows the tree at one moment. With --keys and with --count no value is read.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
    /// The tree's name, with escapes
    #[arg(value_parser = pool::tree_name)]
    tree: String,
    #[command(flatten)]
    part: PartArgs,
    #[command(flatten)]
    show: ShowArgs,
}

/// Which pairs of a tree, and in which order.
#[derive(clap::Args)]
pub struct PartArgs {
    #[command(flatten)]
    keys: BoundArgs,
    /// Print from the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Print at most so many pairs
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// Which parts of the pairs are printed, and how.
#[derive(clap::Args)]
pub struct ShowArgs {
    /// Print keys alone
    #[arg(long, conflicts_with_all = ["values", "count"])]
    keys: bool,
    /// Print values alone
    #[arg(long, conflicts_with = "count")]
    values: bool,
    /// Print only how many pairs there are
    #[arg(long, conflicts_with = "format")]
    count: bool,
    /// The format of the output
    #[arg(long, value_enum, default_value_t = ScanFormat::Text)]
    format: ScanFormat,
}

/// The forms of pairs that escape whatever bytes there are, and have one for halves of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScanFormat {
    /// Lines KEY<TAB>VALUE with the escapes \t \n \\ and \xHH
    Text,
    /// Comma-separated values (RFC 4180)
    Csv,
    /// Lines {"key":…,"value":…} of JSON; key_hex and value_hex for what is not UTF-8
    Json,
}

impl From<ScanFormat> for Format {
    fn from(format: ScanFormat) -> Self {
        match format {
            ScanFormat::Text => Format::Text,
            ScanFormat::Csv => Format::Csv,
            ScanFormat::Json => Format::Json,
        }
    }
}

/// Pairs of a tree in order.
pub type Pairs<'t> = Box<dyn Iterator<Item = everleaf::Result<Pair>> + 't>;

impl PartArgs {
    /// The pairs as a snapshot has them.
    pub fn of(&self, tree: &SnapshotTree) -> Result<Pairs<'static>> {
        let range = tree.range(self.keys.bounds()?);
        Ok(if self.reverse { self.limited(range.rev()) } else { self.limited(range) })
    }

    /// The pairs as a transaction sees them.
    pub fn within<'t>(&self, transaction: &'t Transaction, tree: &Tree) -> Result<Pairs<'t>> {
        let range = transaction.range(tree, self.keys.bounds()?);
        Ok(if self.reverse { self.limited(range.rev()) } else { self.limited(range) })
    }

    fn limited<'t>(&self, pairs: impl Iterator<Item = everleaf::Result<Pair>> + 't) -> Pairs<'t> {
        let limit = self.limit.unwrap_or(u64::MAX);
        Box::new(pairs.take(usize::try_from(limit).unwrap_or(usize::MAX)))
    }
}

impl ShowArgs {
    /// Whether no value is asked for.
    pub fn is_of_keys(&self) -> bool {
        self.keys || self.count
    }

    fn write(&self, key: &[u8], value: &[u8], line: &mut OutputLine) {
        line.clear();
        let format = self.format.into();
        let written = match (self.keys, self.values) {
            (true, _) => Half::Key.write(key, format, line),
            (_, true) => Half::Value.write(value, format, line),
            _ => format.write(key, value, line),
        };
        written.expect("these forms have one for all bytes");
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = args.at.open_to_read()?;
    let tree = pool::find(&db, &args.tree)?;
    let tree = db.snapshot()?.of(&tree)?;
    match args.show.is_of_keys() {
        true => print_keys(tree.cursor(), &args.part, &args.show, || Ok(())),
        false => print(args.part.of(&tree)?, &args.show),
    }
}

/// Prints each pair, or how many there are. The first error ends it; what came before is printed.
pub fn print<E, F>(pairs: impl Iterator<Item = Result<Pair, F>>, show: &ShowArgs) -> Result<(), E>
where
    E: From<CommandError> + From<F>,
{
    let mut out = Printer::new(show);
    for pair in pairs {
        let (key, value) = pair?;
        out.take(&key, &value)?;
    }
    Ok(out.end()?)
}

/// The same of keys, without their values; `go_on` may end it.
pub fn print_keys<E: From<CommandError> + From<everleaf::Error>>(
    cursor: Cursor,
    part: &PartArgs,
    show: &ShowArgs,
    go_on: impl Fn() -> Result<(), E>,
) -> Result<(), E> {
    let mut out = Printer::new(show);
    let limit = part.limit.unwrap_or(u64::MAX);
    for_each_key::<E>(cursor, &part.keys.bounds()?, part.reverse, limit, |key| {
        go_on()?;
        Ok(out.take(key, &[])?)
    })?;
    Ok(out.end()?)
}

/// Where pairs are printed, or counted.
struct Printer<'s> {
    show: &'s ShowArgs,
    out: BufWriter<Output>,
    line: OutputLine,
    count: u64,
}

impl<'s> Printer<'s> {
    fn new(show: &'s ShowArgs) -> Self {
        let out = BufWriter::with_capacity(1 << 16, stdout());
        Printer { show, out, line: Vec::new(), count: 0 }
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.count += 1;
        if self.show.count {
            return Ok(());
        }
        self.show.write(key, value, &mut self.line);
        self.out.write_all(&self.line).map_err(CommandError::stdout)
    }

    fn end(mut self) -> Result<()> {
        if self.show.count {
            self.out.write_all(&count::line(self.count)).map_err(CommandError::stdout)?;
        }
        self.out.flush().map_err(CommandError::stdout)
    }
}
