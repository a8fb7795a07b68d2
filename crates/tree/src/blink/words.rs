//! Trees of words as an [`Index`].

use std::ops::{Bound, RangeBounds};

use everleaf_pmem::{Medium, Result, fallible};

use crate::blink::descend::Blink;
use crate::blink::reading::Reading;
use crate::blink::scan::{Chunk, borrow};
use crate::blink::straight::GROUP;
use crate::blink::write::Condition;
use crate::index::Index;
use crate::slots::{Layout, Probe, Words};

/// Gathers chunks until a key fails `within` or `limit` entries are there.
fn gather(
    start: Bound<u64>,
    limit: usize,
    within: impl Fn(u64) -> bool,
    chunk: impl Fn(Bound<&u64>, usize) -> Result<Chunk<u64, u64>>,
) -> Result<Vec<(u64, u64)>> {
    let mut out = Vec::new();
    let mut next = Some(start);
    while let Some(from) = next.take().filter(|_| out.len() < limit) {
        let part = chunk(borrow(&from), limit - out.len())?;
        for (key, value) in part.entries {
            if !within(key) {
                return Ok(out);
            }
            out.push((key, value));
        }
        next = part.next.filter(|bound| match bound {
            Bound::Included(key) => within(*key),
            _ => true,
        });
    }
    Ok(out)
}

impl<M: Medium, L: Layout, P: Probe> Blink<M, (L, P, Words)> {
    /// The value of a key, whatever is in the way.
    #[cold]
    #[inline(never)]
    fn get_slowly(&self, key: u64) -> Result<Option<u64>> {
        Self::get(self, &key)
    }
}

impl<M: Medium, L: Layout, P: Probe> Index for Blink<M, (L, P, Words)> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        if let Reading::Optimistic = self.reading
            && let Some(found) = self.get_straight(key)
        {
            return Ok(found);
        }
        self.get_slowly(key)
    }
    fn get_many(&self, keys: &[u64], values: &mut Vec<Option<u64>>) -> Result<()> {
        fallible::more(values, keys.len(), "values of many keys")?;
        for group in keys.chunks(GROUP) {
            let mut found = [None; GROUP];
            if let Reading::Optimistic = self.reading {
                self.get_group(group, &mut found);
            }
            for (key, found) in group.iter().zip(found) {
                values.push(match found {
                    Some(value) => value,
                    None => self.get_slowly(*key)?,
                });
            }
        }
        Ok(())
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(&key, &value, Condition::Always).map(|put| put.old)
    }
    fn add(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(&key, &value, Condition::Absent).map(|put| put.old)
    }
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(&key, &value, Condition::Present).map(|put| put.old)
    }
    fn remove(&self, key: u64) -> Result<Option<u64>> {
        Blink::remove(self, &key).map(|put| put.old)
    }
    fn first(&self) -> Result<Option<(u64, u64)>> {
        Blink::first(self)
    }
    fn last(&self) -> Result<Option<(u64, u64)>> {
        Blink::last(self)
    }
    fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>> {
        let within = |key| (Bound::Unbounded, to).contains(&key);
        gather(from, limit, within, |at, limit| self.chunk_up(at, limit))
    }
    fn range_back(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, u64)>> {
        let within = |key| (from, Bound::Unbounded).contains(&key);
        gather(to, limit, within, |at, limit| self.chunk_down(at, limit))
    }
}
