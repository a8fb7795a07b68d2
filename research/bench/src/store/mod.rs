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
#[cfg(feature = "sqlite")]
mod sqlite;
mod transact;

use anyhow::{Context, Result, bail, ensure};

pub use api::{How, KvCursor, KvStore, SyncMode};
pub use meter::{Disk, Meter};
pub use transact::{Access, Transaction, Transactional};

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
    /// How its transactions are kept apart, in which all else is as where it is buffered; nothing if they
    /// are not measured.
    transactions: &'static str,
}

const KNOWN: [Known; 14] = [
    Known {
        name: "everleaf-index",
        feature: None,
        package: "everleaf-tree",
        words: true,
        volatile: false,
        buffered: "CircTree on a file, epochs of 10 ms, nodes of 256 slots, journal 256 MiB, batch = \
                   one epoch; a loss of power takes the last epochs whole",
        synced: "as buffered; each operation waits until its epoch is durable",
        transactions: "",
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
        transactions: "optimistic: what was read is looked at again at the commit; also those that only read",
    },
    Known {
        name: "btreemap",
        feature: None,
        package: "",
        words: false,
        volatile: true,
        buffered: "std's BTreeMap of byte vectors behind a RwLock; nothing outlives the process",
        synced: "",
        transactions: "",
    },
    Known {
        name: "lmdb",
        feature: Some("lmdb"),
        package: "lmdb-rkv-sys",
        words: false,
        volatile: false,
        buffered: "LMDB 0.9.24, NOSYNC, map of 16 GiB; a loss of power can corrupt all of it",
        synced: "LMDB 0.9.24, no flags: each commit is synced; map of 16 GiB",
        transactions: "one writer at a time; those that only read see a moment",
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
        transactions: "one writer at a time; those that only read see a moment",
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
        transactions: "one writer at a time; those that only read see a moment",
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
        transactions: "OptimisticTxDatabase: what was read is looked at again at the commit, which hands \
                       the journal to the system; those that only read see a moment",
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
        transactions: "OptimisticTransactionDB, reads by get_for_update: what was read or is written is \
                       looked at again at the commit; those that only read see a moment",
    },
    Known {
        name: "sled",
        feature: Some("sled"),
        package: "sled",
        words: false,
        volatile: false,
        buffered: "flush_every_ms 500, cache 4 GiB; a loss of power takes what came after the last flush",
        synced: "as buffered; flush() after each operation, which writes and does not flush the device",
        transactions: "",
    },
    Known {
        name: "sqlite",
        feature: Some("sqlite"),
        package: "libsqlite3-sys",
        words: false,
        volatile: false,
        buffered: "the SQLite 3.54.1 that the crate bundles, WAL, synchronous=NORMAL: checkpoints \
                   sync, and commits do not; a table WITHOUT ROWID; statements are prepared once; cache \
                   4 GiB of each connection; threads that write wait for a mutex of ours and not for the \
                   busy handler, which sleeps; a loss of power takes what came after the last \
                   checkpoint, of 1,000 pages each",
        synced: "as buffered; synchronous=FULL",
        transactions: "BEGIN IMMEDIATE, so one writer at a time; those that only read see a moment",
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
        transactions: "",
    },
    Known {
        name: "skipmap",
        feature: Some("maps"),
        package: "crossbeam-skiplist",
        words: true,
        volatile: true,
        buffered: "SkipMap of u64; nothing outlives the process",
        synced: "",
        transactions: "",
    },
    Known {
        name: "congee",
        feature: Some("maps"),
        package: "congee",
        words: true,
        volatile: true,
        buffered: "U64Congee; nothing outlives the process",
        synced: "",
        transactions: "",
    },
    Known {
        name: "scc",
        feature: Some("maps"),
        package: "scc",
        words: true,
        volatile: true,
        buffered: "TreeIndex of u64; nothing outlives the process",
        synced: "",
        transactions: "",
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

/// Whether there is such a store, and whether its transactions can be measured.
///
/// # Errors
/// It is not, or cannot.
pub fn check_transactions(name: &str) -> Result<()> {
    ensure!(!known(name)?.transactions.is_empty(), "the transactions of {name} are not measured");
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

/// The longest key that a store takes; more than any experiment has where it takes such.
pub fn longest_key(name: &str) -> usize {
    match name {
        "bf-tree" => 64,
        "lmdb" | "lmdb-writemap" => 511,
        _ => usize::MAX,
    }
}

/// Whether a store can be [scanned backwards](KvStore::scan_back).
pub fn goes_back(name: &str) -> bool {
    known(name).is_ok_and(|known| !known.words && name != "bf-tree")
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

/// The version of a store, how it is set, and how its transactions are kept apart.
///
/// # Errors
/// As [`check_transactions`].
pub fn transaction_settings(name: &str) -> Result<String> {
    check_transactions(name)?;
    Ok(format!("{}; {}", settings(name, SyncMode::Buffered)?, known(name)?.transactions))
}

/// The version of a package that this program is built with.
fn version(package: &str) -> Option<&'static str> {
    let lock = include_str!("../../../../Cargo.lock");
    let (_, entry) = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?;
    entry.split('"').next()
}

/// The features that stores need, and whether this program was built with them.
const FEATURES: [(&str, bool); 8] = [
    ("bf-tree", cfg!(feature = "bf-tree")),
    ("fjall", cfg!(feature = "fjall")),
    ("lmdb", cfg!(feature = "lmdb")),
    ("maps", cfg!(feature = "maps")),
    ("redb", cfg!(feature = "redb")),
    ("rocksdb", cfg!(feature = "rocksdb")),
    ("sled", cfg!(feature = "sled")),
    ("sqlite", cfg!(feature = "sqlite")),
];

fn is_built(feature: &str) -> bool {
    FEATURES.contains(&(feature, true))
}

/// Checks that this program was built with what a store needs.
fn expect_built(name: &str) -> Result<()> {
    match lacks(name) {
        Some(lacks) => bail!("{name}: {lacks}"),
        None => Ok(()),
    }
}

/// Opens a store; makes it if its folder is empty.
///
/// # Errors
/// There is no such store, the program was built without it, or it fails.
pub fn open(name: &str, how: &How) -> Result<Box<dyn KvStore>> {
    check(name, how.mode)?;
    expect_built(name)?;
    open_pairs(name, how).with_context(|| format!("open {name}"))
}

fn open_pairs(name: &str, how: &How) -> Result<Box<dyn KvStore>> {
    match name {
        "everleaf-index" => everleaf::WordStore::open(how),
        "everleaf" => Ok(Box::new(everleaf::StringStore::open(how)?)),
        "btreemap" => Ok(Box::new(map::ByteMap::default())),
        #[cfg(feature = "bf-tree")]
        "bf-tree" => bf_tree::Bf::open(),
        #[cfg(feature = "fjall")]
        "fjall" => fjall::Fjall::open(how),
        #[cfg(feature = "lmdb")]
        "lmdb" => Ok(Box::new(lmdb::Lmdb::open(how, false)?)),
        #[cfg(feature = "lmdb")]
        "lmdb-writemap" => Ok(Box::new(lmdb::Lmdb::open(how, true)?)),
        #[cfg(feature = "redb")]
        "redb" => Ok(Box::new(redb::Redb::open(how)?)),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => rocksdb::Rocks::open(how),
        #[cfg(feature = "sled")]
        "sled" => sled::Sled::open(how),
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Box::new(sqlite::Sqlite::open(how)?)),
        #[cfg(feature = "maps")]
        "congee" => Ok(Box::new(maps::Radix::default())),
        #[cfg(feature = "maps")]
        "scc" => Ok(Box::new(maps::Plus::default())),
        #[cfg(feature = "maps")]
        "skipmap" => Ok(Box::new(maps::Skip::default())),
        _ => bail!("{name} cannot be opened"),
    }
}

/// Opens a store for transactions; makes it if its folder is empty.
///
/// # Errors
/// As [`open`], or its transactions are not measured.
pub fn open_transactional(name: &str, how: &How) -> Result<Box<dyn Transactional>> {
    check_transactions(name)?;
    check(name, how.mode)?;
    expect_built(name)?;
    open_transactions(name, how).with_context(|| format!("open {name} for transactions"))
}

fn open_transactions(name: &str, how: &How) -> Result<Box<dyn Transactional>> {
    Ok(match name {
        "everleaf" => Box::new(everleaf::StringStore::open(how)?),
        #[cfg(feature = "fjall")]
        "fjall" => Box::new(fjall::FjallTransactions::open(how)?),
        #[cfg(feature = "lmdb")]
        "lmdb" => Box::new(lmdb::Lmdb::open(how, false)?),
        #[cfg(feature = "lmdb")]
        "lmdb-writemap" => Box::new(lmdb::Lmdb::open(how, true)?),
        #[cfg(feature = "redb")]
        "redb" => Box::new(redb::Redb::open(how)?),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Box::new(rocksdb::RocksTransactions::open(how)?),
        #[cfg(feature = "sqlite")]
        "sqlite" => Box::new(sqlite::Sqlite::open(how)?),
        _ => bail!("{name} cannot be opened"),
    })
}

#[cfg(test)]
mod tests;
