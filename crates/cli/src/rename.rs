//! `everleaf rename`: another name for a tree.

use crate::failure::{CommandError, Result};
use crate::pool::{self, PoolArgs};

/// Give a tree another name, which no tree may have; on disk when the command ends
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
    /// The tree's name, with escapes
    #[arg(value_parser = pool::tree_name)]
    from: String,
    /// Its name afterwards
    #[arg(value_parser = pool::tree_name)]
    to: String,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = args.at.open_to_write()?;
    let renamed = db.rename_tree(&args.from, &args.to).map_err(CommandError::from)?;
    db.close()?;
    if renamed { Ok(()) } else { Err(pool::missing(&args.from)) }
}
