//! Checking the pool's own pages, and walking its records. Nothing here trusts a byte.
//!
//! Others may write meanwhile. The map is read first and the pages after, so a page that does not
//! agree with that map is held against the map as it is now, under the page's own latch, without
//! which the page cannot change owner. A finding that rests on two places at once is believed if
//! both stayed as they were seen ([`PoolLook`]).

use std::collections::HashMap;

use everleaf_pmem::{Error, Medium, PageNo, Result, fallible};

use crate::kind::{ANCHOR, EXTENT_HEAD, EXTENT_TAIL, FREE, LOG, MAP, NODE, RECORD};
use crate::layout::{self, USED_WORD, ones};
use crate::look::{PageDamage, PoolLook};
use crate::map::{self, PageRun, Role};
use crate::pool::Pool;
use crate::record::{RecordRef, RecordView};

struct Check<'p, M: Medium> {
    pool: &'p Pool<M>,
    look: PoolLook<'p, M>,
    /// The first pages of extents, and the record that names each.
    named: HashMap<PageNo, RecordRef>,
    /// Records that name an extent of another one.
    twice: Vec<(RecordRef, RecordRef, PageRun)>,
    found: Vec<PageDamage>,
    /// The error that kept the check from looking.
    failed: Option<Error>,
}

/// The name of this memory in errors.
const CHECK: &str = "a check of the pool";

impl<M: Medium> Pool<M> {
    /// Checks the map, every record page with its records and extents, and every anchor. Nodes,
    /// and whether a tree names each record, are the tree's to check. O(bytes in use).
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn try_check(&self) -> Result<Vec<PageDamage>> {
        let (mut damages, look) = self.look()?;
        damages.extend(look.anchors(|_| false)?);
        Ok(damages)
    }

    /// Like [`try_check`](Self::try_check) but for [anchors](PoolLook::anchors), and also returns what it saw, to be
    /// compared with what trees name.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn look(&self) -> Result<(Vec<PageDamage>, PoolLook<'_, M>)> {
        let look = PoolLook::new(self)?;
        let (named, twice) = (HashMap::new(), Vec::new());
        let mut check = Check { pool: self, look, named, twice, found: Vec::new(), failed: None };
        for g in 0..self.space.groups() {
            check.group(g);
            check.go_on()?;
        }
        for no in 0..check.look.owners.len() {
            if check.look.owners[no] == RECORD {
                check.guard(no as PageNo, Check::record_page);
                check.go_on()?;
            }
        }
        check.extents_named_twice();
        if M::JOURNALED {
            check.unnamed_extents();
        }
        Ok((check.found, check.look))
    }

    /// Like [`try_check`](Self::try_check), but reports an error of its own as damage of page 0.
    pub fn check(&self) -> Vec<PageDamage> {
        self.try_check().unwrap_or_else(|error| vec![PageDamage::of(error, 0, self)])
    }

    /// Iterates over all records of the pool, page by page. A page that cannot be read yields its
    /// error.
    pub fn records(&self) -> RecordIter<'_, M> {
        RecordIter { pool: self, owners: None, page: 0, units: Vec::new() }
    }
}

impl<M: Medium> Check<'_, M> {
    fn report(&mut self, page: PageNo, offset_bytes_in_page: usize, what: impl Into<String>) {
        self.found.push(PageDamage { page, offset_bytes_in_page, what: what.into() });
    }

    /// Runs a check of one page; its error becomes damage of that page.
    fn guard(&mut self, no: PageNo, check: impl FnOnce(&mut Self, PageNo) -> Result<()>) {
        if let Err(error) = check(self, no) {
            if let Error::NoMemory { .. } | Error::Stuck { .. } = error {
                self.failed = Some(error);
                return;
            }
            self.found.push(PageDamage::of(error, no, self.pool));
        }
    }

    /// Stops at the first error that is no damage.
    fn go_on(&mut self) -> Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn group(&mut self, g: u32) {
        let per_group = map::group_pages(self.pool.geometry());
        let (first, limit) = (g * per_group, self.pool.medium.limit());
        let pages = (limit - first).min(per_group);
        let start = self.look.owners.len();
        if let Err(error) = fallible::more(&mut self.look.owners, pages as usize, CHECK) {
            self.failed = Some(error);
            return;
        }
        self.look.owners.resize(start + pages as usize, FREE);
        self.guard(first, |check, no| {
            let (page, held) = check.pool.latch(no)?;
            let mut bytes = fallible::list(per_group as usize, CHECK)?;
            bytes.extend((0..per_group).map(|i| map::byte(page, i)));
            let role = map::role(page);
            held.unlock_unchanged();
            check.look.owners[start..].copy_from_slice(&bytes[..pages as usize]);
            check.group_bytes(no, &bytes, role?);
            Ok(())
        });
    }

    fn group_bytes(&mut self, first: PageNo, bytes: &[u8], role: Role) {
        let pages = self.look.owners.len() - first as usize;
        for (i, byte) in bytes.iter().enumerate() {
            let fits = match (*byte, role) {
                (MAP, _) => i == 0,
                (_, _) if i == 0 => false,
                (FREE, _) => true,
                (_, _) if i >= pages => false,
                (NODE | RECORD | ANCHOR | LOG, Role::Pages) | (EXTENT_HEAD, Role::Extents) => true,
                // Without a journal a crash may leave the tail of an extent alone: a leak.
                (EXTENT_TAIL, Role::Extents) => {
                    !M::JOURNALED || matches!(bytes[i - 1], EXTENT_HEAD | EXTENT_TAIL)
                }
                _ => false,
            };
            if !fits {
                let what =
                    format!("owner {byte} of page {} in a group of {role:?}", first as usize + i);
                self.report(first, 64 + i, what);
            }
        }
    }

    fn record_page(&mut self, no: PageNo) -> Result<()> {
        let (page, held) = self.pool.latch(no)?;
        if self.pool.owner(no)? != RECORD {
            held.unlock_unchanged();
            return Ok(());
        }
        let shape = layout::shape(page)?;
        if self.pool.classes.of_units(shape.units).is_none() {
            self.report(no, 0, format!("no class has {} units", shape.units));
        }
        for bit in ones(layout::used(page)) {
            if bit >= usize::from(shape.places) {
                let what = format!("place {bit} of {} is in use", shape.places);
                self.report(no, 8 * (USED_WORD + bit / 64), what);
                continue;
            }
            let r = RecordRef::new(no, bit as u16 * shape.units);
            let record = RecordView::view(page, r, None);
            self.guard(no, |check, _| check.record(r, &record, 16 * usize::from(shape.units)));
        }
        fallible::more_keys(&mut self.look.stamps, 1, CHECK)?;
        self.look.stamps.insert(no, held.before());
        held.unlock_unchanged();
        Ok(())
    }

    fn record(&mut self, r: RecordRef, record: &RecordView<'_>, room: usize) -> Result<()> {
        let lens = record.lens()?;
        let (no, at) = (record.page().no(), record.offset_in_page());
        if lens.record_bytes() > room {
            self.report(no, at, format!("{} bytes in a place of {room}", lens.record_bytes()));
        }
        if lens.extents > 0 {
            for run in self.pool.owned_runs(record, &lens)? {
                self.extent(r, at, run)?;
            }
        }
        Ok(())
    }

    /// An extent of a record whose page is latched: it stays the record's meanwhile.
    fn extent(&mut self, r: RecordRef, at: usize, run: PageRun) -> Result<()> {
        let end = run.first + run.pages;
        let mut owned = self.pool.owner(run.first)? == EXTENT_HEAD;
        for no in run.first + 1..end {
            owned &= self.pool.owner(no)? == EXTENT_TAIL;
        }
        let is_inside = !end.is_multiple_of(map::group_pages(self.pool.geometry()));
        let ends = !M::JOURNALED
            || !is_inside
            || end >= self.pool.medium.limit()
            || self.pool.owner(end)? != EXTENT_TAIL;
        if !owned || !ends {
            self.report(r.page(), at, format!("the map has no such extent: {run:?}"));
            return Ok(());
        }
        // Two that share a page begin at the same one, or the map would not have one of them.
        fallible::more_keys(&mut self.named, 1, CHECK)?;
        if let Some(other) = self.named.insert(run.first, r) {
            fallible::push(&mut self.twice, (other, r, run), CHECK)?;
        }
        Ok(())
    }

    fn extents_named_twice(&mut self) {
        for (other, r, run) in std::mem::take(&mut self.twice) {
            if self.look.is_settled(other.page()) && self.look.is_settled(r.page()) {
                let at = 64 + 16 * usize::from(r.unit());
                self.report(r.page(), at, format!("another record has pages of {run:?}"));
            }
        }
    }

    /// With a journal nothing leaks, so each extent has a record.
    fn unnamed_extents(&mut self) {
        let per_group = map::group_pages(self.pool.geometry());
        for no in 0..self.look.owners.len() as PageNo {
            let owner = self.look.owners[no as usize];
            if owner == EXTENT_HEAD && !self.named.contains_key(&no) && self.look.keeps(no) {
                let group = no / per_group * per_group;
                let at = 64 + (no - group) as usize;
                self.report(group, at, format!("no record names the extent at page {no}"));
            }
        }
    }
}

/// All records of a pool, by page; made by [`Pool::records`].
pub struct RecordIter<'p, M: Medium> {
    pool: &'p Pool<M>,
    owners: Option<Vec<u8>>,
    page: usize,
    /// Records of the current page that are still to come, last first.
    units: Vec<RecordRef>,
}

impl<M: Medium> RecordIter<'_, M> {
    fn read_page(&self, no: PageNo) -> Result<Vec<RecordRef>> {
        let (page, held) = self.pool.latch(no)?;
        let shape = layout::shape(page)?;
        let bits = layout::used(page);
        held.unlock_unchanged();
        let places = ones(bits).take_while(|bit| *bit < usize::from(shape.places));
        let mut refs = fallible::list(usize::from(shape.places), CHECK)?;
        refs.extend(places.map(|bit| RecordRef::new(no, bit as u16 * shape.units)));
        refs.reverse();
        Ok(refs)
    }

    fn read_map(&mut self) -> Result<()> {
        self.owners = Some(Vec::new());
        self.owners = Some(self.pool.map_bytes()?);
        Ok(())
    }
}

impl<M: Medium> Iterator for RecordIter<'_, M> {
    type Item = Result<RecordRef>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.owners.is_none()
            && let Err(e) = self.read_map()
        {
            return Some(Err(e));
        }
        loop {
            if let Some(r) = self.units.pop() {
                return Some(Ok(r));
            }
            let no = self.page;
            let owner = *self.owners.as_ref()?.get(no)?;
            self.page += 1;
            if owner == RECORD {
                match self.read_page(no as PageNo) {
                    Ok(units) => self.units = units,
                    Err(e) => return Some(Err(e)),
                }
            }
        }
    }
}
