//! How many pairs each tree had: what the root says, and what the epochs of the journal behind it have counted.

use std::collections::HashMap;

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::page::PageNo;

use crate::journal::TAG_COUNTS;
use crate::store::table::RootCounts;

use super::blocks::FoundJournal;
use super::changes::{FoundChange, PageChanges};
use super::finding::Finding;

/// The counts of trees that had pairs, by their anchors; none if a record cannot be so. They are right only if
/// no block is missing.
///
/// # Errors
/// NoMemory.
pub(super) fn found(
    counts: RootCounts,
    journal: &FoundJournal,
    changes: &PageChanges,
    findings: &mut Vec<Finding>,
) -> Result<Option<HashMap<PageNo, u64>>> {
    let RootCounts { epoch, mut pairs } = counts;
    for run in changes.runs.iter().filter(|run| run.epoch > epoch) {
        let record = FoundChange::at(journal, run.at);
        if record.tag != TAG_COUNTS {
            continue;
        }
        match pairs.redo(record.bytes, record.offset) {
            Ok(()) => {}
            Err(error @ Error::NoMemory { .. }) => return Err(error),
            Err(error) => {
                findings.push(Finding::of(&error, record.offset));
                return Ok(None);
            }
        }
    }
    Ok(Some(pairs.into_pairs()))
}
