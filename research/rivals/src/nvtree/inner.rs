//! Inner nodes: one array without pointers, in DRAM.
//!
//! ```text
//! node i, key k   keys[i * KEYS + k]: the lowest key of the row below child k + 1
//! child k of i    node i * (KEYS + 1) + 1 + k; the last level are the rows
//! row             the leaves of so many neighbours, by their lowest keys
//! ```
//!
//! So nodes have no room to grow. A row does; when one is full, all is built anew, with each row half full, and
//! everybody waits. KEYS and the leaves of a row are 509 and 255 for pages of 4 KB, as published, and fewer for
//! smaller ones.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use everleaf_pmem::{Geometry, PageNo, Result, fallible};

/// Names this memory in errors.
const INNER: &str = "the inner nodes of an NV-tree";

/// A leaf and the lowest key that it is for.
pub type Entry = (u64, PageNo);

/// A row of leaves: never empty.
pub type Row = Vec<Entry>;

/// All inner nodes.
pub struct Inner {
    keys: Vec<u64>,
    rows: Vec<RwLock<Row>>,
    keys_per_node: usize,
    levels: u32,
}

/// How many leaves a row has room for.
pub fn row_capacity(geometry: Geometry) -> usize {
    geometry.slots() - 1
}

fn read(row: &RwLock<Row>) -> RwLockReadGuard<'_, Row> {
    row.read().unwrap_or_else(PoisonError::into_inner)
}

/// The place of the leaf that a key belongs to.
pub fn place(row: &[Entry], key: u64) -> usize {
    row.partition_point(|(low, _)| *low <= key).saturating_sub(1)
}

impl Inner {
    /// Builds the nodes above these leaves, of which there is one at least; their lowest keys ascend from 0.
    ///
    /// # Errors
    /// NoMemory.
    pub fn build(geometry: Geometry, leaves: &[Entry]) -> Result<Self> {
        let keys_per_node = 2 * geometry.slots() - 3;
        let per_row = (row_capacity(geometry) / 2).max(1);
        let (mut rows, mut lows) = (Vec::new(), Vec::new());
        for leaves in leaves.chunks(per_row) {
            let mut row = Row::new();
            fallible::more(&mut row, row_capacity(geometry), INNER)?;
            row.extend(leaves);
            fallible::push(&mut lows, leaves[0].0, INNER)?;
            fallible::push(&mut rows, RwLock::new(row), INNER)?;
        }
        let children = keys_per_node + 1;
        let mut levels = 0;
        while children.pow(levels) < rows.len() {
            levels += 1;
        }
        let mut keys = Vec::new();
        for level in 0..levels {
            // Rows below one child of a node of this level.
            let below = children.pow(levels - 1 - level);
            for node in 0..children.pow(level) {
                let first = node * below * children;
                fallible::more(&mut keys, keys_per_node, INNER)?;
                for k in 1..children {
                    keys.push(lows.get(first + k * below).copied().unwrap_or(u64::MAX));
                }
            }
        }
        Ok(Self { keys, rows, keys_per_node, levels })
    }

    /// The row that a key belongs to. O(log rows).
    pub fn row_of(&self, key: u64) -> usize {
        let (mut node, children) = (0, self.keys_per_node + 1);
        for _ in 0..self.levels {
            let keys = &self.keys[node * self.keys_per_node..][..self.keys_per_node];
            node = node * children + 1 + keys.partition_point(|low| *low <= key);
        }
        let inner: usize = (0..self.levels).map(|level| children.pow(level)).sum();
        // Keys that are missing are u64::MAX, which is a key, too.
        (node - inner).min(self.rows.len() - 1)
    }

    /// The leaf that a key belongs to.
    pub fn leaf_of(&self, key: u64) -> PageNo {
        let row = read(&self.rows[self.row_of(key)]);
        row[place(&row, key)].1
    }

    /// A row, to be changed.
    pub fn change(&self, row: usize) -> RwLockWriteGuard<'_, Row> {
        self.rows[row].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// All leaves, in order.
    ///
    /// # Errors
    /// NoMemory.
    pub fn leaves(&self) -> Result<Vec<Entry>> {
        let mut leaves = Vec::new();
        for row in &self.rows {
            let row = read(row);
            fallible::more(&mut leaves, row.len(), INNER)?;
            leaves.extend(row.iter());
        }
        Ok(leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_led_to_its_leaf_whatever_the_number_of_levels() {
        let geometry = Geometry::new(4).expect("a power of two");
        for n in 1..200u32 {
            let leaves: Vec<Entry> = (0..n).map(|i| (u64::from(i) * 10, i + 1)).collect();
            let inner = Inner::build(geometry, &leaves).expect("memory");
            assert_eq!(inner.leaves().expect("memory"), leaves);
            for key in 0..u64::from(n) * 10 {
                assert_eq!(inner.leaf_of(key), (key / 10) as PageNo + 1, "{key} of {n} leaves");
            }
            assert_eq!(inner.leaf_of(u64::MAX), n);
        }
    }

    #[test]
    fn the_greatest_key_may_begin_a_leaf() {
        let geometry = Geometry::new(4).expect("a power of two");
        for n in 1..40u32 {
            let mut leaves: Vec<Entry> = (0..n).map(|i| (u64::from(i) * 10, i + 1)).collect();
            leaves.push((u64::MAX, n + 1));
            let inner = Inner::build(geometry, &leaves).expect("memory");
            assert_eq!((inner.leaf_of(u64::MAX), inner.leaf_of(u64::MAX - 1)), (n + 1, n));
        }
    }
}
