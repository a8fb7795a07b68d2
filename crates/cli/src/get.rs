//! `everleaf get`: the value of one key.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::escape::{Bytes, argument, escape};
use crate::failure::{Failure, Result};
use crate::pool;

/// Print the value of a key
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
    /// Print the bytes of the value alone: no escapes, no newline
    #[arg(long)]
    raw: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = pool::open_to_read(&args.pool)?;
    let value = pool::find(&db, &args.tree)?.get(&args.key.0)?;
    let mut value = value.ok_or_else(|| Failure::NotFound("no such key".into()))?;
    if !args.raw {
        let mut text = Vec::with_capacity(value.len() + 1);
        escape(&value, &mut text);
        text.push(b'\n');
        value = text;
    }
    let mut out = io::stdout().lock();
    out.write_all(&value).and_then(|()| out.flush()).map_err(Failure::stdout)
}
