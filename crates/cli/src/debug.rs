//! `everleaf debug`: a page, the journal or the shape of a tree, sound or damaged, as text.

use std::fmt::Write as _;
use std::path::PathBuf;

use everleaf_salvage::Loss;
use everleaf_salvage::look::{
    BlockLook, Content, EntryLook, EntryValue, Fence, Look, NodeLook, PageLook, RecordLook,
    TreeLook,
};
use serde_json::{Value, json};

use crate::escape::escaped;
use crate::failure::{CommandError, Result};
use crate::format::printable_lines;
use crate::message::tell;
use crate::numbers::{counted, grouped};
use crate::output::print;
use crate::pool;

/// Bytes of a value that are shown.
const SHOWN: usize = 32;

/// Look into a pool, also a damaged one: print a page, the journal, or the shape of a tree
///
/// Nothing is changed. The whole file is read once, and nobody may write to the pool meanwhile. Damage of superblock,
/// page table and journal is told on stderr.
///
/// Exit codes: 0 it was printed, and no damage was met; 1 no such tree; 2 no such page; 3 damage was met, and what can
/// be read was printed, or the file is no pool; 4 the system is in the way.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// One page: its header, and its entries, records or what else it holds
    Page {
        #[command(flatten)]
        at: At,
        /// The page's number
        number: u32,
    },
    /// The journal: its blocks and their records, in order
    Journal {
        #[command(flatten)]
        at: At,
        /// Only the blocks, without their records
        #[arg(long)]
        blocks: bool,
    },
    /// The nodes of a tree by level, with their fences and how full they are
    Tree {
        #[command(flatten)]
        at: At,
        /// The tree's name, with escapes
        #[arg(value_parser = pool::tree_name)]
        tree: String,
    },
}

#[derive(clap::Args)]
struct At {
    /// The pool's file
    pool: PathBuf,
    /// As one JSON object, with plain numbers
    #[arg(long)]
    json: bool,
}

impl What {
    fn at(&self) -> &At {
        match self {
            What::Page { at, .. } | What::Journal { at, .. } | What::Tree { at, .. } => at,
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let at = args.what.at();
    let with_pool = |error| pool::of_pool(&at.pool, error);
    let mut look = Look::open(&at.pool).map_err(with_pool)?;
    let mut damages = look.damages();
    damages.iter().for_each(|damage| tell(escaped(damage.to_string().as_bytes())));
    let text = match &args.what {
        What::Page { number, .. } => {
            let page = look.page(*number).map_err(with_pool)?;
            damages.extend(page.damages.iter().cloned());
            if at.json { printable_lines(&page_to_json(&page)) } else { page_to_text(&page) }
        }
        What::Journal { blocks, .. } => {
            if at.json {
                printable_lines(&json!({
                    "blocks": look.journal().map(|block| block_to_json(&block, *blocks)).collect::<Value>(),
                }))
            } else {
                look.journal().map(|block| block_to_text(&block, *blocks)).collect()
            }
        }
        What::Tree { tree: name, .. } => {
            let tree = match look.tree(name) {
                Err(everleaf::Error::NoTree) => return Err(pool::missing(name)),
                tree => tree.map_err(with_pool)?,
            };
            damages.extend(tree.damages.iter().cloned());
            if at.json { printable_lines(&tree_to_json(&tree)) } else { tree_to_text(&tree) }
        }
    };
    print(text)?;
    match damages.len() as u64 {
        0 => Ok(()),
        count => Err(CommandError::Damaged(counted(count, "damage")).context(at.pool.display())),
    }
}

fn page_to_text(page: &PageLook) -> String {
    let place =
        if page.place == 0 { "no image".into() } else { format!("image at byte {}", page.place) };
    let owner = page.owner.unwrap_or("unknown: the map cannot be read");
    let mut text = format!("page {}: {place}\nmap says         {owner}\n", page.number);
    for (i, word) in page.header.iter().flatten().enumerate() {
        let name = ["", "", "", "", "", "  kind, level, flags", "  change", ""][i];
        _ = writeln!(text, "header word {i}    {word:#018x}{name}");
    }
    let checksum = if page.damages.is_empty() { "no damage" } else { "damaged" };
    _ = writeln!(text, "checksum         {checksum}");
    text.extend(
        page.damages.iter().map(|damage| format!("  {}\n", escaped(damage.to_string().as_bytes()))),
    );
    match &page.content {
        Content::Unreadable => text += "holds            cannot be read\n",
        Content::Free => text += "holds            nothing: it is free\n",
        Content::Value => text += "holds            bytes of a large value\n",
        Content::Anchor { root } => _ = writeln!(text, "anchor           root on page {root}"),
        Content::Map { holds_extents, owners } => {
            let role = if *holds_extents { "large values" } else { "pages" };
            _ = writeln!(text, "map              of a group for {role}");
            for (kind, pages) in owners {
                _ = writeln!(text, "  {}", counted_kind(kind, *pages));
            }
        }
        Content::Node(node) => {
            text += &node_to_text(node, node.entries.len());
            text.extend(node.entries.iter().enumerate().map(entry_to_text));
        }
        Content::Records(records) => {
            _ = writeln!(text, "record page      {}", counted(records.len() as u64, "record"));
            text.extend(records.iter().map(record_to_text));
        }
        _ => {}
    }
    text
}

fn counted_kind(kind: &str, pages: u32) -> String {
    format!("{} {kind}", grouped(pages.into()))
}

fn fence(fence: &Fence) -> String {
    match fence {
        Fence::At(key) => format!("\"{}\"", shown(key)),
        Fence::Open => "open".into(),
        _ => "unknown".into(),
    }
}

fn node_to_text(node: &NodeLook, entries: usize) -> String {
    let sibling = node.sibling.map_or("none".into(), |no| no.to_string());
    format!(
        "node of level {} on page {}: {}, {:.1} % full, prefix of {} bytes, from {} up to {}, sibling {sibling}\n",
        node.level,
        node.page,
        if entries == 1 {
            "1 entry".into()
        } else {
            format!("{} entries", grouped(entries as u64))
        },
        100.0 * node.fill(),
        node.prefix_bytes,
        fence(&node.low),
        fence(&node.high),
    )
}

/// The beginning of what may be long.
fn shown(bytes: &[u8]) -> String {
    match bytes.get(..SHOWN) {
        Some(begin) if bytes.len() > SHOWN => {
            format!("{}… ({} bytes)", escaped(begin), grouped(bytes.len() as u64))
        }
        _ => escaped(bytes),
    }
}

fn entry_to_text((i, entry): (usize, &EntryLook)) -> String {
    let cut = if entry.is_cut { " and more in its record" } else { "" };
    let value = match &entry.value {
        EntryValue::Inline(value) => format!("value \"{}\"", shown(value)),
        EntryValue::Record(page, unit) => format!("record at unit {unit} of page {page}"),
        EntryValue::Child(page) => format!("child on page {page}"),
        _ => "no entry: damaged".into(),
    };
    format!("  {i:4} at byte {:5}  key \"{}\"{cut}  {value}\n", entry.offset, shown(&entry.key))
}

fn record_to_text(record: &RecordLook) -> String {
    let place = match record.extents {
        0 => String::new(),
        runs => format!(" in {} of pages", counted(runs as u64, "run")),
    };
    let (key, value) = (grouped(record.key_bytes as u64), grouped(record.value_bytes));
    format!("  unit {:5}  key of {key} bytes, value of {value} bytes{place}\n", record.unit)
}

fn block_to_text(block: &BlockLook, only_blocks: bool) -> String {
    let end = if block.ends_epoch { ", its end" } else { "" };
    let mut text = format!(
        "block {} at byte {}: epoch {}, piece {}{end}, open {}, link {:#010x}, {} in {} bytes\n",
        block.number,
        block.place,
        block.epoch,
        block.piece,
        block.generation,
        block.link,
        counted(block.records.len() as u64, "record"),
        grouped(block.payload_bytes as u64),
    );
    for record in block.records.iter().filter(|_| !only_blocks) {
        _ = writeln!(
            text,
            "  at byte {}  page {}  change {}  {}, {} bytes",
            record.place, record.page, record.seq, record.what, record.bytes
        );
    }
    text
}

fn tree_to_text(tree: &TreeLook) -> String {
    let mut text = format!("anchor on page {}, root on page {}\n", tree.anchor, tree.root);
    for level in tree.nodes.chunk_by(|a, b| a.level == b.level) {
        let fill = level.iter().map(NodeLook::fill).sum::<f64>() / level.len() as f64;
        let nodes = counted(level.len() as u64, "node");
        _ = writeln!(text, "level {}: {nodes}, {:.1} % full", level[0].level, 100.0 * fill);
    }
    for (node, entries) in tree.nodes.iter().zip(&tree.entries) {
        text += &node_to_text(node, *entries);
    }
    text.extend(
        tree.damages.iter().map(|damage| format!("{}\n", escaped(damage.to_string().as_bytes()))),
    );
    text
}

fn fence_to_json(fence: &Fence) -> Value {
    match fence {
        Fence::At(key) => json!({ "key": escaped(key) }),
        Fence::Open => json!("open"),
        _ => json!("unknown"),
    }
}

fn node_to_json(node: &NodeLook) -> Value {
    json!({
        "page": node.page,
        "place": node.place,
        "level": node.level,
        "sibling": node.sibling,
        "low": fence_to_json(&node.low),
        "high": fence_to_json(&node.high),
        "prefix_bytes": node.prefix_bytes,
        "free_bytes": node.free_bytes,
        "fill": node.fill(),
    })
}

fn damages_to_json(damages: &[Loss]) -> Value {
    let to_json = |damage: &Loss| json!({ "page": damage.page, "offset": damage.offset, "what": damage.what });
    damages.iter().map(to_json).collect()
}

fn page_to_json(page: &PageLook) -> Value {
    let mut all = json!({
        "page": page.number,
        "place": page.place,
        "owner": page.owner,
        "header": page.header,
        "damages": damages_to_json(&page.damages),
    });
    let (kind, content) = match &page.content {
        Content::Free => ("free", Value::Null),
        Content::Value => ("value", Value::Null),
        Content::Anchor { root } => ("anchor", json!({ "root": root })),
        Content::Map { holds_extents, owners } => {
            let owners: serde_json::Map<_, _> =
                owners.iter().map(|(kind, pages)| ((*kind).to_owned(), (*pages).into())).collect();
            ("map", json!({ "holds_extents": holds_extents, "owners": owners }))
        }
        Content::Node(node) => {
            let mut content = node_to_json(node);
            content["entries"] = node.entries.iter().map(entry_to_json).collect();
            ("node", content)
        }
        Content::Records(records) => ("records", records.iter().map(record_to_json).collect()),
        _ => ("unreadable", Value::Null),
    };
    all["kind"] = kind.into();
    all["content"] = content;
    all
}

fn entry_to_json(entry: &EntryLook) -> Value {
    let mut all =
        json!({ "offset": entry.offset, "key": escaped(&entry.key), "key_goes_on": entry.is_cut });
    match &entry.value {
        EntryValue::Inline(value) => all["value"] = escaped(value).into(),
        EntryValue::Record(page, unit) => all["record"] = json!({ "page": page, "unit": unit }),
        EntryValue::Child(page) => all["child"] = (*page).into(),
        _ => all["damaged"] = true.into(),
    }
    all
}

fn record_to_json(record: &RecordLook) -> Value {
    json!({
        "unit": record.unit,
        "key_bytes": record.key_bytes,
        "value_bytes": record.value_bytes,
        "runs": record.extents,
    })
}

fn block_to_json(block: &BlockLook, only_blocks: bool) -> Value {
    let records = block.records.iter().filter(|_| !only_blocks).map(|record| {
        json!({
            "place": record.place,
            "page": record.page,
            "change": record.seq,
            "what": record.what,
            "bytes": record.bytes,
        })
    });
    let records: Vec<_> = records.collect();
    json!({
        "number": block.number,
        "place": block.place,
        "epoch": block.epoch,
        "piece": block.piece,
        "ends_epoch": block.ends_epoch,
        "open": block.generation,
        "link": block.link,
        "payload_bytes": block.payload_bytes,
        "record_count": block.records.len(),
        "records": records,
    })
}

fn tree_to_json(tree: &TreeLook) -> Value {
    let nodes = tree.nodes.iter().zip(&tree.entries).map(|(node, entries)| {
        let mut node = node_to_json(node);
        node["entries"] = (*entries).into();
        node
    });
    let nodes: Vec<_> = nodes.collect();
    json!({
        "anchor": tree.anchor,
        "root": tree.root,
        "nodes": nodes,
        "damages": damages_to_json(&tree.damages),
    })
}
