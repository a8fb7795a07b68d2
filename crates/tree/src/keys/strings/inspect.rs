//! What a check asks about nodes of byte strings.

use everleaf_pmem::Page;
use everleaf_pool::RecordRef;

use super::record::bound;
use super::slot::{Strings, common, head, place_of, record_of, slot_for};
use crate::keys::inspect::Inspect;
use crate::node::{HIGH_RECORD_WORD, HIGH_WORD, LOW_WORD, Shape, Slot};

impl Inspect for Strings {
    fn record(shape: Shape, slot: Slot) -> Option<RecordRef> {
        (shape.level == 0).then(|| record_of(slot))
    }

    fn bound_records(page: Page<'_>) -> [Option<RecordRef>; 2] {
        [bound(page, LOW_WORD), bound(page, HIGH_RECORD_WORD)]
    }

    fn slot_fits(shape: Shape, slot: Slot, key: &Vec<u8>) -> bool {
        slot == slot_for(key, shape.prefix, place_of(slot))
    }

    fn bounds_fit(page: Page<'_>, shape: Shape, low: &Vec<u8>, high: Option<&Vec<u8>>) -> bool {
        let Some(high) = high else { return shape.prefix == 0 };
        shape.prefix <= common(low, high) && page.head(HIGH_WORD).load() == head(high, shape.prefix)
    }
}
