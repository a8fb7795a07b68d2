//! YCSB's core workloads, as YCSB's own core (`site.ycsb:core`, 0.17.0) draws them.
//!
//! The benchmark is Cooper et al., *Benchmarking Cloud Serving Systems with YCSB*, SoCC 2010. Its
//! generators have habits that a textbook's do not have, and figures are only comparable with them;
//! [`pick`] says which. `research/bench/ycsb/check.sh` draws with YCSB's code and [`check`] compares.

pub mod check;
pub mod core;
pub mod pick;

use rand::{Rng, RngExt};

/// Fields of a record.
pub const FIELDS: usize = 10;

/// Bytes of a field.
pub const FIELD_BYTES: usize = 100;

/// Bytes of a record.
pub const RECORD_BYTES: usize = FIELDS * FIELD_BYTES;

/// YCSB's hash of a number: FNV-1a over its 8 bytes, the least significant first, without its sign.
pub fn hash(number: u64) -> u64 {
    let fnv = number.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    (fnv as i64).unsigned_abs()
}

/// The key of an item for stores of byte strings: `user` and its hash, as YCSB inserts by default.
pub fn name(item: u64) -> String {
    format!("user{}", hash(item))
}

/// Text to cut values from, as YCSB makes it: 31 random bits for six characters from space on, so
/// stores that compress find as much to compress as under YCSB. Its length is a multiple of 6.
pub fn text(bytes: usize, rng: &mut impl Rng) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 6);
    while text.len() < bytes {
        let bits: u32 = rng.random();
        let masks = [31, 63, 95, 31, 63, 95];
        text.extend((0..6).map(|i| ((bits as i32 >> (5 * i)) as u8 & masks[i]) + b' '));
    }
    text
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn text_has_the_characters_of_ycsb() {
        let text = text(60_000, &mut Xoshiro256PlusPlus::seed_from_u64(1));
        assert_eq!(text.len(), 60_000);
        for (i, mask) in [31, 63, 95, 31, 63, 95].into_iter().enumerate() {
            let mut seen: Vec<u8> = text.iter().skip(i).step_by(6).copied().collect();
            seen.sort_unstable();
            seen.dedup();
            let all: Vec<u8> = (0..=mask).filter(|c| c & mask == *c).map(|c| c + b' ').collect();
            assert_eq!(seen, all, "character {i} of six");
        }
    }
}
