//! `everleaf get`: the value of one key.

use std::io::Write;

use everleaf::Tree;

use crate::escape::escape;
use crate::failure::{CommandError, Result};
use crate::numbers::grouped;
use crate::output::{print, stdout};
use crate::pool::{self, KeyArgs};

/// Bytes of a value that are read and written at once.
const PIECE_BYTES: usize = 1 << 20;

/// Print the value of a key
///
/// With --raw a value of more than 1 MiB is printed while it is read: it may be larger than memory, and if
/// it is damaged, its beginning has been printed.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    of: KeyArgs,
    /// Print the bytes of the value alone: no escapes, no newline. On a terminal control characters are
    /// shown as \xHH
    #[arg(long)]
    raw: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let db = args.of.at.open_to_read()?;
    let (tree, key) = (pool::find(&db, &args.of.tree)?, &args.of.key.0[..]);
    let missing = || CommandError::NotFound("no such key".into());
    let bytes = tree.value_len(key)?.ok_or_else(missing)?;
    // On persistent memory a part of a value has no checksum.
    if args.raw && bytes > PIECE_BYTES as u64 && !args.of.at.is_dax() {
        return copy(&tree, key, bytes, &mut stdout());
    }
    let mut value = tree.get(key)?.ok_or_else(missing)?;
    if !args.raw {
        let mut text = Vec::with_capacity(value.len() + 1);
        escape(&value, &mut text);
        text.push(b'\n');
        value = text.into();
    }
    print(value)
}

/// Writes a value of so many bytes piece by piece: it may be larger than memory. Nobody changes it
/// meanwhile, for the pool is open to be read only.
fn copy(tree: &Tree, key: &[u8], bytes: u64, out: &mut impl Write) -> Result<()> {
    let (mut piece, mut done) = (vec![0; PIECE_BYTES], 0);
    while done < bytes {
        let n = tree.read_at(key, done, &mut piece)?.unwrap_or(0);
        if n == 0 {
            let message =
                format!("the value ended after {} of {} bytes", grouped(done), grouped(bytes));
            return Err(CommandError::Damaged(message));
        }
        out.write_all(&piece[..n]).map_err(CommandError::stdout)?;
        done += n as u64;
    }
    out.flush().map_err(CommandError::stdout)
}
