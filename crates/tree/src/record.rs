//! The records of byte strings: how they are read, and how a step makes one.

use std::cmp::Ordering;

use everleaf_pmem::{Error, Medium, Page, PageNo, Result, Retries, fallible};
use everleaf_pool::{
    Large, LargeValue, Pool, RecordRef, RecordView, Step, Stop, StoredValue, copy_part, pair_header,
};

use crate::node::FoundValue;

/// Reads a record until its page stayed in memory meanwhile: it leaves only when nobody has used it for a round of the
/// clock.
pub(crate) fn read<M: Medium, T>(
    pool: &Pool<M>,
    r: RecordRef,
    mut f: impl FnMut(&RecordView<'_>) -> Result<T>,
) -> Result<T> {
    let mut turns = Retries::default();
    loop {
        let record = pool.record(r)?;
        let out = f(&record);
        if record.is_current() {
            return out;
        }
        turns.go_on("reading a record")?;
    }
}

pub(crate) fn key_of_record<M: Medium>(pool: &Pool<M>, r: RecordRef) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    key_into(pool, r, &mut key)?;
    Ok(key)
}

/// The order of the key of a record to another one.
pub(crate) fn compare<M: Medium>(pool: &Pool<M>, r: RecordRef, other: &[u8]) -> Result<Ordering> {
    read(pool, r, |record| pool.compare_key(record, 0, other))
}

/// Copies bytes into a list, which is cleared before.
fn copy_into(bytes: &[u8], list: &mut Vec<u8>) -> Result<()> {
    list.clear();
    fallible::append(list, bytes, "a long key or a large value")
}

/// Copies the value of a record into a list, which is cleared before; not if it has to be read from extents.
pub(crate) fn value_onto<M: Medium>(
    pool: &Pool<M>,
    record: &RecordView<'_>,
    value: &mut Vec<u8>,
) -> Result<bool> {
    value.clear();
    let is_here = record.lens()?.extents == 0;
    if is_here {
        pool.value(record, value)?;
    }
    Ok(is_here)
}

/// Copies the value of a record into a list, if it is in memory and not long; says whether it did.
pub(crate) fn value_in_memory<M: Medium>(
    pool: &Pool<M>,
    r: RecordRef,
    value: &mut Vec<u8>,
) -> Result<bool> {
    let most = pool.geometry().page_bytes();
    match pool.lend(r) {
        Some(pair) => copy_short(pair.value(), most, value),
        None => read(pool, r, |record| value_onto(pool, record, value)),
    }
}

/// Copies a value into a list, which is cleared before, unless it is longer than a page: a step of a cursor does
/// not cost more than that. Says whether it did.
fn copy_short(bytes: &[u8], most: usize, value: &mut Vec<u8>) -> Result<bool> {
    value.clear();
    match bytes.len() <= most {
        true => copy_into(bytes, value).map(|()| true),
        false => Ok(false),
    }
}

/// Finds the value of a record, or says what leads to it.
pub(crate) fn value_into<'p, M: Medium>(
    pool: &'p Pool<M>,
    r: RecordRef,
    value: &mut FoundValue,
) -> Result<StoredValue<(), LargeValue<'p, M>>> {
    if let Some(pair) = pool.lend(r) {
        value.lend(pair);
        return Ok(StoredValue::Inline(()));
    }
    let value = value.own();
    read(pool, r, |record| {
        if value_onto(pool, record, value)? {
            return Ok(StoredValue::Inline(()));
        }
        match pool.find_value(record)? {
            StoredValue::External(far) => Ok(StoredValue::External(far)),
            // The record has changed meanwhile, which the caller that named it will notice.
            StoredValue::Inline(bytes) => {
                *value = bytes;
                Ok(StoredValue::Inline(()))
            }
        }
    })
}

/// Fills a buffer with a part of the value of a record, or says what leads to it.
pub(crate) fn part_into<'p, M: Medium>(
    pool: &'p Pool<M>,
    r: RecordRef,
    from: u64,
    buf: &mut [u8],
) -> Result<StoredValue<usize, LargeValue<'p, M>>> {
    if let Some(pair) = pool.lend(r) {
        return Ok(StoredValue::Inline(copy_part(pair.value(), from, buf)));
    }
    read(pool, r, |record| pool.find_part(record, from, buf))
}

/// Bytes of the value of a record.
pub(crate) fn value_bytes<M: Medium>(pool: &Pool<M>, r: RecordRef) -> Result<u64> {
    read(pool, r, |record| Ok(record.lens()?.value_bytes))
}

/// Copies the key of a record into a list, which is cleared before.
pub(crate) fn key_into<M: Medium>(pool: &Pool<M>, r: RecordRef, key: &mut Vec<u8>) -> Result<()> {
    read(pool, r, |record| {
        key.clear();
        pool.key(record, key)
    })
}

/// Copies key and value of a record into lists, which are cleared before. Says whether the value is
/// there: one in extents is left out, and so is one that cannot be read.
pub(crate) fn pair_into<M: Medium>(
    pool: &Pool<M>,
    r: RecordRef,
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Result<bool> {
    read(pool, r, |record| {
        key.clear();
        pool.key(record, key)?;
        if record.lens()?.extents == 0 {
            return if_readable(value_onto(pool, record, value));
        }
        value.clear();
        let most = pool.geometry().page_bytes();
        pool.lend(r).map_or(Ok(false), |pair| copy_short(pair.value(), most, value))
    })
}

/// Whether a value is there: one that cannot be read is not, and a caller that wants it is told why then.
pub(crate) fn if_readable(value: Result<bool>) -> Result<bool> {
    match value {
        Err(error) => one_entry(error).map(|_| false),
        value => value,
    }
}

/// An error that concerns one entry; others are errors of all that is done.
pub(crate) fn one_entry(error: Error) -> Result<Error> {
    match error {
        Error::Corrupt { .. } | Error::Io { .. } => Ok(error),
        error => Err(error),
    }
}

/// The page of a child of an inner node, in memory.
///
/// Waits for the child to be there, never for its latch: a merge may hold that and wait for the
/// parent, which the caller may hold.
pub(crate) fn child_page<M: Medium>(pool: &Pool<M>, no: PageNo) -> Result<Page<'_>> {
    let child = pool.page(no)?;
    let mut turns = Retries::default();
    while !child.latch().is_ready() {
        match child.latch().try_lock() {
            Some(mut held) => {
                pool.ensure(child, &mut held)?;
                held.unlock_unchanged();
            }
            None => turns.again("fetching a child")?,
        }
    }
    Ok(child)
}

/// The length of a record to be, and its extents if it does not fit a page.
pub struct PendingRecord<'p, M: Medium> {
    bytes: usize,
    large: Option<Large<'p, M>>,
}

impl<'p, M: Medium> PendingRecord<'p, M> {
    pub(crate) fn new(pool: &'p Pool<M>, key: &[u8], value: &[u8]) -> Result<Self> {
        let large = match pool.fits_record(key.len(), value.len()) {
            true => None,
            false => match pool.write_large(key, value) {
                // There may be room in a record page all the same.
                Err(Error::Full { .. }) if pool.holds_record(key.len(), value.len()) => None,
                large => Some(large?),
            },
        };
        Ok(Self { bytes: 8 + key.len() + value.len(), large })
    }
    /// The record of a pair whose extents are written.
    pub(crate) fn of_large(large: Large<'p, M>) -> Self {
        Self { bytes: large.record_bytes().len(), large: Some(large) }
    }
    pub(crate) fn plan<'s>(&'s self, step: &mut Step<'s, M>) -> Result<RecordRef, Stop>
    where
        'p: 's,
    {
        match &self.large {
            Some(large) => step.large_record(large),
            None => step.record(self.bytes),
        }
    }
    pub(crate) fn write<'s>(
        &'s self,
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        r: RecordRef,
        key: &[u8],
        value: &[u8],
    ) {
        match &self.large {
            Some(large) => {
                step.write_record(op, r, &[large.record_bytes()]);
                large.keep_in_memory(r);
            }
            None => step.write_record(op, r, &[&pair_header(key.len(), value.len()), key, value]),
        }
    }
}
