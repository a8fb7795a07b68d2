//! One entry comes, or gets another value: whether there is room, and the change itself.
//!
//! A page has room at once if its gap has; after a compaction if the gap and what is dead have. An
//! [`Edit`] holds what the change needs, so that it is made before the step begins and nothing can fail in
//! it.
//!
//! An insert writes the entry into the gap, right below the heap, and moves the slots behind it by one
//! word. A removal closes the slots and leaves the entry's bytes dead, but for the lowest entry of the
//! heap: the gap takes that. An update stores the value where the old one is, if it is no longer and the
//! code is as long; otherwise it writes a new entry.
//!
//! Each function is a function of the page's bytes and its operands alone, so that its redo leaves the same
//! bytes. The caller holds the latch and has seen that there is room; the pages of a journal make the step
//! whole, so stores need no order. `view` is the node as it is.
//!
//! A step tells the journal of each change by a note, whose bytes `note.rs` has. Redo looks at the operands and at the
//! part of the page that they meet, because both come from files that may be damaged, and then calls the function that
//! ran live. The first touch of the page checks all of it ([`check_page`](crate::slotted::check_page)).

use everleaf_pmem::{Change, Error, Medium, Page, PageNo, Result, fallible};
use everleaf_pool::kind::{self, KIND_WORD};

use crate::node::Rank;
use crate::slotted::entry::{Code, NewEntry, entry_bytes, kept_of};
use crate::slotted::flaws::{bounds_fit, entry_fits, is_entry};
use crate::slotted::image::{Image, Pack, Source};
use crate::slotted::note::{
    ADD_BACK, ADD_FRONT, COMPACT, IMAGE, IMAGE_HEAD_BYTES, INSERT, Operands, REMOVE, TRIM_BACK,
    TRIM_FRONT, UPDATE,
};
use crate::slotted::view::{
    Entry, FENCES_WORD, FIRST_SLOT, Fence, FenceAt, Flat, KIND_FLAGS, NO_FENCE, Node, NumberBuf,
    PAGE_BYTES_MAX, RUN_MAX, RUN_SHIFT, RUN_WORD, SLOT_BYTES, SLOTS_AT, SPARE_WORD, Value,
    ValueSize, View, fence_max, slot_head, slots_max,
};

/// Whether a node has room for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// It has.
    Fits,
    /// It will have when it is compacted.
    AfterCompaction,
    /// It has none.
    Full,
}

impl View<'_> {
    #[inline(always)]
    fn room_of(&self, need: usize, given_up: usize) -> Room {
        if need <= self.gap() {
            Room::Fits
        } else if need <= self.free_bytes() + given_up {
            Room::AfterCompaction
        } else {
            Room::Full
        }
    }

    /// Bytes of the entry of a key in this node, without its slot.
    #[inline]
    pub fn bytes_for(&self, key: &[u8], value: ValueSize) -> usize {
        let (suffix, cut) = kept_of(key, self.prefix_len(), self.page_bytes());
        entry_bytes(suffix.len(), cut, value)
    }

    /// Whether there is room for a new entry.
    #[inline]
    pub fn room_for(&self, key: &[u8], value: ValueSize) -> Room {
        self.room_of(self.bytes_for(key, value) + SLOT_BYTES, 0)
    }

    /// Whether there is room for another value at a position.
    #[inline]
    pub fn room_for_update(&self, pos: usize, value: &Value<'_>) -> Room {
        let entry = self.entry(pos);
        match update_of(&entry, value) {
            Update::InPlace => Room::Fits,
            Update::Anew(need) => self.room_of(need, entry.bytes()),
        }
    }
}

/// How an edit is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Insert,
    /// The entry as it is, and where the value goes.
    Update(Entry, Update),
    /// The old entry is removed first.
    Replace,
}

/// An edit without the bytes that it borrowed.
#[derive(Debug)]
pub struct DetachedEdit {
    how: How,
    pos: usize,
    compacts: bool,
}

impl DetachedEdit {
    /// The edit, with the same bytes as before.
    pub fn attach<'a>(&self, view: &View<'_>, key: &'a [u8], value: Value<'a>) -> Edit<'a> {
        let entry = NewEntry::of(key, view.prefix_len(), view.page_bytes(), value);
        Edit { how: self.how, pos: self.pos, entry, compacts: self.compacts }
    }
}

/// A change of one entry for which there is room.
#[derive(Debug, Clone, Copy)]
pub struct Edit<'a> {
    how: How,
    pos: usize,
    entry: NewEntry<'a>,
    compacts: bool,
}

impl Default for Edit<'_> {
    #[inline(always)]
    fn default() -> Self {
        Self { how: How::Insert, pos: 0, entry: NewEntry::default(), compacts: false }
    }
}

impl<'a> Edit<'a> {
    /// Makes ready to store a value under a key, or a child under a separator; `rank` is the key's in the
    /// node, and `old` its entry if it is there. False if there is no room. If the key is
    /// [cut](crate::slotted::is_cut), the value of a leaf is a reference.
    #[inline(always)]
    pub fn put(
        &mut self,
        view: &View<'_>,
        (rank, old): (Rank, Option<&Entry>),
        key: &'a [u8],
        value: Value<'a>,
    ) -> bool {
        debug_assert_eq!(rank.exact, old.is_some());
        (self.pos, self.compacts) = (rank.lt(), false);
        self.entry = NewEntry::of(key, view.prefix_len(), view.page_bytes(), value);
        let room = match old {
            None => {
                self.how = How::Insert;
                view.room_of(self.entry.bytes() + SLOT_BYTES, 0)
            }
            Some(old) => match update_of(old, &value) {
                Update::Anew(need) if need > view.gap() => {
                    self.how = How::Replace;
                    view.room_of(self.entry.bytes(), old.bytes())
                }
                update => {
                    self.how = How::Update(*old, update);
                    return true;
                }
            },
        };
        self.compacts = room == Room::AfterCompaction;
        room != Room::Full
    }

    /// Makes ready to give the entry at a position another separator, which is not cut, between its
    /// neighbours', and the same child. False if there is no room.
    pub fn rekey(
        &mut self,
        view: &View<'_>,
        pos: usize,
        separator: &'a [u8],
        child: PageNo,
    ) -> bool {
        (self.pos, self.how) = (pos, How::Replace);
        let value = Value::Child(child);
        self.entry = NewEntry::of(separator, view.prefix_len(), view.page_bytes(), value);
        let room = view.room_of(self.entry.bytes(), view.entry(pos).bytes());
        self.compacts = room == Room::AfterCompaction;
        room != Room::Full
    }

    /// The edit without the bytes that it borrows.
    pub fn detach(self) -> DetachedEdit {
        DetachedEdit { how: self.how, pos: self.pos, compacts: self.compacts }
    }

    /// Makes the change and notes it. The node is as it was when the edit was made ready.
    #[inline(always)]
    pub fn apply<'m, M: Medium>(&self, m: &'m M, op: &mut M::Op<'m>, view: &View<'_>) {
        match (self.compacts, self.how) {
            (false, How::Insert) => insert(m, op, view, self.pos, &self.entry),
            (false, How::Update(old, to)) => {
                update(m, op, view, (self.pos, &old, to), self.entry.value)
            }
            _ => self.apply_in_parts(m, op, view),
        }
    }

    #[cold]
    fn apply_in_parts<'m, M: Medium>(&self, m: &'m M, op: &mut M::Op<'m>, view: &View<'_>) {
        let without = (self.how == How::Replace).then_some(self.pos);
        if self.compacts {
            compact(m, op, view, without);
        } else {
            remove(m, op, view, self.pos);
        }
        insert(m, op, &View::read(view.page()), self.pos, &self.entry);
    }
}

/// Bytes that are copied within a page at a time.
const PIECE: usize = 64;

/// Whether a change sets all of a node, so that what was on the page before does not matter.
pub fn is_whole(tag: u8) -> bool {
    tag == IMAGE
}

/// The name of a change of a node with this tag, in a word or two; none if no such change has it.
pub fn name_of(tag: u8) -> Option<&'static str> {
    Some(match tag {
        INSERT => "insert",
        UPDATE => "update",
        REMOVE => "remove",
        COMPACT => "compact",
        IMAGE => "whole node",
        TRIM_BACK => "trim the end",
        TRIM_FRONT => "trim the beginning",
        ADD_BACK => "add at the end",
        ADD_FRONT => "add at the beginning",
        _ => return None,
    })
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
        insert_by_unnoted(m, view, pos, (entry.head(), short.entry().len()), |at| {
            m.copy_in(view.page(), at, short.entry());
        });
        return m.note(op, view.page(), Change { tag: INSERT, bytes: short.note() });
    }
    insert_unnoted(m, view, pos, entry);
    let (code, mut number) = (entry.code(), NumberBuf::default());
    let (place, value) = ((pos as u16).to_le_bytes(), entry.value.bytes(&mut number));
    m.note_parts(op, view.page(), INSERT, &[&place, code.bytes(), entry.suffix, value]);
}

/// Replaces a value and notes it. There is room for it.
#[inline]
fn update<'m, M: Medium>(
    m: &'m M,
    op: &mut M::Op<'m>,
    view: &View<'_>,
    (pos, old, to): (usize, &Entry, Update),
    value: Value<'_>,
) {
    update_unnoted(m, view, (pos, old, to), value);
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
    remove_unnoted(m, view, pos);
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
    let done = compact_unnoted(m, view, without);
    debug_assert!(done, "page {} was checked", view.page().no());
    m.note(op, view.page(), Change { tag: COMPACT, bytes: &[] });
}

/// Stores a whole node and notes it.
pub fn build<'m, M: Medium>(m: &'m M, op: &mut M::Op<'m>, page: Page<'_>, image: &mut Image) {
    build_unnoted(m, page, image);
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
    build_unnoted(m, page, image);
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
                build_unnoted(m, page, &image);
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
        COMPACT => Ok((args.0.is_empty() && compact_unnoted(m, view, None)).then_some(())),
        tag => {
            let image = match tag {
                TRIM_BACK => redo_trim_back(view, &mut args)?,
                TRIM_FRONT => redo_trim_front(view, &mut args)?,
                ADD_BACK | ADD_FRONT => redo_add(view, tag == ADD_BACK, &mut args)?,
                _ => None,
            };
            Ok(image.map(|image| build_unnoted(m, view.page(), &image)))
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
    fits.then(|| insert_unnoted(m, view, pos, &entry))
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
    let to = update_of(&old, &value);
    let fits = match to {
        Update::InPlace => true,
        Update::Anew(len) => len <= view.gap(),
    };
    fits.then(|| update_unnoted(m, view, (pos, &old, to), value))
}

fn redo_remove<M: Medium>(m: &M, view: &View<'_>, args: &mut Operands<'_>) -> Option<()> {
    let pos = args.u16()?;
    (args.0.is_empty() && may_die(view, pos)).then(|| remove_unnoted(m, view, pos))
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

/// The numbers of the run word.
struct RunWord {
    count: usize,
    heap_start: usize,
    dead: usize,
    flags: u16,
}

impl RunWord {
    fn of(view: &View<'_>) -> Self {
        Self {
            count: view.count(),
            heap_start: view.heap_start(),
            dead: view.dead_bytes(),
            flags: view.flags(),
        }
    }
    #[inline(always)]
    fn store<M: Medium>(self, m: &M, page: Page<'_>) {
        debug_assert!(SLOTS_AT + SLOT_BYTES * self.count <= self.heap_start);
        debug_assert!(self.heap_start + self.dead <= page.geometry().page_bytes());
        let word = self.count as u64
            | (self.heap_start as u64) << 16
            | (self.dead as u64) << 32
            | u64::from(self.flags) << 48;
        m.store(page.head(RUN_WORD), word);
    }
}

/// Inserts an entry before position `pos`, which is at most the count; the gap has room for it and a slot.
fn insert_unnoted<M: Medium>(m: &M, view: &View<'_>, pos: usize, entry: &NewEntry<'_>) {
    insert_by_unnoted(m, view, pos, (entry.head(), entry.bytes()), |at| {
        put_entry(m, view.page(), at, entry)
    });
}

/// Inserts an entry of so many bytes, which `put` writes, with this head in its slot.
#[inline(always)]
fn insert_by_unnoted<M: Medium>(
    m: &M,
    view: &View<'_>,
    pos: usize,
    (head, bytes): (u64, usize),
    put: impl FnOnce(usize),
) {
    let page = view.page();
    debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
    let mut run = RunWord::of(view);
    debug_assert!(pos <= run.count && bytes + SLOT_BYTES <= view.gap());
    let long = run.flags & ((1 << RUN_SHIFT) - 1);
    let in_a_row = if pos == run.count { (view.run() + 1).min(RUN_MAX) } else { 0 };
    run.heap_start -= bytes;
    put(run.heap_start);
    m.move_words(page, FIRST_SLOT + pos, FIRST_SLOT + pos + 1, run.count - pos);
    m.store(page.word(FIRST_SLOT + pos), head | run.heap_start as u64);
    run.count += 1;
    run.flags = long | (in_a_row as u16) << RUN_SHIFT;
    run.store(m, page);
}

/// Removes the entry at a position below the count.
#[inline]
fn remove_unnoted<M: Medium>(m: &M, view: &View<'_>, pos: usize) {
    let page = view.page();
    debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
    let (mut run, entry) = (RunWord::of(view), view.entry(pos));
    debug_assert!(pos < run.count && entry.at >= run.heap_start);
    if entry.at == run.heap_start {
        run.heap_start = entry.end();
    } else {
        run.dead += entry.bytes();
    }
    m.move_words(page, FIRST_SLOT + pos + 1, FIRST_SLOT + pos, run.count - pos - 1);
    run.count -= 1;
    run.store(m, page);
}

/// The space that an update of an entry would take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Update {
    /// Nothing: the new value goes where the old one is.
    InPlace,
    /// A new entry of so many bytes.
    Anew(usize),
}

/// How the value of an entry is replaced by another one.
#[inline]
fn update_of(entry: &Entry, value: &Value<'_>) -> Update {
    if value.size() == entry.value {
        return Update::InPlace;
    }
    let code = Code::new(entry.suffix, entry.cut, value.size());
    let (code, bytes) = (code.bytes().len(), value.size().bytes());
    if code == entry.code_bytes() && bytes <= entry.value.bytes() {
        Update::InPlace
    } else {
        Update::Anew(code + entry.rest() + bytes)
    }
}

/// Replaces the value of the entry at a position below the count.
#[inline]
fn update_unnoted<M: Medium>(
    m: &M,
    view: &View<'_>,
    (pos, old, to): (usize, &Entry, Update),
    value: Value<'_>,
) {
    let page = view.page();
    debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
    debug_assert!(pos < view.count());
    let mut number = NumberBuf::default();
    let bytes = value.bytes(&mut number);
    if value.size() == old.value {
        return m.copy_in(page, old.value_at, bytes);
    }
    let (code, mut run) = (Code::new(old.suffix, old.cut, value.size()), RunWord::of(view));
    match to {
        Update::InPlace => {
            m.copy_in(page, old.value_at, bytes);
            m.copy_in(page, old.at, code.bytes());
            run.dead += old.value.bytes() - bytes.len();
        }
        Update::Anew(len) => {
            debug_assert!(len <= view.gap(), "room was found before");
            run.heap_start -= len;
            run.dead += old.bytes();
            let (at, rest_at) = (run.heap_start, run.heap_start + code.bytes().len());
            m.copy_in(page, at, code.bytes());
            copy_within(m, page, old.rest_at, rest_at, old.rest());
            m.copy_in(page, rest_at + old.rest(), bytes);
            let slot = slot_head(view.slot(pos)) | at as u64;
            m.store(page.word(FIRST_SLOT + pos), slot);
        }
    }
    run.store(m, page);
}

/// Copies bytes to another place in their page, which they do not share.
fn copy_within<M: Medium>(m: &M, page: Page<'_>, from: usize, to: usize, len: usize) {
    let mut piece = [0; PIECE];
    for done in (0..len).step_by(PIECE) {
        let piece = &mut piece[..PIECE.min(len - done)];
        let is_inside = page.copy_out(from + done, piece);
        debug_assert!(is_inside, "page {} was checked", page.no());
        m.copy_in(page, to + done, piece);
    }
}

/// Puts the entries and fences of a node, but for one entry, one below the other from the page's end down,
/// and nothing else: dead bytes become a part of the gap, and the gap zero. The prefix stays, though it might
/// grow, so that room that was found for an entry stays, too. False, and nothing is done, if the page is
/// damaged.
fn compact_unnoted<M: Medium>(m: &M, view: &View<'_>, without: Option<usize>) -> bool {
    debug_assert!(view.page().latch().is_held(), "page {} changes unlatched", view.page().no());
    // Memory that is sure to be there, because the step has begun.
    match view.page_bytes() {
        ..=512 => compact_over(m, view, without, &mut [[0; 512]; 2]),
        513..=4096 => compact_over(m, view, without, &mut [[0; 4096]; 2]),
        4097..=8192 => compact_over(m, view, without, &mut [[0; 8192]; 2]),
        _ => compact_over(m, view, without, &mut [[0; PAGE_BYTES_MAX]; 2]),
    }
}

#[inline(never)]
fn compact_over<const N: usize, M: Medium>(
    m: &M,
    view: &View<'_>,
    without: Option<usize>,
    [old, new]: &mut [[u8; N]; 2],
) -> bool {
    let (page, page_bytes) = (view.page(), view.page_bytes());
    let (Some(old), Some(new)) = (old.get_mut(..page_bytes), new.get_mut(..page_bytes)) else {
        return false;
    };
    let is_copied = page.copy_out(0, old);
    let old = Flat::new(old, page.no(), page.file_offset());
    let Some((count, heap_start, fences)) = gather(&Node::new(old), without, new) else {
        return false;
    };
    m.copy_in(page, SLOTS_AT, &new[SLOTS_AT..]);
    m.store(page.head(FENCES_WORD), fences);
    RunWord { count, heap_start, dead: 0, flags: view.flags() }.store(m, page);
    is_copied
}

/// Gathers what a compaction keeps, in memory that is zero: the number of entries, where the heap starts,
/// and where the fences are.
fn gather(
    node: &Node<Flat<'_>>,
    without: Option<usize>,
    to: &mut [u8],
) -> Option<(usize, usize, u64)> {
    let end = to.len();
    let mut pack = Pack::new(to, 0, end);
    let mut fence = |fence: Option<FenceAt>| match fence {
        Some(fence) => {
            let at = pack.put(node.bytes().get(fence.at, fence.bytes())?)?;
            Some(at as u64 | (fence.kept as u64) << 16)
        }
        None => Some(u64::from(NO_FENCE) << 16),
    };
    let fences = fence(node.low())? | fence(node.high())? << 32;
    let (count, all) = (node.count(), node.bytes().bytes);
    let hole = without.unwrap_or(count).min(count);
    let fits = pack.copy(all, 0..hole) && pack.copy(all, (hole + 1).min(count)..count);
    let (count, heap_start) = pack.end();
    fits.then_some((count, heap_start, fences))
}

/// Writes the bytes of an entry.
#[inline(always)]
fn put_entry<M: Medium>(m: &M, page: Page<'_>, at: usize, entry: &NewEntry<'_>) {
    let (code, rest, mut number) = (entry.code(), entry.rest(), NumberBuf::default());
    let value = entry.value.bytes(&mut number);
    let rest_at = at + code.bytes().len();
    m.copy_in(page, at, code.bytes());
    m.copy_in(page, rest_at, rest);
    m.copy_in(page, rest_at + rest.len(), value);
}

/// Makes a page the node of an image: all of its words but the medium's.
fn build_unnoted<M: Medium>(m: &M, page: Page<'_>, image: &Image) {
    debug_assert!(page.latch().is_held(), "page {} changes without its latch", page.no());
    debug_assert_eq!(image.bytes.len(), page.geometry().page_bytes());
    m.copy_in(page, SLOTS_AT, &image.bytes[SLOTS_AT..]);
    for (word, value) in image.words() {
        m.store(page.head(word), value);
    }
    m.store(page.head(SPARE_WORD), 0);
    m.store(page.head(KIND_WORD), image.kind);
}
