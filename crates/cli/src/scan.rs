//! `everleaf scan`: pairs in order, of one moment.

use std::io::{BufWriter, Write};

use everleaf::{Pair, SnapshotTree, Transaction, Tree};

use crate::failure::{CommandError, Result};
use crate::format::Format;
use crate::keys::BoundArgs;
use crate::output::stdout;
use crate::pool::{self, PoolArgs};

/// Print KEY<TAB>VALUE lines in the bytewise order of the keys
///
/// What it prints is the tree at one moment.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
    /// The tree's name, with escapes
    #[arg(value_parser = pool::tree_name)]
    tree: String,
    #[command(flatten)]
    part: PartArgs,
}

/// Which pairs of a tree, and in which order.
#[derive(clap::Args)]
pub struct PartArgs {
    #[command(flatten)]
    keys: BoundArgs,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// At most so many lines
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
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
        let bounds = self.keys.bounds()?;
        Ok(if self.reverse {
            self.limited(transaction.range_rev(tree, bounds))
        } else {
            self.limited(transaction.range(tree, bounds))
        })
    }

    fn limited<'t>(&self, pairs: impl Iterator<Item = everleaf::Result<Pair>> + 't) -> Pairs<'t> {
        let limit = self.limit.unwrap_or(u64::MAX);
        Box::new(pairs.take(usize::try_from(limit).unwrap_or(usize::MAX)))
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = args.at.open_to_read()?;
    let tree = pool::find(&db, &args.tree)?;
    print(args.part.of(&db.snapshot()?.of(&tree)?)?)
}

/// Prints a line for each pair. The first error ends it; what came before is printed.
pub fn print<E, F>(pairs: impl Iterator<Item = Result<Pair, F>>) -> Result<(), E>
where
    E: From<CommandError> + From<F>,
{
    let mut out = BufWriter::with_capacity(1 << 16, stdout());
    let mut line = Vec::new();
    for pair in pairs {
        let (key, value) = pair?;
        line.clear();
        Format::Text.write(&key, &value, &mut line).expect("text has a form for all bytes");
        out.write_all(&line).map_err(CommandError::stdout)?;
    }
    Ok(out.flush().map_err(CommandError::stdout)?)
}
