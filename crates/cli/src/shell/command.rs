//! What may be said to the shell.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::Parser;

use super::words;
use crate::escape::{ByteArg, argument};
use crate::pool;
use crate::scan::PartArgs;

/// A line that is understood. A tree that is not named is the one in use.
pub enum Command {
    /// The line is empty or a comment.
    Nothing,
    /// Print a value.
    Get(Option<String>, Vec<u8>),
    /// Set a value.
    Put(Option<String>, Vec<u8>, Vec<u8>),
    /// Remove a key.
    Del(Option<String>, Vec<u8>),
    /// Print pairs.
    Scan(Option<String>, PartArgs),
    /// Print the names of all trees.
    Trees,
    /// Take a tree in use, or none.
    Use(Option<String>),
    /// Open a transaction.
    Begin,
    /// Apply what it has written.
    Commit,
    /// Forget what it has written.
    Abort,
    /// Print counts.
    Stat,
    /// Print the list of commands.
    Help,
    /// End.
    Quit,
}

/// How a command is written, and what it does.
pub struct Entry {
    /// The word that it begins with.
    pub name: &'static str,
    /// What follows; it begins with `[TREE]` if a tree may come first.
    pub arguments: &'static str,
    about: &'static str,
}

const fn entry(name: &'static str, arguments: &'static str, about: &'static str) -> Entry {
    Entry { name, arguments, about }
}

/// All commands.
pub const COMMANDS: &[Entry] = &[
    entry("get", "[TREE] KEY", "print the value of a key"),
    entry("put", "[TREE] KEY VALUE", "set the value of a key; makes the tree if it is missing"),
    entry("del", "[TREE] KEY", "remove a key"),
    entry(
        "scan",
        "[TREE] [--from K] [--to K] [--prefix P] [--reverse] [--limit N]",
        "print KEY<TAB>VALUE lines in the bytewise order of the keys",
    ),
    entry("trees", "", "print the names of all trees"),
    entry("use", "[TREE]", "the tree of commands that name none; without TREE: none"),
    entry("begin", "", "open a transaction"),
    entry("commit", "", "apply what it has written, if nobody else has changed what it has read"),
    entry("abort", "", "end it without its writes"),
    entry("stat", "", "print counts of the pool and of each tree"),
    entry("help", "", "print this list"),
    entry("quit", "", "end; Ctrl-D does the same"),
];

/// The options of `scan`.
pub const SCAN_OPTIONS: &[&str] = &["--from", "--to", "--prefix", "--reverse", "--limit"];

/// What `help` prints.
pub fn help() -> String {
    let mut text = String::new();
    for entry in COMMANDS {
        let usage = usage(entry);
        // What is too long has a line of its own.
        let gap = if usage.len() < 22 { String::new() } else { format!("\n{:22}", "") };
        text += &format!("{usage:<22}{gap}{}\n", entry.about);
    }
    text + "\nWords take the escapes \\t \\n \\\\ and \\xHH for any byte; output uses the same. Quotes of\n\
            either kind keep blanks. A line that begins with # is a comment.\n"
}

fn usage(entry: &Entry) -> String {
    format!("{} {}", entry.name, entry.arguments).trim_end().to_owned()
}

/// Understands a line.
///
/// # Errors
///
/// What is wrong with it.
pub fn parse(line: &[u8]) -> Result<Command, String> {
    if line.trim_ascii_start().first() == Some(&b'#') {
        return Ok(Command::Nothing);
    }
    let mut words = words::split(line)?.into_iter();
    let Some(name) = words.next() else { return Ok(Command::Nothing) };
    let Some(entry) = COMMANDS.iter().find(|entry| entry.name.as_bytes() == name) else {
        let name = String::from_utf8_lossy(&name);
        return Err(format!("unknown command {name:?}; `help` lists the commands"));
    };
    if entry.name == "scan" {
        return scan(words);
    }
    let mut words = words.map(|word| words::bytes(&word)).collect::<Result<Vec<_>, _>>()?;
    let rest = match entry.name {
        "get" | "del" => 1,
        "put" => 2,
        _ => 0,
    };
    let takes_tree = entry.arguments.starts_with("[TREE]");
    let has_tree = takes_tree && words.len() == rest + 1;
    if words.len() != rest && !has_tree {
        return Err(format!("usage: {}", usage(entry)));
    }
    let tree = if has_tree { Some(pool::tree_name_of(words.remove(0))?) } else { None };
    let mut next = || words.remove(0);
    Ok(match entry.name {
        "get" => Command::Get(tree, next()),
        "put" => Command::Put(tree, next(), next()),
        "del" => Command::Del(tree, next()),
        "trees" => Command::Trees,
        "use" => Command::Use(tree),
        "begin" => Command::Begin,
        "commit" => Command::Commit,
        "abort" => Command::Abort,
        "stat" => Command::Stat,
        "help" => Command::Help,
        _ => Command::Quit,
    })
}

/// `scan` has the options that the subcommand has.
#[derive(clap::Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct ScanLine {
    #[arg(value_parser = argument())]
    tree: Option<ByteArg>,
    #[command(flatten)]
    part: PartArgs,
}

fn scan(words: impl Iterator<Item = Vec<u8>>) -> Result<Command, String> {
    let line = ScanLine::try_parse_from(words.map(OsString::from_vec)).map_err(|error| {
        let text = error.to_string();
        let what = text.lines().next().unwrap_or_default();
        what.strip_prefix("error: ").unwrap_or(what).to_owned()
    })?;
    let tree = line.tree.map(|name| pool::tree_name_of(name.0)).transpose()?;
    Ok(Command::Scan(tree, line.part))
}
