//! What a check, a first touch and a redo ask of slotted nodes.

use std::ops::Range;

use everleaf_pmem::{Change, Error, Geometry, Medium, Page, Result};
use everleaf_pool::RecordRef;

use crate::node::{EntryView, NodeChecks, NodeKeys, Shape};
use crate::slotted::read::{self, EntryAt};
use crate::slotted::{self, Slotted, View};

impl NodeChecks for Slotted {
    /// "slotted", the 16 bits of a slot's head and its offset, and a version.
    const HASH: u64 = u64::from_be_bytes(*b"slotted\x01");
    const NAME: &'static str = "slotted";

    fn nodes() -> &'static str {
        "slotted"
    }

    fn fits(geometry: Geometry) -> bool {
        geometry.is_whole()
    }

    fn check_medium<M: Medium>() -> Result<()> {
        if M::JOURNALED {
            return Ok(());
        }
        let what = "slotted nodes need a medium with a journal, which makes their steps whole";
        Err(Error::Unsupported { what: what.into() })
    }

    fn redo<M: Medium>(m: &M, page: Page<'_>, change: Change<'_>) -> Result<()> {
        slotted::redo(m, page, change)
    }

    fn first_touch<M: Medium>(_: &M, page: Page<'_>) -> Result<()> {
        debug_assert!(page.latch().is_held(), "the first touch of page {} is latched", page.no());
        if Shape::of(page).is_none() { Ok(()) } else { slotted::check_page(page) }
    }

    fn gap(bytes: &[u8]) -> Range<usize> {
        slotted::gap_of(bytes)
    }

    fn flaw(page: Page<'_>, _: Shape) -> Option<(usize, String)> {
        match slotted::check_page(page) {
            Err(Error::Corrupt { offset, what, .. }) => {
                let at = offset.saturating_sub(page.file_offset()) as usize;
                let what = what.strip_prefix(&format!("page {}: ", page.no())).unwrap_or(&what);
                Some((at, what.to_owned()))
            }
            _ => None,
        }
    }

    fn look<'m>(page: Page<'m>, view: View<'m>, pos: usize) -> EntryView<'m, Self> {
        let entry = Self::entry(page, view, pos);
        EntryView { offset: entry.parts.at, identity: None, entry }
    }

    fn entry_fits(_: Shape, entry: EntryAt<'_>, key: &Vec<u8>) -> bool {
        entry.view.fits(entry.pos, key)
    }

    fn bounds_fit(page: Page<'_>, _: Shape, low: &Vec<u8>, high: Option<&Vec<u8>>) -> bool {
        View::read(page).bounds_fit(low, high.map(Vec::as_slice))
    }

    fn bound_records(page: Page<'_>) -> [Option<RecordRef>; 2] {
        let view = View::read(page);
        [read::record(view.low()), read::record(view.high())]
    }

    fn fill(page: Page<'_>, view: View<'_>) -> (usize, usize) {
        (view.used_bytes(), slotted::room(page.geometry().page_bytes()))
    }
}
