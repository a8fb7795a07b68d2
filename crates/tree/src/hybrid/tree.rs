//! The tree's handle: its pool, its inner nodes and its list of emptied leaves.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use everleaf_pmem::locks::Mutex;
use everleaf_pmem::{Buffered, Dram, Error, Geometry, Medium, Page, PageNo, Result};
use everleaf_pool::{CATALOG_ANCHOR, Hooks, Pool, anchor, kind, retry};

use crate::blink::Condition;
use crate::hybrid::epoch_bitmap::{self, Views};
use crate::hybrid::frame::{self, LeafRange};
use crate::index::Index;
use crate::named::CircTree;

/// Slots of inner nodes: 4 KiB, the fastest for an index in memory; for small pools less memory is
/// touched with 512 B.
const INNER_SLOTS: u32 = 256;
const INNER_SLOTS_OF_SMALL: u32 = 32;
/// Pages of a small pool, at most.
const SMALL_POOL: PageNo = 4096;

/// An ordered map from u64 to u64 on persistent memory, durable by epochs: a crash in epoch e goes
/// back to the end of e − 2 at worst. Every key and every value is allowed.
pub struct Hybrid<M: Medium> {
    pub(super) pool: Arc<Pool<Buffered<M>>>,
    pub(super) inner: CircTree<Dram>,
    /// The leftmost leaf, which stays.
    pub(super) head: PageNo,
    /// Leaves that a removal has emptied, or left sparse if leaves merge, for [`Hybrid::reclaim_empty`].
    pub(super) empty: Mutex<VecDeque<PageNo>>,
    /// Whether sparse leaves are merged.
    pub(super) merges: bool,
}

/// BD+Tree: buffered durability on strict medium `M`; leaves in the pool, inner nodes in DRAM.
pub type BdTree<M> = Hybrid<M>;

impl<M: Medium> Hybrid<M> {
    /// All that a pool must know about the leaves.
    pub fn hooks() -> Hooks<Buffered<M>> {
        let nodes = std::any::type_name::<Hybrid<M>>();
        Hooks { durable: Buffered::persisted_epoch, nodes, ..Hooks::default() }
    }

    /// Makes an empty pool for a tree of this type on a medium that is all zero.
    ///
    /// # Errors
    /// InvalidOption for pages of more than [`epoch_bitmap::SLOTS_MAX`] slots; otherwise the same as for
    /// [`Pool::format`].
    pub fn format_pool(medium: Buffered<M>) -> Result<Pool<Buffered<M>>> {
        fits(medium.geometry())?;
        Pool::format(medium, Self::hooks())
    }

    /// Opens a pool with a tree of this type.
    ///
    /// # Errors
    /// The same as for [`Pool::open`].
    pub fn open_pool(medium: Buffered<M>) -> Result<Pool<Buffered<M>>> {
        fits(medium.geometry())?;
        Pool::open(medium, Self::hooks())
    }

    /// Makes an empty tree on an anchor that has no root yet, durably.
    ///
    /// # Errors
    /// Full; InUse for an anchor that has a tree; WrongLayout for a pool that was opened for other trees;
    /// errors of the medium.
    pub fn create(pool: Arc<Pool<Buffered<M>>>, anchor: PageNo) -> Result<Self> {
        pool.expect_nodes(Self::hooks().nodes)?;
        let inner = Self::new_inner(&pool)?;
        let m = pool.medium();
        let head = retry(|| {
            let mut step = pool.step();
            let (page, _held) = step.new_page(kind::NODE)?;
            let (anchor_page, anchor_held) = pool.latch(anchor)?;
            if anchor::root_of(anchor_page)? != 0 {
                return Err(Error::InUse { what: "the anchor has a tree already" }.into());
            }
            let mut op = m.enter()?;
            step.publish_alloc(&mut op);
            epoch_bitmap::build_empty(m, page, m.epoch(&op));
            frame::set_range(page, LeafRange { low: 0, high: None });
            anchor::set_root(m, &mut op, anchor_page, page.no());
            drop(op);
            drop(anchor_held);
            Ok(page.no())
        })?;
        enter_inner(&inner, 0, head);
        Ok(Self { pool, inner, head, empty: Mutex::default(), merges: false })
    }

    /// Inner nodes with room for as many leaves as the pool has pages.
    pub(super) fn new_inner(pool: &Pool<Buffered<M>>) -> Result<CircTree<Dram>> {
        let limit = pool.medium().limit();
        let slots = if limit > SMALL_POOL { INNER_SLOTS } else { INNER_SLOTS_OF_SMALL };
        let geometry = Geometry::new(slots).expect("a power of two");
        let pages = u64::from(limit) * 4 / u64::from(slots) + 64;
        let memory = Dram::new(geometry, pages.min(u64::from(PageNo::MAX)) as PageNo)?;
        CircTree::create(Arc::new(CircTree::format_pool(memory)?), CATALOG_ANCHOR)
    }

    /// The pool that the tree is in.
    pub fn pool(&self) -> &Arc<Pool<Buffered<M>>> {
        &self.pool
    }

    /// The inner nodes: from the lowest key of a leaf to its page. For statistics.
    pub fn inner(&self) -> &CircTree<Dram> {
        &self.inner
    }

    /// The medium, which has the epochs.
    #[inline(always)]
    pub fn medium(&self) -> &Buffered<M> {
        self.pool.medium()
    }

    /// Makes everything durable that has returned. One end of an epoch is enough, where the paper needs
    /// two: ending an epoch waits for the steps that run in it, so none is left in flight.
    ///
    /// # Errors
    /// Poisoned; InsideBatch inside a `Buffered::pin_epoch`.
    pub fn sync(&self) -> Result<()> {
        self.medium().sync()
    }

    /// The slots that a leaf shows in the running epoch and in those that a crash may go back to.
    #[inline(always)]
    pub(super) fn views(&self, page: Page<'_>, epoch: u64) -> Views {
        Views::at(page, epoch, self.medium().recovered_epoch())
    }
}

/// Whether leaves can have this shape, and if not, why.
pub(crate) fn fits(geometry: Geometry) -> Result<()> {
    if epoch_bitmap::fits(geometry) {
        return Ok(());
    }
    let what = format!(
        "leaves of {} slots: they have a power of two of them, {} at most",
        geometry.slots(),
        epoch_bitmap::SLOTS_MAX
    );
    Err(Error::InvalidOption { option: "slots", what })
}

/// Leads searches of keys from `low` on to a leaf. If it fails the leaf is found all the same, by
/// one move to the right more.
pub(super) fn enter_inner(inner: &CircTree<Dram>, low: u64, leaf: PageNo) {
    let _ = inner.put(&low, &u64::from(leaf), Condition::Always);
}

impl<M: Medium> Index for Hybrid<M> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        Hybrid::get(self, key)
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Always).map(|put| put.old)
    }
    fn add(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Absent).map(|put| put.old)
    }
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Present).map(|put| put.old)
    }
    fn remove(&self, key: u64) -> Result<Option<u64>> {
        Hybrid::remove(self, key).map(|put| put.old)
    }
    fn first(&self) -> Result<Option<(u64, u64)>> {
        Hybrid::first(self)
    }
    fn last(&self) -> Result<Option<(u64, u64)>> {
        Hybrid::last(self)
    }
    fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>> {
        Hybrid::range(self, from, to, limit)
    }
    fn range_back(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, u64)>> {
        Hybrid::range_back(self, from, to, limit)
    }
}
