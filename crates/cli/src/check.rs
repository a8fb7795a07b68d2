//! `everleaf check`: is the pool sound?

use everleaf::{Damage, Db};
use serde_json::{Value, json};

use crate::count;
use crate::failure::{CommandError, Result};
use crate::format::printable_lines;
use crate::message::tell;
use crate::numbers::{counted, size};
use crate::output::print;
use crate::pool::PoolArgs;

/// Walk the whole pool and print each damage with its offset; changes nothing
///
/// Exit codes: 0 the pool is sound; 3 it is damaged, or it is no pool; 4 the system is in the way.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
    /// As one JSON object, with plain numbers
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = args.at.open_to_read()?;
    let damages = db.check()?;
    let text = match args.json {
        true => printable_lines(&to_json(&damages)),
        false => lines(&damages),
    };
    let told = print(text);
    // The damage must be reported even if nobody reads stdout.
    if let Some(damaged) = damaged(&damages) {
        return Err(damaged.context(args.at.pool.display()));
    }
    tell(format_args!("{}: {}", args.at.pool.display(), looked_at(&db)?));
    told
}

/// A line for each damage.
pub fn lines(damages: &[Damage]) -> String {
    damages.iter().map(|damage| format!("{damage}\n")).collect()
}

fn to_json(damages: &[Damage]) -> Value {
    let to_json = |damage: &Damage| json!({ "file": damage.file, "offset": damage.offset, "what": damage.what });
    let damages: Vec<_> = damages.iter().map(to_json).collect();
    json!({ "sound": damages.is_empty(), "damages": damages })
}

/// How many damages there are, if there is one.
pub fn damaged(damages: &[Damage]) -> Option<CommandError> {
    let count = damages.len() as u64;
    (count > 0).then(|| CommandError::Damaged(counted(count, "damage")))
}

/// The message for a sound pool: how much was looked at.
pub fn looked_at(db: &Db) -> everleaf::Result<String> {
    let trees = count::trees(db)?;
    let pairs = trees.iter().map(|tree| tree.pairs).sum();
    let trees = counted(trees.len() as u64, "tree");
    let file = size(db.stats()?.file_bytes);
    Ok(format!("no damage in {trees} with {}, {file}", counted(pairs, "pair")))
}
