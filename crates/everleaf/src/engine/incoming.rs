//! Values that come from a reader.
//!
//! The reader is the user's: it may take its time, fail, panic, and use the pool that it writes to. So it
//! is called while nothing is held. Between its calls what it has given is written, a piece at a time, as
//! any writer does: past the gate, and refused where a put would be.

use std::io::Read;
use std::sync::Arc;

use everleaf_file::io::uninterrupted;
use everleaf_pmem::fallible;
use everleaf_tree::blink::Condition;

use super::admission::Store;
use super::medium::DbMedium;
use super::open_tree::OpenTree;
use crate::{Error, Result};

/// A reader, and how many bytes of it are the value.
pub(crate) struct ValueSource<'r> {
    reader: &'r mut dyn Read,
    bytes: u64,
    done: u64,
}

impl<'r> ValueSource<'r> {
    pub fn new(reader: &'r mut dyn Read, bytes: u64) -> Self {
        Self { reader, bytes, done: 0 }
    }

    /// Fills `space` with the next bytes.
    fn fill(&mut self, mut space: &mut [u8]) -> Result<()> {
        while !space.is_empty() {
            let n = match uninterrupted(|| self.reader.read(space)) {
                Err(error) => return Err(Error::Reader { source: Arc::new(error) }),
                Ok(0) => {
                    return Err(Error::ReaderEnded {
                        bytes: self.done,
                        bytes_expected: self.bytes,
                    });
                }
                Ok(n) => n,
            };
            let room = space.len();
            let Some(rest) = space.get_mut(n..) else {
                let what = format!("a reader says that it read {n} bytes into {room}");
                return Err(Error::Invalid { what });
            };
            (space, self.done) = (rest, self.done + n as u64);
        }
        Ok(())
    }

    /// All bytes of a short value.
    fn whole(&mut self) -> Result<Vec<u8>> {
        let mut value = fallible::filled(0, self.bytes as usize, "a value")?;
        self.fill(&mut value)?;
        Ok(value)
    }
}

/// Sets the value of a key to what a reader gives.
pub(super) fn put<M: DbMedium>(
    store: &impl Store,
    tree: &OpenTree<M>,
    key: &[u8],
    source: &mut ValueSource<'_>,
) -> Result<()> {
    let Some(mut value) = store.enter(|| tree.writable()?.begin_large(key, source.bytes))? else {
        let value = source.whole()?;
        return store.enter(|| tree.set(key, &value));
    };
    while let Some(space) = value.space() {
        source.fill(space)?;
        store.enter(|| value.write())?;
    }
    // Whichever way it goes, it has the value.
    let (value, when) = (std::cell::Cell::new(Some(value)), Condition::Always);
    let take = || value.take().expect("one of the two ways is gone");
    store.enter(|| {
        tree.write(
            |tree| tree.set_large(key, take(), when).map(drop),
            |tree, keeper| tree.set_large_keeping(keeper, key, take(), when).map(drop),
        )
    })
}
