//! Planning a step: everything that can fail or must wait, before anything is changed.
//!
//! The caller has latched its node already. All further latches are only tried: if one is busy the
//! step [stops](Stop::Busy), the caller drops what it holds and starts again, so no two steps wait
//! for each other. A dropped step gives back what it reserved.

use std::cell::Cell;

use everleaf_pmem::{Error, LatchGuard, Medium, Page, PageNo, Seen, fallible};

use crate::arena::{ArenaState, arena_state, set_arena_state};
use crate::change::damaged;
use crate::extent::Large;
use crate::inline_vec::InlineVec;
use crate::kind::{ANCHOR, EXTENT_HEAD, EXTENT_TAIL, FREE, LOG, MAP, NODE, RECORD};
use crate::layout::{self, Bits, RecordShape, has, set};
use crate::map::{self, PageRun, Role};
use crate::order;
use crate::pool::{Pool, Stop, is_in_use};
use crate::record::{RecordRef, RecordView};

/// The name of this memory in errors.
pub(crate) const PLAN: &str = "the plan of a step";

/// The plan of a step for a page that it has latched.
pub(crate) enum PagePlan {
    /// A map page; `create` if the page does not exist yet.
    Map { group: u32, create: Option<Role> },
    /// A record page.
    Records(Places),
}

/// The plan of a step for the places of a record page.
pub(crate) struct Places {
    pub class: usize,
    pub shape: RecordShape,
    pub reserved: Bits,
    pub freed: Bits,
    /// The page was made by this step.
    pub made: bool,
    /// The page was made by this step and has no bytes yet.
    pub fresh: bool,
    /// The page will be freed.
    pub dying: bool,
    /// The page was freed.
    pub dead: bool,
}

impl Places {
    /// The places that must not be given out: in use before this step, or reserved by it.
    fn taken(&self, page: Page<'_>) -> Bits {
        let used = if self.fresh { Bits::default() } else { layout::used(page) };
        std::array::from_fn(|i| used[i] | self.reserved[i])
    }
    pub fn reserve(&mut self, page: Page<'_>) -> Option<RecordRef> {
        let bit = self.shape.first_free(&self.taken(page)).filter(|_| !self.dying)?;
        debug_assert!(
            !has(&self.freed, bit),
            "a place that the step frees is not used again by it"
        );
        set(&mut self.reserved, bit);
        Some(RecordRef::new(page.no(), bit as u16 * self.shape.units))
    }
}

pub(crate) struct Latched<'p> {
    pub page: Page<'p>,
    pub held: LatchGuard<'p>,
    pub plan: PagePlan,
}

/// A planned change of map bytes.
pub(crate) struct Owner {
    /// Which of the latched pages.
    pub at: usize,
    pub first: PageNo,
    pub len: u32,
    pub byte: u8,
    /// Whether the pages were an extent: extents wait before they are used again.
    pub extent: bool,
}

impl Owner {
    fn shares_pages(&self, run: PageRun) -> bool {
        self.first < run.first + run.pages && run.first < self.first + self.len
    }
}

impl<M: Medium> Pool<M> {
    /// Begins a step that has planned nothing yet.
    pub fn step(&self) -> Step<'_, M> {
        Step::new(self)
    }
}

/// The changes that one step makes to pages other than nodes. See the [crate](crate) for the order of
/// calls.
///
/// The step holds latches, so drop it after the `Op`.
pub struct Step<'p, M: Medium> {
    pub(crate) pool: &'p Pool<M>,
    pub(crate) pages: InlineVec<Latched<'p>>,
    pub(crate) owners: Vec<Owner>,
    /// Page numbers reserved by this step.
    pub(crate) made: Vec<PageNo>,
    pub(crate) larges: Vec<&'p Large<'p, M>>,
    /// The step has begun on the medium, which has room for what was planned until then.
    pub(crate) entered: Cell<bool>,
    /// Something was changed.
    pub(crate) changed: bool,
    pub(crate) allocated: bool,
    /// The epoch that the frees landed in, once they are published.
    pub(crate) freed: Option<u64>,
}

impl<'p, M: Medium> Step<'p, M> {
    /// The step's pool.
    #[inline(always)]
    pub fn pool(&self) -> &'p Pool<M> {
        self.pool
    }

    /// The medium of the step's pool.
    #[inline(always)]
    pub fn medium(&self) -> &'p M {
        self.pool.medium()
    }

    pub(crate) fn new(pool: &'p Pool<M>) -> Self {
        Self {
            pool,
            pages: InlineVec::new(),
            owners: Vec::new(),
            made: Vec::new(),
            larges: Vec::new(),
            entered: Cell::new(false),
            changed: false,
            allocated: false,
            freed: None,
        }
    }

    /// Everything is planned before the step begins: from then on nothing may stop it, and the medium
    /// has room for no more.
    #[inline(always)]
    fn assert_planning(&self) {
        debug_assert!(!self.entered.get() && !self.changed, "planned after the step has begun");
    }

    /// Whether nothing is planned.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pages.len() == 0 && self.owners.is_empty()
    }

    pub(crate) fn find(&self, no: PageNo) -> Option<usize> {
        self.pages.iter().position(|l| l.page.no() == no)
    }

    pub(crate) fn try_latch(&self, no: PageNo) -> Result<(Page<'p>, LatchGuard<'p>), Stop> {
        self.assert_planning();
        let page = self.pool.page(no)?;
        let mut held = page.latch().try_lock_briefly().ok_or(Stop::Busy)?;
        self.pool.ensure(page, &mut held)?;
        Ok((page, held))
    }

    /// Takes a latched page into the plan, after [`InlineVec::make_room`]; says where it is there.
    fn hold(&mut self, latched: Latched<'p>) -> usize {
        order::hold();
        self.pages.push(latched)
    }

    /// Latches the map page of a group, and the map pages before it that do not exist yet: groups
    /// come into being in order.
    fn map_page(&mut self, group: u32) -> Result<usize, Stop> {
        let per_group = map::group_pages(self.pool.geometry());
        if let Some(at) = self.find(group * per_group) {
            return Ok(at);
        }
        let missing = self.pool.space.missing(group)?;
        let last = missing.is_empty().then_some((group, Role::Pages));
        let mut at = 0;
        for (group, role) in missing.into_iter().chain(last) {
            at = match self.find(group * per_group) {
                Some(at) => at,
                None => {
                    let page = self.pool.page(group * per_group)?;
                    let kind = crate::kind::kind_of(page.head(crate::kind::KIND_WORD).load());
                    if M::JOURNALED && page.latch().is_ready() && !matches!(kind, FREE | MAP) {
                        return Err(damaged(page, 0, "the place of a map page is in use").into());
                    }
                    self.pages.make_room()?;
                    let (page, held) = self.try_latch(group * per_group)?;
                    let create = (map::byte(page, 0) != MAP).then_some(role);
                    self.hold(Latched { page, held, plan: PagePlan::Map { group, create } })
                }
            };
        }
        Ok(at)
    }

    /// Plans a new owner for pages that must have the owners `now` until then (the first page, and
    /// the rest).
    pub(crate) fn own(
        &mut self,
        first: PageNo,
        len: u32,
        now: (u8, u8),
        byte: u8,
    ) -> Result<(), Stop> {
        self.assert_planning();
        let (group, index) = map::locate(&self.pool.medium, first, len)?;
        if !self.pool.space.has_group(group) {
            let what = "pages of a group that is not there";
            return Err(damaged(self.pool.page(first)?, 0, what).into());
        }
        let at = self.map_page(group)?;
        let Latched { page, plan: PagePlan::Map { create, .. }, .. } = &self.pages[at] else {
            return Err(damaged(self.pages[at].page, 0, "a map page that holds records").into());
        };
        if create.is_none() && !map::is_run(*page, index, len, now.0, now.1) {
            let what = format!("{len} pages from {first} have other owners than expected");
            return Err(damaged(*page, 64 + index as usize, what).into());
        }
        let extent = matches!(now.0, EXTENT_HEAD | EXTENT_TAIL);
        Ok(fallible::push(&mut self.owners, Owner { at, first, len, byte, extent }, PLAN)?)
    }

    /// Reserves a page, latches it and plans its map byte; `kind_byte` is that of a node, an anchor or
    /// a log. The page is ready, holds stale bytes, and keeps its sequence number.
    ///
    /// # Errors
    /// [`Stop::Busy`]; [`Error::Full`]; errors of the first fetch.
    pub fn new_page(&mut self, kind_byte: u8) -> Result<(Page<'p>, LatchGuard<'p>), Stop> {
        assert!(matches!(kind_byte, NODE | ANCHOR | LOG), "records and maps are made elsewhere");
        self.make_page(kind_byte)
    }

    pub(crate) fn make_page(&mut self, kind_byte: u8) -> Result<(Page<'p>, LatchGuard<'p>), Stop> {
        loop {
            fallible::more(&mut self.made, 1, PLAN)?;
            let no = self.pool.space.reserve(Role::Pages, 1)?;
            let page = self.pool.page(no)?;
            if page.latch().is_ready() && is_in_use::<M>(page) {
                // It stays reserved and is left alone: the map is wrong, and who has it may be the
                // caller.
                continue;
            }
            debug_assert!(!self.made.contains(&no), "a number is given to one step at a time");
            self.made.push(no);
            let mut held = page.latch().try_lock_briefly().ok_or(Stop::Busy)?;
            match self.pool.ensure_fresh(page, &mut held) {
                Ok(true) => {
                    self.own(no, 1, (FREE, FREE), kind_byte)?;
                    return Ok((page, held));
                }
                // Reserved as above, and else every step would meet this page again.
                Ok(false) => held.unlock_unchanged(),
                // Memory may be there the next time.
                Err(e @ Error::NoMemory { .. }) => return Err(e.into()),
                Err(e) => {
                    self.made.pop();
                    return Err(e.into());
                }
            }
            self.made.pop();
        }
    }

    /// Plans to free a node, an anchor or a log. The caller has latched the page and calls
    /// [`note_free`](crate::note_free) on it after [`publish_free`](Self::publish_free).
    ///
    /// # Errors
    /// [`Stop::Busy`]; [`Error::Corrupt`] if the map says that the page is something else.
    pub fn free_page(&mut self, no: PageNo) -> Result<(), Stop> {
        let page = self.pool.page(no)?;
        debug_assert!(page.latch().is_held(), "the caller has latched the page that it frees");
        let word = page.head(crate::kind::KIND_WORD).load();
        let kind = crate::kind::kind_of(word);
        if !matches!(kind, NODE | ANCHOR | LOG) {
            let what = format!("freeing a page of kind {kind}");
            return Err(damaged(page, 0, what).into());
        }
        self.own(no, 1, (kind, kind), FREE)
    }

    /// A record page, latched if it is not held yet.
    pub(crate) fn record_page(&mut self, no: PageNo) -> Result<usize, Stop> {
        if let Some(at) = self.find(no) {
            return Ok(at);
        }
        let page = self.pool.page(no)?;
        if page.latch().is_ready()
            && let Seen::Ready(version) = page.latch().read_version_racing()
            && let Err(error) = layout::shape(page)
            && page.latch().validate(version)
        {
            // Before the latch: if it is something else the caller may hold it.
            return Err(error.into());
        }
        self.pages.make_room()?;
        let (page, held) = self.try_latch(no)?;
        let shape = layout::shape(page)?;
        let class = self.pool.classes.of_units(shape.units);
        let class = class.ok_or_else(|| damaged(page, 0, "records of no class"))?;
        self.keep(page, held, class, shape, false);
        Ok(self.find(no).expect("just kept"))
    }

    /// Adds a latched record page to the plan.
    pub(crate) fn keep(
        &mut self,
        page: Page<'p>,
        held: LatchGuard<'p>,
        class: usize,
        shape: RecordShape,
        fresh: bool,
    ) {
        let places = Places {
            class,
            shape,
            reserved: Bits::default(),
            freed: Bits::default(),
            made: fresh,
            fresh,
            dying: false,
            dead: false,
        };
        debug_assert_eq!(
            self.pool.classes.units(class),
            shape.units,
            "the page is one of its class"
        );
        debug_assert!(self.find(page.no()).is_none(), "a step plans each page once");
        if fresh {
            set_arena_state(page, ArenaState::None);
        }
        self.hold(Latched { page, held, plan: PagePlan::Records(places) });
    }

    /// Views a record for a caller that holds latches, for which [`Pool::record`] would wait for ever.
    /// The record's page stays latched for the rest of the step, so the view stays current.
    ///
    /// # Errors
    /// [`Stop::Busy`]; [`Error::Corrupt`] if there is no such page of records; errors of a first
    /// fetch.
    pub fn view(&mut self, r: RecordRef) -> Result<RecordView<'p>, Stop> {
        let at = self.record_page(r.page())?;
        Ok(RecordView::view(self.pages[at].page, r, None))
    }

    /// Plans to free a record and its extents. This step does not use the record's place again.
    ///
    /// # Errors
    /// [`Stop::Busy`]; [`Error::Corrupt`] if there is no such record; errors of a first fetch.
    pub fn release(&mut self, r: RecordRef) -> Result<(), Stop> {
        let at = self.record_page(r.page())?;
        let page = self.pages[at].page;
        let record = RecordView::view(page, r, None);
        let PagePlan::Records(places) = &mut self.pages[at].plan else {
            return Err(damaged(page, 0, "a map page where a record should be").into());
        };
        let used = if places.fresh { Bits::default() } else { layout::used(page) };
        let bit = places.shape.bit(r.unit());
        let bit = bit.filter(|bit| has(&used, *bit) && !has(&places.freed, *bit));
        let bit = bit.ok_or_else(|| {
            damaged(page, record.offset_in_page(), "freeing a record that is not there")
        })?;
        debug_assert!(!has(&places.reserved, bit), "a record that is in use is reserved by nobody");
        set(&mut places.freed, bit);
        let left = (0..used.len()).any(|i| (used[i] & !places.freed[i]) | places.reserved[i] != 0);
        let empties = !left && arena_state(page) != ArenaState::Arena;
        let lens = record.lens()?;
        let before = self.owners.len();
        for run in if lens.extents > 0 { self.pool.owned_runs(&record, &lens)? } else { Vec::new() }
        {
            // Records of a damaged pool may name one extent; it must not be given back twice.
            if self.owners[..before].iter().any(|owner| owner.shares_pages(run)) {
                let what = "an extent that this step frees with another record";
                return Err(damaged(page, record.offset_in_page(), what).into());
            }
            self.own(run.first, run.pages, (EXTENT_HEAD, EXTENT_TAIL), FREE)?;
        }
        if empties {
            self.plan_to_free(at, page)?;
        }
        Ok(())
    }

    /// Plans to free an empty record page, if the map is not busy: it can as well stay listed.
    fn plan_to_free(&mut self, at: usize, page: Page<'p>) -> Result<(), Stop> {
        match self.own(page.no(), 1, (RECORD, RECORD), FREE) {
            Err(Stop::Busy) => return Ok(()),
            planned => planned?,
        }
        if let PagePlan::Records(places) = &mut self.pages[at].plan {
            places.dying = true;
        }
        Ok(())
    }
}
