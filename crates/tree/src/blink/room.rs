//! Room for a pair in a full leaf: some of its entries go to a neighbour, or it is split.
//!
//! A split leaves two halves, so leaves that only split are seven tenths full in the mean. A leaf that
//! first looks whether a neighbour under the same parent has room is split only among full ones, and
//! leaves are about eight tenths full. The price is that more bytes are moved for each insert.
//!
//! ```text
//! latch left, right, parent    as for a merge: from the left to the right, children before parents
//! one step                     the full one gives, the other takes, the separator between them moves
//! ```
//!
//! Keys move to the left here, which nothing else does but a merge. A search that was led to the right
//! node notices: both its way (the parent) and the node have changed.

use everleaf_pmem::{LatchGuard, Medium, Page, PageNo, Result, Version};
use everleaf_pool::Stop;

use crate::blink::descend::{Blink, Seek};
use crate::blink::merge::{Family, Neighbours};
use crate::node::{Asking, KeyOf, Kind, NodeAt, PutPoint, Rank};

/// The outcome of an attempt to even out two leaves.
enum Evened {
    /// Entries have moved, or the full leaf has changed meanwhile: look again.
    Done,
    /// The neighbour cannot take enough.
    NoRoom,
    /// The two are not neighbours under one parent, or not known to be.
    NoFamily,
}

/// The neighbours of a leaf under its parent.
#[derive(Default)]
struct Beside {
    left: Option<PageNo>,
    right: Option<PageNo>,
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Makes room in a latched leaf that has none for the entry of `key`; `wants` says how much it wants
    /// in a leaf. The caller looks for its place again.
    #[cold]
    pub(super) fn make_room(
        &self,
        leaf: &NodeAt<'_, K>,
        held: LatchGuard<'_>,
        key: &KeyOf<K>,
        asking: Asking,
        wants: impl Fn(&PutPoint<'_, K>) -> Option<Asking>,
    ) -> Result<()> {
        if !K::EVENS || K::is_run(leaf, asking) || self.pool.is_counted() {
            return self.split(leaf, held, self.within(leaf, asking));
        }
        let version = held.before();
        held.unlock_unchanged();
        if self.even_out(leaf.page(), version, key, asking)? {
            return Ok(());
        }
        let Some((spot, held)) = self.latch_for(key, 0)? else { return Ok(()) };
        let node = spot.node;
        let (rank, found) = K::locate(&self.pool, &node, key)?;
        match wants(&PutPoint { node, rank, found }) {
            Some(asking) => self.split(&node, held, asking),
            None => {
                held.unlock_unchanged();
                Ok(())
            }
        }
    }

    /// An entry that asks for room at the end of a leaf, as if it were before the last entry, if the room that
    /// there is was counted for halves: a leaf that is filled at its end would be left full.
    fn within(&self, leaf: &NodeAt<'_, K>, asking: Asking) -> Asking {
        if !K::EVENS || !self.pool.is_counted() {
            return asking;
        }
        let le = asking.rank.le.min(leaf.count().saturating_sub(1));
        Asking { rank: Rank { le, ..asking.rank }, ..asking }
    }

    /// Lets a full leaf give entries to a neighbour. False if none can take them; true also if the leaf
    /// has changed meanwhile.
    fn even_out(
        &self,
        leaf: Page<'_>,
        version: Version,
        key: &KeyOf<K>,
        asking: Asking,
    ) -> Result<bool> {
        let Some(Beside { left, right }) = self.beside(leaf, key)? else { return Ok(false) };
        let load = |no: PageNo| -> Result<Option<usize>> {
            let page = self.medium().page(no)?;
            self.read_version(page)?;
            Ok(K::node(page).filter(|_| K::may_take(page)).map(|node| K::fill(&node).0))
        };
        let loads = [left, right].map(|no| no.map(load).transpose());
        let [of_left, of_right] = loads;
        let (of_left, of_right) = (of_left?.flatten(), of_right?.flatten());
        // The emptier one first: it takes more at once.
        let left_first = of_left.is_some_and(|l| of_right.is_none_or(|r| l <= r));
        let pairs = [
            left.filter(|_| of_left.is_some()).map(|left| (left, leaf.no())),
            right.filter(|_| of_right.is_some()).map(|right| (leaf.no(), right)),
        ];
        let order = if left_first { [0, 1] } else { [1, 0] };
        for pair in order.into_iter().filter_map(|i| pairs[i]) {
            match self.try_even(pair, leaf, version, key, asking) {
                Ok(Evened::Done) => return Ok(true),
                Ok(Evened::NoRoom) => {}
                Ok(Evened::NoFamily) | Err(Stop::Busy) => return Ok(false),
                Err(Stop::Failed(error)) => return Err(error),
            }
        }
        Ok(false)
    }

    /// The neighbours of a leaf, as its parent says; `None` if the parent does not know the leaf.
    fn beside(&self, leaf: Page<'_>, key: &KeyOf<K>) -> Result<Option<Beside>> {
        let Some(parent) = self.descend(Seek::At(key), 1)? else { return Ok(None) };
        let node = parent.node;
        let rank = K::rank(&self.pool, &node, key);
        let child = |pos: usize| K::child(&self.pool, node.entry(pos));
        let found = rank.and_then(|rank| {
            if rank.le == 0 || rank.le > node.count() || child(rank.le - 1)? != leaf.no() {
                return Ok(None);
            }
            let left = if rank.le > 1 { Some(child(rank.le - 2)?) } else { None };
            let right = if rank.le < node.count() { Some(child(rank.le)?) } else { None };
            Ok(Some(Beside { left, right }))
        });
        if node.page().latch().validate(parent.version) { found } else { Ok(None) }
    }

    fn try_even(
        &self,
        pair: (PageNo, PageNo),
        leaf: Page<'_>,
        version: Version,
        key: &KeyOf<K>,
        asking: Asking,
    ) -> Result<Evened, Stop> {
        let asks_left = pair.0 == leaf.no();
        let family = match self.latch_family(pair.0, pair.1, 0)? {
            Neighbours::Family(family, _) => family,
            // The split that follows, or the next writer, enters what the parent lacks.
            Neighbours::Split(_) | Neighbours::Other => return Ok(Evened::NoFamily),
        };
        if family.before(asks_left) != version {
            family.unlock_unchanged();
            return Ok(Evened::Done);
        }
        let Family { pages, .. } = &family;
        let Some(mut plan) = K::plan_even(&self.pool, pages, asking, asks_left, key)? else {
            family.unlock_unchanged();
            return Ok(Evened::NoRoom);
        };
        let m = self.medium();
        let mut op = m.enter()?;
        K::even(m, &mut op, pages, &mut plan);
        drop(op);
        drop(family);
        Ok(Evened::Done)
    }
}
