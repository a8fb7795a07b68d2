//! `everleaf stat`: what a pool holds.
//!
//! Numbers that are known all the time are told at once, however large the pool is. Only `--walk` reads the trees.

use std::fmt::Write as _;

use everleaf::{Counts, Db, Error, PageCount, Stats, Tree, TreeStats};
use serde_json::{Map, Value, json};

use crate::count::{self, TreeCount};
use crate::escape::escaped;
use crate::failure::Result;
use crate::format::printable_lines;
use crate::numbers::{counted, exact_size, grouped};
use crate::output::print;
use crate::pool::{self, PoolArgs};

/// Print figures of the pool, and how many pairs each tree has
///
/// This takes the same short time however many pairs there are. With --walk it reads all trees, and prints
/// also the bytes of keys and values, depth, nodes by level and fill of each tree, and the pages in use by
/// kind.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
    /// Only this tree
    #[arg(value_parser = pool::tree_name)]
    tree: Option<String>,
    /// Read all trees, and count what is in them; the time grows with the pool
    #[arg(long)]
    walk: bool,
    /// As one JSON object, with plain numbers
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = args.at.open_to_read()?;
    // A tree that is missing is told before a long walk.
    let tree = args.tree.as_ref().map(|name| pool::find(&db, name)).transpose()?;
    let text = text(&db, tree.as_ref(), args.walk, args.json)?;
    print(text)
}

/// The output of the command: of the pool, or of one tree.
pub fn text(db: &Db, tree: Option<&Tree>, walk: bool, as_json: bool) -> everleaf::Result<String> {
    let json = |value: Value| printable_lines(&value);
    let tree = tree.map(count::of).transpose()?;
    Ok(match (tree, walk, as_json) {
        (None, false, true) => json(pool_to_json(&db.stats()?, None, &count::trees(db)?)),
        (None, false, false) => pool_to_text(&db.stats()?, None, &count::trees(db)?),
        (None, true, true) => json(pool_to_json(&db.stats()?, Some(&db.count()?), &[])),
        (None, true, false) => pool_to_text(&db.stats()?, Some(&db.count()?), &[]),
        (Some(tree), false, true) => json(count::to_json(&tree)),
        (Some(tree), false, false) => tree_lines(&tree.name, tree.pairs, None),
        (Some(tree), true, _) => {
            let walked = db.count()?.trees.into_iter().find(|walked| walked.name == tree.name);
            let walked = walked.ok_or(Error::NoTree)?;
            match as_json {
                true => json(walked_to_json(&walked)),
                false => tree_lines(&walked.name, walked.entries, Some(&walked)),
            }
        }
    })
}

fn pool_to_json(stats: &Stats, counts: Option<&Counts>, trees: &[TreeCount]) -> Value {
    let mut pool = json!({
        "uuid": uuid(&stats.uuid),
        "open_generation": stats.open_generation,
        "epoch": stats.epoch,
        "durable_epoch": stats.durable_epoch,
        "file_bytes": stats.file_bytes,
        "live_bytes": stats.live_bytes,
        "free_bytes": stats.free_bytes,
        "journal_file_bytes": stats.journal_file_bytes,
        "journal_bytes": stats.journal_bytes,
        "page_bytes": stats.page_bytes,
        "node_bytes": stats.node_bytes,
        "dropped_trees": stats.dropped_trees,
        "pairs": trees.iter().map(|tree| tree.pairs).sum::<u64>(),
        "trees": trees.iter().map(count::to_json).collect::<Value>(),
    });
    if let Some(counts) = counts {
        let by_kind = |figure: &dyn Fn(&PageCount) -> u64| -> Map<_, _> {
            counts.pages.iter().map(|count| (count.kind.to_owned(), figure(count).into())).collect()
        };
        pool["pairs"] = pairs_walked(counts).into();
        pool["trees"] = counts.trees.iter().map(walked_to_json).collect();
        pool["pages"] = by_kind(&|count| count.pages).into();
        pool["bytes"] = by_kind(&|count| bytes(stats, count)).into();
    }
    pool
}

fn walked_to_json(tree: &TreeStats) -> Value {
    json!({
        "name": tree.name,
        "pairs": tree.entries,
        "depth": tree.depth,
        "nodes_by_level": tree.nodes_by_level,
        "fill": tree.fill,
        "key_bytes": tree.key_bytes,
        "value_bytes": tree.value_bytes,
    })
}

fn pool_to_text(stats: &Stats, counts: Option<&Counts>, trees: &[TreeCount]) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        writeln!(text, "{name:<16} {value}").expect("a string takes all");
    };
    line("uuid", uuid(&stats.uuid));
    line("open generation", grouped(stats.open_generation));
    line("epoch", format!("{} (durable: {})", grouped(stats.epoch), grouped(stats.durable_epoch)));
    line("file", exact_size(stats.file_bytes));
    line("  live", exact_size(stats.live_bytes));
    line("  free", exact_size(stats.free_bytes));
    line("  journal", exact_size(stats.journal_file_bytes));
    line("journal to read", exact_size(stats.journal_bytes));
    line("page", exact_size(stats.page_bytes.into()));
    line("node", exact_size(stats.node_bytes.into()));
    let Some(counts) = counts else {
        line("trees", grouped(trees.len() as u64));
        line("pairs", grouped(trees.iter().map(|tree| tree.pairs).sum()));
        for tree in trees {
            line(&format!("  {}", escaped(tree.name.as_bytes())), counted(tree.pairs, "pair"));
        }
        return text;
    };
    line("in use", exact_size(counts.pages.iter().map(|count| bytes(stats, count)).sum()));
    for count in &counts.pages {
        let of_kind =
            format!("{} in {}", exact_size(bytes(stats, count)), counted(count.pages, "page"));
        line(&format!("  {}s", count.kind), of_kind);
    }
    line("trees", grouped(counts.trees.len() as u64));
    line("pairs", grouped(pairs_walked(counts)));
    for tree in &counts.trees {
        text += "\n";
        text += &tree_lines(&tree.name, tree.entries, Some(tree));
    }
    text
}

/// The lines of one tree.
fn tree_lines(name: &str, pairs: u64, walked: Option<&TreeStats>) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        writeln!(text, "{name:<16} {value}").expect("a string takes all");
    };
    line("tree", escaped(name.as_bytes()));
    line("  pairs", grouped(pairs));
    if let Some(tree) = walked {
        let nodes: Vec<_> = tree.nodes_by_level.iter().map(|nodes| grouped(*nodes)).collect();
        line("  keys", exact_size(tree.key_bytes));
        line("  values", exact_size(tree.value_bytes));
        line("  depth", tree.depth.to_string());
        line("  nodes by level", format!("{} (leaves first)", nodes.join(" ")));
        line("  leaf fill", format!("{:.1} %", tree.fill * 100.0));
    }
    text
}

fn pairs_walked(counts: &Counts) -> u64 {
    counts.trees.iter().map(|tree| tree.entries).sum()
}

/// Bytes that the pages of a kind take.
fn bytes(stats: &Stats, count: &PageCount) -> u64 {
    count.pages * u64::from(stats.page_bytes)
}

fn uuid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
