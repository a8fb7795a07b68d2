//! `everleaf stat`: what a pool holds, counted.

use std::fmt::Write as _;

use everleaf::{Counts, Db, PageCount, Stats, TreeStats};
use serde_json::{Map, Value, json};

use crate::failure::Result;
use crate::output::print;
use crate::pool::PoolArgs;

/// Print counts of the pool and of each tree
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = args.at.open_to_read()?;
    let text = match args.json {
        true => format!("{:#}\n", to_json(&db.stats()?, &db.count()?)),
        false => text(&db)?,
    };
    print(text)
}

/// What the command prints unless asked for JSON.
pub fn text(db: &Db) -> everleaf::Result<String> {
    Ok(to_text(&db.stats()?, &db.count()?))
}

fn to_json(stats: &Stats, counts: &Counts) -> Value {
    let trees: Vec<_> = counts.trees.iter().map(tree_to_json).collect();
    let pages: Map<_, _> =
        counts.pages.iter().map(|count| (count.kind.to_owned(), count.pages.into())).collect();
    let bytes: Map<_, _> = counts
        .pages
        .iter()
        .map(|count| (count.kind.to_owned(), bytes(stats, count).into()))
        .collect();
    json!({
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
        "pages": pages,
        "bytes": bytes,
        "trees": trees,
    })
}

fn tree_to_json(tree: &TreeStats) -> Value {
    json!({
        "name": tree.name,
        "entries": tree.entries,
        "depth": tree.depth,
        "nodes_by_level": tree.nodes_by_level,
        "fill": tree.fill,
        "key_bytes": tree.key_bytes,
        "value_bytes": tree.value_bytes,
    })
}

fn to_text(stats: &Stats, counts: &Counts) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        writeln!(text, "{name:<16} {value}").expect("a string takes all");
    };
    line("uuid", uuid(&stats.uuid));
    line("open generation", stats.open_generation.to_string());
    line("epoch", format!("{} (durable: {})", stats.epoch, stats.durable_epoch));
    line("file bytes", stats.file_bytes.to_string());
    line("  live bytes", stats.live_bytes.to_string());
    line("  free bytes", stats.free_bytes.to_string());
    line("  journal's bytes", stats.journal_file_bytes.to_string());
    line("journal to read", format!("{} bytes", stats.journal_bytes));
    line("size of a page", format!("{} bytes", stats.page_bytes));
    line("size of a node", format!("{} bytes", stats.node_bytes));
    let in_use: u64 = counts.pages.iter().map(|count| bytes(stats, count)).sum();
    line("bytes in use", in_use.to_string());
    for count in &counts.pages {
        let of_kind = format!("{} ({} pages)", bytes(stats, count), count.pages);
        line(&format!("  {} bytes", count.kind), of_kind);
    }
    line("trees", counts.trees.len().to_string());
    for tree in &counts.trees {
        let nodes: Vec<_> = tree.nodes_by_level.iter().map(u64::to_string).collect();
        writeln!(text, "\ntree {:?}", tree.name).expect("a string takes all");
        let mut line = |name: &str, value: String| {
            writeln!(text, "  {name:<14} {value}").expect("a string takes all");
        };
        line("entries", tree.entries.to_string());
        line("key bytes", tree.key_bytes.to_string());
        line("value bytes", tree.value_bytes.to_string());
        line("depth", tree.depth.to_string());
        line("nodes by level", format!("{} (leaves first)", nodes.join(" ")));
        line("leaf fill", format!("{:.1} %", tree.fill * 100.0));
    }
    text
}

/// What the pages of a kind take.
fn bytes(stats: &Stats, count: &PageCount) -> u64 {
    count.pages * u64::from(stats.page_bytes)
}

fn uuid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
