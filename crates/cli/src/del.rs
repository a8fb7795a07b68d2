//! `everleaf del`: one key.

use std::path::PathBuf;

use everleaf::Options;

use crate::escape::{Bytes, argument};
use crate::failure::{Failure, Result};
use crate::pool;

/// Remove a key; on disk when the command ends
#[derive(clap::Args)]
pub struct Args {
    /// The pool's file
    pool: PathBuf,
    /// The tree's name
    #[arg(value_parser = pool::tree_name)]
    tree: String,
    /// The key, with escapes
    #[arg(value_parser = argument(), allow_hyphen_values = true)]
    key: Bytes,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = pool::open(&args.pool, &Options::new().create(false))?;
    let old = pool::find(&db, &args.tree)?.remove(&args.key.0)?;
    db.close()?;
    old.map(drop).ok_or_else(|| Failure::NotFound("no such key".into()))
}
