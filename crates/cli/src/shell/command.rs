//! The commands of the shell.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use clap::Parser;

use super::words;
use crate::escape::{ByteArg, argument, escaped};
use crate::keys::BoundArgs;
use crate::load::InputArgs;
use crate::pool;
use crate::scan::{PartArgs, ShowArgs};

/// A line that is understood. A tree that is not named is the one in use.
pub enum Command {
    /// The line is empty or a comment.
    Nothing,
    /// Print a value.
    Get(Option<String>, Vec<u8>),
    /// Set a value.
    Put(Option<String>, Vec<u8>, Vec<u8>),
    /// Set the values of many keys from a file.
    Import(Option<String>, PathBuf, InputArgs),
    /// Remove a key.
    Del(Option<String>, Vec<u8>),
    /// Remove all keys within bounds, asked for or not.
    DelRange(Option<String>, BoundArgs, Sure),
    /// Print pairs.
    Scan(Option<String>, PartArgs, ShowArgs),
    /// Print how many pairs there are.
    Count(Option<String>, BoundArgs),
    /// Print the names of all trees.
    Trees,
    /// Take a tree in use, or none.
    Use(Option<String>),
    /// Remove a tree.
    Drop(String, Sure),
    /// Remove all pairs of a tree.
    Clear(Option<String>, Sure),
    /// Give a tree another name.
    Rename(String, String),
    /// Open a transaction.
    Begin,
    /// Apply what it has written.
    Commit,
    /// Forget what it has written.
    Abort,
    /// Print figures of the pool, or of a tree; by a walk, if so.
    Stat(Option<String>, bool),
    /// Look for damage.
    Check,
    /// Copy the pool to a new file.
    Backup(PathBuf),
    /// Print the list of commands.
    Help,
    /// End.
    Quit,
}

/// Whether a command that removes much was given `--yes`, so that nobody has to be asked.
pub type Sure = bool;

/// How a command is written, and what it does.
pub struct Entry {
    /// The word that it begins with.
    pub name: &'static str,
    arguments: &'static str,
    about: &'static str,
}

impl Entry {
    /// Whether the name of a tree may come first.
    pub fn takes_tree(&self) -> bool {
        self.arguments.trim_start_matches('[').starts_with("TREE")
    }

    /// Its options, as they are written.
    pub fn options(&self) -> impl Iterator<Item = &'static str> {
        let words = self.arguments.split(['[', ']', ' ']);
        words.filter(|word| word.starts_with("--"))
    }
}

const fn entry(name: &'static str, arguments: &'static str, about: &'static str) -> Entry {
    Entry { name, arguments, about }
}

/// All commands.
pub const COMMANDS: &[Entry] = &[
    entry("get", "[TREE] KEY", "print the value of a key"),
    entry("put", "[TREE] KEY VALUE", "set the value of a key; makes the tree if it is missing"),
    entry(
        "import",
        "[TREE] FILE [--format F] [--key NAMES] [--value NAMES] [--value-format F] [--no-header] [--header] \
         [--crlf] [--max-line BYTES] [--skip-bad]",
        "set the values of many keys from a file, as `everleaf load` does; makes the tree if it is missing",
    ),
    entry("del", "[TREE] KEY", "remove a key"),
    entry(
        "del",
        "[TREE] [--from K] [--to K] [--prefix P] [--yes]",
        "remove all keys within bounds, and print how many; on a terminal it asks before",
    ),
    entry(
        "scan",
        "[TREE] [--from K] [--to K] [--prefix P] [--reverse] [--limit N] [--keys] [--values] [--count] \
         [--format F]",
        "print KEY<TAB>VALUE lines in the bytewise order of the keys; F is text, csv or json",
    ),
    entry(
        "count",
        "[TREE] [--from K] [--to K] [--prefix P]",
        "print how many pairs a tree has; without a tree, that of each",
    ),
    entry("trees", "", "print the names of all trees"),
    entry("use", "[TREE]", "the tree of commands that name none; without TREE: none"),
    entry("rename", "TREE NAME", "give a tree another name, which no tree may have"),
    entry("clear", "[TREE] [--yes]", "remove all pairs of a tree; on a terminal it asks before"),
    entry("drop", "TREE [--yes]", "remove a tree with all its pairs; on a terminal it asks before"),
    entry("begin", "", "open a transaction"),
    entry("commit", "", "apply what it has written, if nobody else has changed what it has read"),
    entry("abort", "", "end it without its writes"),
    entry("stat", "[TREE] [--walk]", "print figures of the pool, and how many pairs each tree has"),
    entry("check", "", "walk the whole pool and print each damage"),
    entry("backup", "NEW", "copy the pool to a new file, on disk when it ends"),
    entry("help", "", "print this list"),
    entry("quit", "", "end; Ctrl-D does the same"),
];

/// The text that `help` prints.
pub fn help() -> String {
    let mut text = String::new();
    for entry in COMMANDS {
        let usage = usage(entry);
        // A usage that is too long has a line of its own.
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
/// A message that says what is wrong with it.
pub fn parse(line: &[u8]) -> Result<Command, String> {
    if line.trim_ascii_start().first() == Some(&b'#') {
        return Ok(Command::Nothing);
    }
    let mut words = words::split(line)?;
    if words.is_empty() {
        return Ok(Command::Nothing);
    }
    let name = words.remove(0);
    let mut entries = COMMANDS.iter().filter(|entry| entry.name.as_bytes() == name);
    let Some(entry) = entries.next() else {
        return Err(format!("unknown command {}; `help` lists the commands", quoted(&name)));
    };
    match entry.name {
        "scan" => return scan(words),
        "count" => return count(words),
        "stat" => return stat(words),
        "import" => return import(words),
        // Its second form, if an option of that is there.
        "del" if words.iter().any(|word| entries.clone().any(|form| form.has_option(word))) => {
            return del_range(words);
        }
        _ => {}
    }
    let is_sure = entry.has_option(b"--yes") && words.pop_if(|word| word == b"--yes").is_some();
    let mut words = words.iter().map(|word| words::bytes(word)).collect::<Result<Vec<_>, _>>()?;
    let rest = match entry.name {
        "get" | "del" | "drop" | "backup" => 1,
        "put" | "rename" => 2,
        _ => 0,
    };
    let has_tree = entry.arguments.starts_with("[TREE]") && words.len() == rest + 1;
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
        "rename" => Command::Rename(pool::tree_name_of(next())?, pool::tree_name_of(next())?),
        "clear" => Command::Clear(tree, is_sure),
        "drop" => Command::Drop(pool::tree_name_of(next())?, is_sure),
        "begin" => Command::Begin,
        "commit" => Command::Commit,
        "abort" => Command::Abort,
        "check" => Command::Check,
        "backup" => Command::Backup(OsString::from_vec(next()).into()),
        "help" => Command::Help,
        _ => Command::Quit,
    })
}

impl Entry {
    fn has_option(&self, word: &[u8]) -> bool {
        let option = word.split(|byte| *byte == b'=').next().unwrap_or_default();
        self.options().any(|name| name.as_bytes() == option)
    }
}

/// A line of a command that has the options of a subcommand.
#[derive(clap::Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct OptionLine<A: clap::Args> {
    #[arg(value_parser = argument())]
    tree: Option<ByteArg>,
    #[command(flatten)]
    options: A,
}

fn parsed<L: Parser>(words: Vec<Vec<u8>>) -> Result<L, String> {
    let words = words.into_iter().map(OsString::from_vec);
    L::try_parse_from(words).map_err(|error| {
        let text = error.to_string();
        let what = text.lines().next().unwrap_or_default();
        what.strip_prefix("error: ").unwrap_or(what).to_owned()
    })
}

fn options<A: clap::Args>(words: Vec<Vec<u8>>) -> Result<(Option<String>, A), String> {
    let line: OptionLine<A> = parsed(words)?;
    Ok((line.tree.map(|name| pool::tree_name_of(name.0)).transpose()?, line.options))
}

#[derive(clap::Args)]
struct ScanOptions {
    #[command(flatten)]
    part: PartArgs,
    #[command(flatten)]
    show: ShowArgs,
}

fn scan(words: Vec<Vec<u8>>) -> Result<Command, String> {
    let (tree, ScanOptions { part, show }) = options(words)?;
    Ok(Command::Scan(tree, part, show))
}

fn count(words: Vec<Vec<u8>>) -> Result<Command, String> {
    let (tree, keys) = options(words)?;
    Ok(Command::Count(tree, keys))
}

#[derive(clap::Args)]
struct StatOptions {
    #[arg(long)]
    walk: bool,
}

fn stat(words: Vec<Vec<u8>>) -> Result<Command, String> {
    let (tree, StatOptions { walk }) = options(words)?;
    Ok(Command::Stat(tree, walk))
}

/// A line of `import`, whose last word beside options is the file.
#[derive(clap::Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct ImportLine {
    #[arg(value_parser = argument(), required = true, num_args = 1..=2)]
    words: Vec<ByteArg>,
    #[command(flatten)]
    input: InputArgs,
}

fn import(words: Vec<Vec<u8>>) -> Result<Command, String> {
    let ImportLine { mut words, input } = parsed(words)?;
    let file = words.pop().map(|word| OsString::from_vec(word.0).into()).unwrap_or_default();
    let tree = words.pop().map(|name| pool::tree_name_of(name.0)).transpose()?;
    Ok(Command::Import(tree, file, input))
}

#[derive(clap::Args)]
struct DelOptions {
    #[command(flatten)]
    keys: BoundArgs,
    #[arg(long)]
    yes: bool,
}

fn del_range(words: Vec<Vec<u8>>) -> Result<Command, String> {
    let (tree, DelOptions { keys, yes }) = options(words)?;
    match keys.is_none() {
        true => Err("which keys? Say --prefix, --from or --to".into()),
        false => Ok(Command::DelRange(tree, keys, yes)),
    }
}

fn quoted(word: &[u8]) -> String {
    format!("\"{}\"", escaped(word))
}
