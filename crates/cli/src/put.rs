//! `everleaf put`: one pair.

use std::path::PathBuf;

use everleaf::{Options, VALUE_BYTES_MAX};

use crate::escape::{ByteArg, argument};
use crate::failure::{CommandError, Result};
use crate::input::{Input, WholeInput};
use crate::pool::{self, KeyArgs, MakeArgs};

/// Set the value of a key; on disk when the command ends
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    of: KeyArgs,
    /// The value, with escapes
    #[arg(value_parser = argument(), allow_hyphen_values = true, required_unless_present = "file")]
    value: Option<ByteArg>,
    /// Take the value from a file, a pipe or, with `-`, from stdin, as it is. It may be larger than memory; an
    /// input that cannot be read twice is kept in a file beside the pool meanwhile
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    file: Option<PathBuf>,
    #[command(flatten)]
    make: MakeArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let (key, pool) = (&args.of.key.0[..], &args.of.at.pool);
    // No pool is made for what will be refused or cannot be read.
    let value = match &args.file {
        Some(path) => {
            let mut spool = pool.clone().into_os_string();
            spool.push(format!("-spool-{}", std::process::id()));
            Input::open(path)?.whole(VALUE_BYTES_MAX as u64, spool.as_ref())?
        }
        None => {
            WholeInput::Short(args.value.as_ref().map(|value| value.0.clone()).unwrap_or_default())
        }
    };
    pool::check_pair(key, &[])?;
    let db = args.of.at.open_or_make(Options::new(), &args.make)?;
    let tree = db.tree(&args.of.tree)?;
    match value {
        WholeInput::Short(value) => tree.put(key, value)?,
        WholeInput::Long(input, bytes) => {
            let name = args.file.as_ref().map_or("-".into(), |path| path.display().to_string());
            let put = tree.put_from(key, input, bytes);
            put.map_err(|error| CommandError::from(error).context(name))?;
        }
    }
    drop(tree);
    Ok(db.close()?)
}
