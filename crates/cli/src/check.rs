//! `everleaf check`: is the pool sound?

use std::io::{self, Write};
use std::path::PathBuf;

use crate::failure::{Failure, Result};
use crate::pool;

/// Walk the whole pool and print each damage with its offset; changes nothing
#[derive(clap::Args)]
pub struct Args {
    /// The pool's file
    pool: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = pool::open_to_read(&args.pool)?;
    let damages = db.check()?;
    let mut out = io::stdout().lock();
    for damage in &damages {
        writeln!(out, "{damage}").map_err(Failure::stdout)?;
    }
    match damages.len() {
        0 => eprintln!("{}: no damage", args.pool.display()),
        1 => return Err(Failure::Damaged(format!("{}: 1 damage", args.pool.display()))),
        count => {
            return Err(Failure::Damaged(format!("{}: {count} damages", args.pool.display())));
        }
    }
    Ok(())
}
