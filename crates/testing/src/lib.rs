//! Helpers for tests of several crates: how much they do and from which seed, seeded numbers, images in a file.

#![forbid(unsafe_code)]

pub mod images;
mod scale;

pub use scale::{at_seed, count, seed, seed_or, seeds, size, step, times};

/// The number in a variable of the environment, if it is set.
///
/// # Panics
/// If the variable holds anything else: a test that ignored a mistyped number would test too little.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var_os(name)?;
    let number = text.to_str().and_then(|text| text.parse().ok());
    Some(number.unwrap_or_else(|| panic!("{name} is {text:?}, which is no number")))
}

/// A pair as two lists, to be held against a model that has lists.
pub fn vecs<K: Into<Vec<u8>>, V: Into<Vec<u8>>>((key, value): (K, V)) -> (Vec<u8>, Vec<u8>) {
    (key.into(), value.into())
}

/// The next number of the generator splitmix64, whose state is one word.
pub fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A generator that begins with its seed and says the same numbers in each run and on each machine.
#[derive(Debug, Clone)]
pub struct Rng(pub u64);

impl Rng {
    /// The next number.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// So many bytes, eight of each number.
    pub fn bytes<B: From<Vec<u8>>>(&mut self, n: usize) -> B {
        let mut bytes = vec![0; n];
        let mut words = bytes.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.next().to_le_bytes());
        }
        let rest = words.into_remainder();
        if !rest.is_empty() {
            rest.copy_from_slice(&self.next().to_le_bytes()[..rest.len()]);
        }
        bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        // The first numbers of the reference implementation (Vigna 2015) from the seed 1234567.
        let mut rng = Rng(1_234_567);
        let wanted = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!([rng.next(), rng.next()], wanted);
        let mut again = Rng(1_234_567);
        let bytes: Vec<u8> = again.bytes(11);
        assert_eq!(bytes[..8], wanted[0].to_le_bytes());
        assert_eq!(bytes[8..], wanted[1].to_le_bytes()[..3]);
    }
}
