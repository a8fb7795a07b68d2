//! How large pages are.
//!
//! There are two shapes. The body of one has a power of two of slots, for nodes that go round in it. A
//! *whole* page is itself a power of two of bytes, its header inside. It has four slots less than a power
//! of two, which is how the two are told apart wherever a number of slots is all that is kept.

/// Bytes of a cache line, the unit of flushing.
pub const LINE_BYTES: usize = 64;
/// Bytes of the largest page that there can be.
pub const LARGEST_PAGE: usize = WHOLE_MAX as usize;
/// The most slots that a page with a power of two of them can have, and the fewest.
const SLOTS_MAX: u32 = 1024;
const SLOTS_MIN: u32 = 4;
/// Bytes of the largest whole page, and of the smallest.
const WHOLE_MAX: u32 = 32 << 10;
const WHOLE_MIN: u32 = 512;
/// Slots that would be where a whole page has its header.
const HEAD_SLOTS: u32 = LINE_BYTES as u32 / 16;

const _: () = {
    assert!(SLOTS_MIN.is_power_of_two() && SLOTS_MAX.is_power_of_two());
    assert!(16 * SLOTS_MIN as usize >= LINE_BYTES, "a body has whole lines");
    assert!(LINE_BYTES + 16 * SLOTS_MAX as usize <= LARGEST_PAGE, "the other shape is smaller");
    assert!(WHOLE_MIN.is_power_of_two() && WHOLE_MAX.is_power_of_two());
    assert!(WHOLE_MIN / 16 - HEAD_SLOTS > HEAD_SLOTS, "whole pages have no power of two of slots");
    assert!(WHOLE_MAX / 16 <= u16::MAX as u32, "slots fit in 16 bits");
};

/// The shape of all pages of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    slots: u16,
    /// What follows from the slots, since each access to an aid needs it.
    aid_words: u16,
}

impl Geometry {
    /// Pages of `slots` 16-byte slots. `slots` is a power of two in 4..=1024 (4 only makes sense
    /// in tests: it makes splits and wrap-around happen early).
    pub const fn new(slots: u32) -> Option<Self> {
        if slots.is_power_of_two() && SLOTS_MIN <= slots && slots <= SLOTS_MAX {
            let lines = slots as u16 / 4;
            Some(Self { slots: slots as u16, aid_words: if lines < 8 { 8 } else { lines } })
        } else {
            None
        }
    }
    /// Pages of `page_bytes` with the header inside: a power of two in 512..=32768. They have four
    /// slots less than a power of two, which is how they are told apart.
    pub const fn whole(page_bytes: u32) -> Option<Self> {
        if page_bytes.is_power_of_two() && WHOLE_MIN <= page_bytes && page_bytes <= WHOLE_MAX {
            Some(Self { slots: (page_bytes / 16 - HEAD_SLOTS) as u16, aid_words: 0 })
        } else {
            None
        }
    }
    /// Pages of either shape, from the number of slots that a superblock or an option says.
    pub const fn from_slots(slots: u32) -> Option<Self> {
        if slots.is_power_of_two() {
            Self::new(slots)
        } else if slots < WHOLE_MAX {
            Self::whole(16 * (slots + HEAD_SLOTS))
        } else {
            None
        }
    }
    /// Whether the header is inside of a power of two of bytes.
    pub const fn is_whole(self) -> bool {
        !self.slots.is_power_of_two()
    }
    /// Slots in one page.
    pub const fn slots(self) -> usize {
        self.slots as usize
    }
    /// Bytes of one page: the header line and the slots.
    pub const fn page_bytes(self) -> usize {
        LINE_BYTES + 16 * self.slots as usize
    }
    /// Words of one page.
    pub const fn page_words(self) -> usize {
        self.page_bytes() / 8
    }
    /// Words of the search aid beside one page, a power of two of lines: a word for each body line.
    /// Whole pages have none, for their nodes are searched without: a frame of theirs is one line.
    pub const fn aid_words(self) -> usize {
        self.aid_words as usize
    }
    /// Bytes of one frame.
    pub const fn frame_bytes(self) -> usize {
        LINE_BYTES + 8 * self.aid_words()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_slots_says_which_shape_it_is() {
        for slots in 0..if cfg!(miri) { 600 } else { 70_000 } {
            let (round, whole) = (Geometry::new(slots), Geometry::whole(16 * slots + 64));
            assert!(round.is_none() || whole.is_none());
            assert_eq!(Geometry::from_slots(slots), round.or(whole));
            for g in [round, whole].into_iter().flatten() {
                assert_eq!((g.slots(), g.is_whole()), (slots as usize, whole.is_some()));
                let has_aid = g.aid_words().is_power_of_two() && g.aid_words() >= 8;
                assert_eq!((has_aid, g.frame_bytes() == 64), (!g.is_whole(), g.is_whole()));
                assert!(g.page_bytes() <= LARGEST_PAGE && g.page_bytes().is_multiple_of(64));
            }
        }
        let bytes = |n: u32| Geometry::whole(n).map(|g| (g.slots(), g.page_bytes()));
        let all = [512, 1024, 2048, 4096, 8192, 16_384, 32_768].map(bytes);
        let slots = [28, 60, 124, 252, 508, 1020, 2044];
        assert_eq!(all, slots.map(|slots| Some((slots, 16 * slots + 64))));
        for none in [0, 64, 256, 513, 65_536, u32::MAX] {
            assert_eq!((bytes(none), Geometry::from_slots(none.saturating_mul(63))), (None, None));
        }
    }
}
