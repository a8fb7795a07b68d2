//! How frames leave memory: in pieces of the system's pages, once all pages of a piece have left.
//!
//! A frame says nothing of an absent page that cannot be forgotten: its latch's version only must not come
//! [again](everleaf_pmem::latch), and what its marks say of changes is in an image that is durable. While frames take a
//! small part of memory they stay, so that a page that comes back costs nothing for its frame; beyond that they go, or
//! memory would grow with the file (64 bytes for each page that was ever touched).

use std::sync::TryLockError;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};

use everleaf_pmem::page::Page;

use crate::epochs::slots::{COPIED_MARK, DIRTY_MARK, LAST_MARK};
use crate::inner::Inner;
use crate::memory::budget::Part;

/// Frames stay while they take no more than this part of memory.
const FRAMES_PART: u64 = 16;
/// Pieces that are looked at in one go, at most: some for each page that leaves.
const LOOKS: u64 = 256;
/// Pieces that are given back by one call, and in one go, at most.
const AT_ONCE: usize = 32;

impl Inner {
    /// Gives frames back of whose pages none is in memory, if frames take more than their part of memory. Never waits.
    pub(super) fn evict_frames(&self, is_poisoned: bool) {
        let (residents, frames) = (&self.residents, &self.residents.frames);
        let most = residents.part(Part::Frames, FRAMES_PART);
        let are_few = || most.is_none_or(|most| frames.in_memory() <= most);
        // A page that has come again has lost its marks, which might be the only hint that its image may be gone.
        if frames.bytes.is_none() || are_few() || is_poisoned {
            return;
        }
        let mut hand = match frames.hand.try_lock() {
            Ok(hand) => hand,
            Err(TryLockError::Poisoned(hand)) => hand.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let (mut taken, mut n) = ([0; AT_ONCE], 0);
        for _ in 0..LOOKS.min(frames.pieces.load(Relaxed)) {
            let Some(piece) = residents.next_piece(&mut hand).filter(|_| !are_few()) else { break };
            let Some(piece) = piece.filter(|piece| self.take_frames(*piece)) else { continue };
            taken[n] = piece;
            n += 1;
            if n == AT_ONCE {
                break;
            }
        }
        // A thread that wants one of their pages waits.
        self.region.give_frames_back(taken[..n].iter().copied());
    }

    /// Latches all pages of a piece of frames that can go, and counts it as gone.
    fn take_frames(&self, piece: usize) -> bool {
        let frames = &self.residents.frames;
        let imaged = frames.imaged.load(SeqCst);
        let may = |page: Page<'_>| {
            let marks = [DIRTY_MARK, COPIED_MARK].map(|mark| page.mark(mark).load(Relaxed));
            // Asked when all are latched: a caller that begins to keep frames later finds them gone.
            marks == [0; 2]
                && page.mark(LAST_MARK).load(Relaxed) <= imaged
                && !(frames.stays)(page)
                && frames.kept.load(SeqCst) == 0
        };
        let is_taken = self.region.take_frames(piece, may);
        if is_taken {
            // Before one of its pages can come back and count it again.
            self.residents.forget_piece(piece);
        }
        is_taken
    }
}
