//! Errors below the trees: the world's failures as values.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The result of a step on a medium.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a medium or of the pool on it. Its message says what failed and where; each variant says here what caused it
/// and what a program can do.
///
/// Where a variant says that nothing was changed, it speaks of a single operation. A call that is many operations, such as a
/// sorted load or the removal of a range, may have done a part of them, and a call that waits for the disk after its change
/// has made the change; each call says so. An error is cheap to clone, because a poisoned handle repeats its cause to each
/// caller.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Bytes are not what was written: the disk, another program or a cable has changed them. `offset` counts bytes from
    /// the start of `file`.
    ///
    /// The rest of the pool can still be read and written. List all damage with `Db::check` or `everleaf check`, and
    /// restore a backup, or copy what is sound with `everleaf salvage`. Trying again helps only if the disk reads
    /// differently the next time.
    #[error("corrupt {file} at byte {offset}: {what}")]
    Corrupt {
        /// Which file: `data`, or `memory` for media without a file.
        file: &'static str,
        /// Bytes from the start of the file.
        offset: u64,
        /// A description of what was expected and what was found.
        what: String,
    },
    /// The file is not a pool, or is one of a version or shape that this build cannot open. It was not touched.
    ///
    /// Check the path. Open a pool of another version with the build that wrote it, and copy it with `everleaf dump` and
    /// `everleaf load`. If it should be a pool of this version, its head is damaged: restore a backup or run
    /// `everleaf salvage`.
    #[error("{}not a usable pool: {what}", before(path))]
    Foreign {
        /// The file; empty where a layer says it that knows no files.
        path: PathBuf,
        /// A description of what does not fit.
        what: String,
    },
    /// The pool is open already, in another process or in this one. One writer, or any number of readers, may have it open.
    ///
    /// Close the other handle, or clone it instead of opening the pool twice. The lock ends with its process, so trying
    /// again a little later is reasonable when another process is about to end.
    #[error("{} is open in {}", path.display(), holder(*is_here))]
    Locked {
        /// The pool's path, or that of the file of it that is locked.
        path: PathBuf,
        /// Whether this process has it open; `None` if the system does not tell.
        is_here: Option<bool>,
    },
    /// A file has a name that the pool needs, and it is not the pool's. It was not touched.
    ///
    /// Move that file away, or give the pool another name.
    #[error("{} is in the way: {what}", path.display())]
    InTheWay {
        /// That file.
        path: PathBuf,
        /// A description of that file, and what can be done.
        what: String,
    },
    /// The pool has been closed or abandoned, by this handle or another one.
    ///
    /// Open it again and get new handles. Close a pool only after all threads that use it have ended.
    #[error("the pool has been closed")]
    Closed,
    /// The handle was made before this process was forked, and belongs to the parent. Nothing was done.
    ///
    /// Use the handle in the parent only. A child may open other pools, or this one after the parent has closed it.
    #[error("the pool was opened by another process, of which this is a fork")]
    Forked,
    /// The file is not on a DAX file system, so that what is stored through a mapping of it is lost
    /// in a power failure even after a flush.
    ///
    /// Put the pool on a file system that is mounted with DAX, or open it as an ordinary file. Emulate DAX only where
    /// nothing but crashes of the process matters, as in a test.
    #[error(
        "{} is not on a DAX file system: a power failure would lose acknowledged writes; \
         use `emulate` if only crashes of the process matter",
        path.display()
    )]
    NotDax {
        /// The pool's path.
        path: PathBuf,
    },
    /// The operating system refused or failed a call; `source` is its own error.
    ///
    /// If the disk is full (`StorageFull`, `QuotaExceeded` or `FileTooLarge`), the call has changed nothing, what was
    /// accepted before stays, deletes go on, and the same call works when there is room. A read that failed may be
    /// tried again. Any other failed write or sync of the pool stops all writes: that call and those after it return
    /// [`Poisoned`](Error::Poisoned). A full disk stops them, too, if it shows in a sync, at the superblock, or in the
    /// middle of a batch.
    #[error("{what}: {source}")]
    Io {
        /// The operation that was being done.
        what: String,
        /// The system's own error. It is a part of the message, and so no `Error::source`: a program that prints
        /// the chain of causes would print it twice.
        r#source: Arc<io::Error>,
    },
    /// The system gave no memory. Nothing was changed by the call that says so.
    ///
    /// Free memory and call again, or give the pool less: a smaller `Options::memory`, smaller batches, fewer snapshots.
    #[error("no memory for {what}: {} bytes", Grouped(*bytes as u64))]
    NoMemory {
        /// The purpose of the memory.
        what: &'static str,
        /// How much was asked for.
        bytes: usize,
    },
    /// A write or a sync failed, in this call or before it, or a change ended half-way. Writes have stopped for good;
    /// reads go on.
    ///
    /// See to the cause, then close the pool and open it again: everything that was reported durable is there. Before that,
    /// nothing tells which of the later writes are on disk.
    #[error("writes have stopped after an earlier failure: {cause}")]
    Poisoned {
        /// The failure that stopped them.
        cause: Arc<Error>,
    },
    /// The pool has as many bytes of pages as its limit allows, which each open sets. Nothing was changed.
    ///
    /// Delete data, whose space is used again, or open the pool with a larger `Options::max_bytes`.
    #[error("the pool is full: its limit is {} bytes", Grouped(*bytes))]
    Full {
        /// The limit in bytes, as it was asked for.
        bytes: u64,
    },
    /// The running epoch, which the program ends, has changed more bytes of pages than memory may hold, and no checkpoint
    /// could write them. Nothing was changed by the call that says so.
    ///
    /// `Db::checkpoint` says why. Or end the epoch with `Db::sync`, and call again; or give it up with `Db::abandon`. More `Options::memory` allows longer
    /// epochs.
    #[error(
        "an epoch that has not ended has changed {} bytes of pages, {} fit into memory: end it, or abandon it",
        Grouped(*bytes), Grouped(*bytes_max)
    )]
    EpochTooLarge {
        /// Bytes of pages that were changed and not written.
        bytes: u64,
        /// How many there may be.
        bytes_max: u64,
    },
    /// The memory for the old values that snapshots need was used up, and this snapshot was the oldest one; or the old value
    /// was larger than a quarter of that memory; or a tree was dropped, and there was no room to keep it for snapshots. A
    /// transaction that has read returns this, too.
    ///
    /// Take a new snapshot, or run the transaction again. Drop snapshots earlier, or allow more
    /// `Options::snapshot_memory`.
    #[error(
        "the snapshot is too old: what it sees was not kept, for which there are {} bytes of memory",
        Grouped(*bytes_max)
    )]
    SnapshotTooOld {
        /// How much memory there is for that.
        bytes_max: u64,
    },
    /// Others have changed something that a transaction has read, or has written, since its first read. Or others have changed
    /// the value of a key during each attempt to update it. Neither has changed anything itself.
    ///
    /// Run the whole transaction again, reads included, as `Db::transact` does by itself. If that has given up, make the
    /// transaction shorter, allow more `attempts`, and do not write outside of it what it has read.
    #[error(
        "tree {tree:?}: others have changed {} meanwhile; attempts: {}",
        KeyText(key), Grouped(*attempts)
    )]
    Conflict {
        // Three fields of whole words: with a shorter one all results were dearer to move, by 3 % of a read of a
        // transaction.
        /// The tree's name.
        tree: Box<str>,
        /// The key; of a range that was read, the first key in it that others have changed.
        key: Vec<u8>,
        /// How often it was tried: once, if the program commits it itself.
        attempts: u64,
    },
    /// A transaction that locks what it uses (`TransactionOptions::pessimistic`) wanted something
    /// that another one has locked, which waits for it in turn, or belongs to the same thread. It has no locks any more, and
    /// has changed nothing.
    ///
    /// Run the whole transaction again, as `Db::transact` does by itself. If that has given up, have all transactions use
    /// their keys in the same order.
    #[error("tree {tree:?}: the transaction that has locked {} waits for this one", KeyText(key))]
    Deadlock {
        /// The tree's name.
        tree: Box<str>,
        /// The key; of a range, where it begins.
        key: Vec<u8>,
    },
    /// Another thread was in the way of each attempt at a part of this call: it held a page, or changed what had been
    /// looked at. This comes after ten minutes at the least, and no working program has met it. The part was not done. If
    /// other parts of a batch or a commit were, writes stop, and later ones return [`Poisoned`](Error::Poisoned).
    ///
    /// Look for a thread that stands still in the middle of a call, in a debugger say, and call again when it goes on. If
    /// there is none, this is a fault of Everleaf: report it, with the stacks of all threads.
    #[error(
        "{what}: given up after {} attempts, for other threads were in the way each time",
        Grouped(*attempts)
    )]
    Stuck {
        /// The operation that was tried.
        what: &'static str,
        /// How often.
        attempts: u64,
    },
    /// A transaction, or a batch, would take more memory than one of them may. Nothing was changed by the
    /// call that says so, and the transaction or the batch is as it was.
    ///
    /// Commit what it has, and go on with another one, or allow more `Options::transaction_memory`.
    #[error(
        "a transaction or a batch would take {} bytes of memory, and may take {}: divide it",
        Grouped(*bytes), Grouped(*bytes_max)
    )]
    TransactionTooLarge {
        /// How much it would take.
        bytes: u64,
        /// How much it may take.
        bytes_max: u64,
    },
    /// The pool was opened read-only, and the call would write.
    ///
    /// Open it for writing, which needs that no other process has it open.
    #[error("the pool was opened read-only")]
    ReadOnly,
    /// The key is longer than a key may be. Nothing was changed.
    ///
    /// Shorten it: put what is long into the value, and a digest into the key.
    #[error("a key has 0 to {} bytes, this one has {}", Grouped(*bytes_max), Grouped(*bytes))]
    KeyTooLong {
        /// The key's length in bytes.
        bytes: u64,
        /// The longest that is allowed.
        bytes_max: u64,
    },
    /// A key does not hold what it was to be decoded to: it was made of another type or of a tuple of another length, was cut
    /// off or damaged, or was not made by `everleaf::keys`.
    ///
    /// Decode it to the type that it was made of. If a tree has keys of several kinds, let each begin with an element that
    /// tells its kind, and decode that one first.
    #[error("a key cannot be decoded at its byte {offset}: {what}")]
    KeyEncoding {
        /// The byte of the key, from 0 on; the key's length if it ends too early.
        offset: u64,
        /// A description of what was expected and what was found.
        what: String,
    },
    /// The value is longer than a value may be. Nothing was changed.
    ///
    /// Divide it into several pairs, as the example `blob_store` does.
    #[error("a value has 0 to {} bytes, this one has {}", Grouped(*bytes_max), Grouped(*bytes))]
    ValueTooLong {
        /// The value's length in bytes.
        bytes: u64,
        /// The longest that is allowed.
        bytes_max: u64,
    },
    /// The reader that a value was to come from failed. Nothing was changed.
    ///
    /// `source` is the reader's own error. Call again with a reader that begins anew.
    #[error("the reader of a value failed: {source}")]
    Reader {
        /// The reader's own error, as in [`Error::Io`].
        r#source: Arc<io::Error>,
    },
    /// The reader that a value was to come from ended before the value did. Nothing was changed.
    ///
    /// Give the length that the reader really has.
    #[error(
        "the reader ended after {} of the {} bytes of a value",
        Grouped(*bytes), Grouped(*bytes_expected)
    )]
    ReaderEnded {
        /// How many bytes it gave.
        bytes: u64,
        /// How many bytes the value was to have.
        bytes_expected: u64,
    },
    /// The key and the value together do not fit a page, and this medium has no other place for them. Nothing was changed.
    ///
    /// Shorten them, or make the pool anew with larger pages (`Options::page_bytes`).
    #[error(
        "key and value are too large for this pool: {} bytes, {} at most",
        Grouped(*bytes), Grouped(*bytes_max)
    )]
    RecordTooLong {
        /// The length of the record with its header, in bytes.
        bytes: u64,
        /// The longest that fits.
        bytes_max: u64,
    },
    /// The pairs of a sorted load do not ascend. Those before this one are in the tree.
    ///
    /// Sort the pairs, and leave out all but one of each key; or put them one by one.
    #[error(
        "pair {} of a sorted load has a key that is not above the one before it",
        Grouped(*position)
    )]
    NotAscending {
        /// The pair's position in what was to be loaded, from 0 on.
        position: u64,
    },
    /// The name of a tree is empty or too long. Nothing was changed.
    ///
    /// Choose another name.
    #[error(
        "the name of a tree has 1 to {} bytes, this one has {}",
        Grouped(*bytes_max as u64), Grouped(*bytes as u64)
    )]
    TreeName {
        /// The name's length in bytes.
        bytes: usize,
        /// The longest that is allowed.
        bytes_max: usize,
    },
    /// A tree has the name that another tree was to get. Nothing was changed.
    ///
    /// Choose another name, or drop the tree that has it first.
    #[error("a tree is called {name:?} already")]
    TreeExists {
        /// That name.
        name: String,
    },
    /// There is no such tree: it was dropped, or it was never made and this open may not make it.
    ///
    /// Ask `Db::tree` for a new handle; a tree of the same name that was made since is another one. A snapshot from before
    /// still reads what was dropped.
    #[error("there is no such tree: it was dropped, or never made")]
    NoTree,
    /// The tree belongs to another pool than the batch, the transaction or the snapshot that was to use it. Nothing was
    /// changed.
    ///
    /// Get the tree from the `Db` that the batch, the transaction or the snapshot comes from. Nothing is atomic across pools.
    #[error("tree {name:?} belongs to another pool than the batch, transaction or snapshot")]
    OtherPool {
        /// The tree's name.
        name: String,
    },
    /// Only an empty tree can be discarded, and this one holds entries or is the pool's first tree. A `Db` does not return
    /// this; the layer below it does.
    ///
    /// Remove the tree's entries first.
    #[error("only an empty tree can be discarded")]
    NotEmpty,
    /// The pool was opened for trees with nodes of another layout. A `Db` returns it for a pool that another program made
    /// with the layers below.
    ///
    /// Open the pool with the kind of tree that it was made for.
    #[error("a tree of {tree} in a pool that was opened for {pool}")]
    WrongLayout {
        /// The layout of the tree's nodes.
        tree: String,
        /// The layout that the pool was opened for.
        pool: String,
    },
    /// Something that was to be made is there already, or something that must be unused is in use. Nothing was changed.
    ///
    /// The message names it. End its other use, or choose another one.
    #[error("{what}")]
    InUse {
        /// A description of what is there.
        what: &'static str,
    },
    /// A file has a name that a new file was to get. It was not touched.
    ///
    /// Choose another name, or move that file away.
    #[error("{} {what}", path.display())]
    FileExists {
        /// That file.
        path: PathBuf,
        /// A description of that file, and what can be done.
        what: &'static str,
    },
    /// The call would wait for the epoch to end, and this thread is inside a batch, which keeps the
    /// epoch from ending. Nothing was waited for.
    ///
    /// End the batch first, or wait in another thread.
    #[error("nothing may be waited for inside a batch; end it first")]
    InsideBatch,
    /// A crash left work that recovery must do first.
    ///
    /// The message says what is left. Open the pool once for writing, which does it; a checkpoint waits for that, too.
    #[error("{what}")]
    Unrecovered {
        /// The work that is left to do, and who does it.
        what: String,
    },
    /// A step, a batch or a commit ended half-way, because it panicked or could not be undone. Writes
    /// have stopped, and return [`Poisoned`](Error::Poisoned) with this as the cause; reads go on.
    ///
    /// Close the pool and open it again: nothing of what ended half-way is there then. A panic is a defect: please report it.
    #[error("{what}")]
    Interrupted {
        /// The operation that ended half-way.
        what: &'static str,
    },
    /// The processor, the medium or the layout cannot do what was asked for. Nothing was changed.
    ///
    /// The message says what is missing. Use another medium, or do without: no later call will succeed.
    #[error("{what}")]
    Unsupported {
        /// A description of what cannot be done, and where.
        what: String,
    },
    /// An option is outside its limits, or contradicts another option or the pool. Nothing was opened.
    ///
    /// The message names the option's limits, or what it contradicts. Set it otherwise.
    #[error("{what}")]
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// Its value and its limits.
        what: String,
    },
    /// Another argument is outside its limits: a mistake of the program that calls. Nothing was changed.
    ///
    /// The message names the argument and its limits. Mend the call.
    #[error("{what}")]
    Invalid {
        /// Which argument, its value and its limits.
        what: String,
    },
}

// A result is moved through every call: no variant may make all of them larger.
const _: () = assert!(size_of::<Error>() <= 56);

/// A key for people.
struct KeyText<'k>(&'k [u8]);

/// A number for people, with commas between thousands.
pub struct Grouped(pub u64);

impl std::fmt::Display for Grouped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            n @ 0..1000 => write!(f, "{n}"),
            n => write!(f, "{},{:03}", Grouped(n / 1000), n % 1000),
        }
    }
}

impl std::fmt::Display for KeyText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (head, cut) = (&self.0[..self.0.len().min(64)], self.0.len() > 64);
        write!(f, "\"{}\"{}", head.escape_ascii(), if cut { " and so on" } else { "" })
    }
}

/// The one that has a pool open.
fn holder(is_here: Option<bool>) -> &'static str {
    match is_here {
        Some(true) => "this process already",
        Some(false) => "another process",
        None => "another process, or in this one",
    }
}

/// The name of a file before what is said of it, if it is known.
fn before(path: &Path) -> String {
    if path.as_os_str().is_empty() { String::new() } else { format!("{}: ", path.display()) }
}

impl Error {
    /// Returns the number of the variant: below 0, another one for each, and the same for ever. The C library returns it,
    /// and `docs/guide/c.md` lists all of them.
    pub const fn code(&self) -> i32 {
        match self {
            Error::Corrupt { .. } => -1,
            Error::Foreign { .. } => -2,
            Error::Locked { .. } => -3,
            Error::InTheWay { .. } => -4,
            Error::Closed => -5,
            Error::Forked => -6,
            Error::NotDax { .. } => -7,
            Error::Io { .. } => -8,
            Error::NoMemory { .. } => -9,
            Error::Poisoned { .. } => -10,
            Error::Full { .. } => -11,
            Error::EpochTooLarge { .. } => -12,
            Error::SnapshotTooOld { .. } => -13,
            Error::Conflict { .. } => -14,
            Error::Stuck { .. } => -15,
            Error::TransactionTooLarge { .. } => -16,
            Error::ReadOnly => -17,
            Error::KeyTooLong { .. } => -18,
            Error::KeyEncoding { .. } => -19,
            Error::ValueTooLong { .. } => -20,
            Error::Reader { .. } => -21,
            Error::ReaderEnded { .. } => -22,
            Error::RecordTooLong { .. } => -23,
            Error::NotAscending { .. } => -24,
            Error::TreeName { .. } => -25,
            Error::TreeExists { .. } => -26,
            Error::NoTree => -27,
            Error::OtherPool { .. } => -28,
            Error::NotEmpty => -29,
            Error::WrongLayout { .. } => -30,
            Error::InUse { .. } => -31,
            Error::FileExists { .. } => -32,
            Error::InsideBatch => -33,
            Error::Unrecovered { .. } => -34,
            Error::Interrupted { .. } => -35,
            Error::Unsupported { .. } => -36,
            Error::InvalidOption { .. } => -37,
            Error::Invalid { .. } => -38,
            Error::Deadlock { .. } => -39,
        }
    }

    /// An [`Error::Foreign`] whose file is still to be [said](Self::of).
    pub fn foreign(what: impl Into<String>) -> Self {
        Error::Foreign { path: PathBuf::new(), what: what.into() }
    }

    /// The same error, with the file's name if it lacks one.
    #[must_use]
    pub fn of(self, file: &Path) -> Self {
        match self {
            Error::Foreign { path, what } if path.as_os_str().is_empty() => {
                Error::Foreign { path: file.to_owned(), what }
            }
            other => other,
        }
    }

    /// An [`Error::Io`] that says what was being done.
    pub fn io(what: impl Into<String>, source: io::Error) -> Self {
        Error::Io { what: what.into(), source: Arc::new(source) }
    }

    /// An [`Error::Corrupt`] of the pool's file.
    pub fn corrupt(offset: u64, what: impl Into<String>) -> Self {
        Error::Corrupt { file: "data", offset, what: what.into() }
    }
}

#[cfg(test)]
mod tests {
    /// The first paragraph of a variant is the cause, and a second one says what to do.
    #[test]
    fn each_variant_says_what_a_program_can_do() {
        let source = include_str!("error.rs");
        let (_, variants) = source.split_once("pub enum Error {\n").expect("the enum");
        let (variants, _) = variants.split_once("\n}\n").expect("its end");
        let mut count = 0;
        for variant in variants.split("    #[error").collect::<Vec<_>>().windows(2) {
            let docs = variant[0].lines().filter(|line| line.starts_with("    ///"));
            let docs: Vec<_> = docs.collect();
            let name = variant[1].lines().find(|line| {
                line.starts_with("    ") && line.trim_start().starts_with(char::is_uppercase)
            });
            let paragraphs =
                docs.split(|line| *line == "    ///").filter(|lines| !lines.is_empty());
            assert!(paragraphs.count() >= 2, "{name:?} says not what to do: {docs:?}");
            count += 1;
        }
        assert!(count > 30, "{count} variants were found");
    }
}
