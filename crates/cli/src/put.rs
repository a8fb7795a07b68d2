//! `everleaf put`: one pair.

use std::path::PathBuf;

use everleaf::Options;

use crate::escape::{Bytes, argument};
use crate::failure::Result;
use crate::pool;

/// Set the value of a key; on disk when the command ends
#[derive(clap::Args)]
pub struct Args {
    /// The pool's file; created if missing
    pool: PathBuf,
    /// The tree's name; created if missing
    #[arg(value_parser = pool::tree_name)]
    tree: String,
    /// The key, with escapes
    #[arg(value_parser = argument(), allow_hyphen_values = true)]
    key: Bytes,
    /// The value, with escapes
    #[arg(value_parser = argument(), allow_hyphen_values = true)]
    value: Bytes,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = pool::open(&args.pool, &Options::new())?;
    db.tree(&args.tree)?.insert(&args.key.0, &args.value.0)?;
    Ok(db.close()?)
}
