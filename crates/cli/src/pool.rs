//! How the commands open pools and find trees, and the arguments that say which.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use everleaf::{Db, KEY_BYTES_MAX, Options, Storage, TREE_NAME_BYTES_MAX, Tree, VALUE_BYTES_MAX};

use crate::escape::{ByteArg, argument, escaped, unescape};
use crate::failure::{CommandError, Result};
use crate::numbers::{counted, grouped, parse_size};

/// The memory for pages of a command that only reads, in bytes, unless it is told another number. A reader
/// passes over most pages once, so that more would hold what nobody asks for again.
const READER_MEMORY_BYTES: u64 = 64 << 20;
/// Where options of how a pool is opened and made stand in the help: behind those of the command itself.
pub const MAKE_HEADING: &str = "Memory, size and new pools";
/// And where those of persistent memory.
const DAX_HEADING: &str = "Persistent memory";

/// Which pool, and what it is kept on.
#[derive(clap::Args)]
pub struct PoolArgs {
    /// The pool's file
    pub pool: PathBuf,
    /// How much memory pages and large values may take, for example 64M or 1GiB [default: 64M to read only, else a
    /// quarter of what the process may use]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = MAKE_HEADING)]
    memory: Option<u64>,
    /// The pool is persistent memory: a file on a DAX file system
    #[arg(long, help_heading = DAX_HEADING)]
    dax: bool,
    /// With --dax, on any file system: writes survive a crash of the program, and not one of the system
    #[arg(long, requires = "dax", help_heading = DAX_HEADING)]
    emulate: bool,
}

/// How a pool is made, by a command that makes it if it is missing.
#[derive(clap::Args)]
pub struct MakeArgs {
    /// Bytes of a page of a new pool, for example 16k [default: 4k; with --dax: 2k]
    ///
    /// A power of two from 512 to 32k, or with --dax from 128 to 16k. A pool keeps the size that it was made
    /// with: another one is refused.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = MAKE_HEADING)]
    page_size: Option<u64>,
    /// The most bytes of pages that the pool may have, for example 2G [default: 256G]
    ///
    /// With --dax a new pool takes as many at once, so that this option is needed.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = MAKE_HEADING)]
    size: Option<u64>,
    /// How this command compresses the pages and large values that it writes; existing data stays as it is
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Compression::None, conflicts_with = "dax",
          help_heading = MAKE_HEADING)]
    compression: Compression,
}

/// How pages and large values are compressed before they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    /// Not at all
    None,
    /// As LZ4 blocks, if that saves an eighth
    Lz4,
}

impl From<Compression> for everleaf::Compression {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::None => everleaf::Compression::None,
            Compression::Lz4 => everleaf::Compression::Lz4,
        }
    }
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
        self.open(Options::new().create(false).read_only(true).memory(READER_MEMORY_BYTES))
    }

    /// Opens the pool to write to it. It must exist.
    pub fn open_to_write(&self) -> Result<Db> {
        self.open(Options::new().create(false))
    }

    /// Opens the pool to write to it, and makes it if it is missing.
    pub fn open_or_make(&self, options: Options, make: &MakeArgs) -> Result<Db> {
        let mut options = options.compression(make.compression.into());
        let is_there = std::fs::symlink_metadata(&self.pool).is_ok();
        match make.size {
            Some(bytes) => options = options.max_bytes(bytes),
            None if self.dax && !is_there => {
                let pool = self.pool.display();
                return Err(CommandError::Usage(format!(
                    "{pool}: a new pool on persistent memory takes all of its size at once: say --size"
                )));
            }
            None => {}
        }
        let Some(bytes) = make.page_size else { return self.open(options) };
        // A page size that is refused has changed nothing.
        if is_there {
            let stats = self.open_to_read()?.stats()?;
            let has = u64::from(if self.dax { stats.node_bytes } else { stats.page_bytes });
            if has != bytes {
                return Err(CommandError::Usage(format!(
                    "{}: the pool has pages of {}, and keeps them: --page-size {} is for a new pool",
                    self.pool.display(),
                    counted(has, "byte"),
                    grouped(bytes)
                )));
            }
        }
        // A larger number is no size of a page either.
        self.open(options.page_bytes(u32::try_from(bytes).unwrap_or(u32::MAX)))
    }

    /// Opens the pool as `options` say; names it in the failure.
    fn open(&self, mut options: Options) -> Result<Db> {
        if let Some(bytes) = self.memory {
            options = options.memory(bytes);
        }
        let storage = match (self.dax, self.emulate) {
            (true, true) => Storage::EmulatedDax,
            (true, false) => Storage::Dax,
            _ => Storage::File,
        };
        let opened = options.storage(storage).open(&self.pool);
        opened.map_err(|error| of_pool(&self.pool, error))
    }
}

/// Why a pool cannot be read or written, which names it.
pub fn of_pool(pool: &Path, error: everleaf::Error) -> CommandError {
    let path = pool.display().to_string();
    // Most say it themselves.
    let says = error.to_string().contains(&path);
    if says { CommandError::from(error) } else { CommandError::from(error).context(path) }
}

/// The tree called `name`, which must exist.
pub fn find(db: &Db, name: &str) -> Result<Tree> {
    db.open_tree(name)?.ok_or_else(|| missing(name))
}

/// There is no tree called `name`.
pub fn missing(name: &str) -> CommandError {
    CommandError::NotFound(format!("no tree is called \"{}\"", escaped(name.as_bytes())))
}

/// Refuses what no tree takes.
pub fn check_pair(key: &[u8], value: &[u8]) -> Result<()> {
    let (key_bytes, value_bytes) = (key.len() as u64, value.len() as u64);
    if key.len() > KEY_BYTES_MAX {
        let bytes_max = KEY_BYTES_MAX as u64;
        return Err(everleaf::Error::KeyTooLong { bytes: key_bytes, bytes_max }.into());
    }
    if value.len() > VALUE_BYTES_MAX {
        let bytes_max = VALUE_BYTES_MAX as u64;
        return Err(everleaf::Error::ValueTooLong { bytes: value_bytes, bytes_max }.into());
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_takes_as_much_memory_as_it_says() {
        let dir = tempfile::tempdir().unwrap();
        let pool = dir.path().join("p.ever");
        drop(Options::new().open(&pool).unwrap());
        let mut at = PoolArgs { pool, memory: None, dax: false, emulate: false };
        let most = |at: &PoolArgs| at.open_to_read().unwrap().stats().unwrap().memory.most_bytes;
        let by_default = most(&at);
        assert!((60 << 20..=READER_MEMORY_BYTES).contains(&by_default), "{by_default}");
        at.memory = Some(8 << 20);
        assert!((6 << 20..=8 << 20).contains(&most(&at)), "{}", most(&at));
    }
}
