//! `everleaf check`: is the pool sound?

use std::io::Write;

use crate::failure::{CommandError, Result};
use crate::message::tell;
use crate::output::stdout;
use crate::pool::PoolArgs;

/// Walk the whole pool and print each damage with its offset; changes nothing
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = args.at.open_to_read()?;
    let damages = db.check()?;
    let mut out = stdout();
    for damage in &damages {
        writeln!(out, "{damage}").map_err(CommandError::stdout)?;
    }
    match damages.len() {
        0 => tell(format_args!("{}: no damage", args.at.pool.display())),
        1 => return Err(CommandError::Damaged(format!("{}: 1 damage", args.at.pool.display()))),
        count => {
            return Err(CommandError::Damaged(format!(
                "{}: {count} damages",
                args.at.pool.display()
            )));
        }
    }
    Ok(())
}
