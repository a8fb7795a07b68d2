//! `everleaf get`: the value of one key.

use std::io::{self, Write};

use crate::escape::escape;
use crate::failure::{CommandError, Result};
use crate::pool::{self, KeyArgs};

/// Print the value of a key
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    of: KeyArgs,
    /// Print the bytes of the value alone: no escapes, no newline
    #[arg(long)]
    raw: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = args.of.at.open_to_read()?;
    let value = pool::find(&db, &args.of.tree)?.get(&args.of.key.0)?;
    let mut value = value.ok_or_else(|| CommandError::NotFound("no such key".into()))?;
    if !args.raw {
        let mut text = Vec::with_capacity(value.len() + 1);
        escape(&value, &mut text);
        text.push(b'\n');
        value = text;
    }
    let mut out = io::stdout().lock();
    out.write_all(&value).and_then(|()| out.flush()).map_err(CommandError::stdout)
}
