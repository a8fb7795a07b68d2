//! A layout whose splits are logged: the control of FAST+FAIR's experiments (§6, *FAST+Logging*),
//! which shows what a split without a log saves. All else is the layout inside.

use std::marker::PhantomData;

use super::layout::Layout;

/// `L`, with the undo log of [`blink`](crate::blink) around each split on media without a journal.
#[derive(Debug, Clone, Copy)]
pub struct Logged<L>(PhantomData<L>);

impl<L: Layout> Layout for Logged<L> {
    layout_as!(L: NAME, LOCK_FREE, capacity, insert, remove, absorb, trim, build, recover);
    // A pool whose trees have logs: only who looks at them may open it.
    const HASH: u64 = L::HASH | 1 << 24;
    const LOGGED: bool = true;
}
