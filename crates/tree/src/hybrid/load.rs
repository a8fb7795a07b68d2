//! Pairs in ascending order fill leaves at the right end of the tree, one leaf a step. The papers load by inserts.
//!
//! ```text
//! latch L, the last leaf, all of whose keys, old versions too, are below the pairs
//! L has free slots     they are taken as by inserts: lines are deferred
//! L has none           build R of as many pairs as a leaf has slots, flush, fence; L := (sibling R), flush, fence;
//!                      enter R in the inner nodes
//! ```
//!
//! Only the step's epoch shows what R holds. If that is lost, R is a leaf that shows nothing, which the rebuild takes out
//! of the chain. Its lines are written back at once, and once: the list of deferred lines does not grow with a load.

use everleaf_pmem::buffered::BufferedOp;
use everleaf_pmem::{Error, Medium, Page, Result};
use everleaf_pool::{Stop, kind};

use crate::blink::Condition;
use crate::hybrid::epoch_bitmap::{self as leaf, epoch_of, key_of, link, ones, usable};
use crate::hybrid::frame::{LeafRange, range, set_range};
use crate::hybrid::tree::{Hybrid, enter_inner};
use crate::hybrid::write::NewPair;

/// The result of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Pairs that are in the tree.
    pub pairs: u64,
    /// The epoch of the last of them: when it is durable, all are. `None` if there was no pair.
    pub epoch: Option<u64>,
}

impl<M: Medium> Hybrid<M> {
    /// Puts pairs whose keys ascend. Those that come behind all that the tree holds fill its leaves completely: a new tree
    /// has as few leaves as there can be. Others are [put](Self::put) one by one, and replace what is there.
    ///
    /// Pairs become durable as other writes do, each at the end of an epoch, in their order: a crash in the load or after
    /// it keeps the first so many. Inside a [`pin_epoch`](everleaf_pmem::Buffered::pin_epoch) all or none are there. A
    /// leaf is one operation of an epoch. It may run beside everything else, and holds no latch while it asks for pairs.
    /// O(pairs), two fences a leaf, and memory for the pairs of a leaf.
    ///
    /// # Errors
    /// NotAscending, for a key that is not above the one before it; and those of [`put`](Self::put). The pairs before are
    /// in the tree, but for those of the leaf that could not be made.
    pub fn load(&self, pairs: impl IntoIterator<Item = (u64, u64)>) -> Result<Loaded> {
        let most = usable(self.medium().geometry().slots()).count_ones() as usize;
        let mut loaded = Loaded::default();
        let (mut waiting, mut last) = (Vec::with_capacity(most), None);
        let mut pairs = pairs.into_iter();
        loop {
            let mut descends = false;
            while waiting.len() < most {
                let Some((key, value)) = pairs.next() else { break };
                descends = last.is_some_and(|last| key <= last);
                if descends {
                    break;
                }
                last = Some(key);
                waiting.push((key, value));
            }
            let is_last = descends || waiting.len() < most;
            while waiting.len() == most || (is_last && !waiting.is_empty()) {
                let (count, epoch) = self.put_ascending(&waiting)?;
                waiting.drain(..count);
                loaded = Loaded { pairs: loaded.pairs + count as u64, epoch: Some(epoch) };
            }
            match (descends, is_last) {
                (true, _) => return Err(Error::NotAscending { position: loaded.pairs }),
                (false, true) => return Ok(loaded),
                (false, false) => {}
            }
        }
    }

    /// Puts the first of some ascending pairs, at least one; their number and their epoch.
    fn put_ascending(&self, pairs: &[(u64, u64)]) -> Result<(usize, u64)> {
        self.medium().throttle(true)?;
        if let Some(done) = self.with_room(|| self.try_fill(pairs))? {
            return Ok(done);
        }
        let (key, value) = pairs[0];
        let put = self.with_room(|| self.try_put(key, value, Condition::Always))?;
        Ok((1, put.epoch.expect("an unconditional put has an epoch")))
    }

    /// Fills the last leaf or one behind it; `None` if that is not where the pairs belong.
    fn try_fill(&self, pairs: &[(u64, u64)]) -> Result<Option<(usize, u64)>, Stop> {
        let first = pairs[0].0;
        let (page, held) = self.latch_for(first)?;
        let views = self.views(page, self.medium().clock());
        let is_below = |slot| key_of(page, slot) < first;
        let is_last = range(page).is_some_and(|own| own.high.is_none());
        if !is_last || !ones(views.occupied()).all(is_below) {
            held.unlock_unchanged();
            return Ok(None);
        }
        if views.free_slot(page.slots()).is_some() {
            let mut op = self.medium().enter()?;
            let count = self.fill_free(&mut op, page, pairs);
            return Ok(Some((count, self.medium().epoch(&op))));
        }
        let mut step = self.pool.step();
        let (right, right_held) = step.new_page(kind::NODE)?;
        let m = self.medium();
        let mut op = m.enter()?;
        step.publish_alloc(&mut op);
        let count = pairs.len().min(usable(right.slots()).count_ones() as usize);
        leaf::build_filled(m, right, m.epoch(&op), &pairs[..count]);
        link(m, page, right.no());
        set_range(right, LeafRange { low: first, high: None });
        let low = range(page).map_or(0, |own| own.low);
        set_range(page, LeafRange { low, high: Some(first) });
        let epoch = epoch_of(right);
        drop(op);
        // While the new leaf is latched, so that it cannot be unlinked before it has been entered.
        enter_inner(&self.inner, first, right.no());
        drop((right_held, held));
        Ok(Some((count, epoch)))
    }

    /// Inserts the first of some pairs, none of which the leaf has, for as long as it has free slots.
    fn fill_free<'m>(
        &'m self,
        op: &mut BufferedOp<'m, M>,
        page: Page<'m>,
        pairs: &[(u64, u64)],
    ) -> usize {
        debug_assert!(page.latch().is_held(), "page {} is filled without its latch", page.no());
        let put = |&&(key, value): &&(u64, u64)| {
            self.store(op, page, &NewPair { key, value, found: None }).is_some()
        };
        pairs.iter().take_while(put).count()
    }
}
