//! Size classes of records.
//!
//! Large classes are what a body divides into (a whole body, a half, a third, … a sixteenth, each
//! rounded down to 16 bytes), since any size between two of them would waste the difference in
//! every page. Small ones grow by about an eighth to a quarter. A record loses 6 % on average up
//! to a sixteenth of a page.

use everleaf_pmem::Geometry;

/// Most classes that any geometry has.
pub(crate) const MAX_CLASSES: usize = 40;
/// Most records in one page: the bitmap in the page's header has so many bits.
pub(crate) const MAX_SLOTS: usize = 256;
/// Large classes: a body divided by 1, 2, 3, … so many.
const DIVISORS: usize = 16;
/// Small classes: each size from 2 to 7 units, then four to a power of two from 8 up to 64.
const SMALL_CLASSES: usize = 6 + 4 * 4;

const _: () = assert!(DIVISORS + SMALL_CLASSES <= MAX_CLASSES, "arenas have a page for each class");
const _: () = assert!(MAX_CLASSES <= u8::MAX as usize, "a class fits the table's bytes");
const _: () = assert!(MAX_SLOTS.is_multiple_of(64), "the bitmap has whole words");

/// The longest record that one page holds, in bytes.
pub const fn max_record(geometry: Geometry) -> usize {
    16 * geometry.slots()
}

/// The classes of one geometry, as units of 16 bytes.
#[derive(Debug)]
pub(crate) struct Classes {
    units: Vec<u16>,
    /// Class of a record of that many units.
    of_units: Vec<u8>,
}

impl Classes {
    pub fn new(geometry: Geometry) -> Self {
        let body = geometry.slots();
        assert!(body <= usize::from(u16::MAX), "units are counted in 16 bits");
        let mut units: Vec<usize> = (1..=DIVISORS).map(|parts| body / parts).collect();
        let small = (2..8).chain((3..7).flat_map(|log| (4..8).map(move |step| step << (log - 2))));
        units.extend(small.filter(|u| *u < body / 16));
        units.retain(|u| *u >= 2);
        units.sort_unstable();
        units.dedup();
        assert!(units.len() <= MAX_CLASSES);
        debug_assert_eq!(units.last(), Some(&body), "the largest class is a whole body");
        let of_units = (0..=body).map(|n| units.partition_point(|u| *u < n) as u8).collect();
        Self { units: units.into_iter().map(|u| u as u16).collect(), of_units }
    }
    pub fn count(&self) -> usize {
        self.units.len()
    }
    /// The smallest class for `len` bytes, or none if a page cannot hold them. O(1).
    pub fn of_len(&self, len: usize) -> Option<usize> {
        let class = usize::from(*self.of_units.get(len.div_ceil(16))?);
        debug_assert!(16 * usize::from(self.units[class]) >= len, "a class holds what it is for");
        Some(class)
    }
    /// The class of exactly that size, or none. O(1).
    pub fn of_units(&self, units: u16) -> Option<usize> {
        let class = usize::from(*self.of_units.get(usize::from(units))?);
        (self.units[class] == units).then_some(class)
    }
    pub fn units(&self, class: usize) -> u16 {
        self.units[class]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_has_a_class_that_holds_it() {
        let shapes = (0..16).flat_map(|log| [Geometry::new(1 << log), Geometry::whole(1 << log)]);
        for g in shapes.flatten() {
            let classes = Classes::new(g);
            for len in 0..=max_record(g) {
                let class = classes.of_len(len).expect("fits a page");
                assert!(usize::from(classes.units(class)) * 16 >= len);
                assert!(class == 0 || usize::from(classes.units(class - 1)) * 16 < len);
                assert_eq!(classes.of_units(classes.units(class)), Some(class));
            }
            assert_eq!(classes.of_len(max_record(g) + 1), None);
        }
    }

    #[test]
    fn classes_grow_by_an_eighth_or_divide_the_page() {
        let classes = Classes::new(Geometry::new(256).expect("valid"));
        let bytes: Vec<_> = (0..classes.count()).map(|c| classes.units(c) * 16).collect();
        assert_eq!(bytes[..12], [32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 272]);
        assert_eq!(bytes[bytes.len() - 4..], [1024, 1360, 2048, 4096]);
    }
}
