//! The core workloads A to F: what share of operations does what, and which items they pick.
//!
//! A stream is made before any clock starts, and is the same for the same seed and for any number of
//! threads. Under YCSB a thread picks among the items whose inserts have ended; here a stream may ask
//! for an item that another thread is about to insert, and the runner waits for it.

use std::str::FromStr;

use anyhow::{bail, ensure};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::FIELDS;
use super::pick::Picker;

/// The longest scan.
pub const SCAN_MAX: u64 = 100;

/// A core workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Core {
    /// Half reads, half updates.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads.
    C,
    /// 95 % reads of what was inserted last, 5 % inserts.
    D,
    /// 95 % scans of 1 to 100 records, 5 % inserts.
    E,
    /// Half reads, half reads followed by an update of the same record.
    F,
}

impl FromStr for Core {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        Ok(match text {
            "a" => Self::A,
            "b" => Self::B,
            "c" => Self::C,
            "d" => Self::D,
            "e" => Self::E,
            "f" => Self::F,
            _ => bail!("no workload is called {text:?}: a to f"),
        })
    }
}

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum YcsbKind {
    /// Reads all fields.
    Read,
    /// Writes one field.
    Update,
    /// Adds a record.
    Insert,
    /// Reads all fields of some records, in the order of their keys.
    Scan,
    /// Reads all fields and writes one.
    Modify,
}

impl YcsbKind {
    /// All of them, in YCSB's order.
    pub const ALL: [Self; 5] = [Self::Read, Self::Update, Self::Insert, Self::Scan, Self::Modify];

    /// As metrics are called.
    pub fn name(self) -> &'static str {
        ["read", "update", "insert", "scan", "modify"][self as usize]
    }
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct YcsbOp {
    /// Its kind.
    pub kind: YcsbKind,
    /// The field that it writes, or the records that it scans.
    pub extra: u8,
    /// The item that it is about; the first one of a scan.
    pub item: u32,
}

impl Core {
    /// How many operations of a hundred do what, in the order of [`YcsbKind::ALL`].
    pub fn shares(self) -> [u32; 5] {
        match self {
            Self::A => [50, 50, 0, 0, 0],
            Self::B => [95, 5, 0, 0, 0],
            Self::C => [100, 0, 0, 0, 0],
            Self::D => [95, 0, 5, 0, 0],
            Self::E => [0, 0, 5, 95, 0],
            Self::F => [50, 0, 0, 0, 50],
        }
    }

    /// How many items *scrambled* spreads its picks over: room for twice the expected inserts, so
    /// that hot items stay where they are, and one more by YCSB's way of counting. Picks of items
    /// that are not there yet are drawn again.
    pub fn space(self, items: u64, operations: u64) -> u64 {
        items + operations * u64::from(self.shares()[2]) / 50 + 1
    }

    /// So many operations on a store of so many items. O(items + operations).
    ///
    /// # Errors
    /// Too few items for the latest of them to be picked, or too many for an [`YcsbOp`].
    pub fn stream(self, items: u64, operations: u64, seed: u64) -> anyhow::Result<Vec<YcsbOp>> {
        ensure!(items >= 3, "a workload begins with 3 items or more");
        ensure!(items + operations < 1 << 32, "too many items");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut picker = match self {
            Self::D => Picker::latest(items),
            _ => Picker::scrambled(self.space(items, operations)),
        };
        let mut there = items;
        let mut next = || {
            let mut rest = rng.random_range(0..100);
            let shares = YcsbKind::ALL.into_iter().zip(self.shares());
            let kind = shares.into_iter().find_map(|(kind, share)| match rest < share {
                true => Some(kind),
                false => {
                    rest -= share;
                    None
                }
            });
            let kind = kind.expect("shares add up to a hundred");
            let item = if kind == YcsbKind::Insert {
                there += 1;
                there - 1
            } else {
                let picks = std::iter::repeat_with(|| picker.pick(there, &mut rng));
                picks.into_iter().find(|item| *item < there).expect("some item is there")
            };
            let extra = match kind {
                YcsbKind::Update | YcsbKind::Modify => rng.random_range(0..FIELDS as u8),
                YcsbKind::Scan => rng.random_range(1..=SCAN_MAX as u8),
                YcsbKind::Read | YcsbKind::Insert => 0,
            };
            YcsbOp { kind, extra, item: item as u32 }
        };
        Ok((0..operations).map(|_| next()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for core in [Core::A, Core::B, Core::C, Core::D, Core::E, Core::F] {
            assert_eq!(core.shares().iter().sum::<u32>(), 100);
        }
    }

    #[test]
    fn inserts_are_in_order_and_nothing_is_asked_for_before_it_is_inserted() {
        for core in [Core::A, Core::D, Core::E, Core::F] {
            let mut there = 100;
            let stream = core.stream(100, 20_000, 1).expect("valid");
            for op in &stream {
                if op.kind == YcsbKind::Insert {
                    assert_eq!(u64::from(op.item), there);
                    there += 1;
                }
                assert!(u64::from(op.item) < there);
            }
            assert_eq!(stream, core.stream(100, 20_000, 1).expect("valid"));
            assert_ne!(stream, core.stream(100, 20_000, 2).expect("valid"));
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        assert!(Core::A.stream(2, 1, 1).is_err() && Core::A.stream(1 << 32, 1, 1).is_err());
        assert!("g".parse::<Core>().is_err() && "A".parse::<Core>().is_err());
    }
}
