//! How much the suite tries.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// How much is tried.
#[derive(Debug, Clone, Copy)]
pub struct Suite {
    /// The seed of everything random.
    pub seed: u64,
    /// Roughly how many keys a check uses: some splits of inner pages should fit.
    pub keys: usize,
    /// Writing threads of the checks with threads.
    pub threads: usize,
}

impl Default for Suite {
    fn default() -> Self {
        Self { seed: 1, keys: 2000, threads: 4 }
    }
}

impl Suite {
    /// A generator from the seed, the same for each check.
    pub(super) fn rng(&self) -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(self.seed)
    }
}
