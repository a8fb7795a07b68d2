//! Making a tree, and opening one: a walk of what is reachable, which finds the free cells and what has leaked.

use std::collections::HashSet;
use std::marker::PhantomData;
use std::sync::{Arc, RwLock};

use everleaf_pmem::{Error, Geometry, Medium, PageNo, Result, fallible};
use everleaf_pool::{Hooks, Pool, damaged, kind};

use super::Wort;
use super::node::Child;
use super::walk::{CHILDREN, LEAF_WORDS, Place};
use crate::cells::{Cell, Cells};
use crate::parts::expect_lines;
use crate::version::Version;

/// Slots of a page: a node fills it.
const SLOTS: usize = 8;
/// Names this memory in errors.
const WALK: &str = "what a tree reaches";

/// A report of what an open has found and done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WortOpened {
    /// Leaves, which are the keys.
    pub leaves: u64,
    /// Nodes of three lines.
    pub nodes: u64,
    /// Pages that nothing led to and that are free again.
    pub returned: u64,
}

impl<M: Medium, V: Version> Wort<M, V> {
    /// The facts about the nodes that a pool must know.
    pub fn hooks() -> Hooks<M> {
        let fits = |geometry: Geometry| geometry.slots() == SLOTS;
        Hooks { fits, nodes: std::any::type_name::<Self>(), ..Hooks::default() }
    }

    /// Makes an empty pool for a tree of this type, on an empty medium of pages of 8 slots.
    ///
    /// # Errors
    /// InvalidOption for pages of another shape; otherwise the same as for [`Pool::format`].
    pub fn format_pool(medium: M) -> Result<Pool<M>> {
        Pool::format(medium, Self::hooks())
    }

    /// Opens a pool with a tree of this type.
    ///
    /// # Errors
    /// The same as for [`Pool::open`].
    pub fn open_pool(medium: M) -> Result<Pool<M>> {
        Pool::open(medium, Self::hooks())
    }

    /// Makes an empty tree on an anchor that has none. It stores nothing: an anchor without a root is an empty tree.
    ///
    /// # Errors
    /// InUse for an anchor that has a tree; the same as for [`open`](Self::open).
    pub fn create(pool: Arc<Pool<M>>, anchor: PageNo) -> Result<Self> {
        let (tree, _) = Self::open(pool, anchor)?;
        if tree.child(tree.root())? != Child::None {
            return Err(Error::InUse { what: "the anchor has a tree already" });
        }
        Ok(tree)
    }

    /// Opens the tree of an anchor, the only one of its pool. It walks the whole tree, to find which cells are free,
    /// and returns what a crash has leaked; that is durable when it returns. Headers that a crash has left stay as
    /// they are until a writer comes. O(size of the tree).
    ///
    /// # Errors
    /// InvalidOption for a medium with a journal, whose steps need none of this; WrongLayout for a pool of other
    /// nodes; Corrupt if the tree leads to what is no node or no leaf: nothing is changed then.
    pub fn open(pool: Arc<Pool<M>>, anchor: PageNo) -> Result<(Self, WortOpened)> {
        pool.expect_nodes(Self::hooks().nodes)?;
        expect_lines::<M>("WORT")?;
        // An error if it is no anchor.
        pool.anchor(anchor)?;
        let leaves = Cells::new(Arc::clone(&pool), LEAF_WORDS);
        let mut tree = Self { pool, anchor, leaves, lock: RwLock::new(()), _version: PhantomData };
        let mut reached = Reached::default();
        tree.reach(tree.child(tree.root())?, 0, &mut reached)?;
        let mut opened = WortOpened {
            leaves: reached.leaves.len() as u64,
            nodes: reached.nodes.len() as u64,
            returned: 0,
        };
        let pool = Arc::clone(&tree.pool);
        let recovered = Cells::recover(pool, LEAF_WORDS, reached.leaves, &reached.nodes)?;
        (tree.leaves, opened.returned) = recovered;
        Ok((tree, opened))
    }

    /// Notes what is below a child to which at least `depth` nibbles lead.
    fn reach(&self, child: Child, depth: usize, reached: &mut Reached) -> Result<()> {
        let no = match child {
            Child::None => return Ok(()),
            Child::Leaf(leaf) => return fallible::push(&mut reached.leaves, leaf, WALK),
            Child::Node(no) => no,
        };
        // The nibble of the children is right whatever depth the header says, and rises on the way down.
        let at = self.stored_head(no)?.at();
        let is_new = fallible::insert(&mut reached.nodes, no, WALK)?;
        if at < depth || !is_new || self.pool.owner(no)? != kind::NODE {
            return Err(damaged(self.pool.page(no)?, 0, "no node, or one that is led to twice"));
        }
        for i in 0..CHILDREN {
            self.reach(self.child(Place::in_node(no, i))?, at + 1, reached)?;
        }
        Ok(())
    }
}

#[derive(Default)]
struct Reached {
    leaves: Vec<Cell>,
    nodes: HashSet<PageNo>,
}
