//! Large values: where the journal and the table say that their pages are, and what is there.
//!
//! In a record of the pool, the part about its value ends in a checksum of the whole value. So an image that is
//! not the last one of its page is noticed there, and it does no harm to try it.

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::page::PageNo;

use crate::io::IoFile;
use crate::journal::TAG_ADOPT;
use crate::store::format::u32_at;
use crate::store::image::{ImageKey, ImageKind, ImageName, Placed};

use super::blocks::FoundJournal;
use super::changes::{FoundChange, PageChanges};
use super::scan::Finding;
use super::table::{Adopted, read_image};

/// Where the journal says that pages of large values are.
#[derive(Debug, Default)]
pub(super) struct FoundValues {
    pub places: Adopted,
}

impl FoundValues {
    /// Goes through the adoptions of the journal. Values that were freed later do no harm: no record names them.
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
                fallible::more_keys(&mut values.places, 1, "a journal")?;
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

    /// The bytes of a page of a large value, and where they are: where the journal says, or one of the
    /// other places. They are `most` bytes at most.
    ///
    /// # Errors
    /// Corrupt, if none of them has it; I/O errors, NoMemory.
    pub fn read(
        &self,
        data: &dyn IoFile,
        key: ImageKey,
        no: PageNo,
        others: [Option<Placed>; 2],
        most: u64,
    ) -> Result<(Vec<u8>, u64)> {
        let name = ImageName { kind: ImageKind::Value, number: no };
        let mut failed = None;
        for placed in [self.places.get(&no).copied()].into_iter().chain(others).flatten() {
            if !placed.has_image() || !placed.is_possible() {
                continue;
            }
            match read_image(data, key, placed, name, most) {
                Ok((raw, _)) => return Ok((raw, placed.place)),
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        let nothing = || Error::corrupt(0, format!("large value's page {no} has no image"));
        Err(failed.unwrap_or_else(nothing))
    }
}
