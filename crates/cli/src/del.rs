//! `everleaf del`: one key.

use everleaf::Options;

use crate::failure::{Failure, Result};
use crate::pool::{self, KeyArgs};

/// Remove a key; on disk when the command ends
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    of: KeyArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = args.of.at.open(Options::new().create(false))?;
    let old = pool::find(&db, &args.of.tree)?.remove(&args.of.key.0)?;
    db.close()?;
    old.map(drop).ok_or_else(|| Failure::NotFound("no such key".into()))
}
