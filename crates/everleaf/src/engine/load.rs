//! Pairs in ascending order: leaf by leaf where they fill leaves, one by one elsewhere.

use super::{Engine, TreeHandle};
use crate::{Error, Result};

impl Engine {
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
