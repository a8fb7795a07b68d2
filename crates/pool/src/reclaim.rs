//! Leaks, in use and named by nobody: they are found by comparing the pool with what the trees name,
//! and given back. Only media without a journal have them, and only after a crash (see
//! [`publish`](crate::Step::publish_alloc)'s order: the map's byte before the link, the link's end
//! before the map's byte).
//!
//! ```text
//! anchors         first: no crash leaves an anchor whose root is free
//! nodes, logs
//! records         bits, then the map's byte of a page in which no record is left
//! extents         last: no crash leaves a record whose extents are free
//! ```
//!
//! Each line is a row of steps, each durable before the next; a crash between two of them leaves
//! fewer leaks than before, and the next walk finds those. The content of a page does not matter: a node
//! that was never built is given back unread.

use std::collections::{BTreeMap, HashSet};

use everleaf_pmem::{Medium, PageNo, Result, fallible};

use crate::arena::{ArenaState, arena_state};
use crate::change::damaged;
use crate::kind::{ANCHOR, EXTENT_HEAD, EXTENT_TAIL, FREE, LOG, NODE, RECORD};
use crate::layout::{self, has, ones, set};
use crate::map::{PageRun, note_free};
use crate::pool::{CATALOG_ANCHOR, Pool, Stop, retry};
use crate::record::RecordRef;
use crate::step::{PagePlan, Step};

/// The name of this memory in errors.
const LEAKS: &str = "the list of what is lost";

/// Pages and records that are in use and belong to no tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leaks {
    /// Pages that the map calls anchors; never the catalog's.
    pub anchors: Vec<PageNo>,
    /// Pages that the map calls nodes.
    pub nodes: Vec<PageNo>,
    /// Pages that the map calls logs.
    pub logs: Vec<PageNo>,
    /// Records in use.
    pub records: Vec<RecordRef>,
    /// Pages that the map calls record pages and that hold no record that is named. Only media without
    /// a journal have them. Pages in which a record was written or freed since the open are not among
    /// them, because they are the next to be filled.
    pub record_pages: Vec<PageNo>,
    /// Pages that the map says belong to extents: a first page and those after it, or some pages
    /// whose first one is free already.
    pub extents: Vec<PageRun>,
}

impl Leaks {
    /// Whether nothing is lost.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl<M: Medium> Pool<M> {
    /// Finds what nobody names. `is_named` answers for anchors, nodes and logs, by their kind;
    /// `records` are all records that are named. Call it while nobody writes. O(pages + records).
    ///
    /// # Errors
    /// [`Error::Corrupt`](everleaf_pmem::Error::Corrupt) for a map, a record page or a named record
    /// that is damaged: what it says cannot tell what is lost. I/O errors.
    pub fn leaks(
        &self,
        is_named: impl Fn(u8, PageNo) -> bool,
        records: &HashSet<RecordRef>,
    ) -> Result<Leaks> {
        let owners = self.map_bytes()?;
        let mut leaks = Leaks::default();
        for (no, owner) in (0..).zip(&owners) {
            match *owner {
                ANCHOR if no != CATALOG_ANCHOR && !is_named(ANCHOR, no) => {
                    fallible::push(&mut leaks.anchors, no, LEAKS)?;
                }
                NODE if !is_named(NODE, no) => fallible::push(&mut leaks.nodes, no, LEAKS)?,
                LOG if !is_named(LOG, no) => fallible::push(&mut leaks.logs, no, LEAKS)?,
                RECORD => self.lost_records(no, records, &mut leaks)?,
                _ => {}
            }
        }
        if owners.iter().any(|owner| matches!(*owner, EXTENT_HEAD | EXTENT_TAIL)) {
            leaks.extents = self.lost_extents(&owners, records)?;
        }
        Ok(leaks)
    }

    fn lost_records(
        &self,
        no: PageNo,
        named: &HashSet<RecordRef>,
        leaks: &mut Leaks,
    ) -> Result<()> {
        let (page, held) = self.latch(no)?;
        // A page that was never formatted is damage: its header is durable before its map byte.
        let shape = layout::shape(page)?;
        let (used, place) = (layout::used(page), arena_state(page));
        held.unlock_unchanged();
        let mut keeps = false;
        for bit in ones(used).take_while(|bit| *bit < usize::from(shape.places)) {
            let r = RecordRef::new(no, bit as u16 * shape.units);
            let is_named = named.contains(&r);
            keeps |= is_named;
            if !is_named {
                fallible::push(&mut leaks.records, r, LEAKS)?;
            }
        }
        if !M::JOURNALED && !keeps && place == ArenaState::None {
            fallible::push(&mut leaks.record_pages, no, LEAKS)?;
        }
        Ok(())
    }

    /// The pages of extents that no record of `named` has, in runs that one step can free.
    fn lost_extents(&self, owners: &[u8], named: &HashSet<RecordRef>) -> Result<Vec<PageRun>> {
        let is_extent = |no: usize| matches!(owners.get(no), Some(&(EXTENT_HEAD | EXTENT_TAIL)));
        let mut kept = fallible::filled(false, owners.len(), LEAKS)?;
        for &r in named {
            let record = self.record(r)?;
            let lens = record.lens()?;
            for run in if lens.extents > 0 { self.owned_runs(&record, &lens)? } else { vec![] } {
                let range = run.first as usize..(run.first + run.pages) as usize;
                if !range.clone().all(|no| is_extent(no) && !kept[no]) {
                    let what = format!("not an extent of this record alone: {run:?}");
                    return Err(damaged(record.page(), record.offset_in_page(), what));
                }
                kept[range].fill(true);
            }
        }
        let mut lost: Vec<PageRun> = Vec::new();
        for no in (0..owners.len()).filter(|no| is_extent(*no) && !kept[*no]) {
            match lost.last_mut() {
                Some(run) if owners[no] == EXTENT_TAIL && run.first + run.pages == no as u32 => {
                    run.pages += 1;
                }
                _ => fallible::push(&mut lost, PageRun { first: no as PageNo, pages: 1 }, LEAKS)?,
            }
        }
        Ok(lost)
    }

    /// Gives back what [`Pool::leaks`] found; nobody may have written since. Durable on strict
    /// media when it returns; a crash meanwhile leaves leaks only. O(leaks), two fences each at
    /// most.
    ///
    /// # Errors
    /// [`Error::Corrupt`](everleaf_pmem::Error::Corrupt) if something is not what it was found to
    /// be; those of [`Medium::enter`]. Anything given back until then stays so.
    pub fn reclaim(&self, leaks: &Leaks) -> Result<()> {
        for no in &leaks.anchors {
            self.free_page(*no, ANCHOR)?;
        }
        for no in &leaks.nodes {
            self.free_page(*no, NODE)?;
        }
        for no in &leaks.logs {
            self.free_page(*no, LOG)?;
        }
        let mut pages: BTreeMap<PageNo, (Vec<RecordRef>, bool)> = BTreeMap::new();
        leaks.records.iter().for_each(|r| pages.entry(r.page()).or_default().0.push(*r));
        leaks.record_pages.iter().for_each(|no| pages.entry(*no).or_default().1 = true);
        for (no, (records, whole)) in &pages {
            self.free_now(|step| step.forget_records(*no, records, *whole))?;
        }
        for run in &leaks.extents {
            self.free_now(|step| step.forget_extent(*run))?;
        }
        self.settle();
        Ok(())
    }

    /// Gives back a record that nothing names, and its extents, in a step of its own.
    ///
    /// # Errors
    /// [`Error::Corrupt`](everleaf_pmem::Error::Corrupt) if there is no such record; those of
    /// [`Medium::enter`] and of a first fetch.
    pub fn free_record(&self, r: RecordRef) -> Result<()> {
        self.free_now(|step| step.release(r))
    }

    /// A step that only frees what `plan` plans.
    fn free_now<'p>(
        &'p self,
        mut plan: impl FnMut(&mut Step<'p, M>) -> Result<(), Stop>,
    ) -> Result<()> {
        retry(|| {
            let mut step = self.step();
            plan(&mut step)?;
            let mut op = step.enter()?;
            step.publish_free(&mut op);
            Ok(())
        })
    }

    /// Gives back a page that nothing names, in a step of its own. `kind` says whether it is a node,
    /// an anchor or a log. Its bytes do not matter: on strict media they may never have been written.
    /// The caller does not hold its latch.
    ///
    /// # Errors
    /// [`Error::Corrupt`](everleaf_pmem::Error::Corrupt) if the map says that the page is something
    /// else; those of [`Medium::enter`] and of a first fetch.
    pub fn free_page(&self, no: PageNo, kind: u8) -> Result<()> {
        retry(|| {
            let page = self.page(no)?;
            let mut held = page.latch().try_lock_briefly().ok_or(Stop::Busy)?;
            self.ensure_fresh(page, &mut held)?;
            let mut step = self.step();
            step.own(no, 1, (kind, kind), FREE)?;
            let mut op = step.enter()?;
            step.publish_free(&mut op);
            note_free(&self.medium, &mut op, page);
            Ok(())
        })
    }
}

impl<M: Medium> Step<'_, M> {
    /// Plans that records of one page are free, without a look at them, and the page itself if they
    /// are the `whole` of it.
    fn forget_records(
        &mut self,
        no: PageNo,
        records: &[RecordRef],
        whole: bool,
    ) -> Result<(), Stop> {
        let at = self.record_page(no)?;
        let page = self.pages[at].page;
        let used = layout::used(page);
        let PagePlan::Records(places) = &mut self.pages[at].plan else {
            return Err(damaged(page, 0, "a map page where records should be").into());
        };
        for r in records {
            let bit = places.shape.bit(r.unit()).filter(|bit| has(&used, *bit));
            let bit = bit.ok_or_else(|| damaged(page, 0, format!("{r:?} is not in use")))?;
            set(&mut places.freed, bit);
        }
        if whole {
            if used != places.freed {
                return Err(damaged(page, 0, "records in a page that should have none").into());
            }
            places.dying = true;
            self.own(no, 1, (RECORD, RECORD), FREE)?;
        }
        Ok(())
    }

    /// Plans that an extent, or what is left of one, is free.
    fn forget_extent(&mut self, run: PageRun) -> Result<(), Stop> {
        let whole = self.own(run.first, run.pages, (EXTENT_HEAD, EXTENT_TAIL), FREE);
        match whole {
            Err(Stop::Failed(_)) => {
                self.own(run.first, run.pages, (EXTENT_TAIL, EXTENT_TAIL), FREE)
            }
            planned => planned,
        }
    }
}
