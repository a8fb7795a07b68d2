//! `everleaf drop`: a whole tree.

use crate::failure::Result;
use crate::pool::{self, PoolArgs};

/// Remove a tree with all that it holds; on disk when the command ends
///
/// If it is killed, the tree is there with all that it holds, or it is gone. The space of a large tree becomes
/// free while the pool is open; if this ends before that is done, the next command that writes goes on with it.
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
    let db = args.at.open_to_write()?;
    let dropped = db.drop_tree(&args.tree)?;
    db.close()?;
    if dropped { Ok(()) } else { Err(pool::missing(&args.tree)) }
}
