//! `everleaf put`: one pair.

use everleaf::Options;

use crate::escape::{ByteArg, argument};
use crate::failure::Result;
use crate::pool::KeyArgs;

/// Set the value of a key; on disk when the command ends
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    of: KeyArgs,
    /// The value, with escapes
    #[arg(value_parser = argument(), allow_hyphen_values = true)]
    value: ByteArg,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = args.of.at.open(Options::new())?;
    db.tree(&args.of.tree)?.insert(&args.of.key.0, &args.value.0)?;
    Ok(db.close()?)
}
