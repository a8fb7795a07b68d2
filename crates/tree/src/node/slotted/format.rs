//! Where everything is in a page, and the limits that follow from its size.

/// Header word: count, heap start, dead bytes, flags; 16 bits each.
pub const RUN_WORD: usize = 0;
/// Header word: the sibling in the low half.
pub const SIBLING_WORD: usize = 1;
/// Header word: where the low fence is, its length, where the high fence is, its length.
pub const FENCES_WORD: usize = 2;
/// Header word: the first 8 bytes of the high fence behind the prefix.
pub const HIGH_HEAD_WORD: usize = 3;
/// Header word without a use: 0.
pub const SPARE_WORD: usize = 4;

/// Word of a page where the slots begin, and the byte.
pub const FIRST_SLOT: usize = 8;
/// Byte of a page where the slots begin.
pub const SLOTS_AT: usize = 8 * FIRST_SLOT;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 8;
/// How many bytes of a suffix are in its slot, and only there.
pub const HEAD_BYTES: usize = 6;
/// How many bytes of a suffix an entry keeps of a key that is cut, when it is inserted.
pub const KEPT_BYTES: usize = 26;
/// Bytes of a reference to a record.
pub const REFERENCE_BYTES: usize = 8;
/// Bytes of a child's number.
pub const CHILD_BYTES: usize = 4;
/// Bytes of a child's number and of the reference to the record of its separator, which is cut.
pub const LONG_CHILD_BYTES: usize = CHILD_BYTES + REFERENCE_BYTES;

/// The length of a fence that there is not: the node begins at -infinity, or ends at +infinity.
pub const NO_FENCE: u16 = 0xffff;
/// Flag of the node: 8 bytes behind the low fence name the record that holds it whole.
pub const LOW_IS_LONG: u16 = 1;
/// Flag of the node: the same of the high fence.
pub const HIGH_IS_LONG: u16 = 2;
/// Where in the flags the length of the run is.
pub const RUN_SHIFT: u32 = 8;
/// After so many inserts in a row at the end a node is filled from left to right.
pub const LONG_RUN: usize = 8;
/// A run is not counted further.
pub const RUN_MAX: usize = 255;

/// The smallest page that there is, for tests, and the largest.
pub const PAGE_BYTES_MIN: usize = 512;
/// The largest page: offsets have 16 bits, and lengths of suffixes 15.
pub const PAGE_BYTES_MAX: usize = 1 << 15;

/// The longest key that an entry keeps whole. Longer ones are cut.
#[inline(always)]
pub const fn whole_key_max(page_bytes: usize) -> usize {
    page_bytes / 8
}

/// The longest value that an entry keeps. Longer ones are in records.
#[inline(always)]
pub const fn inline_value_max(page_bytes: usize) -> usize {
    page_bytes / 8
}

/// How many bytes of a fence a node keeps; of a longer one a record holds all.
#[inline(always)]
pub const fn fence_max(page_bytes: usize) -> usize {
    page_bytes / 8
}

/// The longest prefix. A long fence has at least the 8 bytes for the header behind it, and a cut key the 6
/// for its slot and one that is not kept.
#[inline(always)]
pub const fn prefix_max(page_bytes: usize) -> usize {
    fence_max(page_bytes) - 8
}

/// Bytes that slots, entries and fences have together.
#[inline(always)]
pub const fn room(page_bytes: usize) -> usize {
    page_bytes - SLOTS_AT
}

/// The most slots that a page can have.
#[inline(always)]
pub const fn slots_max(page_bytes: usize) -> usize {
    room(page_bytes) / (SLOT_BYTES + 1)
}

const _: () = {
    let mut page = PAGE_BYTES_MIN;
    while page <= PAGE_BYTES_MAX {
        // Code and lengths, a whole key with an inline value, and a slot. A cut key keeps at most the
        // bytes of a prefix and those of its insertion, and has a child and a reference.
        let whole = SLOT_BYTES + 5 + whole_key_max(page) - HEAD_BYTES + inline_value_max(page);
        let cut = SLOT_BYTES + 3 + prefix_max(page) + KEPT_BYTES - HEAD_BYTES + LONG_CHILD_BYTES;
        let entry = if whole > cut { whole } else { cut };
        let fences = 2 * (fence_max(page) + REFERENCE_BYTES);
        assert!(fences + 2 * entry <= room(page), "beside one entry is always room for another");
        assert!(fence_max(page) < NO_FENCE as usize);
        assert!(whole_key_max(page) - prefix_max(page) >= HEAD_BYTES);
        page *= 2;
    }
};
