//! The records of byte strings: how they are read, and how a step makes one.

use everleaf_pmem::{Backoff, Medium, Page, PageNo, Result};
use everleaf_pool::{Large, Pool, RecordRef, RecordView, Step, Stop, pair_header};

use super::slot::place_of;
use crate::node::{LOW_WORD, Slot};

/// Reads a record until its page stayed in memory meanwhile.
pub(super) fn read<M: Medium, T>(
    pool: &Pool<M>,
    r: RecordRef,
    mut f: impl FnMut(&RecordView<'_>) -> Result<T>,
) -> Result<T> {
    loop {
        let record = pool.record(r)?;
        let out = f(&record);
        if record.is_current() {
            return out;
        }
    }
}

pub(super) fn key_of_record<M: Medium>(pool: &Pool<M>, r: RecordRef) -> Result<Vec<u8>> {
    read(pool, r, |record| {
        let mut key = Vec::new();
        pool.key(record, &mut key)?;
        Ok(key)
    })
}

/// The record of a bound in a header word, if the bound is finite.
pub(super) fn bound(page: Page<'_>, word: usize) -> Option<RecordRef> {
    Some(page.head(word).load()).filter(|bits| *bits != 0).map(RecordRef::from_bits)
}

/// The lower bound of an inner slot's child: the record of the separator; `None`: no key is below.
///
/// Waits for the child to be in memory, never for its latch: a merge may hold that and wait for the
/// parent, which the caller may hold. The bound never
/// changes while the child lives, and the caller holds the parent or validates it.
pub(super) fn separator_of<M: Medium>(pool: &Pool<M>, slot: Slot) -> Result<Option<RecordRef>> {
    let child = pool.page(place_of(slot) as PageNo)?;
    let mut wait = Backoff::default();
    while !child.latch().is_ready() {
        match child.latch().try_lock() {
            Some(mut held) => {
                pool.ensure(child, &mut held)?;
                held.unlock_unchanged();
            }
            None => wait.pause(),
        }
    }
    Ok(bound(child, LOW_WORD))
}

/// What a record will hold, and its extents if it does not fit a page.
pub struct PendingRecord<'p, M: Medium> {
    bytes: usize,
    large: Option<Large<'p, M>>,
}

impl<'p, M: Medium> PendingRecord<'p, M> {
    pub(super) fn new(pool: &'p Pool<M>, key: &[u8], value: &[u8]) -> Result<Self> {
        let fits = pool.fits_record(key.len(), value.len());
        let large = if fits { None } else { Some(pool.write_large(key, value)?) };
        Ok(Self { bytes: 8 + key.len() + value.len(), large })
    }
    pub(super) fn plan<'s>(&'s self, step: &mut Step<'s, M>) -> Result<RecordRef, Stop>
    where
        'p: 's,
    {
        match &self.large {
            Some(large) => step.large_record(large),
            None => step.record(self.bytes),
        }
    }
    pub(super) fn write<'s>(
        &'s self,
        step: &mut Step<'s, M>,
        op: &mut M::Op<'s>,
        r: RecordRef,
        key: &[u8],
        value: &[u8],
    ) {
        match &self.large {
            Some(large) => step.write_record(op, r, &[large.record_bytes()]),
            None => step.write_record(op, r, &[&pair_header(key.len(), value.len()), key, value]),
        }
    }
}
