//! `everleaf scan`: pairs in order.

use std::io::{self, BufWriter, Write};
use std::ops::Bound;

use everleaf::{Range, Tree};

use crate::escape::{Bytes, argument, escape};
use crate::failure::{Failure, Result};
use crate::pool::{self, PoolArgs};

/// Print KEY<TAB>VALUE lines in the bytewise order of the keys
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
    /// The tree's name
    #[arg(value_parser = pool::tree_name)]
    tree: String,
    /// Start at this key, itself included
    #[arg(long, value_name = "K", value_parser = argument(), allow_hyphen_values = true)]
    from: Option<Bytes>,
    /// End before this key
    #[arg(long, value_name = "K", value_parser = argument(), allow_hyphen_values = true)]
    to: Option<Bytes>,
    /// Only keys that start with this
    #[arg(long, value_name = "P", value_parser = argument(), allow_hyphen_values = true)]
    prefix: Option<Bytes>,
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
    let range = range(&pool::find(&db, &args.tree)?, args);
    let limit = args.limit.unwrap_or(u64::MAX);
    if args.reverse { print(range.rev(), limit) } else { print(range, limit) }
}

/// The keys within `--from`, `--to` and `--prefix`, all that are given.
fn range(tree: &Tree, args: &Args) -> Range {
    let mut from = args.from.as_ref().map_or(&[][..], |key| &key.0);
    let mut to = args.to.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(&key.0[..]));
    let Some(Bytes(prefix)) = &args.prefix else {
        return tree.range::<&[u8], _>((Bound::Included(from), to));
    };
    from = from.max(prefix);
    let end = prefix_end(prefix);
    if let Some(end) = &end {
        to = match to {
            Bound::Excluded(to) => Bound::Excluded(to.min(end)),
            _ => Bound::Excluded(end),
        };
    }
    tree.range::<&[u8], _>((Bound::Included(from), to))
}

/// The first key after all that start with `prefix`; none if it is all 0xFF.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let at = prefix.iter().rposition(|&byte| byte < 0xFF)?;
    let mut end = prefix[..=at].to_vec();
    end[at] += 1;
    Some(end)
}

fn print(pairs: impl Iterator<Item = everleaf::Result<everleaf::Pair>>, limit: u64) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut line = Vec::new();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    for pair in pairs.take(limit) {
        let (key, value) = pair?;
        line.clear();
        escape(&key, &mut line);
        line.push(b'\t');
        escape(&value, &mut line);
        line.push(b'\n');
        out.write_all(&line).map_err(Failure::stdout)?;
    }
    out.flush().map_err(Failure::stdout)
}
