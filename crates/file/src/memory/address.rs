//! Address space, which all pools of a process share: 47 bits of it.
//!
//! A pool reserves as much as it may ever need, for its pages never move. What it gets if nobody has said how
//! much that is depends on what the pools before it have: the first hundred get so much that they never
//! notice, and thousands still find room for more than most pools ever hold.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of pages that a pool gets while all pools together have fewer bytes than these.
const TIERS: [(u64, u64); 3] = [(32 << 40, 256 << 30), (100 << 40, 32 << 30), (u64::MAX, 4 << 30)];

/// Bytes of pages for which all open pools have reserved addresses.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// What a pool gets if nobody has said how much.
pub(crate) fn default_bytes() -> u64 {
    bytes_beside(TAKEN.load(Ordering::Relaxed))
}

fn bytes_beside(taken: u64) -> u64 {
    let tier = TIERS.iter().find(|(below, _)| taken < *below);
    tier.map_or(0, |(_, bytes)| *bytes)
}

/// What an open pool has reserved.
#[derive(Debug)]
pub(crate) struct Addresses(u64);

impl Addresses {
    /// So many bytes of pages were reserved.
    pub fn of(bytes: u64) -> Self {
        TAKEN.fetch_add(bytes, Ordering::Relaxed);
        Self(bytes)
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_pools_fit_into_the_addresses_of_a_process() {
        let (mut taken, mut pools) = (0, [0; 3]);
        for _ in 0..6000 {
            let bytes = bytes_beside(taken);
            pools[TIERS.iter().position(|(_, tier)| *tier == bytes).expect("a tier")] += 1;
            // With a frame of 64 bytes for each page of 4 KiB.
            taken += bytes;
        }
        assert_eq!(pools, [128, 2176, 3696]);
        assert!(taken + taken / 64 < 1 << 47, "{taken:#x}");
    }
}
