//! The records of byte strings: how they are read, and how a step makes one.

use everleaf_pmem::{Backoff, Medium, Page, PageNo, Result};
use everleaf_pool::{Large, Pool, RecordRef, RecordView, Step, Stop, pair_header};

/// Reads a record until its page stayed in memory meanwhile.
pub(crate) fn read<M: Medium, T>(
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

pub(crate) fn key_of_record<M: Medium>(pool: &Pool<M>, r: RecordRef) -> Result<Vec<u8>> {
    read(pool, r, |record| {
        let mut key = Vec::new();
        pool.key(record, &mut key)?;
        Ok(key)
    })
}

/// The page of a child of an inner node, in memory.
///
/// Waits for the child to be there, never for its latch: a merge may hold that and wait for the
/// parent, which the caller may hold.
pub(crate) fn child_page<M: Medium>(pool: &Pool<M>, no: PageNo) -> Result<Page<'_>> {
    let child = pool.page(no)?;
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
    Ok(child)
}

/// What a record will hold, and its extents if it does not fit a page.
pub struct PendingRecord<'p, M: Medium> {
    bytes: usize,
    large: Option<Large<'p, M>>,
}

impl<'p, M: Medium> PendingRecord<'p, M> {
    pub(crate) fn new(pool: &'p Pool<M>, key: &[u8], value: &[u8]) -> Result<Self> {
        let fits = pool.fits_record(key.len(), value.len());
        let large = if fits { None } else { Some(pool.write_large(key, value)?) };
        Ok(Self { bytes: 8 + key.len() + value.len(), large })
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
            Some(large) => step.write_record(op, r, &[large.record_bytes()]),
            None => step.write_record(op, r, &[&pair_header(key.len(), value.len()), key, value]),
        }
    }
}
