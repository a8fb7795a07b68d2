//! Ordered stores of byte strings by name: Everleaf's own, std's map, and, each behind a feature, the
//! stores that programs embed.
//!
//! All do the same work through [`Store`], in one process and in turns. Each is set to the fastest
//! mode that survives a crash of the process and a loss of power as well as it can without a sync in
//! each operation ([`Mode::Buffered`]), or with one ([`Mode::SyncEach`]); [`settings`] says what that
//! is, and what is lost.

mod everleaf;
mod map;

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// An ordered map from byte strings to byte strings. Any number of threads use it at once.
pub trait Store: Send + Sync {
    /// Sets the value of a key.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Sets all of them in one transaction or batch.
    fn put_all(&self, pairs: &[(Vec<u8>, Vec<u8>)]) -> Result<()>;

    /// Shows the value of a key to `read`; returns whether it is there.
    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Removes a key. Returns whether it was there if the store can tell without another read, else
    /// true.
    fn remove(&self, key: &[u8]) -> Result<bool>;

    /// Shows up to `limit` pairs from a key on, ascending; returns how many.
    fn scan(&self, from: &[u8], limit: usize, each: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize>;

    /// Makes durable all that was done so far.
    fn sync(&self) -> Result<()>;

    /// Closes it as a program does that ends well.
    fn close(self: Box<Self>) -> Result<()>;
}

/// When an operation is durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Some time after it returned.
    #[default]
    Buffered,
    /// When it returns.
    SyncEach,
}

/// What a store is opened with.
#[derive(Debug, Clone)]
pub struct How {
    /// A folder of its own; what is there is opened again.
    pub dir: PathBuf,
    /// When operations are durable.
    pub mode: Mode,
    /// The most keys that it will hold.
    pub keys: u64,
    /// Bytes of a key and its value.
    pub pair_bytes: u64,
}

/// What a store may keep in memory: more than any experiment has, so that nothing is read from disk.
pub const CACHE_BYTES: u64 = 4 << 30;

/// One store, whether or not this program was built with it.
struct Known {
    name: &'static str,
    /// The feature that it needs.
    feature: Option<&'static str>,
    /// The package whose version is that of the store.
    package: &'static str,
    /// Whether keys and values are words of 8 bytes.
    words: bool,
    /// Whether it is gone with the process.
    volatile: bool,
    /// How it is set, buffered, and what a loss of power takes then.
    buffered: &'static str,
    /// How it is set to be durable by the end of each operation; nothing if it is not measured so.
    synced: &'static str,
}

const KNOWN: [Known; 3] = [
    Known {
        name: "everleaf-index",
        feature: None,
        package: "everleaf-tree",
        words: true,
        volatile: false,
        buffered: "CircTree on a file, epochs of 10 ms, nodes of 256 slots, journal 256 MiB, batch = \
                   one epoch; a loss of power takes the last epochs whole",
        synced: "as buffered; each operation waits until its epoch is durable",
    },
    Known {
        name: "everleaf",
        feature: None,
        package: "everleaf",
        words: false,
        volatile: false,
        buffered: "one tree of byte strings, defaults: epochs of 10 ms, nodes of 128 slots, journal \
                   256 MiB; a loss of power takes the last epochs whole",
        synced: "as buffered; Durability::Sync for each operation",
    },
    Known {
        name: "btreemap",
        feature: None,
        package: "",
        words: false,
        volatile: true,
        buffered: "std's BTreeMap of byte vectors behind a RwLock; nothing outlives the process",
        synced: "",
    },
];

fn known(name: &str) -> Result<&'static Known> {
    let found = KNOWN.iter().find(|known| known.name == name);
    let names = || KNOWN.map(|known| known.name).join(", ");
    found.with_context(|| format!("no store is called {name:?}: {}", names()))
}

/// Whether there is such a store, and whether it can be set so.
///
/// # Errors
/// It is not, or cannot.
pub fn check(name: &str, mode: Mode) -> Result<()> {
    let known = known(name)?;
    ensure!(
        mode == Mode::Buffered || !known.synced.is_empty(),
        "{name} is not measured with a sync in each operation"
    );
    Ok(())
}

/// The feature that this program was built without and that a store needs.
pub fn lacks(name: &str) -> Option<String> {
    let feature = known(name).ok()?.feature?;
    (!is_built(feature)).then(|| format!("built without the feature {feature}"))
}

/// Whether a store takes words of 8 bytes only, as keys and values.
pub fn has_words_only(name: &str) -> bool {
    known(name).is_ok_and(|known| known.words)
}

/// Whether nothing of a store outlives the process.
pub fn is_volatile(name: &str) -> bool {
    known(name).is_ok_and(|known| known.volatile)
}

/// The version of a store and how it is set.
///
/// # Errors
/// As [`check`].
pub fn settings(name: &str, mode: Mode) -> Result<String> {
    check(name, mode)?;
    let known = known(name)?;
    let text = match mode {
        Mode::Buffered => known.buffered,
        Mode::SyncEach => known.synced,
    };
    Ok(match version(known.package) {
        Some(version) => format!("{} {version}: {text}", known.package),
        None => text.to_string(),
    })
}

/// The version of a package that this program is built with.
fn version(package: &str) -> Option<&'static str> {
    let lock = include_str!("../../../../Cargo.lock");
    let (_, entry) = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?;
    entry.split('"').next()
}

fn is_built(_feature: &str) -> bool {
    false
}

/// Opens a store; makes it if its folder is empty.
///
/// # Errors
/// There is no such store, the program was built without it, or it fails.
pub fn open(name: &str, how: &How) -> Result<Box<dyn Store>> {
    check(name, how.mode)?;
    if let Some(lacks) = lacks(name) {
        bail!("{name}: {lacks}");
    }
    let opened = match name {
        "everleaf-index" => everleaf::Words::open(how),
        "everleaf" => everleaf::Strings::open(how),
        "btreemap" => Ok(Box::new(map::Map::default()) as Box<dyn Store>),
        _ => bail!("{name} cannot be opened"),
    };
    opened.with_context(|| format!("open {name}"))
}

/// Eight bytes as a number that orders as they do.
fn word(bytes: &[u8]) -> Result<u64> {
    let bytes = bytes.try_into().with_context(|| format!("{} bytes, not 8", bytes.len()))?;
    Ok(u64::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests;
