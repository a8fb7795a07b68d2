//! The functions behind the macros of `everleaf_recorder.h`: stores, flushes and fences of a tree of somebody else's, on the
//! medium that the thread checks it on.
//!
//! The tree reads its area as the memory that it is, and changes it through the macros alone. All that passes them goes to the
//! medium, which records it; a copy of the area tells of a store that has not passed.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::rc::Rc;

use everleaf_pmem::page_span::PageSpan;
use everleaf_pmem::{Counts, LINE_BYTES, Medium, Page};

use crate::call;

/// A medium as the macros see it: words by their number, counted over all of its pages, headers included.
trait Door {
    fn store(&self, word: usize, value: u64);
    fn flush(&self, word: usize);
    fn fence(&self);
    fn load(&self, word: usize) -> u64;
}

/// The page of a word, and its number there.
fn page<M: Medium>(medium: &M, word: usize) -> (Page<'_>, usize) {
    let per_page = medium.geometry().page_words();
    let page = medium.page((word / per_page) as u32).expect("a page of the area");
    (page, word % per_page)
}

impl<M: Medium> Door for M {
    fn store(&self, word: usize, value: u64) {
        let (page, at) = page(self, word);
        Medium::store(self, page.word(at), value);
    }
    fn flush(&self, word: usize) {
        let (page, at) = page(self, word);
        Medium::flush(self, page, at / (LINE_BYTES / 8));
    }
    fn fence(&self) {
        Medium::fence(self);
    }
    fn load(&self, word: usize) -> u64 {
        let (page, at) = page(self, word);
        page.word(at).load()
    }
}

/// The memory that a tree has while it is checked.
pub(crate) struct Area {
    door: Box<dyn Door>,
    /// Its first byte, and how many there are.
    start: usize,
    bytes: usize,
    state: RefCell<State>,
}

struct State {
    /// Each word as the macros have left it.
    copy: Vec<u64>,
    counts: Counts,
    /// The first thing that the tree has done wrong.
    wrong: Option<String>,
}

thread_local! {
    /// That of the tree of which a function is being called.
    static CURRENT: RefCell<Option<Rc<Area>>> = const { RefCell::new(None) };
}

impl Area {
    /// All pages of a medium, one behind the other.
    pub(crate) fn new<M: Medium + 'static>(medium: M) -> Rc<Self> {
        let span = PageSpan::of(&medium).expect("a medium with pages").bytes();
        let (start, bytes) = (span.start, span.len());
        let door: Box<dyn Door> = Box::new(medium);
        let copy = (0..bytes / 8).map(|word| door.load(word)).collect();
        let state = RefCell::new(State { copy, counts: Counts::default(), wrong: None });
        Rc::new(Self { door, start, bytes, state })
    }

    /// Its first byte.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// How many bytes it has.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts of what has passed the macros.
    pub(crate) fn counts(&self) -> Counts {
        self.state.borrow().counts
    }

    /// Calls a function of the tree.
    pub(crate) fn on_its_memory<T>(self: &Rc<Self>, function: impl FnOnce() -> T) -> T {
        let before = CURRENT.replace(Some(Rc::clone(self)));
        let answer = function();
        CURRENT.set(before);
        answer
    }

    /// Calls a function of the tree, and looks at what it has done.
    ///
    /// # Panics
    /// If the tree has stored outside of the area, or beside the macros.
    pub(crate) fn during<T>(self: &Rc<Self>, function: impl FnOnce() -> T) -> T {
        let answer = self.on_its_memory(function);
        let mut state = self.state.borrow_mut();
        let wrong = state.wrong.take().or_else(|| {
            let beside = (0..state.copy.len()).find(|at| self.door.load(*at) != state.copy[*at]);
            beside.map(|word| format!("byte {} of the area was changed without EL_STORE", 8 * word))
        });
        drop(state);
        if let Some(wrong) = wrong {
            // Told to the caller, who prints it: not a word of ours before.
            resume_unwind(Box::new(wrong));
        }
        answer
    }

    /// The word that a place is in.
    fn word(&self, place: usize) -> Option<usize> {
        let at = place.checked_sub(self.start).filter(|at| *at < self.bytes)?;
        Some(at / 8)
    }

    fn is_wrong(&self, what: &str, place: usize) {
        let at = place.wrapping_sub(self.start).cast_signed();
        let text = format!("{what} at byte {at} of an area of {} bytes", self.bytes);
        self.state.borrow_mut().wrong.get_or_insert(text);
    }
}

/// Does something with the area of the tree that is being called, if one is.
fn current(body: impl FnOnce(&Area)) -> bool {
    // No borrow lasts while the body runs.
    let area = CURRENT.with_borrow(Clone::clone);
    area.as_deref().map(body).is_some()
}

/// Stores 8 bytes at a place that is aligned to them; EL_STORE calls this. Outside of a check it only stores.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_record_store(place: *mut u64, value: u64) {
    call::lend("everleaf_index_record_store", (), || {
        let is_checked = current(|area| match area.word(place.addr()) {
            Some(word) if place.is_aligned() => {
                area.door.store(word, value);
                let mut state = area.state.borrow_mut();
                state.copy[word] = value;
                state.counts.stores += 1;
            }
            _ => area
                .is_wrong("EL_STORE outside of the area, or not aligned to 8 bytes,", place.addr()),
        });
        if !is_checked && !place.is_null() {
            // SAFETY: the promise of a caller.
            unsafe { place.write_unaligned(value) };
        }
    });
}

/// Begins to write back the line of 64 bytes that a place is in; EL_FLUSH calls this. Outside of a check it does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn everleaf_index_record_flush(place: *const std::ffi::c_void) {
    call::lend("everleaf_index_record_flush", (), || {
        current(|area| match area.word(place.addr()) {
            Some(word) => {
                area.door.flush(word);
                area.state.borrow_mut().counts.flushes += 1;
            }
            None => area.is_wrong("EL_FLUSH outside of the area,", place.addr()),
        });
    });
}

/// Waits for what was flushed; EL_FENCE calls this. Outside of a check it does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn everleaf_index_record_fence() {
    call::lend("everleaf_index_record_fence", (), || {
        current(|area| {
            area.door.fence();
            area.state.borrow_mut().counts.fences += 1;
        });
    });
}
