//! Noted changes: what a step does to a node and tells the journal, and how that is done again.
//!
//! Redo looks at the operands and at what of the page they meet, because both come from files that may be
//! damaged, and then calls the function that ran live. What the whole page is then is seen at its first
//! touch ([`check_page`](super::check_page)).

use everleaf_pmem::{Change, Error, Medium, Page, Result, fallible};
use everleaf_pool::kind;

use super::check::{bounds_fit, entry_fits, is_entry};
use super::entry::{NewEntry, NumberBuf, Value};
use super::format::{SLOT_BYTES, SLOTS_AT, fence_max, slots_max};
use super::image::Image;
use super::note::{
    ADD_BACK, ADD_FRONT, COMPACT, IMAGE, IMAGE_HEAD_BYTES, INSERT, Operands, REMOVE, TRIM_BACK,
    TRIM_FRONT, UPDATE,
};
use super::read::{Fence, KIND_FLAGS, View};
use super::source::Source;
use super::write::{self, Update};

/// Whether a change sets all of a node, so that what was on the page before does not matter.
pub fn is_whole(tag: u8) -> bool {
    tag == IMAGE
}

/// Inserts an entry and notes it. The gap has room for it and its slot.
#[inline]
pub(super) fn insert<'m, M: Medium>(
    m: &'m M,
    op: &mut M::Op<'m>,
    view: &View<'_>,
    pos: usize,
    entry: &NewEntry<'_>,
) {
    if let Some(short) = entry.short(pos) {
        write::insert_by(m, view, pos, (entry.head(), short.entry().len()), |at| {
            m.copy_in(view.page(), at, short.entry());
        });
        return m.note(op, view.page(), Change { tag: INSERT, bytes: short.note() });
    }
    write::insert(m, view, pos, entry);
    let (code, mut number) = (entry.code(), NumberBuf::default());
    let (place, value) = ((pos as u16).to_le_bytes(), entry.value.bytes(&mut number));
    m.note_parts(op, view.page(), INSERT, &[&place, code.bytes(), entry.suffix, value]);
}

/// Replaces a value and notes it. There is room for it.
#[inline]
pub(super) fn update<'m, M: Medium>(
    m: &'m M,
    op: &mut M::Op<'m>,
    view: &View<'_>,
    pos: usize,
    value: Value<'_>,
) {
    write::update(m, view, pos, value);
    let entry = NewEntry { suffix: &[], cut: false, value };
    if let Some(short) = entry.short(pos) {
        return m.note(op, view.page(), Change { tag: UPDATE, bytes: short.note() });
    }
    let (code, mut number) = (entry.code(), NumberBuf::default());
    let (place, value) = ((pos as u16).to_le_bytes(), value.bytes(&mut number));
    m.note_parts(op, view.page(), UPDATE, &[&place, code.bytes(), value]);
}

/// Removes an entry and notes it.
#[inline]
pub fn remove<'m, M: Medium>(m: &'m M, op: &mut M::Op<'m>, view: &View<'_>, pos: usize) {
    write::remove(m, view, pos);
    m.note(op, view.page(), Change { tag: REMOVE, bytes: &(pos as u16).to_le_bytes() });
}

/// Compacts a node and notes it. If an entry is left out, its removal is noted before.
pub fn compact<'m, M: Medium>(
    m: &'m M,
    op: &mut M::Op<'m>,
    view: &View<'_>,
    without: Option<usize>,
) {
    if let Some(pos) = without {
        m.note(op, view.page(), Change { tag: REMOVE, bytes: &(pos as u16).to_le_bytes() });
    }
    let done = write::compact(m, view, without);
    debug_assert!(done, "page {} was checked", view.page().no());
    m.note(op, view.page(), Change { tag: COMPACT, bytes: &[] });
}

/// Stores a whole node and notes it.
pub fn build<'m, M: Medium>(m: &'m M, op: &mut M::Op<'m>, page: Page<'_>, image: &mut Image) {
    write::build(m, page, image);
    if M::JOURNALED {
        m.note(op, page, Change { tag: IMAGE, bytes: image.note() });
    }
}

/// Stores a node that `tag` and `note` make of what is there, and notes that.
pub(super) fn rebuild<'m, M: Medium>(
    m: &'m M,
    op: &mut M::Op<'m>,
    page: Page<'_>,
    image: &Image,
    (tag, note): (u8, &[u8]),
) {
    write::build(m, page, image);
    m.note(op, page, Change { tag, bytes: note });
}

/// Does a noted change again, on a page in the state before it.
///
/// # Errors
/// Corrupt, if the change cannot have been made to this page. NoMemory.
pub fn redo<M: Medium>(m: &M, page: Page<'_>, change: Change<'_>) -> Result<()> {
    let done = match change.tag {
        IMAGE => match image_of(page.geometry().page_bytes(), change.bytes)? {
            Some(image) => {
                write::build(m, page, &image);
                Some(())
            }
            None => None,
        },
        _ => match View::of(page).filter(|view| page.geometry().is_whole() && bounds_fit(view)) {
            Some(view) => redo_part(m, &view, change)?,
            None => None,
        },
    };
    done.ok_or_else(|| {
        Error::corrupt(
            page.file_offset(),
            format!("the journal's change {} does not fit page {}", change.tag, page.no()),
        )
    })
}

/// None if the change does not fit the node.
fn redo_part<M: Medium>(m: &M, view: &View<'_>, change: Change<'_>) -> Result<Option<()>> {
    let mut args = Operands(change.bytes);
    match change.tag {
        INSERT => Ok(redo_insert(m, view, &mut args)),
        UPDATE => Ok(redo_update(m, view, &mut args)),
        REMOVE => Ok(redo_remove(m, view, &mut args)),
        COMPACT => Ok((args.0.is_empty() && write::compact(m, view, None)).then_some(())),
        tag => {
            let image = match tag {
                TRIM_BACK => redo_trim_back(view, &mut args)?,
                TRIM_FRONT => redo_trim_front(view, &mut args)?,
                ADD_BACK | ADD_FRONT => redo_add(view, tag == ADD_BACK, &mut args)?,
                _ => None,
            };
            Ok(image.map(|image| write::build(m, view.page(), &image)))
        }
    }
}

fn redo_insert<M: Medium>(m: &M, view: &View<'_>, args: &mut Operands<'_>) -> Option<()> {
    let (pos, entry) = (args.u16()?, args.entry()?);
    let suffix = (entry.suffix.len(), entry.cut);
    let fits = args.0.is_empty()
        && pos <= view.count()
        && entry_fits(view, view.prefix_len(), suffix, entry.value.size())
        && entry.bytes() + SLOT_BYTES <= view.gap();
    fits.then(|| write::insert(m, view, pos, &entry))
}

/// Whether there is an entry at a position which can become dead.
fn may_die(view: &View<'_>, pos: usize) -> bool {
    let used = view.page_bytes() - view.heap_start() - view.dead_bytes();
    is_entry(view, pos) && view.entry(pos).bytes() <= used
}

fn redo_update<M: Medium>(m: &M, view: &View<'_>, args: &mut Operands<'_>) -> Option<()> {
    let (pos, entry) = (args.u16()?, args.entry()?);
    let (value, old) = (entry.value, view.entry(pos));
    let is_value = args.0.is_empty() && entry.suffix.is_empty() && !entry.cut;
    if !is_value
        || !may_die(view, pos)
        || !entry_fits(view, view.prefix_len(), (old.suffix, old.cut), value.size())
    {
        return None;
    }
    let fits = match write::update_of(view, pos, &value) {
        Update::InPlace => true,
        Update::Anew(len) => len <= view.gap(),
    };
    fits.then(|| write::update(m, view, pos, value))
}

fn redo_remove<M: Medium>(m: &M, view: &View<'_>, args: &mut Operands<'_>) -> Option<()> {
    let pos = args.u16()?;
    (args.0.is_empty() && may_die(view, pos)).then(|| write::remove(m, view, pos))
}

/// Whether a fence is one that a node can have.
fn fence_fits(fence: Fence<'_>, page_bytes: usize) -> bool {
    let most = fence_max(page_bytes);
    fence.kept.len() <= most && (fence.record.is_none() || fence.kept.len() == most)
}

fn redo_trim_back(view: &View<'_>, args: &mut Operands<'_>) -> Result<Option<Image>> {
    let parts = args.u16().zip(args.page()).zip(args.fence());
    let Some(((keep, sibling), high)) = parts else { return Ok(None) };
    if !args.0.is_empty() || keep > view.count() || !fence_fits(high, view.page_bytes()) {
        return Ok(None);
    }
    Source::of(view)?.node().trimmed_back(keep, sibling, high)
}

fn redo_trim_front(view: &View<'_>, args: &mut Operands<'_>) -> Result<Option<Image>> {
    let Some((first, low)) = args.u16().zip(args.fence()) else { return Ok(None) };
    if !args.0.is_empty() || first > view.count() || !fence_fits(low, view.page_bytes()) {
        return Ok(None);
    }
    Source::of(view)?.node().trimmed_front(first, low)
}

fn redo_add(view: &View<'_>, back: bool, args: &mut Operands<'_>) -> Result<Option<Image>> {
    let Some(fence) = args.fence().filter(|fence| fence_fits(*fence, view.page_bytes())) else {
        return Ok(None);
    };
    let Some(entries) = args.entries() else { return Ok(None) };
    let mut suffix = Vec::new();
    Source::of(view)?.node().extended(back, fence, |image| {
        for noted in entries {
            let Some(noted) = noted else { return Ok(false) };
            let (parts, cut) = ((noted.entry.suffix, noted.entry.cut), noted.entry.cut);
            if !entry_fits(view, image.prefix_len(), parts, noted.entry.value)
                || !image.push(noted.suffix(&mut suffix)?, cut, noted.value)
            {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

/// The image in a note.
fn image_of(page_bytes: usize, note: &[u8]) -> Result<Option<Image>> {
    let mut args = Operands(note);
    let head = (|| Some((args.u64()?, args.page()?, args.u64()?, args.u64()?, args.u64()?)))();
    let Some((run, sibling, fences, high_head, kind_word)) = head else { return Ok(None) };
    let (count, heap_start) = (run as usize & 0xffff, (run >> 16) as usize & 0xffff);
    let slots_end = SLOTS_AT + SLOT_BYTES * count;
    let is_node = kind::kind_of(kind_word) == kind::NODE
        && kind::flags_of(kind_word) == KIND_FLAGS
        && (run >> 32) & 0xffff == 0;
    let fits =
        count <= slots_max(page_bytes) && slots_end <= heap_start && heap_start <= page_bytes;
    if !is_node
        || !fits
        || note.len() != IMAGE_HEAD_BYTES + slots_end - SLOTS_AT + page_bytes - heap_start
    {
        return Ok(None);
    }
    let mut bytes = fallible::filled(0, page_bytes, "a node")?;
    let (slots, heap) = args.0.split_at(slots_end - SLOTS_AT);
    bytes[SLOTS_AT..slots_end].copy_from_slice(slots);
    bytes[heap_start..].copy_from_slice(heap);
    let flags = (run >> 48) as u16;
    Ok(Some(Image::of_words(
        bytes,
        (count, heap_start, flags),
        (sibling, fences),
        (high_head, kind_word),
    )))
}
