//! The order of byte strings.

use std::cmp::Ordering;

use everleaf_pmem::{Medium, Page, PageNo, Result, fallible};
use everleaf_pool::Pool;

use super::record::separator_of;
use super::slot::{Strings, place_of, record_of, slot_for};
use crate::keys::order::{KeyOrder, Rank};
use crate::node::{Probe, Run, Shape, Slot};
use crate::record::{key_of_record, read};

/// Compares the key of a slot with `key`; both share the node's prefix.
fn compare<M: Medium>(pool: &Pool<M>, shape: Shape, slot: Slot, key: &[u8]) -> Result<Ordering> {
    let record = match shape.level {
        0 => Some(record_of(slot)),
        _ => separator_of(pool, slot)?,
    };
    match record {
        Some(record) => {
            let rest = key.get(shape.prefix..).unwrap_or_default();
            read(pool, record, |r| pool.compare_key(r, shape.prefix, rest))
        }
        None => Ok(<[u8]>::cmp(&[], key)),
    }
}

impl KeyOrder for Strings {
    type Key = [u8];
    type Owned = Vec<u8>;
    const BYTES: bool = true;

    fn lowest() -> Vec<u8> {
        Vec::new()
    }

    #[inline]
    fn rank<M: Medium, P: Probe>(
        pool: &Pool<M>,
        page: Page<'_>,
        shape: Shape,
        run: Run,
        key: &[u8],
    ) -> Result<Rank> {
        let wanted = slot_for(key, shape.prefix, 0);
        let mut high = P::rank(page, run, 1, wanted.payload);
        let slot = |pos| Slot::read(page, run.slot(page, pos));
        if high == 0 || slot(high - 1).payload != wanted.payload {
            return Ok(Rank { le: high, exact: false });
        }
        // Slots low..high have the key's head; the two bytes and the records order them.
        let mut low = match wanted.payload {
            0 => 0,
            h => P::rank(page, run, 1, h - 1).min(high),
        };
        while low < high {
            let mid = (low + high) / 2;
            let found = slot(mid);
            let mut order = (found.ident & 0xffff).cmp(&wanted.ident);
            if order == Ordering::Equal {
                order = compare(pool, shape, found, key)?;
            }
            match order {
                Ordering::Less => low = mid + 1,
                Ordering::Equal => return Ok(Rank { le: mid + 1, exact: true }),
                Ordering::Greater => high = mid,
            }
        }
        Ok(Rank { le: low, exact: false })
    }

    fn key<M: Medium>(pool: &Pool<M>, shape: Shape, slot: Slot) -> Result<Vec<u8>> {
        let record = match shape.level {
            0 => Some(record_of(slot)),
            _ => separator_of(pool, slot)?,
        };
        record.map_or(Ok(Vec::new()), |r| key_of_record(pool, r))
    }

    fn own(key: &[u8]) -> Result<Vec<u8>> {
        fallible::copy(key, "a key")
    }

    fn key_weight(key: &Vec<u8>) -> usize {
        key.len()
    }

    #[inline]
    fn child<M: Medium>(_: &Pool<M>, slot: Slot) -> Result<PageNo> {
        Ok(place_of(slot) as PageNo)
    }

    fn entry(shape: Shape, separator: &[u8], child: PageNo) -> Slot {
        slot_for(separator, shape.prefix, u64::from(child))
    }
}
