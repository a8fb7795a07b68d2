//! Making a list, and opening one: a walk along the lowest level, which unlinks what is marked, builds what
//! is above it, and finds the free cells.

use std::collections::HashSet;
use std::sync::Arc;

use everleaf_pmem::{Error, Medium, PageNo, Result, fallible};
use everleaf_pool::{Hooks, Pool, damaged};

use super::link::{KEY, Link, NODE_WORDS, Place};
use super::{Above, List};
use crate::cells::Cells;
use crate::parts::expect_lines;
use crate::version::Version;

/// A report of what an open has found and done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListOpened {
    /// Nodes, which are the keys.
    pub nodes: u64,
    /// Nodes that were marked and are unlinked now.
    pub dropped: u64,
    /// Pages that nothing led to and that are free again.
    pub returned: u64,
}

impl<M: Medium, V: Version, A: Above> List<M, V, A> {
    /// The facts about the nodes that a pool must know.
    pub fn hooks() -> Hooks<M> {
        Hooks { nodes: std::any::type_name::<Self>(), ..Hooks::default() }
    }

    /// Makes an empty pool for a list of this type on an empty medium, of pages of any shape.
    ///
    /// # Errors
    /// The same as for [`Pool::format`].
    pub fn format_pool(medium: M) -> Result<Pool<M>> {
        Pool::format(medium, Self::hooks())
    }

    /// Opens a pool with a list of this type.
    ///
    /// # Errors
    /// The same as for [`Pool::open`].
    pub fn open_pool(medium: M) -> Result<Pool<M>> {
        Pool::open(medium, Self::hooks())
    }

    /// Makes an empty list on an anchor that has none. It stores nothing: an anchor without a root is an empty list.
    ///
    /// # Errors
    /// InUse for an anchor that has a list; the same as for [`open`](Self::open).
    pub fn create(pool: Arc<Pool<M>>, anchor: PageNo) -> Result<Self> {
        let (list, _) = Self::open(pool, anchor)?;
        if list.stored(list.head())?.node().is_some() {
            return Err(Error::InUse { what: "the anchor has a list already" });
        }
        Ok(list)
    }

    /// Opens the list of an anchor, the only one of its pool. It walks the whole lowest level, unlinks the nodes that
    /// are marked, and returns what a crash has leaked; that is durable when it returns. O(n log n).
    ///
    /// # Errors
    /// InvalidOption for a medium with a journal, whose steps need none of this; WrongLayout for a pool of other
    /// nodes; Corrupt if keys do not ascend or a link leads to what is no node.
    pub fn open(pool: Arc<Pool<M>>, anchor: PageNo) -> Result<(Self, ListOpened)> {
        pool.expect_nodes(Self::hooks().nodes)?;
        expect_lines::<M>("the list")?;
        // An error if it is no anchor.
        pool.anchor(anchor)?;
        let nodes = Cells::new(Arc::clone(&pool), NODE_WORDS);
        let above = A::new(pool.medium().limit(), nodes.per_page())?;
        let (limbo, _version) = Default::default();
        let mut list = Self { pool, anchor, nodes, above, limbo, _version };
        let opened = list.walk()?;
        Ok((list, opened))
    }

    fn walk(&mut self) -> Result<ListOpened> {
        let (mut kept, mut opened, mut low) = (Vec::new(), ListOpened::default(), None);
        let mut before = self.head();
        let mut next = self.stored(before)?;
        while let Some(node) = next.node() {
            let page = self.nodes.page(node)?;
            if usize::from(node.at) >= self.nodes.per_page() {
                return Err(damaged(page, 0, "a link to no node"));
            }
            let key = self.nodes.word(page, node, KEY).load();
            if low.replace(key).is_some_and(|low| key <= low) {
                return Err(damaged(page, 0, "keys of nodes do not ascend"));
            }
            let behind = self.stored(Place::of_node(node))?;
            if behind.is_marked() {
                opened.dropped += 1;
            } else {
                self.skip_to(before, Link::to(node))?;
                before = Place::of_node(node);
                fallible::push(&mut kept, node, "the nodes of a list")?;
                let height = A::height_of(key);
                if height > 0 {
                    self.above.add(key, node, height);
                }
            }
            next = behind;
        }
        self.skip_to(before, Link(0))?;
        opened.nodes = kept.len() as u64;
        let pool = Arc::clone(&self.pool);
        let recovered = Cells::recover(pool, NODE_WORDS, kept, &HashSet::new())?;
        (self.nodes, opened.returned) = recovered;
        Ok(opened)
    }

    /// Makes a link lead on, durably, over nodes that are marked.
    fn skip_to(&self, place: Place, to: Link) -> Result<()> {
        let now = self.stored(place)?;
        if now.node() != to.node() {
            self.swap(place, now, to)?;
            self.persist(place.page, place.word)?;
        }
        Ok(())
    }
}
