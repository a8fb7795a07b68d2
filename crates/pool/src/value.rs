//! Reading keys and values. A reader copies a small value while its leaf stands still. Of a large
//! value it copies only what leads to the bytes, and reads those when it no longer holds or validates
//! anything.
//!
//! In between others may remove the value. Its extents are not given out again before the reader is
//! done ([`pins`](crate::pins)), so the reader finds the bytes that were the value when the leaf was
//! validated, however long it takes. Anything else that it finds is damage.

use std::cmp::Ordering;

use everleaf_pmem::{Medium, Result, SharedPair, fallible};

use crate::extent::Extents;
use crate::pair::{HEADER_BYTES, Lens};
use crate::pins::Pin;
use crate::pool::Pool;
use crate::record::RecordView;

/// Values of so many bytes are read with a long key that somebody compares.
const SHORT_BYTES: u64 = 64 << 10;

/// A value as it is found in its leaf.
#[derive(Debug, PartialEq, Eq)]
pub enum StoredValue<V, F> {
    /// The value, from the node or the record.
    Inline(V),
    /// A reference to it: its bytes are in extents.
    External(F),
}

/// A large value that somebody is about to read. It is valid only if the leaf that named its record
/// is validated after this was made.
pub struct LargeValue<'p, M: Medium>(Box<[PinnedExtents<'p, M>]>);

struct PinnedExtents<'p, M: Medium> {
    pool: &'p Pool<M>,
    extents: Extents<'p>,
    /// Key and value, if they were in memory.
    lent: Option<SharedPair>,
    _pin: Pin<'p>,
}

impl<'p, M: Medium> LargeValue<'p, M> {
    /// A list of one, as a box that memory may be refused for.
    fn inner(&self) -> &PinnedExtents<'p, M> {
        &self.0[0]
    }

    /// Reads the value. The caller holds no latch, since this may read megabytes from a disk.
    ///
    /// # Errors
    /// I/O errors; [`Error::Corrupt`](everleaf_pmem::Error::Corrupt) if the bytes are not those of the
    /// checksum; [`Error::NoMemory`](everleaf_pmem::Error::NoMemory).
    pub fn read(&self) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        self.read_into(&mut value)?;
        Ok(value)
    }

    /// As [`read`](Self::read), into a list that is cleared before.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_into(&self, value: &mut Vec<u8>) -> Result<()> {
        value.clear();
        let inner = self.inner();
        match &inner.lent {
            Some(lent) => fallible::append(value, lent.value(), "a large value"),
            None => inner.pool.read_large(&inner.extents, value),
        }
    }

    /// Fills `buf` with bytes of the value, from byte `from` of it on, and says how many that were: fewer
    /// than asked for only at the value's end. It reads the pages in which they are, and no others; so
    /// they are not checked against the value's checksum, which covers the whole, but as the medium checks
    /// what it reads. The caller holds no latch.
    ///
    /// # Errors
    /// As [`read`](Self::read), but for the checksum; `buf` holds anything then.
    pub fn read_at(&self, from: u64, buf: &mut [u8]) -> Result<usize> {
        let inner = self.inner();
        match &inner.lent {
            Some(lent) => Ok(copy_part(lent.value(), from, buf)),
            None => inner.pool.read_large_part(&inner.extents, from, buf),
        }
    }

    /// Bytes of the value.
    pub fn value_bytes(&self) -> u64 {
        self.inner().extents.lens.value_bytes
    }
}

/// Fills `buf` with bytes of a value, from byte `from` of it on; says how many there were.
pub fn copy_part(value: &[u8], from: u64, buf: &mut [u8]) -> usize {
    let from = usize::try_from(from).map_or(value.len(), |from| from.min(value.len()));
    let n = buf.len().min(value.len() - from);
    buf[..n].copy_from_slice(&value[from..from + n]);
    n
}

/// Equal ones are the same value: while one of the two lives, the extents hold no other.
impl<M: Medium> PartialEq for LargeValue<'_, M> {
    fn eq(&self, other: &Self) -> bool {
        self.inner().extents.are(&other.inner().extents)
    }
}

impl<M: Medium> Pool<M> {
    /// Compares a record's key, without its first `skip` bytes, with `other`. O(bytes / 8) in
    /// memory. A key that the record does not hold is read from its extents, unless it is in memory.
    ///
    /// # Errors
    /// [`Error::Corrupt`](everleaf_pmem::Error::Corrupt), also of a stale view; I/O errors.
    pub fn compare_key(
        &self,
        record: &RecordView<'_>,
        skip: usize,
        other: &[u8],
    ) -> Result<Ordering> {
        let lens = record.lens()?;
        if let Some(at) = lens.key_at {
            return Ok(record.compare(at + skip, other, lens.key_bytes.saturating_sub(skip)));
        }
        if let Some(pair) = self.lent_key(record) {
            return Ok(pair.key().get(skip..).unwrap_or_default().cmp(other));
        }
        let mut key = Vec::new();
        self.far_key_of(record, &lens, &mut key)?;
        Ok(key.get(skip..).unwrap_or_default().cmp(other))
    }

    /// The key that a record does not hold, if it is in memory.
    fn lent_key(&self, record: &RecordView<'_>) -> Option<SharedPair> {
        self.lend(record.name()?).filter(|pair| !pair.key().is_empty())
    }

    /// Appends a record's key. O(bytes).
    ///
    /// # Errors
    /// As [`Pool::compare_key`].
    pub fn key(&self, record: &RecordView<'_>, out: &mut Vec<u8>) -> Result<()> {
        let lens = record.lens()?;
        match lens.key_at {
            Some(at) => record.copy(at, lens.key_bytes, out)?,
            None => match self.lent_key(record) {
                Some(pair) => fallible::append(out, pair.key(), "a key")?,
                None => self.far_key_of(record, &lens, out)?,
            },
        }
        Ok(())
    }

    /// Appends a key that is in extents. A value that is not long beside it comes into memory with it: a search
    /// asks for the keys of a node again and again.
    fn far_key_of(&self, record: &RecordView<'_>, lens: &Lens, out: &mut Vec<u8>) -> Result<()> {
        fallible::more(out, lens.key_bytes, "a key")?;
        if lens.value_bytes <= SHORT_BYTES {
            let (mut key, mut value) = (Vec::new(), Vec::new());
            let extents = self.extents_to_keep(record, *lens)?;
            // The key may be sound where the value is not.
            if self.read_pair(&extents, &mut key, &mut value).is_ok() {
                out.extend_from_slice(&key);
                return Ok(());
            }
        }
        let start = out.len();
        out.resize(start + lens.key_bytes, 0);
        self.read_extents(record, lens, 0, &mut out[start..])
    }

    /// Appends a record's value. Bytes from extents are checked against their checksum. O(bytes).
    ///
    /// # Errors
    /// As [`Pool::compare_key`].
    pub fn value(&self, record: &RecordView<'_>, out: &mut Vec<u8>) -> Result<()> {
        let lens = record.lens()?;
        if lens.extents > 0 {
            return self.read_large(&self.extents_of(record, lens)?, out);
        }
        record.copy(HEADER_BYTES + lens.key_bytes, lens.value_bytes as usize, out)
    }

    /// Appends `len` bytes of a record's value from byte `from` on, fewer at its end. Bytes from
    /// extents are not checked: their checksum covers the whole. O(bytes).
    ///
    /// # Errors
    /// As [`Pool::compare_key`].
    pub fn value_part(
        &self,
        record: &RecordView<'_>,
        from: u64,
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let lens = record.lens()?;
        let len = lens.part(from, len);
        if len > 0 && lens.extents > 0 {
            let start = out.len();
            fallible::more(out, len, "a part of a value")?;
            out.resize(start + len, 0);
            let key = lens.extent_bytes() - lens.value_bytes;
            self.read_extents(record, &lens, key + from, &mut out[start..])?;
        } else if len > 0 {
            record.copy(HEADER_BYTES + lens.key_bytes + from as usize, len, out)?;
        }
        Ok(())
    }

    /// A record's value, or what leads to it. This reads no extent. O(bytes of the record).
    ///
    /// # Errors
    /// [`Error::Corrupt`](everleaf_pmem::Error::Corrupt), also of a stale view;
    /// [`Error::NoMemory`](everleaf_pmem::Error::NoMemory).
    #[inline]
    pub fn find_value(
        &self,
        record: &RecordView<'_>,
    ) -> Result<StoredValue<Vec<u8>, LargeValue<'_, M>>> {
        let lens = record.lens()?;
        self.value_of(record, &lens)
    }

    /// Fills `buf` with bytes of a record's value, from byte `from` of it on, and says how many that were;
    /// or what leads to them. This reads no extent. O(bytes).
    ///
    /// # Errors
    /// As [`find_value`](Self::find_value).
    pub fn find_part(
        &self,
        record: &RecordView<'_>,
        from: u64,
        buf: &mut [u8],
    ) -> Result<StoredValue<usize, LargeValue<'_, M>>> {
        let lens = record.lens()?;
        if lens.extents > 0 {
            return self.keep(record, lens).map(StoredValue::External);
        }
        let n = lens.part(from, buf.len());
        if n > 0 {
            record.copy_out(HEADER_BYTES + lens.key_bytes + from as usize, &mut buf[..n])?;
        }
        Ok(StoredValue::Inline(n))
    }

    /// A record's key, and its value as [`find_value`](Self::find_value) returns it. A long key of a
    /// large pair is read from its extents.
    ///
    /// # Errors
    /// As [`find_value`](Self::find_value); I/O errors.
    #[inline]
    #[allow(clippy::type_complexity)]
    pub fn find_pair(
        &self,
        record: &RecordView<'_>,
    ) -> Result<(Vec<u8>, StoredValue<Vec<u8>, LargeValue<'_, M>>)> {
        let lens = record.lens()?;
        let key = match lens.key_at {
            Some(at) => record.bytes(at, lens.key_bytes, "a key")?,
            None => {
                let mut key = Vec::new();
                self.key(record, &mut key)?;
                key
            }
        };
        Ok((key, self.value_of(record, &lens)?))
    }

    #[inline]
    fn value_of(
        &self,
        record: &RecordView<'_>,
        lens: &Lens,
    ) -> Result<StoredValue<Vec<u8>, LargeValue<'_, M>>> {
        match lens.extents {
            0 => record.inline_value(lens).map(StoredValue::Inline),
            _ => self.keep(record, *lens).map(StoredValue::External),
        }
    }

    #[cold]
    fn keep(&self, record: &RecordView<'_>, lens: Lens) -> Result<LargeValue<'_, M>> {
        let lent = record.name().and_then(|r| self.lend(r));
        let extents = match lent {
            Some(_) => self.extents_of(record, lens)?,
            None => self.extents_to_keep(record, lens)?,
        };
        let mut inner = fallible::list(1, "a large value")?;
        inner.push(PinnedExtents { pool: self, extents, lent, _pin: self.pins.pin()? });
        Ok(LargeValue(inner.into_boxed_slice()))
    }
}
