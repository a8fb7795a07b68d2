//! `everleaf count`: how many pairs.
//!
//! A tree knows how many it has. Only for bounds its keys are passed over, and no value is read.

use everleaf::{Db, Tree};
use serde_json::{Value, json};

use crate::escape::escape;
use crate::failure::{CommandError, Result};
use crate::format::printable_lines;
use crate::keys::{BoundArgs, for_each_key};
use crate::numbers::for_stdout;
use crate::output::print;
use crate::pool::{self, PoolArgs};

/// Print how many pairs a tree has, or each tree
///
/// Without a TREE it prints TREE<TAB>PAIRS lines. Both take the same short time however many pairs there
/// are. With bounds it goes over all keys within them, and reads no values.
///
/// On a terminal numbers have commas between thousands; elsewhere they are plain digits.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
    /// The tree's name, with escapes; without it, all trees
    #[arg(value_parser = pool::tree_name)]
    tree: Option<String>,
    #[command(flatten)]
    keys: BoundArgs,
    /// As one JSON object, with plain numbers
    #[arg(long)]
    json: bool,
}

/// A tree, and how many pairs it has.
pub struct TreeCount {
    /// Its name.
    pub name: String,
    /// How many pairs.
    pub pairs: u64,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    if args.tree.is_none() && !args.keys.is_none() {
        return Err(CommandError::Usage(
            "bounds are of the keys of one tree: say which TREE".into(),
        ));
    }
    let db = args.at.open_to_read()?;
    let (text, counted) = match &args.tree {
        None => {
            let trees = trees(&db)?;
            let pairs: u64 = trees.iter().map(|tree| tree.pairs).sum();
            let json = trees.iter().map(to_json).collect::<Value>();
            (lines(&trees), json!({ "pairs": pairs, "trees": json }))
        }
        Some(name) => {
            let tree = pool::find(&db, name)?;
            let pairs = match args.keys.is_none() {
                true => tree.len()?,
                false => within(&db, &tree, &args.keys)?,
            };
            (line(pairs), to_json(&TreeCount { name: name.clone(), pairs }))
        }
    };
    let text = if args.json { printable_lines(&counted).into_bytes() } else { text };
    print(text)
}

/// How many pairs a tree has.
pub fn of(tree: &Tree) -> everleaf::Result<TreeCount> {
    Ok(TreeCount { name: tree.name().to_owned(), pairs: tree.len()? })
}

/// How many pairs each tree has, in bytewise order of the names. O(trees).
pub fn trees(db: &Db) -> everleaf::Result<Vec<TreeCount>> {
    let mut counts = Vec::new();
    for name in db.tree_names()? {
        // One that somebody else has dropped meanwhile is none.
        if let Some(tree) = db.open_tree(&name)? {
            counts.push(of(&tree)?);
        }
    }
    Ok(counts)
}

fn within(db: &Db, tree: &Tree, keys: &BoundArgs) -> Result<u64> {
    for_each_key(db.snapshot()?.of(tree)?.cursor(), &keys.bounds()?, false, u64::MAX, |_| Ok(()))
}

/// A tree's count as JSON.
pub fn to_json(tree: &TreeCount) -> Value {
    json!({ "name": tree.name, "pairs": tree.pairs })
}

/// A count as a line for stdout: with commas for people, plain for programs.
pub fn line(pairs: u64) -> Vec<u8> {
    format!("{}\n", for_stdout(pairs)).into_bytes()
}

/// TREE<TAB>PAIRS lines for stdout.
pub fn lines(trees: &[TreeCount]) -> Vec<u8> {
    let mut text = Vec::new();
    for tree in trees {
        escape(tree.name.as_bytes(), &mut text);
        text.push(b'\t');
        text.extend(line(tree.pairs));
    }
    text
}
