//! Values as readers find them: small ones are copied while their leaf stands still; of a large one
//! only what leads to its bytes is, and the bytes are read when nothing is held or validated any
//! more.
//!
//! In between others may remove the value. Its extents then are not given out again before its
//! reader is done ([`pins`](crate::pins)), so the reader finds the bytes that were the value when the
//! leaf was validated, however long it takes; whatever else it finds is damage.

use everleaf_pmem::{Medium, Result};

use crate::extent::Extents;
use crate::pins::Pin;
use crate::pool::Pool;
use crate::record::Record;

/// A value as it is found in its leaf.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<V, F> {
    /// The value.
    Here(V),
    /// What leads to it.
    Far(F),
}

/// A large value that somebody is about to read. Counts only if the leaf that named its record is
/// validated after this was made.
pub struct Kept<'p, M: Medium>(Box<Inner<'p, M>>);

struct Inner<'p, M: Medium> {
    pool: &'p Pool<M>,
    extents: Extents<'p>,
    _pin: Pin<'p>,
}

impl<M: Medium> Kept<'_, M> {
    /// Reads the value. The caller holds no latch, since this may read megabytes from a disk.
    ///
    /// # Errors
    /// I/O errors; [`Error::Corrupt`](everleaf_pmem::Error::Corrupt) if the bytes are not those of the
    /// checksum; [`Error::NoMemory`](everleaf_pmem::Error::NoMemory).
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        self.0.pool.read_large(&self.0.extents, &mut value)?;
        Ok(value)
    }

    /// Bytes of the value.
    pub fn value_bytes(&self) -> u64 {
        self.0.extents.lens.value_bytes
    }
}

/// The same value: as long as one of the two is there its extents hold no other.
impl<M: Medium> PartialEq for Kept<'_, M> {
    fn eq(&self, other: &Self) -> bool {
        self.0.extents.are(&other.0.extents)
    }
}

impl<M: Medium> Pool<M> {
    /// A record's value, or what leads to it. Reads no extent. O(bytes of the record).
    ///
    /// # Errors
    /// [`Error::Corrupt`](everleaf_pmem::Error::Corrupt), also of a stale view;
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory).
    pub fn find_value(&self, record: &Record<'_>) -> Result<Found<Vec<u8>, Kept<'_, M>>> {
        let lens = record.lens()?;
        if lens.extents == 0 {
            return record.inline_value(&lens).map(Found::Here);
        }
        let extents = self.extents_of(record, lens)?;
        Ok(Found::Far(Kept(Box::new(Inner { pool: self, extents, _pin: self.pins.pin()? }))))
    }
}
