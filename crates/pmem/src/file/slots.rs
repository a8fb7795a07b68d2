//! Where running steps leave their changes: in the slots of the epoch clock.

use std::sync::atomic::Ordering;

use crate::epoch::Inside;
use crate::medium::Change;
use crate::page::{Page, PageNo, SEQ_WORD};

use super::journal::RECORD_HEAD;

/// Mark of a frame: the epoch of the first change since the last checkpoint copy, 0 = clean.
pub(super) const DIRTY_MARK: usize = 1;
/// Mark of a frame: the epoch of the last change.
pub(super) const LAST_MARK: usize = 2;

/// What one slot keeps.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Records of the epochs with an even and with an odd number.
    pub bufs: [Vec<u8>; 2],
    /// Pages that became dirty here since the last checkpoint took the list.
    pub dirty: Vec<PageNo>,
}

/// A running step on a [`File`](super::File). It lands whole in one epoch. Keep it short: the end
/// of its epoch waits for it.
#[derive(Debug)]
pub struct Op<'m> {
    pub(super) slot: Inside<'m, Changes>,
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
