//! Where running steps leave their changes: 64 slots, each a mutex of its own cache lines.
//!
//! A thread always uses the same slot, so its mutex is free unless the slot is being emptied or
//! more than 64 threads write. A slot has one buffer for even and one for odd epochs: an epoch is
//! collected from all slots before the next one but one begins, so two are enough.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::medium::Change;
use crate::page::{Page, PageNo, SEQ_WORD};

use super::journal::RECORD_HEAD;

pub(super) const SLOTS: usize = 64;

/// Mark of a frame: the epoch of the first change since the last checkpoint copy, 0 = clean.
pub(super) const DIRTY_MARK: usize = 1;
/// Mark of a frame: the epoch of the last change.
pub(super) const LAST_MARK: usize = 2;

#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Slot(pub Mutex<SlotState>);

#[derive(Debug, Default)]
pub(super) struct SlotState {
    /// Records of the epochs with an even and with an odd number.
    pub bufs: [Vec<u8>; 2],
    /// Pages that became dirty here since the last checkpoint took the list.
    pub dirty: Vec<PageNo>,
}

/// A running step on a [`File`](super::File). It lands whole in one epoch. Keep it short: the end
/// of its epoch waits for it.
#[derive(Debug)]
pub struct Op<'m> {
    pub(super) slot: MutexGuard<'m, SlotState>,
    pub(super) epoch: u64,
}

impl Op<'_> {
    #[inline]
    pub(super) fn note(&mut self, page: Page<'_>, change: Change<'_>) {
        let n = change.bytes.len();
        assert!(n <= usize::from(u16::MAX) && change.tag != 0, "a change of {n} bytes");
        let seq = page.head(SEQ_WORD);
        let next = seq.load().wrapping_add(1);
        seq.put(next);
        if page.mark(DIRTY_MARK).load(Ordering::Relaxed) == 0 {
            page.mark(DIRTY_MARK).store(self.epoch, Ordering::Relaxed);
            self.slot.dirty.push(page.no());
        }
        page.mark(LAST_MARK).store(self.epoch, Ordering::Relaxed);
        let mut head = [0; RECORD_HEAD];
        head[0] = change.tag;
        head[1..3].copy_from_slice(&(n as u16).to_le_bytes());
        head[3..7].copy_from_slice(&page.no().to_le_bytes());
        head[7..11].copy_from_slice(&(next as u32).to_le_bytes());
        let buf = &mut self.slot.bufs[(self.epoch & 1) as usize];
        buf.reserve(RECORD_HEAD + n);
        buf.extend_from_slice(&head);
        buf.extend_from_slice(change.bytes);
    }
}

/// The slot of the calling thread.
#[inline]
pub(super) fn slot_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    let mine = MINE.get();
    if mine != usize::MAX {
        return mine;
    }
    let mine = NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS;
    MINE.set(mine);
    mine
}
