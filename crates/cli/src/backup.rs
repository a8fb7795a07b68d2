//! `everleaf backup`: a copy of the pool as one file.

use std::path::{Path, PathBuf};

use everleaf::Db;

use crate::failure::Result;
use crate::message::{input_bar, tell};
use crate::numbers::{grouped, size};
use crate::pool::PoolArgs;

/// Copy the pool to a new file, on disk when the command ends; changes nothing of the pool
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    at: PoolArgs,
    /// The copy; no file may have the name
    new: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = args.at.open_to_read()?;
    tell(copy(&db, &args.new)?);
    Ok(())
}

/// Copies an open pool; says what the copy is.
pub fn copy(db: &Db, new: &Path) -> everleaf::Result<String> {
    let bar = input_bar(Some(0));
    let copied = db.backup_with(new, |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let epoch = grouped(copied?);
    // The copy is there whatever this says.
    let bytes = std::fs::metadata(new).map_or(0, |metadata| metadata.len());
    Ok(format!("{}: {}, all up to epoch {epoch}", new.display(), size(bytes)))
}
