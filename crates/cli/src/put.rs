//! `everleaf put`: one pair.

use std::fs::File;
use std::path::{Path, PathBuf};

use everleaf::{Options, Tree};

use crate::escape::{ByteArg, argument};
use crate::failure::{CommandError, Result};
use crate::pool::{KeyArgs, MakeArgs};

/// Set the value of a key; on disk when the command ends
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    of: KeyArgs,
    /// The value, with escapes
    #[arg(value_parser = argument(), allow_hyphen_values = true, required_unless_present = "file")]
    value: Option<ByteArg>,
    /// Take the value from a file, as it is; it may be larger than memory
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    file: Option<PathBuf>,
    #[command(flatten)]
    make: MakeArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    // A pool is not made for a file that is not there.
    let file = args.file.as_deref().map(|path| open(path).map(|file| (path, file))).transpose()?;
    let db = args.of.at.open_or_make(Options::new(), &args.make)?;
    let tree = db.tree(&args.of.tree)?;
    match (&args.value, file) {
        (_, Some((path, file))) => copy(&tree, &args.of.key.0, path, file)?,
        (value, None) => {
            let value = value.as_ref().map(|value| &value.0[..]).unwrap_or_default();
            tree.insert(&args.of.key.0, value)?;
        }
    }
    drop(tree);
    Ok(db.close()?)
}

fn unreadable(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::Blocked(format!("cannot read {}: {error}", path.display()))
}

/// Opens a file whose length is known. A pipe is refused before it is opened, which would wait for its
/// other end.
fn open(path: &Path) -> Result<File> {
    let kind = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if !kind.is_file() {
        return Err(CommandError::Usage(format!("{} is not a regular file", path.display())));
    }
    File::open(path).map_err(|error| unreadable(path, &error))
}

fn copy(tree: &Tree, key: &[u8], path: &Path, file: File) -> Result<()> {
    let bytes = file.metadata().map_err(|error| unreadable(path, &error))?.len();
    let put = tree.put_from(key, file, bytes);
    put.map_err(|error| CommandError::from(error).context(path.display()))
}
