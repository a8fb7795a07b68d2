//! Ordered stores of byte strings by name: Everleaf's own, std's map, and, each behind a feature, the
//! stores that programs embed.
//!
//! All do the same work through [`KvStore`], in one process and in turns. Each is set to the fastest
//! mode that survives a crash of the process and a loss of power as well as it can without a sync in
//! each operation ([`SyncMode::Buffered`]), or with one ([`SyncMode::SyncEach`]); [`settings`] says what that
//! is, and what is lost.

mod api;
#[cfg(feature = "bf-tree")]
mod bf_tree;
mod everleaf;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "lmdb")]
mod lmdb;
mod map;
#[cfg(feature = "maps")]
mod maps;
mod meter;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "sled")]
mod sled;

use anyhow::{Context, Result, bail, ensure};

pub use api::{How, KvCursor, KvStore, SyncMode};
pub use meter::{Disk, Meter};

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

const KNOWN: [Known; 13] = [
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
        buffered: "one tree of byte strings, defaults: epochs of 10 ms, journal 256 MiB; a loss of \
                   power takes the last epochs whole",
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
    Known {
        name: "lmdb",
        feature: Some("lmdb"),
        package: "lmdb-rkv-sys",
        words: false,
        volatile: false,
        buffered: "LMDB 0.9.24, NOSYNC, map of 16 GiB; a loss of power can corrupt all of it",
        synced: "LMDB 0.9.24, no flags: each commit is synced; map of 16 GiB",
    },
    Known {
        name: "lmdb-writemap",
        feature: Some("lmdb"),
        package: "lmdb-rkv-sys",
        words: false,
        volatile: false,
        buffered: "LMDB 0.9.24, NOSYNC and WRITEMAP, map of 16 GiB; a loss of power can corrupt all of \
                   it, and so can a stray write of the program",
        synced: "",
    },
    Known {
        name: "redb",
        feature: Some("redb"),
        package: "redb",
        words: false,
        volatile: false,
        buffered: "Durability::None, the first commit after 500 ms is Immediate, cache 4 GiB; a loss of \
                   power takes what came after the last of those",
        synced: "Durability::Immediate, cache 4 GiB",
    },
    Known {
        name: "fjall",
        feature: Some("fjall"),
        package: "fjall",
        words: false,
        volatile: false,
        buffered: "defaults: the journal is written by each operation and not synced; cache 4 GiB; a \
                   loss of power takes an end of the journal of no stated length",
        synced: "as buffered; persist(SyncData) after each operation",
    },
    Known {
        name: "rocksdb",
        feature: Some("rocksdb"),
        package: "librocksdb-sys",
        words: false,
        volatile: false,
        buffered: "the log is written by each operation and not synced; cache 4 GiB, Bloom filters of \
                   10 bits, LZ4, 2 background threads; a loss of power takes an end of the log of no \
                   stated length",
        synced: "as buffered; WriteOptions::sync",
    },
    Known {
        name: "sled",
        feature: Some("sled"),
        package: "sled",
        words: false,
        volatile: false,
        buffered: "flush_every_ms 500, cache 4 GiB; a loss of power takes what came after the last flush",
        synced: "as buffered; flush() after each operation, which writes and does not flush the device",
    },
    Known {
        name: "bf-tree",
        feature: Some("bf-tree"),
        package: "bf-tree",
        words: false,
        volatile: true,
        buffered: "in memory, pages of 4 KiB, buffer of 1 GiB, no write-ahead log, which would have each \
                   write wait for a flush; nothing outlives the process",
        synced: "",
    },
    Known {
        name: "skipmap",
        feature: Some("maps"),
        package: "crossbeam-skiplist",
        words: true,
        volatile: true,
        buffered: "SkipMap of u64; nothing outlives the process",
        synced: "",
    },
    Known {
        name: "congee",
        feature: Some("maps"),
        package: "congee",
        words: true,
        volatile: true,
        buffered: "U64Congee; nothing outlives the process",
        synced: "",
    },
    Known {
        name: "scc",
        feature: Some("maps"),
        package: "scc",
        words: true,
        volatile: true,
        buffered: "TreeIndex of u64; nothing outlives the process",
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
pub fn check(name: &str, mode: SyncMode) -> Result<()> {
    let known = known(name)?;
    ensure!(
        mode == SyncMode::Buffered || !known.synced.is_empty(),
        "{name} is not measured with a sync in each operation"
    );
    Ok(())
}

/// Checks that a store keeps such pairs on disk.
pub fn check_pairs(name: &str, keys: u64, value_bytes: usize) -> Result<()> {
    check(name, SyncMode::Buffered)?;
    ensure!(!is_volatile(name), "{name} is not on disk");
    ensure!(!has_words_only(name), "{name} has words only");
    ensure!(keys > 0 && value_bytes >= 8, "no keys, or values of less than 8 bytes");
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
pub fn settings(name: &str, mode: SyncMode) -> Result<String> {
    check(name, mode)?;
    let known = known(name)?;
    let text = match mode {
        SyncMode::Buffered => known.buffered,
        SyncMode::SyncEach => known.synced,
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

/// The features that stores need, and whether this program was built with them.
const FEATURES: [(&str, bool); 7] = [
    ("bf-tree", cfg!(feature = "bf-tree")),
    ("fjall", cfg!(feature = "fjall")),
    ("lmdb", cfg!(feature = "lmdb")),
    ("maps", cfg!(feature = "maps")),
    ("redb", cfg!(feature = "redb")),
    ("rocksdb", cfg!(feature = "rocksdb")),
    ("sled", cfg!(feature = "sled")),
];

fn is_built(feature: &str) -> bool {
    FEATURES.contains(&(feature, true))
}

/// Opens a store; makes it if its folder is empty.
///
/// # Errors
/// There is no such store, the program was built without it, or it fails.
pub fn open(name: &str, how: &How) -> Result<Box<dyn KvStore>> {
    check(name, how.mode)?;
    if let Some(lacks) = lacks(name) {
        bail!("{name}: {lacks}");
    }
    let opened: Result<Box<dyn KvStore>> = match name {
        "everleaf-index" => everleaf::WordStore::open(how),
        "everleaf" => everleaf::StringStore::open(how),
        "btreemap" => Ok(Box::new(map::ByteMap::default())),
        #[cfg(feature = "bf-tree")]
        "bf-tree" => bf_tree::Bf::open(),
        #[cfg(feature = "fjall")]
        "fjall" => fjall::Fjall::open(how),
        #[cfg(feature = "lmdb")]
        "lmdb" => lmdb::Lmdb::open(how, false),
        #[cfg(feature = "lmdb")]
        "lmdb-writemap" => lmdb::Lmdb::open(how, true),
        #[cfg(feature = "redb")]
        "redb" => redb::Redb::open(how),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => rocksdb::Rocks::open(how),
        #[cfg(feature = "sled")]
        "sled" => sled::Sled::open(how),
        #[cfg(feature = "maps")]
        "congee" => Ok(Box::new(maps::Radix::default())),
        #[cfg(feature = "maps")]
        "scc" => Ok(Box::new(maps::Plus::default())),
        #[cfg(feature = "maps")]
        "skipmap" => Ok(Box::new(maps::Skip::default())),
        _ => bail!("{name} cannot be opened"),
    };
    opened.with_context(|| format!("open {name}"))
}

#[cfg(test)]
mod tests;
