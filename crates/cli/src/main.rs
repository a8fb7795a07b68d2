//! The `everleaf` command: one file a command, no logic of the store.
//!
//! Data goes to stdout and messages to stderr. Exit codes: 0 done, 1 not found, 2 usage, 3 damaged
//! or foreign pool, 4 the system or the state of the pool is in the way.

#![forbid(unsafe_code)]

mod ack;
mod backup;
mod check;
mod compact;
mod completions;
mod count;
mod debug;
mod del;
mod demo;
mod drop;
mod dump;
mod escape;
mod failure;
mod format;
mod get;
mod input;
mod keys;
mod load;
mod man;
mod message;
mod numbers;
mod output;
mod pool;
mod put;
mod rename;
mod salvage;
mod scan;
mod shell;
mod stat;
mod trees;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// A crash-safe ordered store of byte strings on an ordinary file.
///
/// TREE, KEY and VALUE take the escapes \t \n \\ and \xHH for any byte; output uses the same. Output to a
/// terminal has no control characters.
///
/// Exit codes: 0 done, 1 not found, 2 usage, 3 damaged or foreign pool, 4 input/output, locked,
/// full or read-only.
#[derive(Parser)]
#[command(name = "everleaf", version, max_term_width = 100, after_long_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The first things that somebody would try.
const EXAMPLES: &str = "\
Examples:
  everleaf put fruit.ever colours plum blue     makes the pool and the tree
  everleaf get fruit.ever colours plum
  everleaf load fruit.ever colours pairs.tsv    KEY<TAB>VALUE lines
  everleaf scan fruit.ever colours --prefix p
  everleaf count fruit.ever                     how many pairs each tree has
  everleaf shell fruit.ever                     commands and transactions on an open pool";

#[derive(Subcommand)]
enum Command {
    Put(put::Args),
    Get(get::Args),
    Del(del::Args),
    Load(load::Args),
    Scan(scan::Args),
    Count(count::Args),
    Dump(dump::Args),
    Trees(trees::Args),
    Drop(drop::Args),
    Rename(rename::Args),
    Stat(stat::Args),
    Check(check::Args),
    Backup(backup::Args),
    Compact(compact::Args),
    Salvage(salvage::Args),
    Debug(debug::Args),
    Shell(shell::Args),
    Demo(demo::Args),
    Completions(completions::Args),
    Man(man::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help is ours; a mistake quotes what was given.
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            message::tell(error.render().to_string().trim_end());
            return ExitCode::from(2);
        }
    };
    let result = match cli.command {
        Command::Put(args) => put::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Del(args) => del::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Scan(args) => scan::run(&args),
        Command::Count(args) => count::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Trees(args) => trees::run(&args),
        Command::Drop(args) => drop::run(&args),
        Command::Rename(args) => rename::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Compact(args) => compact::run(&args),
        Command::Salvage(args) => salvage::run(&args),
        Command::Debug(args) => debug::run(&args),
        Command::Shell(args) => return shell::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Completions(args) => completions::run(&args, Cli::command()),
        Command::Man(args) => man::run(&args, Cli::command()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
