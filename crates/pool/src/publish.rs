//! Carrying out a step: what was planned is stored, noted, and on strict media made durable in
//! order.
//!
//! A crash on strict media leaves, after each line:
//! ```text
//! write_record    bytes, then the bit        nothing, or a record that nobody names: a leak
//! publish_alloc   record page headers        nothing: the map calls the pages free
//!                 map pages, in order        nothing, or empty groups
//!                 map bytes                  pages that nobody names: a leak
//! (caller links)                             the step has happened
//! publish_free    bits                       records that nobody names: a leak
//!                 map bytes                  pages that nobody names: a leak
//! ```
//! A walk over all trees finds leaks ([`Pool::leaks`]); nothing ever names what is free. A map byte
//! never says *record page* of a page without a header.

use std::cell::Cell;

use everleaf_pmem::{Change, FEW_CHANGES, LatchGuard, Medium, Page, PageNo, Result, fallible};

use crate::arena::{ArenaState, arena_state, set_arena_state};
use crate::change::{TAG_RECORD_FREE, TAG_RECORD_INIT, TAG_RECORD_PUT, fence, flush};
use crate::hooks::ExtentIo;
use crate::kind::{FREE, RECORD};
use crate::layout::{self, Bits, has, ones};
use crate::map::{self, PageRun, note_free};
use crate::order;
use crate::pool::Pool;
use crate::record::RecordRef;
use crate::step::{Latched, PagePlan, Places, Step};

/// Bytes that a medium may note of each page that a step adopts.
const PLACE_BYTES: usize = 16;
/// Bytes of operands for which a medium makes room with each small change.
const CHANGE_BYTES: usize = 64;

thread_local! {
    /// The bytes of the record being written, kept so that writing does not allocate.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// This thread's buffer; an empty one in the destructor of another thread-local, when it is gone.
fn take_scratch() -> Vec<u8> {
    SCRATCH.try_with(Cell::take).unwrap_or_default()
}

fn keep_scratch(bytes: Vec<u8>) {
    let _ = SCRATCH.try_with(|scratch| scratch.set(bytes));
}

/// Has room for a record of `len` bytes in this thread's buffer before a step begins.
#[inline]
pub(crate) fn make_room(len: usize) -> Result<()> {
    let mut bytes = take_scratch();
    bytes.clear();
    let room = fallible::more(&mut bytes, 2 + len, "a record");
    keep_scratch(bytes);
    room
}

fn is_record_page<M: Medium>(pool: &Pool<M>, no: PageNo) -> bool {
    pool.page(no).is_ok_and(|page| layout::shape(page).is_ok())
}

/// Gives a record page of this step its header. Not flushed.
fn format<M: Medium>(m: &M, op: &mut M::Op<'_>, page: Page<'_>, places: &mut Places) {
    places.fresh = false;
    let units = places.shape.units;
    layout::init(m, page, units);
    m.note(op, page, Change { tag: TAG_RECORD_INIT, bytes: &units.to_le_bytes() });
}

impl<'p, M: Medium> Step<'p, M> {
    /// Begins the step on the medium, which reserves room for all that was planned; see
    /// [`Medium::enter`]. No call after this one can fail.
    ///
    /// # Errors
    /// Those of [`Medium::enter`].
    #[inline]
    pub fn enter(&self) -> Result<M::Op<'p>> {
        self.enter_for(0)
    }

    /// As [`enter`](Self::enter), for a caller who notes so many more small changes of its nodes.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    #[inline(always)]
    pub fn enter_for(&self, more: usize) -> Result<M::Op<'p>> {
        self.entered.set(true);
        let m = &self.pool.medium;
        // A half of the few is for what the caller notes of its nodes.
        match self.owners.len() + self.pages.len() + self.adopted() + more {
            changes if changes <= FEW_CHANGES / 2 => m.enter(),
            changes => m.enter_for(changes),
        }
    }
}

impl<M: Medium> Step<'_, M> {
    /// How many small changes take as much room as what the medium may note of the extents that the step
    /// adopts: where each of their pages is.
    #[inline]
    fn adopted(&self) -> usize {
        if self.larges.is_empty() {
            return 0;
        }
        let changes = |run: &PageRun| run.pages as usize * PLACE_BYTES / CHANGE_BYTES + 1;
        self.larges.iter().flat_map(|large| large.runs()).map(changes).sum()
    }

    /// The first store of the step, or one after it.
    #[inline(always)]
    fn begin_to_store(&mut self) {
        debug_assert!(self.entered.get() || !M::JOURNALED, "stored before the step was entered");
        self.changed = true;
    }

    /// Whether the plan has something that [`publish_alloc`](Self::publish_alloc) makes known.
    fn allocates(&self) -> bool {
        let reserves = |l: &Latched<'_>| match &l.plan {
            PagePlan::Records(places) => places.reserved != Bits::default(),
            PagePlan::Map { create, .. } => create.is_some(),
        };
        self.owners.iter().any(|o| o.byte != FREE) || self.pages.iter().any(reserves)
    }

    /// Whether the plan has something that [`publish_free`](Self::publish_free) gives up.
    fn frees(&self) -> bool {
        let frees = |l: &Latched<'_>| matches!(&l.plan, PagePlan::Records(places) if places.freed != Bits::default());
        self.owners.iter().any(|o| o.byte == FREE) || self.pages.iter().any(frees)
    }

    /// Writes the bytes of a reserved record, one part after the other. On strict media first the
    /// bytes and then the bit that commits them are durable when it returns. O(bytes).
    ///
    /// # Panics
    /// If `r` was not reserved by this step, or the parts are longer than its class.
    pub fn write_record(&mut self, op: &mut M::Op<'_>, r: RecordRef, parts: &[&[u8]]) {
        debug_assert!(self.freed.is_none(), "what is named comes before what is no longer");
        self.begin_to_store();
        let m = &self.pool.medium;
        let held = self.pages.iter_mut().find(|l| l.page.no() == r.page());
        let Some(Latched { page, plan: PagePlan::Records(places), .. }) = held else {
            panic!("{r:?} is not held by this step");
        };
        let bit = places.shape.bit(r.unit()).filter(|bit| has(&places.reserved, *bit));
        let bit = bit.expect("the record was reserved by this step");
        if places.fresh {
            format(m, op, *page, places);
        }
        let mut bytes = take_scratch();
        bytes.clear();
        bytes.extend(r.unit().to_le_bytes());
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        let len = bytes.len() - 2;
        assert!(len <= 16 * usize::from(places.shape.units), "{len} bytes in a smaller place");
        debug_assert!(!has(&layout::used(*page), bit), "a record is written once");
        layout::write(m, *page, r.unit(), &bytes[2..]);
        fence(m);
        layout::mark(m, *page, bit, true);
        fence(m);
        m.note(op, *page, Change { tag: TAG_RECORD_PUT, bytes: &bytes });
        keep_scratch(bytes);
    }

    /// Makes the new pages part of the pool; on strict media this is durable when it returns. A node's
    /// bytes may be written before or after, because nothing leads to the node until the caller links
    /// it. Call this once, also if only records were reserved.
    pub fn publish_alloc(&mut self, op: &mut M::Op<'_>) {
        debug_assert!(!self.allocated && self.freed.is_none(), "once, and before what is freed");
        self.begin_to_store();
        self.allocated = true;
        let m = &self.pool.medium;
        let mut formatted = false;
        for Latched { page, plan, .. } in self.pages.iter_mut() {
            if let PagePlan::Records(places) = plan
                && places.fresh
            {
                format(m, op, *page, places);
                flush(m, *page, 0);
                formatted = true;
            }
        }
        if formatted {
            fence(m);
        }
        for Latched { page, plan, .. } in self.pages.iter() {
            if let PagePlan::Map { create: Some(role), .. } = plan {
                map::make(m, op, *page, *role);
                fence(m);
            }
        }
        debug_assert!(
            self.owners.iter().all(|o| o.byte != RECORD || is_record_page(self.pool, o.first)),
            "the map names a record page that has no header"
        );
        self.change_owners(op, |byte| byte != FREE);
        for large in &self.larges {
            for run in large.runs() {
                self.tell_extents(|io| (io.adopt)(m, op, run.first, run.pages));
            }
            large.take();
        }
    }

    fn tell_extents(&self, tell: impl FnOnce(ExtentIo<M>)) {
        if let Some(io) = self.pool.hooks.extents {
            tell(io);
        }
    }

    /// Frees the planned records and pages; on strict media this is durable when it returns. Call it
    /// once, when everything that named them is durably unlinked.
    pub fn publish_free(&mut self, op: &mut M::Op<'_>) {
        debug_assert!(self.freed.is_none(), "once");
        debug_assert!(
            self.allocated || !self.allocates(),
            "what is new comes before what is freed"
        );
        self.begin_to_store();
        let m = &self.pool.medium;
        self.freed = Some(m.epoch(op));
        let mut cleared = false;
        for Latched { page, plan, .. } in self.pages.iter() {
            let PagePlan::Records(places) = plan else { continue };
            for bit in ones(places.freed) {
                debug_assert!(has(&layout::used(*page), bit), "a record is freed once");
                layout::mark(m, *page, bit, false);
                let unit = bit as u16 * places.shape.units;
                m.note(op, *page, Change { tag: TAG_RECORD_FREE, bytes: &unit.to_le_bytes() });
                self.pool.forget_in_memory(RecordRef::new(page.no(), unit));
                cleared = true;
            }
        }
        if cleared {
            fence(m);
        }
        if !self.owners.is_empty() {
            self.change_owners(op, |byte| byte == FREE);
            for owner in self.owners.iter().filter(|owner| owner.byte == FREE && owner.extent) {
                self.tell_extents(|io| (io.forget)(m, op, owner.first, owner.len));
            }
        }
        for Latched { page, plan, .. } in self.pages.iter_mut() {
            if let PagePlan::Records(places) = plan
                && places.dying
            {
                note_free(m, op, *page);
                places.dead = true;
            }
        }
    }

    /// Stores the map bytes that `which` selects and completes them.
    fn change_owners(&self, op: &mut M::Op<'_>, which: impl Fn(u8) -> bool) {
        let m = &self.pool.medium;
        let per_group = map::group_pages(m.geometry());
        let mut any = false;
        for owner in self.owners.iter().filter(|o| which(o.byte)) {
            self.pool.space.touch(owner.first, owner.len);
            let run = (owner.first % per_group, owner.len);
            map::change(m, op, self.pages[owner.at].page, run, owner.byte);
            any = true;
        }
        if any {
            fence(m);
        }
    }

    /// Gives page numbers back: those reserved in vain, and those freed.
    fn settle_space(&self) {
        let space = &self.pool.space;
        if !self.allocated {
            self.made.iter().for_each(|no| space.give_back(PageRun { first: *no, pages: 1 }));
        }
        let Some(epoch) = self.freed else { return };
        for owner in self.owners.iter().filter(|o| o.byte == FREE) {
            let run = PageRun { first: owner.first, pages: owner.len };
            match owner.extent {
                true => space.give_back_later(epoch, run, &self.pool.pins),
                false => space.give_back(run),
            }
        }
    }
}

impl<M: Medium> Drop for Step<'_, M> {
    fn drop(&mut self) {
        debug_assert!(
            !self.changed
                || std::thread::panicking()
                || (self.allocated || !self.allocates()) && (self.freed.is_some() || !self.frees()),
            "a step that has changed something carries out all that it planned"
        );
        order::let_go(self.pages.len());
        for Latched { page, held, plan } in self.pages.drain() {
            match plan {
                PagePlan::Records(places) => settle(self.pool, page, &places, self.allocated),
                PagePlan::Map { group, create: Some(_) } if self.allocated => {
                    self.pool.space.group_made(group);
                }
                PagePlan::Map { .. } => (),
            }
            unlatch(held, self.changed);
        }
        // Only now: who reserves such a page finds it unlatched.
        self.settle_space();
    }
}

fn unlatch(held: LatchGuard<'_>, changed: bool) {
    if changed {
        drop(held);
    } else {
        held.unlock_unchanged();
    }
}

/// Says where a record page goes that a step lets go: while it has room it is filled by this
/// thread, or listed.
fn settle<M: Medium>(pool: &Pool<M>, page: Page<'_>, places: &Places, allocated: bool) {
    if places.dead || places.made && !allocated {
        return set_arena_state(page, ArenaState::None);
    }
    let room = places.shape.first_free(&layout::used(page)).is_some();
    if arena_state(page) != ArenaState::None || !room {
        return;
    }
    let filled = places.reserved != Bits::default();
    if filled && pool.arenas.adopt(places.class, page.no()) {
        set_arena_state(page, ArenaState::Arena);
    } else if pool.arenas.list(places.class, page.no()) {
        set_arena_state(page, ArenaState::Listed);
    }
}
