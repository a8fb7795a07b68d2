//! Large values: where the journal and the table say that their pages are, and what is there.
//!
//! What a record of the pool says of its value ends in a checksum of all of it. So an image that is not
//! the last one of its page is noticed there, and it does no harm to try it.

use std::collections::HashMap;

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::page::PageNo;

use crate::image::{ImageKind, ImageName, Placed};
use crate::journal::TAG_ADOPT;

use super::blocks::FoundJournal;
use super::changes::{FoundChange, PageChanges};
use super::finding::Finding;
use super::table::{Known, read_image};
use super::{DamagedFile, u32_at};

/// Where the journal says that pages of large values are.
#[derive(Debug, Default)]
pub(super) struct FoundValues {
    places: HashMap<PageNo, Placed>,
}

impl FoundValues {
    /// Goes through the adoptions of the journal. What was freed later does no harm: no record names it.
    ///
    /// # Errors
    /// NoMemory.
    pub fn new(
        journal: &mut FoundJournal,
        changes: &PageChanges,
        findings: &mut Vec<Finding>,
    ) -> Result<Self> {
        let (mut values, mut is_malformed) = (Self::default(), false);
        debug_assert!(changes.runs.is_sorted_by_key(|run| run.epoch));
        for run in &changes.runs {
            let record = FoundChange::at(journal, run.at);
            if record.tag != TAG_ADOPT {
                continue;
            }
            let first = u32_at(&journal.bytes, run.at + 3);
            let is_list = record.bytes.len() as u64 == u64::from(record.seq) * Placed::BYTES as u64;
            if !is_list || first.checked_add(record.seq).is_none() {
                findings.push(Finding::data(record.offset, "malformed change".into()));
                is_malformed = true;
                continue;
            }
            for (no, entry) in (first..).zip(record.bytes.chunks_exact(Placed::BYTES)) {
                let refused = |_| Error::NoMemory { what: "a journal", bytes: 20 };
                values.places.try_reserve(1).map_err(refused)?;
                values.places.insert(no, Placed::decode(entry));
            }
        }
        journal.has_gaps |= is_malformed;
        Ok(values)
    }

    /// Behind the last page of which the journal says where it is.
    pub fn end(&self) -> PageNo {
        self.places.keys().max().map_or(0, |no| no.saturating_add(1))
    }
}

impl DamagedFile {
    /// Reads bytes of a large value. If a page of it cannot be read, what is before it has been read.
    ///
    /// # Errors
    /// Corrupt for a page that is damaged or not there, Invalid outside the pool, I/O errors.
    pub fn extent_read(&self, first: PageNo, offset: u64, buf: &mut [u8]) -> Result<()> {
        let page_bytes = self.region.geometry().page_bytes() as u64;
        let end = offset.checked_add(buf.len() as u64);
        let end = end.map(|end| u64::from(first) + end.div_ceil(page_bytes));
        if end.is_none_or(|end| end > u64::from(self.region.limit())) {
            let what =
                format!("outside the pool: {} bytes at {offset} behind page {first}", buf.len());
            return Err(Error::Invalid { what });
        }
        let mut no = first + (offset / page_bytes) as PageNo;
        let (mut skip, mut done) = ((offset % page_bytes) as usize, 0);
        while done < buf.len() {
            let (raw, place) = self.read_value(no)?;
            let there = raw.get(skip..).unwrap_or_default();
            let some = there.len().min(buf.len() - done);
            if some == 0 {
                let what = format!("large value's page {no}: it ends before the value");
                return Err(Error::corrupt(place, what));
            }
            buf[done..done + some].copy_from_slice(&there[..some]);
            (done, skip, no) = (done + some, 0, no + 1);
        }
        Ok(())
    }

    /// The bytes of a page of a large value, and where they are.
    fn read_value(&self, no: PageNo) -> Result<(Vec<u8>, u64)> {
        let name = ImageName { kind: ImageKind::Value, number: no };
        let most = self.region.geometry().page_bytes() as u64;
        let known = match self.table.get(&self.found, no) {
            Known::Is(placed) => Some(placed),
            Known::Newest(_) => None,
        };
        let newest = self.found.values.get(&no).map(|image| image.placed);
        let places = [self.values.places.get(&no).copied(), known, newest];
        let mut failed = None;
        for placed in places.into_iter().flatten() {
            if !placed.has_image() || !placed.is_possible() {
                continue;
            }
            match read_image(&*self.data, self.key, placed, name, most) {
                Ok((raw, _)) => return Ok((raw, placed.place)),
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        Err(failed
            .unwrap_or_else(|| Error::corrupt(0, format!("large value's page {no} has no image"))))
    }
}
