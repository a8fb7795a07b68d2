//! Many changes, leaf by leaf: one descent, one latch and one step for those that meet in a leaf.
//!
//! ```text
//! touch    down to the leaf of the first key; look for the place of each key of that leaf, and read what its change
//!          frees; the places are right while the leaf's version is the one that was seen. The next leaf is found from
//!          the node above this one, if it is under that
//! change   latch the leaf at that version, without a descent; change entry by entry; one step for all
//! ```
//!
//! A caller that has read a key knows its place. If nobody has changed the leaf since, that key is touched without a descent.
//! Somebody else may have changed the leaf between touch and change: then it is touched again. A change that asks for more
//! than its leaf, since it has no room or the value lives elsewhere, is made alone, as a single put is.
//!
//! A caller that must know before the first change that none will fail for want of room looks ahead at the nodes that
//! each of them will meet ([`Blink::stages`]).

use std::borrow::Borrow;

use everleaf_pmem::{Error, LatchGuard, Medium, Page, PageNo, Result, fallible};
use everleaf_pool::{Stop, retry};

use crate::blink::descend::{Blink, FoundNode, KeyPlace, Latched, Seek};
use crate::blink::write::{Condition, KeepBefore, Keeping, Old, Unwanted, Verdict};
use crate::node::{
    InLeaf, InputOf, KeyOf, Kind, NodeAt, NodeRoom, PutPoint, Rank, TreeKey, ValueOf, sibling,
};

/// Changes of one step at most. The end of an epoch, and readers of the leaf, wait for them.
const RUN_MAX: usize = 128;
/// So many pairs that come in one place may fill their leaf, and no more than so many are looked at.
const FILL_MIN: usize = 16;
const FILL_MAX: usize = 1 << 12;

/// One change of several: a new value, or none.
#[derive(Debug)]
pub struct BatchChange<'a, Q: ?Sized, V: ?Sized> {
    /// The key.
    pub key: &'a Q,
    /// Its new value; `None` removes it.
    pub value: Option<&'a V>,
}

impl<Q: ?Sized, V: ?Sized> Clone for BatchChange<'_, Q, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<Q: ?Sized, V: ?Sized> Copy for BatchChange<'_, Q, V> {}

impl KeyPlace {
    /// Whether the key is there.
    pub fn is_there(&self) -> bool {
        self.rank.exact
    }

    /// Whether the two keys come between the same entries of a leaf.
    fn is_in_gap_of(&self, other: &KeyPlace) -> bool {
        self.is_beside(other) && self.rank == other.rank
    }

    /// Whether they are in the same leaf at the same version.
    pub(super) fn is_beside(&self, other: &KeyPlace) -> bool {
        (self.leaf, self.version) == (other.leaf, other.version)
    }

    /// The place after so many keys have come before it, or gone.
    fn moved(&self, by: isize) -> Rank {
        Rank { le: self.rank.le.wrapping_add_signed(by), ..self.rank }
    }
}

/// One change of a tree.
pub(super) type ChangeOf<'a, K> = BatchChange<'a, KeyOf<K>, InputOf<K>>;

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Whether a longer value for a key that is there makes its leaf fuller.
    pub const VALUES_GROW: bool = K::VALUES_GROW;

    /// Looks at all that some changes, whose keys ascend, will change or free, and stores the place of each. A page that
    /// cannot be read, or that is damaged, is an error now, and not when the changes are half made. O(log n) for each
    /// leaf, and for each key within its leaf. Where `seen` has a place, the key of the change was read there.
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory.
    pub fn touch(
        &self,
        changes: &[ChangeOf<'_, K>],
        seen: &[Option<KeyPlace>],
        places: &mut [Option<KeyPlace>],
    ) -> Result<()> {
        debug_assert_eq!(changes.len(), places.len());
        let (mut done, mut parent) = (0, None);
        while done < changes.len() {
            if let Some(Some(place)) = seen.get(done)
                && self.touch_seen(place)?
            {
                places[done] = Some(*place);
                done += 1;
                continue;
            }
            done += self.touch_leaf(&mut parent, &changes[done..], &mut places[done..])?;
        }
        Ok(())
    }

    /// The same for a key that was read. False if somebody has changed its leaf since, or it has more to be looked at.
    fn touch_seen(&self, place: &KeyPlace) -> Result<bool> {
        let page = self.medium().page(place.leaf)?;
        let Some(held) = page.latch().upgrade(place.version) else { return Ok(false) };
        let is_all = K::node(page).is_some_and(|leaf| {
            let entry = place.rank.exact.then(|| leaf.entry(place.rank.le - 1));
            entry.is_none_or(|entry| K::record(leaf.shape(), entry).is_none())
        });
        held.unlock_unchanged();
        Ok(is_all)
    }

    /// The same for those of the first leaf; says how many they are. `parent` is the node above the leaf of the
    /// changes before, and becomes that of this one.
    fn touch_leaf<'s>(
        &'s self,
        parent: &mut Option<FoundNode<'s, K>>,
        changes: &[ChangeOf<'_, K>],
        places: &mut [Option<KeyPlace>],
    ) -> Result<usize> {
        let Some(first) = changes.first() else { return Ok(0) };
        let (count, lag) = retry(|| {
            let (spot, held) = self.latch_next(parent, first.key)?;
            let count = self.touch_latched(&spot.node, &held, (changes, &mut *places))?;
            held.unlock_unchanged();
            Ok((count, spot.lag))
        })?;
        // Upkeep, as in `put`.
        let _ = self.complete(lag);
        Ok(count)
    }

    /// The leaf for a key, latched; that of a smaller key was under `parent`.
    fn latch_next<'s>(
        &'s self,
        parent: &mut Option<FoundNode<'s, K>>,
        key: &KeyOf<K>,
    ) -> Result<Latched<'s, K>, Stop> {
        let under = |parent: &Option<FoundNode<'s, K>>| self.latch_under(parent.as_ref()?, key);
        if let Some(leaf) = under(parent) {
            return Ok(leaf);
        }
        *parent = self.descend(Seek::At(key), 1)?;
        match under(parent) {
            Some(leaf) => Ok(leaf),
            None => self.latch_for(key, 0)?.ok_or(Stop::Busy),
        }
    }

    /// The leaf for a key, if a node above the leaves, which has held a smaller key, says where it is; `None` also if
    /// anything has changed, or is damaged: a search from the root finds it, or the damage.
    fn latch_under<'s>(
        &'s self,
        parent: &FoundNode<'s, K>,
        key: &KeyOf<K>,
    ) -> Option<Latched<'s, K>> {
        let (seek, latch) = (Seek::At(key), parent.node.page().latch());
        if self.is_left_of(&parent.node, seek).ok()? {
            return None;
        }
        let child = self.child_of(&parent.node, seek).ok()?;
        if !latch.validate(parent.version) {
            return None;
        }
        let page = self.medium().page(child).ok()?;
        K::prefetch(page);
        if page.latch().is_locked() {
            return None;
        }
        let version = self.read_version(page).ok()?;
        if !latch.validate(parent.version) {
            return None;
        }
        let node = NodeAt::of(page, 0)?;
        if self.is_left_of(&node, seek).ok()? {
            return None;
        }
        let held = page.latch().upgrade(version)?;
        Some((FoundNode { node, version, lag: None }, held))
    }

    fn touch_latched(
        &self,
        leaf: &NodeAt<'_, K>,
        held: &LatchGuard<'_>,
        (changes, places): (&[ChangeOf<'_, K>], &mut [Option<KeyPlace>]),
    ) -> Result<usize, Stop> {
        let (count, mut is_behind_all) = (leaf.count(), false);
        for (i, (change, place)) in changes.iter().zip(&mut *places).enumerate() {
            if i > 0 && self.is_left_of(leaf, Seek::At(change.key))? {
                return Ok(i);
            }
            let (rank, found) = match is_behind_all {
                true => (Rank { le: count, exact: false }, None),
                false => K::locate(&self.pool, leaf, change.key)?,
            };
            is_behind_all = rank.le == count;
            if let Some(entry) = found.filter(|entry| K::record(leaf.shape(), *entry).is_some()) {
                K::release(&mut self.pool.step(), entry)?;
            }
            *place = Some(KeyPlace { leaf: leaf.page().no(), version: held.before(), rank });
        }
        Ok(changes.len().min(places.len()))
    }

    /// Makes the first of some changes, whose keys ascend and have been [touched](Self::touch): those that meet
    /// in one leaf, at most. Says how many; after a crash all of these are there or none. With a keeper, it keeps
    /// what they replace. The pages that were touched have stayed in memory.
    ///
    /// # Errors
    /// Those of [`set`](Self::set) and [`delete`](Self::delete); nothing has changed then.
    pub fn change_leaf(
        &self,
        keeper: Option<&dyn KeepBefore<KeyOf<K>, ValueOf<K>>>,
        changes: &[ChangeOf<'_, K>],
        places: &mut [Option<KeyPlace>],
    ) -> Result<usize> {
        let Some(&BatchChange { key, value }) = changes.first() else { return Ok(0) };
        let filled = self.fill_gap(keeper, changes, places)?;
        let done = match keeper {
            _ if !K::FILLS || filled > 0 => filled,
            None => self.change_run(&mut Unwanted::default(), changes, places)?,
            Some(keeper) => {
                let mut old = Keeping::new(Unwanted::default(), keeper, Condition::Always);
                self.change_run(&mut old, changes, places)?
            }
        };
        if done > 0 {
            return Ok(done);
        }
        match (keeper, value) {
            (None, Some(value)) => self.set(key, value, Condition::Always),
            (None, None) => self.delete(key),
            (Some(keeper), Some(value)) => self.set_keeping(keeper, key, value, Condition::Always),
            (Some(keeper), None) => self.delete_keeping(keeper, key),
        }?;
        Ok(1)
    }

    /// Fills a leaf, if many pairs come in one place of it. Says how many it has put. Not while room was counted for
    /// leaves that are split in halves.
    fn fill_gap(
        &self,
        keeper: Option<&dyn KeepBefore<KeyOf<K>, ValueOf<K>>>,
        changes: &[ChangeOf<'_, K>],
        places: &[Option<KeyPlace>],
    ) -> Result<usize> {
        let Some(first) = places.first().copied().flatten() else { return Ok(0) };
        if !K::FILLS || first.rank.exact || self.pool.is_counted() {
            return Ok(0);
        }
        let in_gap = |at: &Option<KeyPlace>| at.filter(|at| at.is_in_gap_of(&first));
        let gap = || changes.iter().zip(places.iter().map_while(in_gap)).take(FILL_MAX);
        let pairs = || gap().map_while(|(change, _)| Some((change.key, change.value?)));
        if pairs().nth(FILL_MIN - 1).is_none() {
            return Ok(0);
        }
        let mut list = fallible::list(pairs().count(), "pairs of a batch")?;
        list.extend(pairs());
        match self.fill_leaf(keeper, &list) {
            // A pair may have room where a leaf has none.
            Err(Error::Full { .. }) => Ok(0),
            filled => filled,
        }
    }

    /// 0 if the first change is to be made alone.
    fn change_run<'s, O: Old<'s, M, K>>(
        &'s self,
        old: &mut O,
        changes: &[ChangeOf<'_, K>],
        places: &mut [Option<KeyPlace>],
    ) -> Result<usize> {
        for has_touched in [false, true] {
            if let Some(place) = places.first().copied().flatten()
                && let page = self.medium().page(place.leaf)?
                && let Some(held) = page.latch().upgrade(place.version)
            {
                let beside = |at: &Option<KeyPlace>| at.filter(|at| at.is_beside(&place));
                let run = places.iter().map_while(beside).zip(changes).take(RUN_MAX);
                let (done, is_sparse) = self.change_latched(old, (page, held), run)?;
                if is_sparse {
                    let _ = self.merge_at(changes[done - 1].key);
                }
                return Ok(done);
            }
            if !has_touched {
                // Somebody has changed it: it has split, say, for a change before this one.
                let some = changes.len().min(RUN_MAX);
                self.touch_leaf(&mut None, &changes[..some], &mut places[..some])?;
            }
        }
        Ok(0)
    }

    /// Makes changes that meet in a leaf up to the first one that asks for more. Says how many, and whether the leaf
    /// may fit beside a neighbour.
    fn change_latched<'s, 'a, O: Old<'s, M, K>>(
        &'s self,
        old: &mut O,
        (page, held): (Page<'_>, LatchGuard<'_>),
        run: impl Iterator<Item = (KeyPlace, &'a ChangeOf<'a, K>)> + Clone,
    ) -> Result<(usize, bool)>
    where
        K: 'a,
    {
        let (m, count) = (self.medium(), run.clone().count());
        let (mut op, mut done, mut more) = (None, 0, 0_isize);
        let mut has_removed = false;
        for (place, BatchChange { key, value }) in run {
            let Some(node) = K::node(page) else { break };
            let rank = place.moved(more);
            let found = rank.exact.then(|| node.entry(rank.le - 1));
            if value.is_none() && found.is_none() {
                done += 1;
                continue;
            }
            match old.find(&self.pool, key, found) {
                Ok(Verdict::Write) => {}
                Err(error) if done == 0 => return Err(error),
                // It comes again, alone.
                Ok(_) | Err(_) => break,
            }
            let at = PutPoint { node, rank, found };
            let mut ready = K::Ready::default();
            let fits = match value {
                Some(value) => {
                    let answer = K::ready::<M>(&mut ready, &at, (key, value), None);
                    matches!(answer, InLeaf::Ready)
                }
                None => found.is_some_and(|entry| K::record(node.shape(), entry).is_none()),
            };
            if !fits {
                break;
            }
            let op = match &mut op {
                Some(op) => op,
                None => op.insert(m.enter_for(count)?),
            };
            match value {
                Some(value) => K::put_in_leaf(m, op, &at, (key, value), &ready),
                None => K::remove(m, op, page, node.shape(), rank.le - 1),
            }
            (done, has_removed) = (done + 1, has_removed | value.is_none());
            more += isize::from(value.is_some()) - isize::from(rank.exact);
        }
        let is_sparse = has_removed && K::node(page).is_some_and(|leaf| K::is_sparse(&leaf));
        match op {
            None => held.unlock_unchanged(),
            Some(mut op) => {
                if more != 0 {
                    m.count(&mut op, self.anchor(), more as i64);
                }
                drop(op);
                drop(held);
            }
        }
        Ok((done, is_sparse))
    }
}

/// A node on the way to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// Its page.
    pub page: PageNo,
    /// How full it is.
    pub room: NodeRoom,
    /// Bytes of its longest key, if it may be split; else 0.
    pub longest: usize,
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// The nodes on the way to `key`, the leaf first, for a value of so many bytes. Reads all keys of the
    /// nodes that `adds` more such entries may split. Nobody else may write meanwhile.
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory.
    pub fn stages(&self, key: &KeyOf<K>, value_bytes: usize, adds: usize) -> Result<Vec<Stage>> {
        let mut stages = Vec::new();
        for level in 0.. {
            let Some(spot) = self.descend(Seek::At(key), level)? else { break };
            let node = spot.node;
            let room = K::stage::<M>(&node, key, value_bytes);
            let mut stage = Stage { page: node.page().no(), room, longest: 0 };
            if room.load.saturating_add(adds.saturating_mul(room.entry)) > room.room {
                for pos in 0..node.count() {
                    let key = K::key(&self.pool, node.shape(), node.entry(pos))?;
                    stage.longest = stage.longest.max(K::Key::weight(key.borrow()));
                }
                if sibling(node.page()).is_some() {
                    let high = K::high(&self.pool, node.page())?;
                    stage.longest = stage.longest.max(K::Key::weight(high.borrow()));
                }
            }
            fallible::push(&mut stages, stage, "the way to a key")?;
        }
        Ok(stages)
    }
}
