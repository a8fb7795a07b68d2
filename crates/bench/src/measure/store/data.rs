//! Keys and values.

use anyhow::{Result, ensure};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Bytes that values are cut from: more than any compression looks back within a block.
const POOL_BYTES: usize = 1 << 20;

/// What keys and values look like. A value says which key it is of, and which version.
pub struct Data {
    key_bytes: usize,
    value_bytes: usize,
    /// Random, so that nothing is gained by compression.
    pool: Vec<u8>,
}

impl Data {
    /// Keys of 8 bytes, big-endian, or of 16 hexadecimal digits; values of 8 bytes or more.
    pub fn new(key_bytes: usize, value_bytes: usize) -> Self {
        let extra = if value_bytes > 8 { POOL_BYTES + value_bytes } else { 0 };
        let mut pool = vec![0; extra];
        Xoshiro256PlusPlus::seed_from_u64(1).fill_bytes(&mut pool);
        Self { key_bytes, value_bytes, pool }
    }

    /// Writes a key.
    pub fn key(&self, key: u64, out: &mut Vec<u8>) {
        out.clear();
        if self.key_bytes == 8 {
            out.extend(key.to_be_bytes());
        } else {
            let digit = |d| b"0123456789abcdef"[(key >> (60 - 4 * d)) as usize & 15];
            out.extend((0..16).map(digit));
        }
    }

    /// Writes the value of a key.
    pub fn value(&self, key: u64, version: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend(key.wrapping_add(version).to_be_bytes());
        if self.value_bytes > 8 {
            let at = key as usize % POOL_BYTES;
            out.extend(&self.pool[at..at + self.value_bytes - 8]);
        }
    }

    /// The version of a value.
    ///
    /// # Errors
    /// It has another length than a value has.
    pub fn version(&self, key: u64, value: &[u8]) -> Result<u64> {
        ensure!(value.len() == self.value_bytes, "a value of {} bytes", value.len());
        let word: [u8; 8] = value[..8].try_into()?;
        Ok(u64::from_be_bytes(word).wrapping_sub(key))
    }
}
