//! `everleaf salvage`: what is left of a damaged pool, in a new one.

use std::path::PathBuf;

use everleaf_salvage::{KeyRange, Loss, Origin, SalvageOptions, Salvaged, SalvagedTree};
use serde_json::{Value, json};

use crate::escape::escape;
use crate::failure::{CommandError, Result};
use crate::format::printable_lines;
use crate::message::{input_bar, tell};
use crate::numbers::{counted, grouped, parse_size};
use crate::output::print;
use crate::pool::{Compression, MAKE_HEADING, of_pool};

/// Copy every record of a damaged pool that can still be trusted into a new pool
///
/// Prints TREE<TAB>PAIRS lines, and on stderr each damage with its offset, its cause and the keys
/// that may be missing. The old pool is only read. Pairs whose tree is not known go to trees
/// called lost+found/…
///
/// While NEW is made it is called NEW-salvage. Nothing that has that name or NEW is touched: the
/// salvage is refused.
///
/// Exit codes: 0 the pool was sound and all of it was copied; 2 NEW, or what NEW is called until then, is
/// there already; 3 damage was met: the new pool is complete as a pool and may lack what stderr says,
/// whether or not stdout could be written; or the file is no pool, and there is no new one; 4 the system
/// is in the way, no new pool; or all was copied and stdout could not be written.
#[derive(clap::Args)]
pub struct Args {
    /// The pool's file
    pool: PathBuf,
    /// The file of the new pool, which must not exist
    new: PathBuf,
    /// As one JSON object, with plain numbers
    #[arg(long)]
    json: bool,
    /// How much memory pages and large values of the new pool may take, for example 64M or 1GiB [default: a quarter
    /// of what the process may use]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = MAKE_HEADING)]
    memory: Option<u64>,
    /// How the new pool is compressed; its pages are as large as those of the old one
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Compression::None, help_heading = MAKE_HEADING)]
    compression: Compression,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let bar = input_bar(Some(0));
    let shown = bar.clone();
    let mut options = SalvageOptions::new().compression(args.compression.into());
    if let Some(bytes) = args.memory {
        options = options.memory(bytes);
    }
    let options = options.progress(move |done, all| {
        shown.set_length(all);
        shown.set_position(done);
    });
    let salvaged = everleaf_salvage::salvage(&args.pool, &args.new, &options);
    bar.finish_and_clear();
    let salvaged = salvaged.map_err(|error| match error {
        everleaf::Error::Foreign { .. } => of_pool(&args.pool, error),
        // These name their file, which may be one of the new pool.
        _ => CommandError::from(error),
    })?;
    for loss in &salvaged.losses {
        let mut line = Vec::new();
        describe(loss, &mut line);
        tell(String::from_utf8_lossy(&line));
    }
    for tree in salvaged.trees.iter().filter(|_| !salvaged.is_complete()) {
        let mut line = Vec::new();
        describe_tree(tree, &mut line);
        if !line.is_empty() {
            tell(String::from_utf8_lossy(&line));
        }
    }
    let summary = summary(&salvaged);
    if salvaged.is_complete() {
        tell(format_args!("{}: {summary}, no damage", args.pool.display()));
    }
    let text = if args.json {
        printable_lines(&to_json(&salvaged)).into_bytes()
    } else {
        to_lines(&salvaged)
    };
    let told = print(text);
    if salvaged.is_complete() {
        return told;
    }
    // The damage must be reported even if nobody reads stdout.
    let mut summary = format!("{}: damaged; {summary}", args.pool.display());
    if let Err(CommandError::Blocked(message)) = told {
        summary += &format!("; {message}");
    }
    Err(CommandError::Damaged(summary))
}

fn to_lines(salvaged: &Salvaged) -> Vec<u8> {
    let mut text = Vec::new();
    for tree in &salvaged.trees {
        escape(tree.name.as_bytes(), &mut text);
        text.extend(format!("\t{}\n", tree.pairs).bytes());
    }
    text
}

/// One loss as a line.
fn describe(loss: &Loss, line: &mut Vec<u8>) {
    escape(loss.to_string().as_bytes(), line);
    if let Some(tree) = &loss.tree {
        line.extend(b"; tree ");
        escape(tree.as_bytes(), line);
    }
    if let Some(pairs) = loss.pairs {
        line.extend(format!(": {}", counted(pairs, "pair")).bytes());
    }
    if let Some(KeyRange { from, to, .. }) = &loss.keys {
        if let Some(from) = from {
            line.extend(b" from ");
            escape(from, line);
        }
        if let Some(to) = to {
            line.extend(b" up to ");
            escape(to, line);
        }
    }
}

fn summary(salvaged: &Salvaged) -> String {
    let trees = salvaged.trees.iter().filter(|tree| tree.origin == Origin::Named).count();
    let trees = counted(trees as u64, "tree");
    let mut text = format!("{trees}, {} salvaged", counted(salvaged.pairs(), "pair"));
    let found = salvaged.pairs_stray() + salvaged.pairs_older();
    if found > 0 {
        text += &format!(", {} more in lost+found", grouped(found));
    }
    if !salvaged.is_complete() {
        let lost = lost(salvaged.pairs_lost, salvaged.pairs_lost_is_exact);
        text += &format!("; {lost}, {}", counted(salvaged.pages_lost, "page"));
    }
    text
}

/// How many pairs are lost, and whether that is all.
fn lost(pairs: u64, is_exact: bool) -> String {
    match (pairs, is_exact) {
        (0, false) => "an unknown number of pairs lost".to_owned(),
        (_, false) => format!("at least {} lost", counted(pairs, "pair")),
        (_, true) => format!("{} lost", counted(pairs, "pair")),
    }
}

/// Appends a line that says what a tree lacks; nothing if it lacks nothing.
fn describe_tree(tree: &SalvagedTree, line: &mut Vec<u8>) {
    if tree.pairs_lost == 0 && tree.pairs_lost_is_exact {
        return;
    }
    line.extend(b"tree ");
    escape(tree.name.as_bytes(), line);
    let (lost, there) = (lost(tree.pairs_lost, tree.pairs_lost_is_exact), grouped(tree.pairs));
    line.extend(format!(": {lost}, {there} salvaged").bytes());
}

fn to_json(salvaged: &Salvaged) -> Value {
    let trees: Vec<_> = salvaged.trees.iter().map(tree_to_json).collect();
    let losses: Vec<_> = salvaged.losses.iter().map(loss_to_json).collect();
    json!({
        "pairs": salvaged.pairs(),
        "pairs_stray": salvaged.pairs_stray(),
        "pairs_older": salvaged.pairs_older(),
        "pairs_lost": salvaged.pairs_lost,
        "pairs_lost_is_exact": salvaged.pairs_lost_is_exact,
        "pages_lost": salvaged.pages_lost,
        "trees": trees,
        "losses": losses,
    })
}

fn tree_to_json(tree: &SalvagedTree) -> Value {
    let origin = match tree.origin {
        Origin::Named => "named",
        Origin::Unnamed => "unnamed",
        Origin::Doubtful => "doubtful",
        Origin::Older => "older",
        _ => "stray",
    };
    json!({
        "name": tree.name,
        "origin": origin,
        "pairs": tree.pairs,
        "pairs_found": tree.pairs_found,
        "pairs_lost": tree.pairs_lost,
        "pairs_lost_is_exact": tree.pairs_lost_is_exact,
    })
}

fn loss_to_json(loss: &Loss) -> Value {
    let text = |key: &Option<Vec<u8>>| {
        key.as_ref().map(|key| {
            let mut text = Vec::new();
            escape(key, &mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    json!({
        "file": loss.file,
        "offset": loss.offset,
        "page": loss.page,
        "what": loss.what,
        "tree": loss.tree,
        "from": loss.keys.as_ref().and_then(|keys| text(&keys.from)),
        "to": loss.keys.as_ref().and_then(|keys| text(&keys.to)),
        "pairs": loss.pairs,
    })
}
