//! Checking the pool's own pages, and walking its records. Nothing here trusts a byte.
//!
//! Run it while nobody writes: it reads the map first and the pages after.

use everleaf_pmem::{Error, Medium, PageNo, Result, room};

use crate::anchor;
use crate::extent::Run;
use crate::kind::{ANCHOR, EXTENT_HEAD, EXTENT_TAIL, FREE, LOG, MAP, NODE, RECORD};
use crate::layout::{self, USED_WORD, ones};
use crate::map::{self, Role};
use crate::pool::Pool;
use crate::record::{Record, RecordRef};

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The page.
    pub page: PageNo,
    /// Where in the page, in bytes from its start.
    pub offset_bytes_in_page: usize,
    /// What was found.
    pub what: String,
}

struct Check<'p, M: Medium> {
    pool: &'p Pool<M>,
    owners: Vec<u8>,
    /// Pages of extents that a record names.
    named: Vec<bool>,
    found: Vec<Damage>,
    /// What kept the check from looking.
    failed: Option<Error>,
}

/// What memory here is for.
const CHECK: &str = "a check of the pool";

impl<M: Medium> Pool<M> {
    /// Checks the map, every record page with its records and extents, and every anchor. Nodes,
    /// and whether a tree names each record, are the tree's to check. O(bytes in use).
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn try_check(&self) -> Result<Vec<Damage>> {
        let owners = self.space.groups() as usize * map::group_pages(self.geometry()) as usize;
        let mut check = Check {
            pool: self,
            owners: room::list(owners, CHECK)?,
            named: Vec::new(),
            found: Vec::new(),
            failed: None,
        };
        for g in 0..self.space.groups() {
            check.group(g);
            check.go_on()?;
        }
        check.named = room::filled(false, check.owners.len(), CHECK)?;
        for no in 0..check.owners.len() {
            match check.owners[no] {
                RECORD => check.guard(no as PageNo, Check::record_page),
                ANCHOR => check.guard(no as PageNo, Check::anchor),
                _ => continue,
            }
            check.go_on()?;
        }
        if M::JOURNALED {
            check.unnamed_extents();
        }
        Ok(check.found)
    }

    /// As [`try_check`](Self::try_check), with an error of its own as damage of page 0.
    pub fn check(&self) -> Vec<Damage> {
        let damage =
            |error: Error| Damage { page: 0, offset_bytes_in_page: 0, what: error.to_string() };
        self.try_check().unwrap_or_else(|error| vec![damage(error)])
    }

    /// All records that the pool holds, by page. Pages that cannot be read yield their error.
    pub fn records(&self) -> Records<'_, M> {
        Records { pool: self, owners: None, page: 0, units: Vec::new() }
    }
}

impl<M: Medium> Check<'_, M> {
    fn report(&mut self, page: PageNo, offset_bytes_in_page: usize, what: impl Into<String>) {
        self.found.push(Damage { page, offset_bytes_in_page, what: what.into() });
    }

    /// Runs a check of one page; its error becomes damage of that page.
    fn guard(&mut self, no: PageNo, check: impl FnOnce(&mut Self, PageNo) -> Result<()>) {
        if let Err(error) = check(self, no) {
            if let Error::NoMemory { .. } = error {
                self.failed = Some(error);
                return;
            }
            let start = self.pool.page(no).map_or(0, |page| page.file_offset());
            let at = match &error {
                Error::Corrupt { offset, .. } => offset.saturating_sub(start),
                _ => 0,
            };
            let at = if at < self.pool.geometry().page_bytes() as u64 { at as usize } else { 0 };
            self.report(no, at, error.to_string());
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
        let start = self.owners.len();
        self.owners.resize(start + pages as usize, FREE);
        self.guard(first, |check, no| {
            let (page, held) = check.pool.latch(no)?;
            let mut bytes = room::list(per_group as usize, CHECK)?;
            bytes.extend((0..per_group).map(|i| map::byte(page, i)));
            let role = map::role(page);
            held.unlock_unchanged();
            check.owners[start..].copy_from_slice(&bytes[..pages as usize]);
            check.group_bytes(no, &bytes, role?);
            Ok(())
        });
    }

    fn group_bytes(&mut self, first: PageNo, bytes: &[u8], role: Role) {
        let pages = self.owners.len() - first as usize;
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
            let record = Record::view(page, r, None);
            self.guard(no, |check, _| check.record(&record, 16 * usize::from(shape.units)));
        }
        held.unlock_unchanged();
        Ok(())
    }

    fn record(&mut self, record: &Record<'_>, room: usize) -> Result<()> {
        let lens = record.lens()?;
        let (no, at) = (record.page().no(), record.offset_in_page());
        if lens.record_bytes() > room {
            self.report(no, at, format!("{} bytes in a place of {room}", lens.record_bytes()));
        }
        if lens.extents > 0 {
            for run in self.pool.owned_runs(record, &lens)? {
                self.extent(no, at, run);
            }
        }
        Ok(())
    }

    fn extent(&mut self, no: PageNo, at: usize, run: Run) {
        let range = run.first as usize..(run.first + run.pages) as usize;
        let expected = |i: usize| if i == range.start { EXTENT_HEAD } else { EXTENT_TAIL };
        let owned = range.clone().all(|i| self.owners.get(i) == Some(&expected(i)));
        let ends = !M::JOURNALED || self.owners.get(range.end) != Some(&EXTENT_TAIL);
        if !owned || !ends {
            self.report(no, at, format!("the map has no such extent: {run:?}"));
        } else if range.clone().any(|i| self.named[i]) {
            self.report(no, at, format!("another record has pages of {run:?}"));
        } else {
            self.named[range].fill(true);
        }
    }

    fn anchor(&mut self, no: PageNo) -> Result<()> {
        let (page, held) = self.pool.latch(no)?;
        let root = anchor::root_of(page)?;
        held.unlock_unchanged();
        if root != 0 && self.owners.get(root as usize) != Some(&NODE) {
            self.report(no, 8, format!("the root {root} is no node"));
        }
        Ok(())
    }

    /// With a journal nothing leaks, so each extent has a record.
    fn unnamed_extents(&mut self) {
        let per_group = map::group_pages(self.pool.geometry());
        for no in 0..self.owners.len() {
            if self.owners[no] == EXTENT_HEAD && !self.named[no] {
                let group = no as u32 / per_group * per_group;
                let at = 64 + no - group as usize;
                self.report(group, at, format!("no record names the extent at page {no}"));
            }
        }
    }
}

/// All records of a pool, by page; made by [`Pool::records`].
pub struct Records<'p, M: Medium> {
    pool: &'p Pool<M>,
    owners: Option<Vec<u8>>,
    page: usize,
    /// Records of the current page that are still to come, last first.
    units: Vec<RecordRef>,
}

impl<M: Medium> Records<'_, M> {
    fn read_page(&self, no: PageNo) -> Result<Vec<RecordRef>> {
        let (page, held) = self.pool.latch(no)?;
        let shape = layout::shape(page)?;
        let bits = layout::used(page);
        held.unlock_unchanged();
        let places = ones(bits).take_while(|bit| *bit < usize::from(shape.places));
        let mut refs = room::list(usize::from(shape.places), CHECK)?;
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

impl<M: Medium> Iterator for Records<'_, M> {
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
