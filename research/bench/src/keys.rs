//! Keys: distinct, uniformly spread, without a table.

/// The `i`-th key: a bijection of u64 (the finaliser of splitmix64), so keys are distinct.
pub fn key(i: u64) -> u64 {
    let mut x = i.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The `i`-th key of a seed; other seeds below 2^24 have other keys for i below 2^40.
pub fn seeded(seed: u64, i: u64) -> u64 {
    key(i ^ (seed << 40))
}

/// The `i`-th of `n` lookups: visits keys in another random order than they were inserted in.
pub fn lookup(i: u64, n: u64) -> u64 {
    key(key(i ^ 0x5bd1_e995) % n)
}
