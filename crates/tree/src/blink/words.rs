//! Trees of words as an [`Index`].

use std::ops::{Bound, RangeBounds};

use everleaf_pmem::{Medium, Result, Vectors, fallible};

use crate::blink::descend::Blink;
use crate::blink::reading::Reading;
use crate::blink::scan::{Chunk, borrow};
use crate::blink::straight::{GROUP, SeenNode};
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
        // They come in order: with the last one, all are within.
        if part.entries.last().is_some_and(|(key, _)| !within(*key)) {
            out.extend(part.entries.into_iter().take_while(|(key, _)| within(*key)));
            return Ok(out);
        }
        if out.is_empty() {
            out = part.entries
        } else {
            out.extend(part.entries)
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

    /// Puts a pair, whatever is in the way.
    #[cold]
    #[inline(never)]
    fn put_slowly(&self, (key, value): (u64, u64), condition: Condition) -> Result<Option<u64>> {
        self.put(&key, &value, condition).map(|put| put.old)
    }

    /// Removes a key, whatever is in the way.
    #[cold]
    #[inline(never)]
    fn remove_slowly(&self, key: u64) -> Result<Option<u64>> {
        Self::remove(self, &key).map(|put| put.old)
    }

    /// Whether searches may try the way straight down, on which nothing waits and nothing is latched.
    #[inline(always)]
    fn goes_straight(&self) -> bool {
        matches!(self.reading, Reading::Optimistic)
    }

    /// The leaves of some keys, for a caller that writes to them one after the other.
    fn leaves_ahead(&self, keys: impl Iterator<Item = u64>) -> [Option<SeenNode<'_>>; GROUP] {
        if !self.goes_straight() {
            return [None; GROUP];
        }
        let (mut group, mut n) = ([0; GROUP], 0);
        for (to, key) in group.iter_mut().zip(keys) {
            *to = key;
            n += 1;
        }
        self.leaves_straight(&group[..n])
    }

    /// The leaf that covers a key, if nothing is in the way.
    #[inline(always)]
    fn leaf_ahead(&self, key: u64) -> Option<SeenNode<'_>> {
        if !self.goes_straight() {
            return None;
        }
        self.leaf_straight(Vectors::of_processor(), key)
    }

    /// Puts a pair.
    #[inline(always)]
    fn put_word(&self, pair: (u64, u64), condition: Condition) -> Result<Option<u64>> {
        self.pool.throttle(true)?;
        match self.leaf_ahead(pair.0) {
            Some(leaf) => match self.put_straight(leaf, pair, condition)? {
                Some(old) => Ok(old),
                None => self.put_slowly(pair, condition),
            },
            None => self.put_slowly(pair, condition),
        }
    }

    /// Removes a key.
    #[inline(always)]
    fn remove_word(&self, key: u64) -> Result<Option<u64>> {
        self.pool.throttle(false)?;
        match self.leaf_ahead(key) {
            Some(leaf) => match self.remove_straight(leaf, key)? {
                Some(old) => Ok(old),
                None => self.remove_slowly(key),
            },
            None => self.remove_slowly(key),
        }
    }
}

impl<M: Medium, L: Layout, P: Probe> Index for Blink<M, (L, P, Words)> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        if self.goes_straight()
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
            if self.goes_straight() {
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
        self.put_word((key, value), Condition::Always)
    }
    fn put_many(&self, pairs: &[(u64, u64)], old: &mut Vec<Option<u64>>) -> Result<()> {
        fallible::more(old, pairs.len(), "old values of many keys")?;
        for group in pairs.chunks(GROUP) {
            let leaves = self.leaves_ahead(group.iter().map(|(key, _)| *key));
            for (pair, leaf) in group.iter().zip(leaves) {
                let written = match leaf {
                    Some(leaf) => {
                        self.pool.throttle(true)?;
                        self.put_straight(leaf, *pair, Condition::Always)?
                    }
                    None => None,
                };
                old.push(match written {
                    Some(old) => old,
                    // Another one of the group may have changed the leaf, or split it.
                    None => self.insert(pair.0, pair.1)?,
                });
            }
        }
        Ok(())
    }
    fn add(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put_word((key, value), Condition::Absent)
    }
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put_word((key, value), Condition::Present)
    }
    fn remove(&self, key: u64) -> Result<Option<u64>> {
        self.remove_word(key)
    }
    fn remove_many(&self, keys: &[u64], old: &mut Vec<Option<u64>>) -> Result<()> {
        fallible::more(old, keys.len(), "old values of many keys")?;
        for group in keys.chunks(GROUP) {
            let leaves = self.leaves_ahead(group.iter().copied());
            for (key, leaf) in group.iter().zip(leaves) {
                let removed = match leaf {
                    Some(leaf) => {
                        self.pool.throttle(false)?;
                        self.remove_straight(leaf, *key)?
                    }
                    None => None,
                };
                old.push(match removed {
                    Some(old) => old,
                    None => self.remove_word(*key)?,
                });
            }
        }
        Ok(())
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
