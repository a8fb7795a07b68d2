//! `everleaf drop`: a whole tree.

use everleaf::Options;

use crate::failure::Result;
use crate::pool::{self, PoolArgs};

/// Remove a tree with all that it holds; on disk when the command ends
///
/// Takes time with the size of the tree. Who kills it finds the tree with some of its pairs, and can
/// drop it again.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
    /// The tree's name, with escapes
    #[arg(value_parser = pool::tree_name)]
    tree: String,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = args.at.open(Options::new().create(false))?;
    let dropped = db.drop_tree(&args.tree)?;
    db.close()?;
    if dropped { Ok(()) } else { Err(pool::missing(&args.tree)) }
}
