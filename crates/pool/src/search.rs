//! Finding a place for a record: in a page that the step holds, in the thread's arena, in a listed
//! page, in a page not looked at since the open, in a new page; in that order.

use everleaf_pmem::{Error, LatchGuard, Medium, Page, PageNo, fallible};

use crate::arena::{ArenaState, arena_state, set_arena_state};
use crate::extent::Large;
use crate::inline_vec::{INLINE, InlineVec};
use crate::kind::{EXTENT_HEAD, EXTENT_TAIL, FREE, KIND_WORD, NODE, RECORD, kind_of};
use crate::layout::{self, RecordShape};
use crate::pool::Stop;
use crate::publish::make_room;
use crate::record::RecordRef;
use crate::step::{PLAN, PagePlan, Step};

/// Whether only memory was wanting, so that a page is as good as before.
fn is_of_memory(error: &Error) -> bool {
    matches!(error, Error::NoMemory { .. })
}

/// Record pages that are looked at, after an open, before a new one is made.
const LOOKS: usize = 4;
const _: () = assert!(LOOKS <= INLINE, "the busy ones are remembered without the heap");

impl<'p, M: Medium> Step<'p, M> {
    /// Reserves a place for a record of `len` bytes; the bytes follow by
    /// [`Step::write_record`](Step::write_record). O(1) mostly.
    ///
    /// # Errors
    /// [`Stop::Busy`]; [`Error::RecordTooLong`] beyond [`max_record`](crate::max_record);
    /// [`Error::Full`]; errors of a first fetch.
    pub fn record(&mut self, len: usize) -> Result<RecordRef, Stop> {
        let class = self.pool.classes.of_len(len).ok_or_else(|| Error::RecordTooLong {
            bytes: len as u64,
            bytes_max: crate::max_record(self.pool.geometry()) as u64,
        })?;
        make_room(len)?;
        loop {
            if let Some(r) = self.reserve_in_held(class) {
                return Ok(r);
            }
            // Each turn either adds a page that has room or uses up a stale hint.
            let found = self.take_current(class)? || self.take_listed(class)?;
            if !found && !self.look_around(class)? {
                self.make_record_page(class)?;
            }
        }
    }

    /// Plans the record and the map bytes of a large pair. The record's bytes are
    /// [`Large::record_bytes`].
    ///
    /// # Errors
    /// As [`Step::record`].
    pub fn large_record(&mut self, large: &'p Large<'p, M>) -> Result<RecordRef, Stop> {
        fallible::more(&mut self.larges, 1, PLAN)?;
        for run in large.runs() {
            self.own(run.first, 1, (FREE, FREE), EXTENT_HEAD)?;
            if run.pages > 1 {
                self.own(run.first + 1, run.pages - 1, (FREE, FREE), EXTENT_TAIL)?;
            }
        }
        let r = self.record(large.record_bytes().len())?;
        self.larges.push(large);
        Ok(r)
    }

    fn reserve_in_held(&mut self, class: usize) -> Option<RecordRef> {
        self.pages.iter_mut().find_map(|l| match &mut l.plan {
            PagePlan::Records(places) if places.class == class => places.reserve(l.page),
            _ => None,
        })
    }

    /// Whether a hint is stale because the page has become a node meanwhile, or is about to: one
    /// that this step has made bears its old kind until it is built. The caller's own nodes are
    /// latched and stay nodes, so no step waits for a latch of its own through a stale hint.
    fn is_node(&self, no: PageNo) -> Result<bool, Stop> {
        let made = self.made.contains(&no) && self.find(no).is_none();
        Ok(made || kind_of(self.pool.page(no)?.head(KIND_WORD).load()) == NODE)
    }

    /// Latches the page that this thread fills. True if the search should look at the held pages
    /// again.
    fn take_current(&mut self, class: usize) -> Result<bool, Stop> {
        let arenas = &self.pool.arenas;
        let no = arenas.current(class);
        if no == 0 {
            return Ok(false);
        }
        if self.is_node(no)? {
            arenas.leave(class, no);
            return Ok(false);
        }
        if let Some(at) = self.find(no) {
            // Held and still no room: this step fills it. Drop decides where it goes.
            set_arena_state(self.pages[at].page, ArenaState::None);
            arenas.leave(class, no);
            return Ok(false);
        }
        self.pages.make_room()?;
        let (page, held) = self.try_latch(no)?;
        let stays = arena_state(page) == ArenaState::Arena && self.adopt(page, held, class);
        if !stays {
            arenas.leave(class, no);
        }
        Ok(stays)
    }

    fn take_listed(&mut self, class: usize) -> Result<bool, Stop> {
        while let Some(no) = self.pool.arenas.unlist(class) {
            if self.is_node(no)? {
                continue;
            }
            if let Some(at) = self.find(no) {
                set_arena_state(self.pages[at].page, ArenaState::None);
                continue;
            }
            // On the way out the page goes back into the list, where it just was.
            let latched =
                self.pages.make_room().map_err(Stop::from).and_then(|()| self.try_latch(no));
            let (page, held) = match latched {
                Err(Stop::Failed(error)) if !is_of_memory(&error) => return Err(error.into()),
                Err(stop) => {
                    self.pool.arenas.list(class, no);
                    return Err(stop);
                }
                Ok(latched) => latched,
            };
            if arena_state(page) != ArenaState::Arena && self.adopt(page, held, class) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Looks at record pages that have not been looked at since the open. Busy ones are left for
    /// the next time.
    fn look_around(&mut self, class: usize) -> Result<bool, Stop> {
        let (mut busy, mut found) = (InlineVec::new(), false);
        self.pages.make_room()?;
        for _ in 0..LOOKS {
            let Some(no) = self.pool.arenas.take_unseen() else { break };
            if self.find(no).is_some() || self.is_node(no)? {
                continue;
            }
            match self.try_latch(no) {
                Ok((page, held)) => {
                    found = arena_state(page) == ArenaState::None && self.adopt(page, held, class);
                }
                Err(Stop::Busy) => drop(busy.push(no)),
                Err(Stop::Failed(error)) if is_of_memory(&error) => drop(busy.push(no)),
                // A damaged page is no reason to fail here: whoever needs it will say so.
                Err(Stop::Failed(_)) => {}
            }
            if found {
                break;
            }
        }
        // Their bits are there, so this needs no memory.
        busy.drain().try_for_each(|no| self.pool.arenas.add_unseen(no))?;
        Ok(found)
    }

    /// Keeps a latched record page if it is one of `class` with room. Otherwise unlatches it; with
    /// room for another class it is listed there.
    fn adopt(&mut self, page: Page<'p>, held: LatchGuard<'p>, class: usize) -> bool {
        // A page that is no record page is no damage here, and a message about it would take memory.
        let found = layout::shape_of(page);
        let found = found.and_then(|s| Some((s, self.pool.classes.of_units(s.units)?)));
        if let Some((shape, its_class)) = found {
            let room = shape.first_free(&layout::used(page)).is_some();
            if its_class == class {
                if !room || arena_state(page) == ArenaState::Listed {
                    set_arena_state(page, ArenaState::None);
                }
                if room {
                    self.keep(page, held, class, shape, false);
                    return true;
                }
            } else if room
                && arena_state(page) == ArenaState::None
                && self.pool.arenas.list(its_class, page.no())
            {
                set_arena_state(page, ArenaState::Listed);
            }
        }
        held.unlock_unchanged();
        false
    }

    fn make_record_page(&mut self, class: usize) -> Result<(), Stop> {
        // This may take map pages into the plan, too, and so room is made after it.
        let (page, held) = self.make_page(RECORD)?;
        self.pages.make_room()?;
        let shape = RecordShape::new(page.slots(), self.pool.classes.units(class));
        self.keep(page, held, class, shape, true);
        Ok(())
    }
}
