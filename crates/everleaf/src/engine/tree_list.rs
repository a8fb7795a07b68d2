//! The names and anchors of all trees at one moment, back to back: a pool may have many.

use std::borrow::Cow;

use everleaf_pmem::{PageNo, fallible};

use crate::Result;

/// Names this memory in errors.
pub(super) const NAMES: &str = "the names of all trees";

/// Names and anchors, in the order of names.
#[derive(Debug, Default)]
pub(crate) struct TreeList {
    names: Vec<u8>,
    /// How long each name is, and the tree's anchor.
    trees: Vec<(u32, PageNo)>,
}

impl TreeList {
    /// Appends a tree.
    ///
    /// # Errors
    /// NoMemory: the list is as it was.
    pub fn push(&mut self, name: &[u8], anchor: PageNo) -> Result<()> {
        fallible::more(&mut self.names, name.len(), NAMES)?;
        fallible::push(&mut self.trees, (name.len() as u32, anchor), NAMES)?;
        self.names.extend_from_slice(name);
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.trees.len()
    }

    /// The trees by name. A name that a damaged pool has is made readable.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'_, str>, PageNo)> {
        let mut left = &self.names[..];
        self.trees.iter().map(move |(len, anchor)| {
            let (name, rest) = left.split_at(*len as usize);
            left = rest;
            (String::from_utf8_lossy(name), *anchor)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_as_they_were_put() {
        let trees = [("a", 7), ("größer", 9), ("", 3), ("z", 4)];
        let mut list = TreeList::default();
        let mut push = |(name, anchor): &(&str, PageNo)| list.push(name.as_bytes(), *anchor);
        trees.iter().try_for_each(&mut push).expect("memory");
        assert_eq!(list.len(), trees.len());
        assert!(list.iter().eq(trees.map(|(name, anchor)| (name.into(), anchor))));
    }
}
