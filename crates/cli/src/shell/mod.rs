//! `everleaf shell`: one command a line, on one open pool.

mod command;
mod session;
mod terminal;
mod words;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use everleaf::Options;

use self::session::{Session, Speaker, Then};
use crate::failure::{CommandError, Result};
use crate::format::{LINE_BYTES_MAX, Lines, behind_mark};
use crate::message::tell;
use crate::pool::{MakeArgs, PoolArgs};

/// Read and write a pool by commands, on a terminal or from a script
///
/// On a terminal it prompts, keeps a history and completes commands and trees; `help` lists the commands.
/// Otherwise it reads commands from stdin, one a line, and ends at the first that fails, with its exit code.
/// The changes of the lines before that stay. The pool is made if it is missing.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
    /// Change nothing; the pool must exist
    #[arg(long, conflicts_with_all = ["page_size", "size", "compression"])]
    read_only: bool,
    /// Without a terminal: go on after a command that fails; the exit code is that of the first
    #[arg(long)]
    keep_going: bool,
    /// On a terminal: neither read nor write the history of earlier shells
    #[arg(long)]
    no_history: bool,
    #[command(flatten)]
    make: MakeArgs,
}

/// Runs the command. It says itself what has failed, for that may be more than one thing.
pub fn run(args: &Args) -> ExitCode {
    let opened = match args.read_only {
        true => args.at.open_to_read(),
        false => args.at.open_or_make(Options::new(), &args.make),
    };
    let mut session = match opened {
        Ok(db) => Session::new(db, args.read_only),
        Err(failure) => return failure.report(),
    };
    let on_terminal = io::stdin().is_terminal();
    let ended = match on_terminal {
        true => terminal::run(&mut session, !args.no_history).map_err(CommandError::report),
        false => script(&mut session, args.keep_going),
    };
    let (was_open, closed) = session.close();
    let mut code = ended.err();
    if was_open {
        tell("everleaf: the open transaction was aborted");
        // A script that forgets its commit has not done what it says.
        code = code.or((!on_terminal).then_some(ExitCode::from(2)));
    }
    if let Err(failure) = closed {
        let failed = failure.report();
        code = code.or(Some(failed));
    }
    code.unwrap_or(ExitCode::SUCCESS)
}

/// Lines that were written before they run.
struct Script;

impl Speaker for Script {
    fn stops(&self) -> bool {
        false
    }

    fn agrees(&mut self, _: &str) -> Result<bool> {
        Ok(true)
    }
}

/// Runs the lines of stdin. Reports each failure, and returns the first one's exit code.
fn script(session: &mut Session, keep_going: bool) -> Result<(), ExitCode> {
    let (input, note) =
        behind_mark(Box::new(io::stdin().lock()), false).map_err(CommandError::report)?;
    if let Some(note) = note {
        tell(format_args!("note: {note}"));
    }
    let mut lines = Lines::new(input, true, LINE_BYTES_MAX);
    let mut first = Ok(());
    loop {
        let line = match lines.next() {
            Ok(Some(line)) => line.map(<[u8]>::to_vec),
            Ok(None) => return first,
            Err(failure) => {
                let code = failure.report();
                return first.and(Err(code));
            }
        };
        let ran = match line {
            Ok(line) => session.run(&line, &mut Script),
            Err(what) => Err(CommandError::Usage(what).into()),
        };
        match ran {
            Ok(Then::Next) => {}
            Ok(Then::Quit) => return first,
            Err(failed) => {
                let code = failed.error.context(format!("line {}", lines.number)).report();
                first = first.and(Err(code));
                if failed.is_final || !keep_going {
                    return first;
                }
            }
        }
    }
}
