//! Making a tree, and opening one: a walk of what is reachable, the end of a split that was cut off, and the pages
//! that have leaked.

use std::collections::HashSet;
use std::marker::PhantomData;
use std::sync::{Arc, RwLock};

use everleaf_pmem::{Error, Geometry, Medium, PageNo, Result, fallible};
use everleaf_pool::{Hooks, Pool, damaged, kind};

use super::WbTree;
use super::node::{View, level};
use crate::cells::give_back;
use crate::parts::{expect_lines, persist};
use crate::version::Version;

/// Header words of the anchor.
const ROOT: usize = 2;
const LOG: usize = 3;

/// A report of what an open has found and done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WbOpened {
    /// Keys.
    pub keys: u64,
    /// Inner nodes and leaves.
    pub nodes: u64,
    /// A split was cut off and has been taken back.
    pub undone: bool,
    /// Pages that nothing led to and that are free again.
    pub returned: u64,
}

#[derive(Default)]
struct Reached {
    nodes: HashSet<PageNo>,
    keys: u64,
}

impl<M: Medium, V: Version> WbTree<M, V> {
    /// The facts about the nodes that a pool must know.
    pub fn hooks() -> Hooks<M> {
        let fits = |geometry: Geometry| (8..=64).contains(&geometry.slots());
        Hooks { fits, nodes: std::any::type_name::<Self>(), ..Hooks::default() }
    }

    /// Makes an empty pool for a tree of this type, on an empty medium of pages of 8 to 64 slots.
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

    /// Makes an empty tree on an anchor that has none, durably.
    ///
    /// # Errors
    /// InUse for an anchor that has a tree; the same as for [`open`](Self::open).
    pub fn create(pool: Arc<Pool<M>>, anchor: PageNo) -> Result<Self> {
        pool.anchor(anchor)?;
        if pool.page(anchor)?.head(ROOT).load() != 0 {
            return Err(Error::InUse { what: "the anchor has a tree already" });
        }
        Self::open(pool, anchor).map(|(tree, _)| tree)
    }

    /// Opens the tree of an anchor, the only one of its pool; makes an empty one if there is none. A split that was
    /// cut off is ended or taken back, and what a crash has leaked is returned; that is durable when this returns.
    /// Slot arrays that are not valid stay so until a writer comes. O(size of the tree).
    ///
    /// # Errors
    /// InvalidOption for a medium with a journal, whose steps need none of this; WrongLayout for a pool of other
    /// nodes; Corrupt if the tree leads to what is no node.
    pub fn open(pool: Arc<Pool<M>>, anchor: PageNo) -> Result<(Self, WbOpened)> {
        pool.expect_nodes(Self::hooks().nodes)?;
        expect_lines::<M>("the wB+-tree")?;
        // An error if it is no anchor.
        pool.anchor(anchor)?;
        let log = pool.page(anchor)?.head(LOG).load() as PageNo;
        let mut tree = Self { pool, anchor, log, lock: RwLock::new(()), _version: PhantomData };
        let mut opened = WbOpened::default();
        let mut reached = Reached::default();
        let is_new = tree.root()? == 0;
        if !is_new {
            tree.reach_all(&mut reached)?;
            if let Some((no, new)) = tree.cut_off()? {
                let is_linked = reached.nodes.contains(&new);
                tree.settle(no, is_linked)?;
                opened.undone = !is_linked;
                reached = Reached::default();
                tree.reach_all(&mut reached)?;
            }
            fallible::insert(&mut reached.nodes, tree.log, "the nodes of a tree")?;
        }
        let owners = tree.pool.map_bytes()?;
        opened.returned = give_back(&tree.pool, &owners, |no| reached.nodes.contains(&no))?;
        if is_new {
            tree.found()?;
        }
        opened.nodes = (reached.nodes.len() as u64).saturating_sub(1).max(1);
        opened.keys = reached.keys;
        Ok((tree, opened))
    }

    pub(super) fn root(&self) -> Result<PageNo> {
        Ok(self.pool.page(self.anchor)?.head(ROOT).load() as PageNo)
    }

    /// Durable when it returns: one line, one fence.
    pub(super) fn set_root(&self, no: PageNo) -> Result<()> {
        self.set(ROOT, no)
    }

    pub(super) fn set_log(&self, no: PageNo) -> Result<()> {
        self.set(LOG, no)
    }

    fn set(&self, word: usize, no: PageNo) -> Result<()> {
        let (page, _held) = self.pool.latch(self.anchor)?;
        self.pool.medium().store(page.head(word), no.into());
        persist(self.pool.medium(), page, 0);
        Ok(())
    }

    fn reach_all(&self, reached: &mut Reached) -> Result<()> {
        let root = self.root()?;
        self.reach(root, level(self.pool.page(root)?), reached)
    }

    /// Notes a node of this level and what is below it.
    fn reach(&self, no: PageNo, expected: u8, reached: &mut Reached) -> Result<()> {
        let page = self.pool.page(no)?;
        let is_new = fallible::insert(&mut reached.nodes, no, "the nodes of a tree")?;
        if !is_new || self.pool.owner(no)? != kind::NODE || level(page) != expected {
            return Err(damaged(page, 0, "no node, or one that is led to twice"));
        }
        let view = View::of(page)?;
        let Some(below) = expected.checked_sub(1) else {
            reached.keys += view.len() as u64;
            return Ok(());
        };
        (0..=view.len()).try_for_each(|k| self.reach(view.child_at(k), below, reached))
    }
}
