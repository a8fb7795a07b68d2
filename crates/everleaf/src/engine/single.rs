//! Writes that look at what is there, each one operation of its tree; and loads, leaf by leaf where pairs fill leaves.

use std::ops::Bound;

use everleaf_tree::blink::{Condition, End, Swap};

use super::{Engine, TreeHandle};
use crate::{Error, Pair, Result};

/// So many keys of a range are removed before the next ones are looked up.
const CHUNK_KEYS: usize = 1024;

impl Engine {
    /// Refuses what would write, whether or not it would come to that.
    pub(super) fn expect_writable(&self) -> Result<()> {
        self.alive()?;
        let read_only = match self {
            Engine::File(on) => on.store.read_only,
            Engine::Dax(on) => on.store.read_only,
        };
        if read_only { Err(Error::ReadOnly) } else { Ok(()) }
    }

    fn write_alone<T>(&self, write: impl Fn() -> Result<T>) -> Result<T> {
        self.expect_writable()?;
        self.write(write)
    }

    /// Puts a pair if its key is there, or if it is not; says whether it did.
    pub fn put_if(
        &self,
        tree: &TreeHandle,
        key: &[u8],
        value: &[u8],
        condition: Condition,
    ) -> Result<bool> {
        self.write_alone(|| tree.put_if(key, value, condition))
    }

    /// Changes a value if it is the expected one.
    pub fn swap(
        &self,
        tree: &TreeHandle,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Swap> {
        self.write_alone(|| tree.swap(key, expected, new))
    }

    /// The value of a key, for who is about to change it.
    pub fn get_to_change(&self, tree: &TreeHandle, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.expect_writable()?;
        self.get(tree, key)
    }

    /// Whether a key is there, for who is about to change that.
    pub fn is_there_to_change(&self, tree: &TreeHandle, key: &[u8]) -> Result<bool> {
        self.expect_writable()?;
        self.contains(tree, key)
    }

    /// Removes the pair at one end.
    pub fn pop(&self, tree: &TreeHandle, end: End) -> Result<Option<Pair>> {
        self.write_alone(|| tree.pop(end))
    }

    /// Removes all pairs between two bounds, the greatest key first, one by one. Says how many. Looks at no
    /// large value: one may be damaged.
    pub fn remove_range(
        &self,
        tree: &TreeHandle,
        low: Bound<&[u8]>,
        high: Bound<&[u8]>,
    ) -> Result<u64> {
        self.expect_writable()?;
        let (mut removed, mut behind) = (0, None);
        loop {
            // Downwards: a leaf that is emptied from its end moves no pairs, and goes into its left
            // neighbour without moving any.
            let from = behind
                .as_ref()
                .map_or(high, |bound: &Bound<Vec<u8>>| bound.as_ref().map(|key| &key[..]));
            let (keys, next) = self.read(|| tree.keys_down((low, from), CHUNK_KEYS))?;
            for key in &keys {
                removed += u64::from(self.write_alone(|| tree.take_away(key))?);
            }
            match next {
                Some(bound) => behind = Some(bound),
                None => return Ok(removed),
            }
        }
    }

    /// Puts the first of some pairs, if they fill a leaf; says how many it has put. 0: the first one is to be put.
    pub fn fill_leaf(&self, tree: &TreeHandle, pairs: &[(&[u8], &[u8])]) -> Result<usize> {
        // On persistent memory each pair is a step.
        let TreeHandle::File(tree) = tree else { return Ok(0) };
        let filled = self.write(|| {
            tree.write(
                |tree| tree.fill_leaf(None, pairs),
                |tree, keeper| tree.fill_leaf(Some(keeper), pairs),
            )
        });
        match filled {
            // A pair may have room where a leaf has none.
            Err(Error::Full { .. }) => Ok(0),
            filled => filled,
        }
    }

    /// Refuses what would load, whether or not there is something to load.
    pub fn expect_loadable(&self, tree: &TreeHandle) -> Result<()> {
        self.expect_writable()?;
        self.expect_there(tree)
    }
}
