//! How two neighbours of slots become one.

use everleaf_pmem::{Medium, Page, Result, fallible};
use everleaf_pool::{Pool, Step, Stop};

use crate::keys::{KeyBounds, Keys};
use crate::kind::{NodeMerges, UnderLog};
use crate::node::{
    Image, LOW_WORD, Layout, Probe, RightBounds, Run, Shape, Slot, change, change::ImageNote,
    sibling,
};

/// How many slots two nodes may fill together to be merged.
fn room_for_two(slots: usize) -> usize {
    slots * 7 / 8
}

/// A merge of two nodes of slots, before its step.
pub struct SlotMerge {
    /// The shape of the left node as it is.
    left: Shape,
    /// And as it will be.
    shape: Shape,
    bounds: RightBounds,
    slots: Vec<Slot>,
    /// How many of them are the left node's.
    own: usize,
    note: ImageNote,
}

impl<L: Layout, P: Probe, K: Keys> NodeMerges for (L, P, K) {
    type PreparedMerge = SlotMerge;

    /// Not each removal asks: two nodes that are looked at each time lose less than a sixteenth of a
    /// node unseen.
    #[inline(always)]
    fn is_sparse(page: Page<'_>, run: Run) -> bool {
        let slots = page.slots();
        run.count <= room_for_two(slots) && run.count.is_multiple_of(slots / 32 + 1)
    }

    fn load(_: Page<'_>, run: Run) -> usize {
        run.count
    }

    fn takes_another<M: Medium>(page: Page<'_>, shape: Shape, run: Run) -> bool {
        run.count < L::capacity::<M>(page.slots(), shape)
    }

    fn fit<M: Medium>(left: Page<'_>, right: Page<'_>, shape: Shape) -> bool {
        let [nl, nr] = [left, right].map(|page| Run::of(page).count);
        let nothing = usize::from(shape.level > 0);
        let most = L::capacity::<M>(left.slots(), shape);
        let most = if nl.min(nr) <= nothing { most } else { most.min(room_for_two(left.slots())) };
        // Void, in a leaf of words, is a key outside its bounds.
        let both_infinite = !K::BYTES
            && shape.level == 0
            && left.head(LOW_WORD).load() == 0
            && sibling(right).is_none();
        nl + nr <= most && !both_infinite
    }

    fn prepare_merge<M: Medium>(
        pool: &Pool<M>,
        left: Page<'_>,
        right: Page<'_>,
        shape: Shape,
    ) -> Result<Option<SlotMerge>> {
        let (merged_shape, bounds) = K::merged(pool, left, right, shape)?;
        let right_shape = Shape::of(right).expect("checked under its latch");
        let own = Run::of(left).count;
        let count = own + Run::of(right).count;
        debug_assert!(count <= left.slots(), "two nodes that do not fit into one");
        let mut slots = fallible::list(count, "a node")?;
        let note = ImageNote::new::<M>(count)?;
        for (page, from) in [(left, shape), (right, right_shape)] {
            let run = Run::of(page);
            for pos in 0..run.count {
                let slot = Slot::read(page, run.slot(page, pos));
                slots.push(K::reshape(pool, slot, from, merged_shape)?);
            }
        }
        Ok(Some(SlotMerge { left: shape, shape: merged_shape, bounds, slots, own, note }))
    }

    fn release_bound<M: Medium>(
        step: &mut Step<'_, M>,
        left: Page<'_>,
        right: Page<'_>,
    ) -> Result<(), Stop> {
        <K as KeyBounds>::release_bound(step, left, right)
    }

    fn merge<'m, M: Medium>(
        m: &'m M,
        op: &mut M::Op<'m>,
        left: Page<'_>,
        prepared: &mut SlotMerge,
        under_log: &mut UnderLog<'_>,
    ) {
        let SlotMerge { left: shape, shape: merged, bounds, slots, own, note } = prepared;
        let low = left.head(LOW_WORD).load();
        let image = Image { shape: *merged, low, right: *bounds, slots };
        if K::BYTES {
            under_log(&mut || L::build::<M, P>(m, left, &image));
        } else {
            L::absorb::<M, P>(m, left, *shape, &slots[*own..], *bounds);
        }
        change::note_image(m, op, left, &image, note);
    }
}
