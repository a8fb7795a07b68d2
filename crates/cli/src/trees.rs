//! `everleaf trees`: the names of all trees.

use everleaf::Db;

use crate::escape::escape;
use crate::failure::Result;
use crate::format::printable_lines;
use crate::output::print;
use crate::pool::PoolArgs;

/// Print the names of all trees, one a line, in bytewise order; walks no tree
///
/// Names are printed with escapes; TREE arguments take them.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
    /// As one JSON array of strings
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = args.at.open_to_read()?;
    let text = match args.json {
        true => printable_lines(&db.tree_names()?.into()).into_bytes(),
        false => text(&db)?,
    };
    print(text)
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
