//! The changes of a step to one node, as a journal keeps them, and how they are done again.
//!
//! Redo calls the layout functions that ran live, so there is no second implementation; operands
//! are checked first, because a journal is a file and files can be damaged.
//!
//! ```text
//! tag 1 INSERT   pos u16 | identity u64 | payload u64        tag 4 IDENT  pos u16 | identity u64
//! tag 2 REMOVE   pos u16                                     tag 5 IMAGE  kind u64 | low u64 | sibling u32
//! tag 3 PAYLOAD  pos u16 | payload u64                                    high u64 | high record u64 | slots
//! tag 6 TRIM     keep u16 | sibling u32 | high u64 | high record u64
//! ```

use everleaf_pmem::{Change, Error, Medium, Page, PageNo, Result, fallible};

use crate::node::{RightBounds, Run, Shape};
use crate::slots::layout::Layout;
use crate::slots::probe::Binary;
use crate::slots::writer::{Slot, SlotsImage};

const INSERT: u8 = 1;
const REMOVE: u8 = 2;
const PAYLOAD: u8 = 3;
const IDENT: u8 = 4;
const IMAGE: u8 = 5;
const TRIM: u8 = 6;
/// Tags from here on belong to the pool.
pub const TAG_END: u8 = 16;
const _: () = assert!(TRIM < TAG_END && TAG_END <= everleaf_pool::TAG_MIN);

/// Bytes of a whole node's note before its slots: shape, lower bound, sibling and upper bound.
const IMAGE_HEAD_BYTES: usize = 8 + 8 + 4 + 8 + 8;

/// Whether a change sets all of a node, so that what was on the page before does not matter.
pub fn is_whole(tag: u8) -> bool {
    tag == IMAGE
}

/// Notes an insert at `pos`.
#[inline]
pub fn note_insert<'m, M: Medium>(
    m: &'m M,
    op: &mut M::Op<'m>,
    page: Page<'_>,
    pos: usize,
    slot: Slot,
) {
    debug_assert!(pos < page.slots());
    let mut bytes = [0; 18];
    bytes[..2].copy_from_slice(&(pos as u16).to_le_bytes());
    bytes[2..10].copy_from_slice(&slot.ident.to_le_bytes());
    bytes[10..].copy_from_slice(&slot.payload.to_le_bytes());
    m.note(op, page, Change { tag: INSERT, bytes: &bytes });
}

/// Notes the removal of `pos`.
#[inline]
pub fn note_remove<'m, M: Medium>(m: &'m M, op: &mut M::Op<'m>, page: Page<'_>, pos: usize) {
    debug_assert!(pos < page.slots());
    m.note(op, page, Change { tag: REMOVE, bytes: &(pos as u16).to_le_bytes() });
}

fn note_word<'m, M: Medium>(
    m: &'m M,
    op: &mut M::Op<'m>,
    page: Page<'_>,
    tag: u8,
    pos: usize,
    word: u64,
) {
    let mut bytes = [0; 10];
    bytes[..2].copy_from_slice(&(pos as u16).to_le_bytes());
    bytes[2..].copy_from_slice(&word.to_le_bytes());
    m.note(op, page, Change { tag, bytes: &bytes });
}

/// Stores the payload of position `pos` in place (8 bytes, failure-atomic) and notes it.
#[inline]
pub fn set_payload<'m, M: Medium>(
    m: &'m M,
    op: &mut M::Op<'m>,
    page: Page<'_>,
    pos: usize,
    payload: u64,
) {
    store_payload(m, page, pos, payload);
    note_payload(m, op, page, pos, payload);
}

/// Stores the payload of position `pos` in place, durably.
#[inline]
pub fn store_payload<M: Medium>(m: &M, page: Page<'_>, pos: usize, payload: u64) {
    store_slot_word(m, page, pos, 1, payload);
}

/// Notes that.
#[inline]
pub fn note_payload<'m, M: Medium>(
    m: &'m M,
    op: &mut M::Op<'m>,
    page: Page<'_>,
    pos: usize,
    payload: u64,
) {
    note_word(m, op, page, PAYLOAD, pos, payload);
}

/// Stores the identity of position `pos` in place (8 bytes, failure-atomic) and notes it.
#[inline]
pub fn set_ident<'m, M: Medium>(
    m: &'m M,
    op: &mut M::Op<'m>,
    page: Page<'_>,
    pos: usize,
    ident: u64,
) {
    store_slot_word(m, page, pos, 0, ident);
    note_word(m, op, page, IDENT, pos, ident);
}

fn store_slot_word<M: Medium>(m: &M, page: Page<'_>, pos: usize, which: usize, value: u64) {
    debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
    debug_assert!(pos < Run::of(page).count, "no slot there");
    let p = Run::of(page).slot(page, pos);
    m.store(page.body(2 * p + which), value);
    m.flush(page, page.line_of(2 * p));
    m.fence();
}

/// Room for the note of a whole node. Make it before the step begins: inside a step nothing may fail.
pub struct ImageNote {
    bytes: Vec<u8>,
    slots: usize,
}

impl ImageNote {
    /// Makes room for nodes of at most `slots` slots.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn new<M: Medium>(slots: usize) -> Result<Self> {
        let bytes = if M::JOURNALED { IMAGE_HEAD_BYTES + size_of::<Slot>() * slots } else { 0 };
        Ok(Self { bytes: fallible::list(bytes, "the note of a node")?, slots })
    }
}

/// Notes a whole node.
pub fn note_image<'m, M: Medium>(
    m: &'m M,
    op: &mut M::Op<'m>,
    page: Page<'_>,
    image: &SlotsImage<'_>,
    note: &mut ImageNote,
) {
    if !M::JOURNALED {
        return;
    }
    debug_assert!(image.slots.len() <= note.slots, "a larger node than there is room for");
    let bytes = &mut note.bytes;
    bytes.clear();
    bytes.extend(image.shape.word().to_le_bytes());
    bytes.extend(image.low.to_le_bytes());
    bytes.extend(image.right.sibling.to_le_bytes());
    bytes.extend(image.right.high.to_le_bytes());
    bytes.extend(image.right.high_record.to_le_bytes());
    for slot in image.slots {
        bytes.extend(slot.ident.to_le_bytes());
        bytes.extend(slot.payload.to_le_bytes());
    }
    debug_assert_eq!(bytes.len(), IMAGE_HEAD_BYTES + size_of_val(image.slots));
    m.note(op, page, Change { tag: IMAGE, bytes });
}

/// Notes the left half of a split.
pub fn note_trim<'m, M: Medium>(
    m: &'m M,
    op: &mut M::Op<'m>,
    page: Page<'_>,
    keep: usize,
    to: RightBounds,
) {
    let mut bytes = [0; 22];
    bytes[..2].copy_from_slice(&(keep as u16).to_le_bytes());
    bytes[2..6].copy_from_slice(&to.sibling.to_le_bytes());
    bytes[6..14].copy_from_slice(&to.high.to_le_bytes());
    bytes[14..].copy_from_slice(&to.high_record.to_le_bytes());
    m.note(op, page, Change { tag: TRIM, bytes: &bytes });
}

/// Reads little-endian operands, and complains when they end early.
struct Operands<'a>(&'a [u8]);

impl Operands<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }
    fn u16(&mut self) -> Option<usize> {
        self.take().map(|b| usize::from(u16::from_le_bytes(b)))
    }
    fn page(&mut self) -> Option<PageNo> {
        self.take().map(PageNo::from_le_bytes)
    }
    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
    fn slot(&mut self) -> Option<Slot> {
        Some(Slot { ident: self.u64()?, payload: self.u64()? })
    }
}

/// Does a noted change again, on a page in the state before it.
///
/// # Errors
/// Corrupt, if the change cannot have been made to this page.
pub fn redo<M: Medium, L: Layout>(m: &M, page: Page<'_>, change: Change<'_>) -> Result<()> {
    let unfit = || {
        Error::corrupt(
            page.file_offset(),
            format!("the journal's change {} does not fit page {}", change.tag, page.no()),
        )
    };
    if change.tag != IMAGE {
        return try_redo::<M, L>(m, page, change).ok_or_else(unfit);
    }
    let slots = fallible::list(change.bytes.len() / 16, "a node of the journal")?;
    redo_image::<M, L>(m, page, change.bytes, slots).ok_or_else(unfit)
}

fn try_redo<M: Medium, L: Layout>(m: &M, page: Page<'_>, change: Change<'_>) -> Option<()> {
    let mut args = Operands(change.bytes);
    let shape = Shape::of(page)?;
    let n = Run::of(page).count;
    match change.tag {
        INSERT => {
            let (pos, slot) = (args.u16()?, args.slot()?);
            (pos <= n && n < L::capacity::<M>(page.slots(), shape))
                .then(|| L::insert::<M, Binary>(m, page, shape, pos, slot))
        }
        REMOVE => {
            let pos = args.u16()?;
            (pos < n && n <= page.slots()).then(|| L::remove::<M, Binary>(m, page, shape, pos))
        }
        PAYLOAD | IDENT => {
            let (pos, word) = (args.u16()?, args.u64()?);
            let which = usize::from(change.tag == PAYLOAD);
            (pos < n).then(|| store_slot_word(m, page, pos, which, word))
        }
        TRIM => {
            let keep = args.u16()?;
            let to =
                RightBounds { sibling: args.page()?, high: args.u64()?, high_record: args.u64()? };
            (keep <= n.min(page.slots())).then(|| L::trim::<M, Binary>(m, page, shape, keep, to))
        }
        _ => None,
    }
}

/// `slots` has room for those in the change.
fn redo_image<M: Medium, L: Layout>(
    m: &M,
    page: Page<'_>,
    bytes: &[u8],
    mut slots: Vec<Slot>,
) -> Option<()> {
    let mut args = Operands(bytes);
    let word = args.u64()?;
    let shape = Shape::from_word(word)?;
    let low = args.u64()?;
    let right = RightBounds { sibling: args.page()?, high: args.u64()?, high_record: args.u64()? };
    if !args.0.len().is_multiple_of(16) || args.0.len() / 16 > page.slots() {
        return None;
    }
    slots.extend(std::iter::from_fn(|| args.slot()));
    L::build::<M, Binary>(m, page, &SlotsImage { shape, low, right, slots: &slots });
    Some(())
}
