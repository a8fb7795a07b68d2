//! How the commands open pools and find trees, and the arguments that say which.

use std::path::PathBuf;

use everleaf::{Db, Options, Storage, TREE_NAME_BYTES_MAX, Tree};

use crate::escape::{ByteArg, argument, escaped, unescape};
use crate::failure::{CommandError, Result};

/// Which pool, and what it is kept on.
#[derive(clap::Args)]
pub struct PoolArgs {
    /// The pool's file
    pub pool: PathBuf,
    /// The pool is persistent memory: a file on a DAX file system
    #[arg(long)]
    dax: bool,
    /// With --dax, on any file system: what is written survives a crash of the program only
    #[arg(long, requires = "dax")]
    emulate: bool,
    /// The most bytes that the pool may take; with --dax, what a new one takes at once
    #[arg(long, value_name = "BYTES", value_parser = size)]
    size: Option<u64>,
}

/// Which key of which tree of which pool.
#[derive(clap::Args)]
pub struct KeyArgs {
    #[command(flatten)]
    pub at: PoolArgs,
    /// The tree's name, with escapes
    #[arg(value_parser = tree_name)]
    pub tree: String,
    /// The key, with escapes
    #[arg(value_parser = argument(), allow_hyphen_values = true)]
    pub key: ByteArg,
}

impl PoolArgs {
    /// Whether the pool is persistent memory.
    pub fn is_dax(&self) -> bool {
        self.dax
    }

    /// Opens the pool to read it. It must exist, and nothing of it changes on disk.
    pub fn open_to_read(&self) -> Result<Db> {
        self.open(Options::new().create(false).read_only(true))
    }

    /// Opens the pool as `options` say; names it in the failure.
    pub fn open(&self, options: Options) -> Result<Db> {
        let options = match self.size {
            Some(bytes) => options.max_bytes(bytes),
            None => options,
        };
        let storage = match (self.dax, self.emulate) {
            (true, true) => Storage::EmulatedDax,
            (true, false) => Storage::Dax,
            _ => Storage::File,
        };
        let opened = options.storage(storage).open(&self.pool);
        opened.map_err(|error| {
            let path = self.pool.display().to_string();
            // Most say it themselves.
            let says = error.to_string().contains(&path);
            if says { CommandError::from(error) } else { CommandError::from(error).context(path) }
        })
    }
}

/// The tree called `name`, which must exist.
pub fn find(db: &Db, name: &str) -> Result<Tree> {
    db.open_tree(name)?.ok_or_else(|| missing(name))
}

/// There is no tree called `name`.
pub fn missing(name: &str) -> CommandError {
    CommandError::NotFound(format!("no tree is called \"{}\"", escaped(name.as_bytes())))
}

/// The parser of TREE arguments: a name with escapes, as `trees` prints it.
pub fn tree_name(text: &str) -> std::result::Result<String, String> {
    let mut name = Vec::new();
    unescape(text.as_bytes(), &mut name)?;
    tree_name_of(name)
}

/// A name that a tree can have.
pub fn tree_name_of(name: Vec<u8>) -> std::result::Result<String, String> {
    match name.len() {
        1..=TREE_NAME_BYTES_MAX => {
            String::from_utf8(name).map_err(|_| "the name of a tree is UTF-8".into())
        }
        bytes => Err(format!("a name has 1 to {TREE_NAME_BYTES_MAX} bytes, this one has {bytes}")),
    }
}

/// The parser of sizes: a number of bytes, or of KiB, MiB or GiB by K, M or G behind it.
fn size(text: &str) -> std::result::Result<u64, String> {
    let (number, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let bytes = number.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| format!("{text:?} is no number of bytes: write 4096, 64M or 2G"))
}
