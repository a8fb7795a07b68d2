//! `everleaf scan`: pairs in order.

use std::io::{self, BufWriter, Write};

use crate::failure::{CommandError, Result};
use crate::format::Format;
use crate::keys::BoundArgs;
use crate::pool::{self, PoolArgs};

/// Print KEY<TAB>VALUE lines in the bytewise order of the keys
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
    /// The tree's name
    #[arg(value_parser = pool::tree_name)]
    tree: String,
    #[command(flatten)]
    keys: BoundArgs,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// At most so many lines
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = args.at.open_to_read()?;
    let range = args.keys.of(&pool::find(&db, &args.tree)?)?;
    let limit = args.limit.unwrap_or(u64::MAX);
    if args.reverse { print(range.rev(), limit) } else { print(range, limit) }
}

fn print(pairs: impl Iterator<Item = everleaf::Result<everleaf::Pair>>, limit: u64) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut line = Vec::new();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    for pair in pairs.take(limit) {
        let (key, value) = pair?;
        line.clear();
        Format::Text.write(&key, &value, &mut line).expect("text has a form for all bytes");
        out.write_all(&line).map_err(CommandError::stdout)?;
    }
    out.flush().map_err(CommandError::stdout)
}
