//! A layout whose splits are logged: the control of FAST+FAIR's experiments (§6, *FAST+Logging*),
//! which shows what a split without a log saves. All else is the layout inside.

use std::marker::PhantomData;

use everleaf_pmem::{Medium, Page, Result};

use super::{Bounds, Image, Layout, Probe, Shape, Slot};

/// `L`, with the undo log of [`blink`](crate::blink) around each split on media without a journal.
#[derive(Debug, Clone, Copy)]
pub struct Logged<L>(PhantomData<L>);

impl<L: Layout> Layout for Logged<L> {
    const NAME: &'static str = L::NAME;
    // A pool whose trees have logs: only who looks at them may open it.
    const HASH: u64 = L::HASH | 1 << 24;
    const LOCK_FREE: bool = L::LOCK_FREE;
    const LOGGED: bool = true;

    fn capacity<M: Medium>(slots: usize, shape: Shape) -> usize {
        L::capacity::<M>(slots, shape)
    }
    fn insert<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize, slot: Slot) {
        L::insert::<M, P>(m, page, shape, pos, slot);
    }
    fn remove<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize) {
        L::remove::<M, P>(m, page, shape, pos);
    }
    fn absorb<M: Medium, P: Probe>(
        m: &M,
        page: Page<'_>,
        shape: Shape,
        slots: &[Slot],
        to: Bounds,
    ) {
        L::absorb::<M, P>(m, page, shape, slots, to);
    }
    fn trim<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, keep: usize, to: Bounds) {
        L::trim::<M, P>(m, page, shape, keep, to);
    }
    fn build<M: Medium, P: Probe>(m: &M, page: Page<'_>, image: &Image<'_>) {
        L::build::<M, P>(m, page, image);
    }
    fn recover<M: Medium>(m: &M, page: Page<'_>, shape: Shape) -> Result<()> {
        L::recover(m, page, shape)
    }
}
