//! The B-link spine (Lehman and Yao 1981; FAST+FAIR §4; Circ-Tree §5.2–5.4): every node has a
//! right sibling and a high key, so a split needs no parent at once and a search that comes too
//! early moves right.
//!
//! ```text
//! search   version of node; move right while key ≥ high; child of the greatest separator ≤ key;
//!          version of child; validate node; down                      (no latch, no store)
//! insert   latch the leaf; full: split; layout insert
//! split    latch L; build R; L := (sibling R, high, count)            (step 1: L, R)
//!          latch the parent while L is still held; insert R's entry   (step 2: parent)
//! merge    latch L, its right sibling R, their parent; L absorbs R; remove R's entry; free R
//! ```
//!
//! Latches go from left to right and from the leaves up, so nobody waits in a circle; everything
//! else that a step changes (records, map, anchor) is taken by `try_lock`, or last. A writer holds
//! one node, two while it fixes the parent of a split, three in a merge: so a merge is one step and
//! one epoch, and no crash on a file leaves a parent that points to a dead node.
//!
//! Whoever sees a parent without an entry for a node (a crash came between the two steps of a
//! split) completes it, and reads work meanwhile. On media without a journal a merge is announced
//! in the tree's anchor first and completed at open.
//!
//! Freed pages are used again at once: a latch's version never goes back, and a search validates
//! the node that it came from after it has the next node's version, so it can never take a page in
//! its new life for the old one. This is the whole of reclamation here; no reader registers.

mod ahead;
mod descend;
pub(crate) mod log;
mod merge;
mod read;
mod scan;
mod split;
mod upkeep;
mod write;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use everleaf_pmem::{Change, Error, Medium, Page, PageNo, Result, Seen, Version};
use everleaf_pool::{Hooks, Pool, Stop, anchor, kind, retry};

use crate::keys::Keys;
use crate::node::{Bounds, Image, Layout, Probe, Run, Shape, change};

pub use ahead::Stage;
pub use read::Reading;
pub(crate) use scan::borrow;
pub use scan::{Chunk, Seek};
use upkeep::Upkeep;
pub use write::{Condition, Put};

type Policies<L, P, K> = PhantomData<fn() -> (L, P, K)>;

/// An ordered map in a pool: `L` lays slots out, `P` searches them, `K` says what keys are.
pub struct Blink<M: Medium, L: Layout, P: Probe, K: Keys> {
    pool: Arc<Pool<M>>,
    anchor: PageNo,
    /// The root while the tree is open; the anchor holds it for the next open.
    root: AtomicU32,
    upkeep: Mutex<Upkeep<K>>,
    /// Held while nodes merge, or may not.
    merging: Mutex<()>,
    reading: Reading,
    _policies: Policies<L, P, K>,
}

/// Redoes one change of any kind: the tree's own or the pool's.
///
/// # Errors
/// Corrupt, if the change cannot have been made to this page.
pub fn redo<M: Medium, L: Layout>(m: &M, page: Page<'_>, change: Change<'_>) -> Result<()> {
    if change.tag < change::TAG_END {
        change::redo::<M, L>(m, page, change)
    } else {
        everleaf_pool::redo(m, page, change)
    }
}

/// Finishes the first touch of a page, under its latch: checks a node's header, finishes what a
/// crash left in it, builds its aid. Other pages need nothing.
///
/// # Errors
/// Corrupt, for a node that cannot be right.
pub fn first_touch<M: Medium, L: Layout, P: Probe>(m: &M, page: Page<'_>) -> Result<()> {
    if let Some(shape) = Shape::of(page) {
        let run = Run::of(page);
        // No crash leaves that, also where the count is not flushed with each change: a node is
        // flushed whole before anything names it, and each count stored later is within the node.
        if run.count > page.slots() {
            return Err(damaged(page, format!("count {} is above {}", run.count, page.slots())));
        }
        if !M::JOURNALED {
            L::recover(m, page, shape)?;
        }
        P::rebuild(page, Run::of(page), shape.key_word());
    }
    Ok(())
}

/// A damaged node, by its place in the pool.
pub(crate) fn damaged(page: Page<'_>, what: impl std::fmt::Display) -> Error {
    Error::corrupt(page.file_offset(), format!("page {}: {what}", page.no()))
}

impl<M: Medium, L: Layout, P: Probe, K: Keys> Blink<M, L, P, K> {
    /// Makes an empty tree on an anchor that has no root yet.
    ///
    /// # Errors
    /// Full, or a poisoned or read-only medium.
    pub fn create(pool: Arc<Pool<M>>, anchor: PageNo) -> Result<Self> {
        pool.expect_nodes(Self::hooks().nodes)?;
        let root = retry(|| Self::first_nodes(&pool, anchor))?;
        Ok(Self::with_root(pool, anchor, root))
    }

    /// Opens the tree of an anchor; makes it if the anchor has no root yet (a crash came between).
    /// One handle of an anchor at a time: each keeps its own root, so a second one would not see the
    /// first one's root change.
    ///
    /// # Errors
    /// I/O errors; Corrupt for a damaged anchor, and for a first anchor without a root in a pool that
    /// holds more than a crash can leave while its first tree is made.
    pub fn open(pool: Arc<Pool<M>>, anchor: PageNo) -> Result<Self> {
        if Self::is_rootless(&pool, anchor)? {
            return Self::create(pool, anchor);
        }
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

    /// What a pool must know about the nodes of this type of tree.
    pub fn hooks() -> Hooks<M> {
        let nodes = std::any::type_name::<(L, P)>();
        Hooks { redo: redo::<M, L>, first_touch: first_touch::<M, L, P>, nodes, ..Hooks::default() }
    }

    /// Makes an empty pool for trees of this type on a medium that is all zero.
    ///
    /// # Errors
    /// As [`Pool::format`].
    pub fn format_pool(medium: M) -> Result<Pool<M>> {
        Pool::format(medium, Self::hooks())
    }

    /// Opens a pool of trees of this type. O(pages / 4096): nodes are recovered when they are
    /// touched.
    ///
    /// # Errors
    /// As [`Pool::open`].
    pub fn open_pool(medium: M) -> Result<Pool<M>> {
        Pool::open(medium, Self::hooks())
    }

    /// Whether the tree of an anchor has still to be made. The first tree of a pool on strict media
    /// has no root only as long as there is no other: else what hangs on it would be taken for
    /// leaked.
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

    fn with_root(pool: Arc<Pool<M>>, anchor: PageNo, root: PageNo) -> Self {
        Self {
            pool,
            anchor,
            root: root.into(),
            upkeep: Mutex::default(),
            merging: Mutex::default(),
            reading: Reading::default(),
            _policies: PhantomData,
        }
    }

    /// Builds the first nodes and links them to the anchor.
    fn first_nodes(pool: &Pool<M>, no: PageNo) -> Result<PageNo, Stop> {
        let m = pool.medium();
        let mut step = pool.step();
        let leaf = Shape { level: 0, bytes: K::BYTES, prefix: 0 };
        // Leaves of words must not have both bounds infinite (void is a key outside them), so two
        // leaves stand from the start.
        let cut = K::first_cut();
        let (left, mut left_held) = step.new_page(kind::NODE)?;
        let mut fresh = if cut.is_some() {
            Some((step.new_page(kind::NODE)?, step.new_page(kind::NODE)?))
        } else {
            None
        };
        let log = log::logs_splits::<M, L, K>().then(|| step.new_page(kind::LOG)).transpose()?;
        let (anchor_page, anchor_held) = pool.latch(no)?;
        let mut note = change::ImageNote::new::<M>(2)?;
        let mut op = step.enter()?;
        step.publish_alloc(&mut op);
        if let Some((page, _)) = &log {
            log::init(m, *page);
            log::name_page(m, anchor_page, page.no());
        }
        let mut build = |page: Page<'_>, image: &Image<'_>| {
            L::build::<M, P>(m, page, image);
            change::note_image(m, &mut op, page, image, &mut note);
        };
        let open_end = Bounds { sibling: 0, high: 0, high_record: 0 };
        let mut root = left.no();
        match (&mut fresh, cut) {
            (Some(((right, right_held), (top, top_held))), Some(cut)) => {
                let to_right = Bounds { sibling: right.no(), high: cut, high_record: 0 };
                let empty = |low, right| Image { shape: leaf, low, right, slots: &[] };
                build(*right, &empty(cut, open_end));
                build(left, &empty(0, to_right));
                let entry = |page: Page<'_>, payload| crate::node::Slot {
                    ident: u64::from(page.no()),
                    payload,
                };
                let slots = [entry(left, 0), entry(*right, cut)];
                let shape = Shape { level: 1, ..leaf };
                build(*top, &Image { shape, low: 0, right: open_end, slots: &slots });
                root = top.no();
                right_held.set_ready();
                top_held.set_ready();
            }
            _ => build(left, &Image { shape: leaf, low: 0, right: open_end, slots: &[] }),
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
    /// As [`create`](Self::create).
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

    /// The page that names this tree in its pool.
    pub fn anchor(&self) -> PageNo {
        self.anchor
    }

    /// The pool that the tree is in.
    pub fn pool(&self) -> &Arc<Pool<M>> {
        &self.pool
    }

    pub(crate) fn medium(&self) -> &M {
        self.pool.medium()
    }

    pub(crate) fn root(&self) -> PageNo {
        self.root.load(Ordering::Acquire)
    }

    /// The version of a page that may be read; touches it first if nobody has in this open.
    #[inline(always)]
    pub(crate) fn read_version(&self, page: Page<'_>) -> Result<Version> {
        loop {
            match page.latch().read_version() {
                Seen::Ready(version) => return Ok(version),
                Seen::Absent => drop(self.pool.latch(page.no())?),
            }
        }
    }
}
