//! `everleaf dump`: all pairs, in a form that others read.

use std::io::{BufWriter, Write};

use everleaf::SnapshotTree;

use crate::escape::escaped;
use crate::failure::{CommandError, Result};
use crate::format::{DumpHeader, Format, LINE_BYTES_MAX};
use crate::message::tell;
use crate::output::stdout;
use crate::pool::{self, PoolArgs};

/// Print all pairs of a tree, or of all trees, in a form that `load` and others read
///
/// All output shows the pool at one moment. Without a TREE all trees are printed as databases of LMDB,
/// for `mdb_load` or `everleaf load --all --format mdb`. Pairs that a format has no form for (raw: keys
/// with a TAB or a newline, values with a newline) end the dump with exit code 2.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
    /// The tree's name, with escapes; all trees if there is none
    #[arg(value_parser = pool::tree_name)]
    tree: Option<String>,
    /// The format of the output
    #[arg(long, value_enum, default_value_t = Format::Mdb)]
    format: Format,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    if args.tree.is_none() && args.format != Format::Mdb {
        return Err(CommandError::Usage("only --format mdb names trees: say which TREE".into()));
    }
    let db = args.at.open_to_read()?;
    // One moment for all trees: what is true of several at once is true of the dump.
    let then = db.snapshot()?;
    let names = match &args.tree {
        Some(name) => vec![name.clone()],
        None => then.tree_names()?,
    };
    let at = |name: &String| Ok(then.of(&pool::find(&db, name)?)?);
    let trees = names.iter().map(at).collect::<Result<Vec<_>>>()?;
    let mut out = BufWriter::with_capacity(1 << 16, stdout());
    for tree in &trees {
        if args.format == Format::Mdb {
            let header = DumpHeader { name: tree.name(), map_bytes: args.map_bytes() };
            out.write_all(&header.text()).map_err(CommandError::stdout)?;
        }
        let printed = print(tree, args.format, &mut out);
        // Whole lines, also before what cannot be printed.
        out.flush().map_err(CommandError::stdout)?;
        printed?;
        if args.format == Format::Mdb {
            out.write_all(DumpHeader::END).map_err(CommandError::stdout)?;
        }
    }
    out.flush().map_err(CommandError::stdout)
}

impl Args {
    /// More than LMDB takes for what is in the pool. It is address space, and no file as large.
    fn map_bytes(&self) -> u64 {
        let bytes = std::fs::metadata(&self.at.pool).map_or(0, |metadata| metadata.len());
        (bytes * 4).max(1 << 30).next_multiple_of(1 << 20)
    }
}

fn print(tree: &SnapshotTree, format: Format, out: &mut impl Write) -> Result<()> {
    let (mut text, mut longest) = (Vec::new(), 0);
    for pair in tree {
        let (key, value) = pair?;
        text.clear();
        if let Err(what) = format.write(&key, &value, &mut text) {
            let named = escaped(&key[..key.len().min(100)]);
            return Err(CommandError::Usage(format!(
                "key {named}: {what}; mdb and text have a form"
            )));
        }
        out.write_all(&text).map_err(CommandError::stdout)?;
        longest = longest.max(text.len());
    }
    if longest > LINE_BYTES_MAX {
        let name = escaped(tree.name().as_bytes());
        tell(format_args!(
            "note: a pair of the tree \"{name}\" takes {longest} bytes: `load` needs --max-line {longest}"
        ));
    }
    Ok(())
}
