//! One change in each of several leaves, of one tree or of several, in one step: nobody sees a part of them.
//!
//! ```text
//! hold     latch each leaf at the version at which its key was found, and make its change ready
//! keep     what the changes replace, if somebody may want it
//! change   all of them in one step, and only then let the leaves go
//! ```
//!
//! From `hold` on nobody else changes these leaves, and nobody sees what they have until all of them are changed. So the caller
//! looks in between whether what it has read elsewhere is still so. Nothing waits for a latch here: a leaf that is not as it was
//! seen is refused, so they may come in any order.

use everleaf_pmem::{LatchGuard, Medium, Page, Result};

use crate::blink::batch::{BatchChange, ChangeOf};
use crate::blink::descend::{Blink, KeyPlace};
use crate::blink::write::{Condition, KeepBefore, Keeping, Old, Unwanted, Verdict};
use crate::node::{InLeaf, InputOf, KeyOf, Kind, PutPoint, ValueOf};

/// A latched leaf, and the change that is ready to be made in it. It is let go as it was, unless it is
/// [changed](Blink::change_held).
pub struct HeldLeaf<'s, 'a, K: Kind> {
    page: Page<'s>,
    /// The leaf as it is until the change, and the place in it.
    at: PutPoint<'s, K>,
    held: Option<LatchGuard<'s>>,
    place: KeyPlace,
    change: ChangeOf<'a, K>,
    ready: K::Ready<'a>,
    is_changed: bool,
    /// It may fit beside a neighbour.
    is_sparse: bool,
}

impl<'s, K: Kind> HeldLeaf<'s, '_, K> {
    /// Whether it is the leaf of a place, at the same version.
    pub fn is_of(&self, place: KeyPlace) -> bool {
        self.place.is_beside(&place)
    }

    /// Lets it go. Readers see the change from now on.
    pub fn let_go(&mut self) {
        match self.held.take() {
            Some(held) if self.is_changed => drop(held),
            Some(held) => held.unlock_unchanged(),
            None => {}
        }
    }
}

impl<K: Kind> Drop for HeldLeaf<'_, '_, K> {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Latches the leaf in which the key of a change was found, makes the change ready, and puts both where the caller says.
    /// False if the leaf is not as it was, or somebody has it, or the change asks for more than its leaf.
    ///
    /// # Errors
    /// Those of looking at a page.
    pub fn hold<'s, 'a>(
        &'s self,
        change: BatchChange<'a, KeyOf<K>, InputOf<K>>,
        place: KeyPlace,
        to: &mut Option<HeldLeaf<'s, 'a, K>>,
    ) -> Result<bool> {
        let page = self.medium().page(place.leaf)?;
        let Some(held) = page.latch().upgrade(place.version) else { return Ok(false) };
        let Some(node) = K::node(page) else {
            held.unlock_unchanged();
            return Ok(false);
        };
        let found = place.rank.exact.then(|| node.entry(place.rank.le - 1));
        let leaf = to.insert(HeldLeaf {
            page,
            at: PutPoint { node, rank: place.rank, found },
            held: Some(held),
            place,
            change,
            ready: K::Ready::default(),
            is_changed: false,
            is_sparse: false,
        });
        let HeldLeaf { at, ready, .. } = leaf;
        Ok(match change.value {
            Some(value) => {
                matches!(K::ready::<M>(ready, at, (change.key, value), None), InLeaf::Ready)
            }
            None => at.found.is_none_or(|entry| K::record(at.node.shape(), entry).is_none()),
        })
    }

    /// Keeps what the change of a leaf will replace. False if that cannot be kept under the latch.
    ///
    /// # Errors
    /// Those of the keeper.
    pub fn keep_held(
        &self,
        keeper: &dyn KeepBefore<KeyOf<K>, ValueOf<K>>,
        leaf: &HeldLeaf<'_, '_, K>,
    ) -> Result<bool> {
        let at = &leaf.at;
        if at.found.is_none() && leaf.change.value.is_none() {
            return Ok(true);
        }
        let mut old = Keeping::new(Unwanted::default(), keeper, Condition::Always);
        let look = Old::<M, K>::find(&mut old, self.pool(), leaf.change.key, at.found)?;
        Ok(look == Verdict::Write)
    }

    /// Makes the change of a leaf. The leaf stays latched; nothing can fail.
    pub fn change_held<'s>(&'s self, op: &mut M::Op<'s>, leaf: &mut HeldLeaf<'_, '_, K>) {
        let (m, BatchChange { key, value }) = (self.medium(), leaf.change);
        let at = &leaf.at;
        // Before the change: if that panics, nobody takes the leaf for what it was.
        leaf.is_changed = value.is_some() || at.rank.exact;
        match (value, at.rank.exact) {
            (None, false) => return,
            (None, true) => K::remove(m, op, leaf.page, at.node.shape(), at.rank.le - 1),
            (Some(value), _) => K::put_in_leaf(m, op, at, (key, value), &leaf.ready),
        }
        let more = i64::from(value.is_some()) - i64::from(at.rank.exact);
        if more != 0 {
            m.count(op, self.anchor(), more);
        }
        leaf.is_sparse =
            value.is_none() && K::node(leaf.page).is_some_and(|left| K::is_sparse(&left));
    }

    /// The upkeep after a change, with no leaf in hand; as after a removal alone.
    pub fn tidy_held(&self, leaf: &HeldLeaf<'_, '_, K>) {
        if leaf.is_sparse {
            let _ = self.merge_at(leaf.change.key);
        }
    }
}
