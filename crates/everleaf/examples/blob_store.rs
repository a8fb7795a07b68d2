//! Named blobs of any size, stored in chunks, with reference counts and a collector of garbage.
//!
//! ```sh
//! cargo run --release -p everleaf --example blob_store [POOL]
//! ```
//!
//! | tree      | key                                       | value                                      |
//! |-----------|-------------------------------------------|--------------------------------------------|
//! | `names`   | name                                      | the key of the blob                        |
//! | `blobs`   | the blob's number                         | the pair (length, count of names)          |
//! | `chunks`  | the pair (blob, offset)                   | up to 64 KiB                               |
//! | `uploads` | blob that is being uploaded; or nothing   | nothing; or the last number of a blob      |
//!
//! `everleaf::keys` encodes numbers and pairs in their order, in keys and here in values, too.
//!
//! One value may have 4 GiB, come from a reader (`Tree::put_from`) and be read in part (`Tree::read_at`),
//! but its length must be known before. Chunks are for blobs of any length, known or not, and bound the
//! memory of both sides, too. An upload writes its chunks first and then, in one transaction, the blob
//! and its name: readers and crashes see all of a blob or nothing. Chunks whose blob does not exist are
//! garbage, from an upload that did not end or from a blob whose last name is gone; `collect` removes
//! them. Copies share their chunks.

use std::error::Error;
use std::io::{Read, Write, stdout};
use std::path::Path;

use everleaf::{Bytes, Db, Transaction, Tree, keys};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const CHUNK: u64 = 64 << 10;

/// Where `uploads` has the last number of a blob.
const LAST: &str = "";

struct Blobs {
    db: Db,
    names: Tree,
    blobs: Tree,
    chunks: Tree,
    uploads: Tree,
}

impl Blobs {
    /// Opens the store. An upload that a crash cut off is no upload any more, so its chunks are garbage.
    fn open(path: &Path) -> Result<Blobs> {
        let db = Db::open(path)?;
        let [names, blobs, chunks, uploads] =
            [db.tree("names")?, db.tree("blobs")?, db.tree("chunks")?, db.tree("uploads")?];
        uploads.remove_range([0]..)?;
        Ok(Blobs { db, names, blobs, chunks, uploads })
    }

    /// Begins an upload: a number that no blob has had.
    fn begin(&self) -> Result<u64> {
        self.db.try_transact(|tx| {
            let last = tx.get(&self.uploads, LAST)?;
            let id = last.map_or(Ok(0), keys::decode::<u64>)? + 1;
            tx.put(&self.uploads, LAST, keys::encode(id))?;
            tx.put(&self.uploads, keys::encode(id), "")?;
            Ok(id)
        })
    }

    /// Stores what `data` gives under a name; a blob of that name is replaced. It is on disk when this
    /// returns. Returns its length.
    fn put(&self, name: &str, data: impl Read) -> Result<u64> {
        let id = self.begin()?;
        let written = self.write_chunks(id, data);
        let ended = self.db.try_transact(|tx| {
            tx.delete(&self.uploads, keys::encode(id))?;
            match &written {
                Ok(length) => self.give_name(tx, name, id, *length, 0),
                Err(_) => Ok(()),
            }
        });
        let length = written?;
        ended?;
        self.db.sync()?;
        Ok(length)
    }

    fn write_chunks(&self, id: u64, mut data: impl Read) -> Result<u64> {
        let mut length = 0;
        loop {
            let mut chunk = Vec::new();
            let bytes = data.by_ref().take(CHUNK).read_to_end(&mut chunk)?;
            if bytes == 0 {
                return Ok(length);
            }
            self.chunks.put(keys::encode((id, length)), chunk)?;
            length += bytes as u64;
        }
    }

    /// Gives a blob a second name: no chunk is copied.
    fn copy(&self, name: &str, to: &str) -> Result<()> {
        self.db.try_transact(|tx| {
            let stored = tx.get(&self.names, name)?.ok_or("no such blob")?;
            if tx.get(&self.names, to)?.as_ref() == Some(&stored) {
                return Ok(());
            }
            let id = keys::decode(&stored)?;
            let (length, names) = pair(tx.get(&self.blobs, &stored)?)?;
            self.give_name(tx, to, id, length, names)
        })
    }

    /// Removes a name. With its last name a blob is gone, and its chunks are garbage.
    fn remove(&self, name: &str) -> Result<()> {
        self.db.try_transact(|tx| self.take_name(tx, name))
    }

    /// Writes the bytes of a blob from `offset` on. A blob that is removed meanwhile is an error.
    fn read(&self, name: &str, offset: u64, mut to: impl Write) -> Result<()> {
        // A name and its blob appear at one moment for a snapshot alone.
        let then = self.db.snapshot()?;
        let name = then.of(&self.names)?.get(name)?;
        let id: u64 = keys::decode(name.ok_or("no such blob")?)?;
        let (length, _) = pair(then.of(&self.blobs)?.get(keys::encode(id))?)?;
        drop(then);
        let mut at = offset.min(length);
        let first = keys::encode((id, at - at % CHUNK));
        for pair in self.chunks.range(first..keys::encode(id + 1)) {
            let (key, chunk) = pair?;
            let (_, offset): (u64, u64) = keys::decode(key)?;
            let skip = at.wrapping_sub(offset) as usize;
            let bytes = chunk.get(skip..).ok_or("the blob was removed meanwhile")?;
            to.write_all(bytes)?;
            at += bytes.len() as u64;
        }
        if at < length { Err("the blob was removed meanwhile".into()) } else { Ok(()) }
    }

    /// Removes chunks of blobs that do not exist, at most `limit` of them; returns how many.
    fn collect(&self, limit: usize) -> Result<usize> {
        let (mut removed, mut from) = (0, 0);
        // One look at a blob's first chunk tells whether it is garbage; then on to the next blob.
        while let Some(key) = self.chunks.range(keys::encode(from)..).keys().next() {
            let (id, _): (u64, u64) = keys::decode(key?)?;
            from = id + 1;
            // An upload becomes a blob in one transaction, so a snapshot has it as one of the two.
            let now = self.db.snapshot()?;
            let key = keys::encode(id);
            if now.of(&self.uploads)?.contains(&key)? || now.of(&self.blobs)?.contains(key)? {
                continue;
            }
            // Garbage stays garbage: no number is given twice.
            let chunks = self.chunks.range(keys::starting_with(id)).keys();
            for key in chunks.take(limit - removed) {
                self.chunks.delete(key?)?;
                removed += 1;
            }
            if removed == limit {
                break;
            }
        }
        Ok(removed)
    }

    /// Gives a blob one name more than the `names` that it has.
    fn give_name(
        &self,
        tx: &Transaction,
        name: &str,
        id: u64,
        length: u64,
        names: u64,
    ) -> Result<()> {
        self.take_name(tx, name)?;
        tx.put(&self.blobs, keys::encode(id), keys::encode((length, names + 1)))?;
        Ok(tx.put(&self.names, name, keys::encode(id))?)
    }

    /// Removes a name, if it is there.
    fn take_name(&self, tx: &Transaction, name: &str) -> Result<()> {
        let Some(stored) = tx.remove(&self.names, name)? else { return Ok(()) };
        match pair(tx.get(&self.blobs, &stored)?)? {
            (_, 1) => tx.delete(&self.blobs, &stored)?,
            (length, names) => tx.put(&self.blobs, &stored, keys::encode((length, names - 1)))?,
        }
        Ok(())
    }
}

/// Length and names of a blob.
fn pair(stored: Option<Bytes>) -> Result<(u64, u64)> {
    Ok(keys::decode(stored.ok_or("the blob was removed meanwhile")?)?)
}

/// The program: a blob of 3 MB with two names, a replaced one, an upload that breaks off.
pub fn run(path: &Path) -> Result<()> {
    let bytes: Vec<u8> =
        (0..3_000_001_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let chunks = |bytes: u64| bytes.div_ceil(CHUNK) as usize;
    let store = Blobs::open(path)?;
    store.put("film", bytes.as_slice())?;
    store.put("note", &b"first"[..])?;
    store.put("note", &b"second"[..])?; // The chunk of "first" is garbage now.
    store.put("empty", &b""[..])?;
    store.copy("film", "copy")?;
    store.copy("film", "copy")?;

    let read = |name: &str, offset: u64| -> Result<Vec<u8>> {
        let mut to = Vec::new();
        store.read(name, offset, &mut to)?;
        Ok(to)
    };
    assert!(read("copy", 0)? == bytes && read("film", 2_000_000)? == bytes[2_000_000..]);
    assert!(read("note", 0)? == b"second" && read("empty", 0)? == b"" && read("none", 0).is_err());

    // The process dies in the middle of an upload: 1 MB is written, and no name leads to it.
    store.write_chunks(store.begin()?, bytes[..1_000_000].as_ref())?;
    store.db.sync()?;
    drop(store);

    let store = Blobs::open(path)?;
    let mut removed = 0;
    while store.collect(10)? == 10 {
        removed += 10; // In small steps, between which others may work.
    }
    removed += store.collect(10)?;
    assert!(removed >= 10, "{removed}");
    let mut to = Vec::new();
    store.remove("film")?;
    assert_eq!(store.collect(1000)?, 0, "the copy still has all chunks");
    store.read("copy", 0, &mut to)?;
    assert!(to == bytes);
    store.remove("copy")?;
    assert_eq!(store.collect(1000)?, chunks(3_000_001));
    assert_eq!(store.chunks.iter().count(), 1, "the note is left");
    writeln!(
        stdout(),
        "{} blobs are left; their chunks are {}",
        store.blobs.iter().count(),
        store.chunks.iter().count()
    )?;
    Ok(store.db.close()?)
}

/// Runs in the pool that is named, or in one that is removed at the end.
fn main() -> Result<()> {
    match std::env::args_os().nth(1) {
        Some(path) => run(path.as_ref()),
        None => run(&tempfile::tempdir()?.path().join("blobs.ever")),
    }
}
