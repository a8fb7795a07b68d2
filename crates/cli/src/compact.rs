//! `everleaf compact`: a file as short as its contents allow.

use crate::failure::Result;
use crate::message::{input_bar, tell};
use crate::numbers::size;
use crate::pool::PoolArgs;

/// Make the pool's file as short as its contents allow
///
/// The file keeps at most an eighth and 16 KiB more than its contents; a pool of 32 MiB or more also keeps free
/// blocks of a 32nd of that, at least 6 MiB, so that deletes work on a full disk. It never gets longer than it was.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let length = || std::fs::metadata(&args.at.pool).map_or(0, |metadata| metadata.len());
    // The open may take room for what it has to do, so that deletes go on when the disk is full.
    let before = length();
    let db = args.at.open_to_write()?;
    let bar = input_bar(None);
    let compacted = db.compact_with(|bytes| bar.set_message(size(bytes)));
    bar.finish_and_clear();
    compacted?;
    db.close()?;
    // Closing frees the journal, too.
    let after = length();
    tell(format_args!("{}: {}, {} before", args.at.pool.display(), size(after), size(before)));
    Ok(())
}
