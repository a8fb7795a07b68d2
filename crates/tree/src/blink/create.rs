//! Making and opening trees, and the pools that they are in.
//!
//! A pool and its medium call three functions for the pages of trees: redo of a noted change, the first touch, and
//! what of a page is kept on disk.

use std::borrow::Borrow;
use std::ops::Range;
use std::sync::Arc;

use everleaf_pmem::{Change, Error, Medium, Page, PageNo, Result};
use everleaf_pool::anchor::{self, root_of};
use everleaf_pool::{Glance, Hooks, Pool, Stop, kind, retry};

use crate::blink::descend::Blink;
use crate::blink::log;
use crate::blink::merge::announced;
use crate::node::{Kind, NodeChecks, TreeKey, damaged};
use crate::slots::notes;

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Makes an empty tree on an anchor that has no root yet.
    ///
    /// # Errors
    /// Full, or a poisoned or read-only medium.
    pub fn create(pool: Arc<Pool<M>>, anchor: PageNo) -> Result<Self> {
        check_medium::<M, K>()?;
        pool.expect_nodes(Self::hooks().nodes)?;
        let root = retry(|| Self::first_nodes(&pool, anchor))?;
        Ok(Self::with_root(pool, anchor, root))
    }

    /// Opens the tree of an anchor, and makes it if the anchor has no root yet (a crash came between).
    /// Open one handle of an anchor at a time: each handle keeps its own root, so a second one would not
    /// see the first one change the root.
    ///
    /// # Errors
    /// I/O errors; Corrupt for a damaged anchor, and for a first anchor without a root in a pool that
    /// holds more than a crash can leave while its first tree is made.
    pub fn open(pool: Arc<Pool<M>>, anchor: PageNo) -> Result<Self> {
        if Self::is_rootless(&pool, anchor)? {
            return Self::create(pool, anchor);
        }
        check_medium::<M, K>()?;
        pool.expect_nodes(Self::hooks().nodes)?;
        let root = pool.anchor(anchor)?;
        let tree = Self::with_root(pool, anchor, root);
        tree.undo_logged()?;
        match tree.finish_merge() {
            // Readers need none of it: both nodes still hold the keys that lead to them.
            Err(Error::ReadOnly) => {}
            finished => finished?,
        }
        Ok(tree)
    }

    /// As [`open`](Self::open), for a caller that looks at all trees of a pool: if all that an open needs is in the anchor,
    /// it stays where it is.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_at_glance(
        pool: Arc<Pool<M>>,
        anchor: PageNo,
        glance: &Glance<'_, M>,
    ) -> Result<Self> {
        let seen = glance.read(anchor, |page| Ok::<_, Error>((root_of(page)?, announced(page))))?;
        match seen? {
            (root @ 1.., None) if !log::logs_splits::<M, K>() => {
                check_medium::<M, K>()?;
                pool.expect_nodes(Self::hooks().nodes)?;
                Ok(Self::with_root(pool, anchor, root))
            }
            _ => Self::open(pool, anchor),
        }
    }

    /// All that a pool must know about the nodes of this type of tree.
    pub fn hooks() -> Hooks<M> {
        Hooks {
            redo: redo::<M, K>,
            first_touch: first_touch::<M, K>,
            nodes: K::nodes(),
            fits: K::fits,
            ..Hooks::default()
        }
    }

    /// Makes an empty pool for trees of this type on a medium that is all zero.
    ///
    /// # Errors
    /// The same as for [`Pool::format`].
    pub fn format_pool(medium: M) -> Result<Pool<M>> {
        Pool::format(medium, Self::hooks())
    }

    /// Opens a pool of trees of this type. Costs O(pages / 4096): nodes are recovered when they are
    /// touched.
    ///
    /// # Errors
    /// The same as for [`Pool::open`].
    pub fn open_pool(medium: M) -> Result<Pool<M>> {
        Pool::open(medium, Self::hooks())
    }

    /// Whether the tree of an anchor has still to be made. On strict media the first tree of a pool may
    /// lack a root only while there is no other tree: otherwise everything that hangs on it would count
    /// as leaked.
    ///
    /// # Errors
    /// I/O errors; Corrupt for a damaged anchor, or one that should have a root.
    pub fn is_rootless(pool: &Pool<M>, anchor: PageNo) -> Result<bool> {
        const FIRST_NODES: usize = 3;
        if pool.anchor(anchor)? != 0 {
            return Ok(false);
        }
        if M::JOURNALED || anchor != everleaf_pool::CATALOG_ANCHOR {
            return Ok(true);
        }
        let owners = pool.map_bytes()?;
        let nodes = owners.iter().filter(|owner| **owner == kind::NODE).count();
        let is_first =
            |owner: &u8| matches!(*owner, kind::FREE | kind::MAP | kind::NODE | kind::LOG);
        let others = owners.iter().skip(anchor as usize + 1).any(|owner| !is_first(owner));
        if others || nodes > FIRST_NODES {
            return Err(damaged(
                pool.page(anchor)?,
                "the first tree has no root, the pool has more",
            ));
        }
        Ok(true)
    }

    /// Builds the first nodes and links them to the anchor.
    fn first_nodes(pool: &Pool<M>, no: PageNo) -> Result<PageNo, Stop> {
        let m = pool.medium();
        let mut step = pool.step();
        // Leaves of words must not have both bounds infinite (void is a key outside them), so two
        // leaves stand from the start.
        let cut = K::FIRST_SEPARATOR.and_then(K::Key::from_order);
        let (left, mut left_held) = step.new_page(kind::NODE)?;
        let mut fresh = if cut.is_some() {
            Some((step.new_page(kind::NODE)?, step.new_page(kind::NODE)?))
        } else {
            None
        };
        let log = log::logs_splits::<M, K>().then(|| step.new_page(kind::LOG)).transpose()?;
        let (anchor_page, anchor_held) = pool.latch(no)?;
        let right = match (&fresh, &cut) {
            (Some(((right, _), _)), Some(cut)) => Some((cut.borrow(), right.no())),
            _ => None,
        };
        let mut leaf = K::new_leaf(pool, None, right)?;
        let mut others = match right {
            Some((cut, right)) => Some((
                K::new_leaf(pool, Some(cut), None)?,
                K::new_root(pool, 1, (left.no(), cut, K::child_at(pool, cut, right, false)?))?,
            )),
            None => None,
        };
        let mut op = step.enter()?;
        step.publish_alloc(&mut op);
        if let Some((page, _)) = &log {
            log::init(m, *page);
            log::name_page(m, anchor_page, page.no());
        }
        let mut root = left.no();
        match (&mut fresh, &mut others) {
            (Some(((right, right_held), (top, top_held))), Some((right_leaf, above))) => {
                K::build(m, &mut op, *right, right_leaf);
                K::build(m, &mut op, left, &mut leaf);
                K::build(m, &mut op, *top, above);
                root = top.no();
                right_held.set_ready();
                top_held.set_ready();
            }
            _ => K::build(m, &mut op, left, &mut leaf),
        }
        left_held.set_ready();
        anchor::set_root(m, &mut op, anchor_page, root);
        drop(op);
        drop(anchor_held);
        Ok(root)
    }

    /// Makes an anchor without a root.
    ///
    /// # Errors
    /// The same as for [`create`](Self::create).
    pub fn new_anchor(pool: &Pool<M>) -> Result<PageNo> {
        let m = pool.medium();
        retry(|| {
            let mut step = pool.step();
            let (page, mut held) = step.new_page(kind::ANCHOR)?;
            let mut op = step.enter()?;
            anchor::init(m, &mut op, page, 0);
            step.publish_alloc(&mut op);
            held.set_ready();
            Ok(page.no())
        })
    }
}

/// Refuses media on which the nodes do not survive a crash.
fn check_medium<M: Medium, K: NodeChecks>() -> Result<()> {
    if M::JOURNALED || !K::NEEDS_JOURNAL {
        return Ok(());
    }
    let what =
        format!("{} nodes need a medium with a journal, which makes their steps whole", K::NAME);
    Err(Error::Unsupported { what })
}

/// Redoes one change of any kind: the tree's own or the pool's.
///
/// # Errors
/// Corrupt, if the change cannot have been made to this page.
pub fn redo<M: Medium, K: NodeChecks>(m: &M, page: Page<'_>, change: Change<'_>) -> Result<()> {
    if change.tag < notes::TAG_END {
        K::redo(m, page, change)
    } else {
        everleaf_pool::redo(m, page, change)
    }
}

/// Finishes the first touch of a page, under its latch.
///
/// # Errors
/// Corrupt, for a node that cannot be right.
pub fn first_touch<M: Medium, K: NodeChecks>(m: &M, page: Page<'_>) -> Result<()> {
    K::first_touch(m, page)
}

/// The bytes of a page that need not be kept on disk, or `None` if none of it needs to be kept: see
/// [`everleaf_pool::gap`].
pub fn gap<K: NodeChecks>(bytes: &[u8]) -> Option<Range<usize>> {
    match everleaf_pool::kind_word(bytes) {
        Some(word) if kind::kind_of(word) == kind::NODE => Some(K::gap(bytes)),
        _ => everleaf_pool::gap(bytes),
    }
}
