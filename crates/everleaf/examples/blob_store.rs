//! Named blobs of any size, stored in chunks, with reference counts and a collector of garbage.
//!
//! ```sh
//! cargo run --release -p everleaf --example blob_store [POOL]
//! ```
//!
//! | tree     | key                                       | value                                      |
//! |----------|-------------------------------------------|--------------------------------------------|
//! | `names`  | name                                      | blob (8 bytes)                             |
//! | `blobs`  | blob (8 bytes, big-endian)                | length (8 bytes), count of names (8 bytes) |
//! | `chunks` | blob, offset (8 + 8 bytes, big-endian)    | up to 64 KiB                               |
//!
//! One value may have 4 GiB, come from a reader (`Tree::put_from`) and be read in part (`Tree::read_at`),
//! but its length must be known before. Chunks are for blobs of any length, known or not, and bound the
//! memory of both sides, too. An upload writes its chunks first and then, in one batch, the blob
//! and its name: readers and crashes see all of a blob or nothing. Chunks whose blob does not exist are
//! garbage, from an upload that did not end or from a blob whose last name is gone; `collect` removes
//! them. Copies share their chunks.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use everleaf::{Batch, Db, Tree};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const CHUNK: u64 = 64 << 10;

struct Blobs {
    db: Db,
    names: Tree,
    blobs: Tree,
    chunks: Tree,
    state: Mutex<State>,
}

/// Whoever changes names and counts holds the lock of this.
struct State {
    next: u64,
    /// Blobs that are being uploaded: no garbage, though they do not exist yet.
    uploads: BTreeSet<u64>,
}

impl Blobs {
    fn open(path: &Path) -> Result<Blobs> {
        let db = Db::open(path)?;
        let (names, blobs, chunks) = (db.tree("names")?, db.tree("blobs")?, db.tree("chunks")?);
        let mut next = 1;
        for tree in [&blobs, &chunks] {
            if let Some((key, _)) = tree.last()? {
                next = next.max(number(&key[..8])? + 1);
            }
        }
        let state = Mutex::new(State { next, uploads: BTreeSet::new() });
        Ok(Blobs { db, names, blobs, chunks, state })
    }

    /// Stores what `data` gives under a name; a blob of that name is replaced. It is on disk when this
    /// returns. Returns its length.
    fn put(&self, name: &str, data: impl Read) -> Result<u64> {
        let mut state = self.lock();
        let id = state.next;
        state.next += 1;
        state.uploads.insert(id);
        drop(state); // Uploads run side by side.
        let written = self.write_chunks(id, data);
        let mut state = self.lock();
        state.uploads.remove(&id);
        let length = written?;
        self.give_name(name, id, length, 0)?;
        drop(state);
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
            self.chunks.put(chunk_key(id, length), chunk)?;
            length += bytes as u64;
        }
    }

    /// Gives a blob a second name: no chunk is copied.
    fn copy(&self, name: &str, to: &str) -> Result<()> {
        let _lock = self.lock();
        let stored = self.names.get(name)?.ok_or("no such blob")?;
        if self.names.get(to)?.as_ref() == Some(&stored) {
            return Ok(());
        }
        let id = number(&stored)?;
        let (length, names) = self.blob(id)?;
        self.give_name(to, id, length, names)
    }

    /// Removes a name. With its last name a blob is gone, and its chunks are garbage.
    fn remove(&self, name: &str) -> Result<()> {
        let _lock = self.lock();
        let mut batch = self.db.batch();
        self.take_name(&mut batch, name)?;
        Ok(batch.commit()?)
    }

    /// Writes the bytes of a blob from `offset` on. A blob that is removed meanwhile is an error.
    fn read(&self, name: &str, offset: u64, mut to: impl Write) -> Result<()> {
        let id = number(&self.names.get(name)?.ok_or("no such blob")?)?;
        let (length, _) = self.blob(id)?;
        let mut at = offset.min(length);
        let first = chunk_key(id, at - at % CHUNK);
        for pair in self.chunks.range(first..chunk_key(id + 1, 0)) {
            let (key, chunk) = pair?;
            let skip = at.wrapping_sub(number(&key[8..])?) as usize;
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
        while let Some(pair) = self.chunks.range(chunk_key(from, 0)..).next() {
            let id = number(&pair?.0[..8])?;
            from = id + 1;
            let state = self.lock();
            if state.uploads.contains(&id) || self.blobs.contains(id.to_be_bytes())? {
                continue;
            }
            drop(state); // What is garbage now stays garbage: no number is given twice.
            for pair in self.chunks.prefix(id.to_be_bytes()).take(limit - removed) {
                self.chunks.delete(pair?.0)?;
                removed += 1;
            }
            if removed == limit {
                break;
            }
        }
        Ok(removed)
    }

    fn blob(&self, id: u64) -> Result<(u64, u64)> {
        let stored = self.blobs.get(id.to_be_bytes())?.ok_or("the blob was removed meanwhile")?;
        Ok((number(&stored[..8])?, number(&stored[8..])?))
    }

    /// Gives a blob one name more than the `names` that it has. The caller holds the lock.
    fn give_name(&self, name: &str, id: u64, length: u64, names: u64) -> Result<()> {
        let mut batch = self.db.batch();
        self.take_name(&mut batch, name)?;
        batch.insert(&self.blobs, id.to_be_bytes(), pair_of(length, names + 1))?;
        batch.insert(&self.names, name, id.to_be_bytes())?;
        Ok(batch.commit()?)
    }

    /// Adds to the batch what removes a name; false if there is none. The caller holds the lock.
    fn take_name(&self, batch: &mut Batch, name: &str) -> Result<bool> {
        let Some(stored) = self.names.get(name)? else { return Ok(false) };
        let (length, names) = self.blob(number(&stored)?)?;
        match names {
            1 => batch.remove(&self.blobs, &stored)?,
            _ => batch.insert(&self.blobs, &stored, pair_of(length, names - 1))?,
        }
        batch.remove(&self.names, name)?;
        Ok(true)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panicked")
    }
}

fn pair_of(a: u64, b: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&a.to_be_bytes());
    bytes[8..].copy_from_slice(&b.to_be_bytes());
    bytes
}

fn chunk_key(id: u64, offset: u64) -> [u8; 16] {
    pair_of(id, offset)
}

fn number(bytes: &[u8]) -> Result<u64> {
    Ok(u64::from_be_bytes(bytes.try_into()?))
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
    store.write_chunks(store.lock().next, bytes[..1_000_000].as_ref())?;
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
    println!(
        "{} blobs are left; their chunks are {}",
        store.blobs.iter().count(),
        store.chunks.iter().count()
    );
    Ok(store.db.close()?)
}

/// Runs in the pool that is named, or in one that is removed at the end.
fn main() -> Result<()> {
    match std::env::args_os().nth(1) {
        Some(path) => run(path.as_ref()),
        None => run(&tempfile::tempdir()?.path().join("blobs.ever")),
    }
}
