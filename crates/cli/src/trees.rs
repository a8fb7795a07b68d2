//! `everleaf trees`: the names of all trees.

use everleaf::Db;

use crate::escape::escape;
use crate::failure::Result;
use crate::output::print;
use crate::pool::PoolArgs;

/// Print the names of all trees, one a line, in bytewise order; walks no tree
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    print(text(&args.at.open_to_read()?)?)
}

/// The names of all trees, one a line.
pub fn text(db: &Db) -> everleaf::Result<Vec<u8>> {
    let mut text = Vec::new();
    for name in db.tree_names()? {
        escape(name.as_bytes(), &mut text);
        text.push(b'\n');
    }
    Ok(text)
}
