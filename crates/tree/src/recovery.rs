//! Recovery by a walk over everything (Circ-Tree §5.5), beside the lazy one that opening does.
//!
//! The paper walks from the leaves up and mends inner nodes after them. Here nodes are mended where
//! they are touched, so the walk goes from the root down: each level is complete before the one
//! below is compared with it, and whatever that one enters finds parents that can be split
//! (docs/PAPERS.md, C15, C20).
//!
//! ```text
//! root level    along the siblings; a root that has one: put a new root above it, start again
//! level below   along the siblings and, beside them, along the entries of the level above;
//!               a node without an entry: enter it, as a passing writer does
//! leaks         what the map and the bitmaps call used − what the trees name: given back
//! ```
//!
//! Nothing is believed. Along each level the lower bounds must rise and follow from one another, so
//! that a cycle shows at once; a pass that enters nodes must find fewer missing when it is repeated.
//! Crashes inside are like any others: what was done stays done, the next walk does the rest.

use everleaf_pmem::{Error, Medium, Page, PageNo, Result};
use everleaf_pool::{CATALOG_ANCHOR, Leaks, Pool, kind};

use crate::blink::Blink;
use crate::check::{TreeReport, leaks};
use crate::node::{Kind, NodeAt, OwnedKeyOf, Shape, TreeKey, damaged, sibling};

/// The result of an eager walk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walked {
    /// Nodes of each level, the leaves first; without those that the walk made.
    pub nodes_by_level: Vec<u64>,
    /// Entries that parents lacked.
    pub entries_added: u64,
    /// Levels that the tree has gained: by a root that had been split and not grown, and by parents
    /// that had to be split for an entry.
    pub levels_grown: u64,
}

/// The result of [`recover`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The leaks that were given back.
    pub returned: Leaks,
    /// The walk over the tree.
    pub walked: Walked,
}

/// Recovers the only tree of a pool: it gives back what a crash leaked, and then completes the tree by
/// [`Blink::recover_all`]. The order matters, because completing a tree may take pages. Nobody else may
/// use the pool meanwhile. A second call in a row stores nothing. Costs O(size of the pool).
///
/// # Errors
/// Corrupt, for a tree with damage: nothing is changed then. Invalid, if the pool's first anchor
/// has another tree. Full, if completing takes more pages than there are. I/O errors.
pub fn recover<M: Medium, K: Kind>(tree: &Blink<M, K>) -> Result<Recovery> {
    let returned = reclaim(tree.pool(), &[tree.check()?])?;
    Ok(Recovery { returned, walked: tree.recover_all(|_| {})? })
}

/// Gives back what [`leaks`] finds, and returns it. `trees` must be the reports of *all* trees of the
/// pool, made after the last write: a tree without a report counts as a leak, with its anchor, its
/// nodes and its records. On media with a journal there is nothing to do: a step is whole there, and
/// nothing leaks.
///
/// The result is durable when it returns. A crash meanwhile leaves leaks only; then run it again.
/// Costs O(pages + records).
///
/// # Errors
/// Corrupt, for a report with damage or a damaged map or record page; Invalid, if the pool's first
/// anchor has a tree that is not among the reports. Nothing is changed then. I/O errors.
pub fn reclaim<M: Medium>(pool: &Pool<M>, trees: &[TreeReport]) -> Result<Leaks> {
    if M::JOURNALED {
        return Ok(Leaks::default());
    }
    // A part that cannot be read may name anything.
    if let Some(damage) = trees.iter().flat_map(|tree| &tree.damages).next() {
        let start = pool.page(damage.page).map_or(0, |page| page.file_offset());
        let offset = start + damage.offset_bytes_in_page as u64;
        return Err(Error::corrupt(offset, format!("page {}: {}", damage.page, damage.what)));
    }
    let is_there = trees.iter().any(|tree| tree.anchor == CATALOG_ANCHOR);
    if !is_there && pool.anchor(CATALOG_ANCHOR)? != 0 {
        let what = "the tree of the first anchor must be among the reports".into();
        return Err(Error::Invalid { what });
    }
    let found = leaks(pool, trees)?;
    pool.reclaim(&found)?;
    Ok(found)
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Looks at every node, which repairs it; enters each node that its parent lacks; and puts a new root
    /// above a root that was split. Afterwards no entry is missing. Searches may go on meanwhile, writers
    /// may not. After each node, `progress` gets the number of nodes so far.
    ///
    /// Costs O(nodes): only repairs read the slots of leaves. A sound tree is not changed.
    ///
    /// # Errors
    /// Corrupt, if the nodes are not what crashes can leave; Full, if a parent has to be split and
    /// there is no page; I/O errors.
    pub fn recover_all(&self, progress: impl FnMut(u64)) -> Result<Walked> {
        let owners = self.pool().map_bytes()?;
        let mut walk = RecoveryWalk { tree: self, owners, seen: 0, added: 0, progress };
        let height = walk.level_of(self.root())?;
        let mut top = height;
        let nodes = loop {
            let pass = walk.pass(self.root(), top, None)?;
            if pass.lagging.is_empty() {
                break pass.nodes;
            }
            walk.enter(&pass)?;
            let grown = walk.level_of(self.root())?;
            if grown <= top {
                return Err(damaged(self.medium().page(self.root())?, "the root does not grow"));
            }
            top = grown;
        };
        let mut nodes_by_level = vec![0; usize::from(top) + 1];
        nodes_by_level[usize::from(top)] = nodes;
        let mut first = self.root();
        for level in (0..top).rev() {
            let above = first;
            first = self.first_child(above)?;
            nodes_by_level[usize::from(level)] = walk.complete(first, level, above)?;
        }
        let levels_grown = u64::from(walk.level_of(self.root())?.saturating_sub(height));
        Ok(Walked { nodes_by_level, entries_added: walk.added, levels_grown })
    }

    fn first_child(&self, no: PageNo) -> Result<PageNo> {
        let page = self.medium().page(no)?;
        let node = K::node(page).ok_or_else(|| damaged(page, "is no node"))?;
        K::child(self.pool(), node.entry(0))
    }
}

/// One pass along a level.
#[derive(Default)]
struct Pass {
    nodes: u64,
    /// Nodes whose right sibling has no entry in the level above.
    lagging: Vec<PageNo>,
}

/// The entries of a level, in order.
struct LevelEntries<'t> {
    page: Page<'t>,
    at: usize,
}

struct RecoveryWalk<'t, M: Medium, K: Kind, F> {
    tree: &'t Blink<M, K>,
    /// The map.
    owners: Vec<u8>,
    seen: u64,
    added: u64,
    progress: F,
}

impl<'t, M: Medium, K: Kind, F: FnMut(u64)> RecoveryWalk<'t, M, K, F> {
    fn level_of(&self, no: PageNo) -> Result<u8> {
        let page = self.tree.medium().page(no)?;
        self.tree.read_version(page)?;
        K::node(page).map(|at| at.level()).ok_or_else(|| damaged(page, "the root is no node"))
    }

    /// Passes along a level until its parents, which begin at `above`, have all entries.
    fn complete(&mut self, first: PageNo, level: u8, above: PageNo) -> Result<u64> {
        let mut most = usize::MAX;
        loop {
            let pass = self.pass(first, level, Some(above))?;
            if pass.lagging.is_empty() {
                return Ok(pass.nodes);
            }
            if pass.lagging.len() >= most {
                let page = self.tree.medium().page(pass.lagging[0])?;
                return Err(damaged(page, "its sibling cannot be entered in its parent"));
            }
            most = pass.lagging.len();
            self.enter(&pass)?;
        }
    }

    /// Enters the right siblings of what lags, as a writer does that has come by.
    fn enter(&mut self, pass: &Pass) -> Result<()> {
        for no in &pass.lagging {
            self.tree.complete_now(*no)?;
            self.added += 1;
        }
        // Parents may have been split.
        self.owners = self.tree.pool().map_bytes()?;
        Ok(())
    }

    /// Walks a level from its first node, beside the entries of the one above, which has been
    /// walked; the root's level has none above.
    fn pass(&mut self, first: PageNo, level: u8, above: Option<PageNo>) -> Result<Pass> {
        let (pool, mut pass) = (self.tree.pool(), Pass::default());
        let mut entries = match above {
            Some(no) => Some(LevelEntries { page: self.tree.medium().page(no)?, at: 0 }),
            None => None,
        };
        let (mut next, mut left, mut begin) = (Some(first), None, K::Key::lowest());
        while let Some(no) = next {
            let page = self.node(no, level)?;
            let low = K::low(pool, page)?.unwrap_or_else(K::Key::lowest);
            if low != begin {
                return Err(damaged(page, "begins where its left neighbour does not end"));
            }
            let is_entered = match &mut entries {
                Some(entries) => self.meet(entries, page, &low)?,
                None => no == first,
            };
            match left {
                _ if is_entered => {}
                Some(left) => pass.lagging.push(left),
                None => return Err(damaged(page, "is not what its parent begins with")),
            }
            next = sibling(page);
            if next.is_some() {
                begin = K::high(pool, page)?;
                if begin <= low {
                    return Err(damaged(page, "ends where it begins, or before"));
                }
            }
            left = Some(no);
            pass.nodes += 1;
            self.seen += 1;
            (self.progress)(self.seen);
        }
        if let (Some(entries), Some(last)) = (&mut entries, left)
            && self.entry(entries)?.is_some()
        {
            let page = self.tree.medium().page(last)?;
            return Err(damaged(page, "ends its level, but the level above has more entries"));
        }
        Ok(pass)
    }

    /// The node on a page, touched.
    fn node(&self, no: PageNo, level: u8) -> Result<Page<'t>> {
        let page = self.tree.medium().page(no)?;
        self.tree.read_version(page)?;
        if self.owners.get(no as usize) != Some(&kind::NODE) {
            return Err(damaged(page, "is reached, but the map does not call it a node"));
        }
        let Some(node) = NodeAt::<K>::of(page, level) else {
            return Err(damaged(page, format!("is no node of level {level}")));
        };
        if let Some((_, what)) = K::flaw(page, node.shape()) {
            return Err(damaged(page, what));
        }
        if level > 0 && node.count() == 0 {
            return Err(damaged(page, "holds 0 entries"));
        }
        Ok(page)
    }

    /// The entry that is to be met next; `None` behind the last.
    fn entry(&self, entries: &mut LevelEntries<'t>) -> Result<Option<(Shape, K::Entry<'t>)>> {
        loop {
            let page = entries.page;
            let node = K::node(page).ok_or_else(|| damaged(page, "is no node"))?;
            if entries.at < node.count() {
                return Ok(Some((node.shape(), node.entry(entries.at))));
            }
            let Some(next) = sibling(page) else { return Ok(None) };
            *entries = LevelEntries { page: self.tree.medium().page(next)?, at: 0 };
        }
    }

    /// Whether the next entry names a node; if it does, it is behind us.
    fn meet(
        &self,
        entries: &mut LevelEntries<'t>,
        page: Page<'t>,
        low: &OwnedKeyOf<K>,
    ) -> Result<bool> {
        let Some((shape, entry)) = self.entry(entries)? else { return Ok(false) };
        let pool = self.tree.pool();
        if K::child(pool, entry)? == page.no() {
            entries.at += 1;
            // A gift that a crash has cut off leaves a greater one.
            return Ok(!K::GIVES || K::key(pool, shape, entry)? <= *low);
        }
        if K::key(pool, shape, entry)? <= *low {
            return Err(damaged(page, "its parent's entry leads to another page"));
        }
        Ok(false)
    }
}
