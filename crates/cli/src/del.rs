//! `everleaf del`: one key, or many.

use crate::escape::{ByteArg, argument};
use crate::failure::{CommandError, Result};
use crate::keys::BoundArgs;
use crate::numbers::for_stdout;
use crate::output::say;
use crate::pool::{self, PoolArgs};

/// Remove a key, or all keys within bounds; on disk when the command ends
///
/// With bounds it prints `removed N`. Keys go one by one, the last ones first: if it is killed, some of them
/// are removed.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
    /// The tree's name, with escapes
    #[arg(value_parser = pool::tree_name)]
    tree: String,
    /// The key, with escapes
    #[arg(value_parser = argument(), allow_hyphen_values = true)]
    key: Option<ByteArg>,
    #[command(flatten)]
    keys: BoundArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let usage = |what: &str| Err(CommandError::Usage(what.into()));
    match (&args.key, args.keys.is_none()) {
        (Some(_), false) => return usage("either a KEY or bounds"),
        (None, true) => return usage("which keys? Say a KEY, --prefix, --from or --to"),
        _ => {}
    }
    let db = args.at.open_to_write()?;
    let tree = pool::find(&db, &args.tree)?;
    if let Some(ByteArg(key)) = &args.key {
        let old = tree.remove(key)?;
        drop(tree);
        db.close()?;
        return old.map(drop).ok_or_else(|| CommandError::NotFound("no such key".into()));
    }
    let removed = for_stdout(tree.remove_range(args.keys.bounds()?)?);
    drop(tree);
    db.close()?;
    say(format_args!("removed {removed}"))
}
