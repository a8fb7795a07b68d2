//! Keys and values.

use std::io::Write;
use std::ops::Range;

use anyhow::{Result, ensure};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;

use crate::keys::key;

/// Bytes that values are cut from: more than any compression looks back within a block.
const POOL_BYTES: usize = 1 << 20;

/// Pairs of a batch where nothing else is said.
pub const BATCH: u64 = 1000;

/// Bytes of a number in hexadecimal digits.
pub const DIGITS: usize = 16;

/// The byte that makes up a prefix that all keys share.
const SHARED: u8 = b'k';

/// Hosts that the addresses are on.
const HOSTS: u64 = 997;

/// Words that text is made of.
const WORDS: u32 = 5000;

/// The least number that [`KeyForm::User`] has no room for.
const USERS: u64 = 100_000_000;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// The items of batch `no` of a load of so many items, `size` a batch.
pub fn batch(no: u64, items: u64, size: u64) -> Range<u64> {
    no * size..((no + 1) * size).min(items)
}

/// The items of each batch of a load of so many, 1,000 a batch.
pub fn batches(items: u64) -> impl Iterator<Item = Range<u64>> {
    (0..items.div_ceil(BATCH)).map(move |no| batch(no, items, BATCH))
}

/// The form of keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyForm {
    /// 8 bytes, big-endian, or 16 hexadecimal digits, with random bytes behind them if keys are longer.
    #[default]
    Plain,
    /// 16 hexadecimal digits behind bytes that all keys share.
    Prefix,
    /// `user:` and a number of 23 digits, of which the first 15 are 0: all keys share 20 bytes.
    User,
    /// Addresses of pages on 997 hosts: keys of a host share 31 bytes.
    Url,
}

impl KeyForm {
    /// Bytes of a key, if there is one length only.
    pub fn key_bytes(self) -> Option<usize> {
        match self {
            Self::Plain | Self::Prefix => None,
            Self::User => Some(28),
            Self::Url => Some(47),
        }
    }
}

/// The form of keys and values. A value says which key it is of, and which version.
pub struct Data {
    form: KeyForm,
    key_bytes: usize,
    value_bytes: usize,
    /// Whether keys are the numbers of their items, so that they ascend as items do.
    is_dense: bool,
    /// Random, so that nothing is gained by compression.
    pool: Vec<u8>,
}

impl Data {
    /// Keys of 8 bytes, or of 16 or more, if the form leaves the choice; values of 8 bytes or more.
    pub fn new(form: KeyForm, (key_bytes, value_bytes): (usize, usize), ascends: bool) -> Self {
        let key_bytes = form.key_bytes().unwrap_or(key_bytes);
        let longest = key_bytes.saturating_sub(DIGITS).max(value_bytes - 8);
        let mut pool = vec![0; if longest > 0 { POOL_BYTES + longest } else { 0 }];
        Xoshiro256PlusPlus::seed_from_u64(1).fill_bytes(&mut pool);
        let is_dense = ascends || form == KeyForm::User;
        Self { form, key_bytes, value_bytes, is_dense, pool }
    }

    /// The same with values that a compression makes shorter: words of a small language.
    pub fn of_words(mut self) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
        let words: Vec<Vec<u8>> = (0..WORDS)
            .map(|_| {
                (0..random.random_range(2..10)).map(|_| random.random_range(b'a'..=b'z')).collect()
            })
            .collect();
        let len = self.pool.len();
        self.pool.clear();
        while self.pool.len() < len {
            // Some words are frequent, most are not.
            let rank = f64::powf(f64::from(WORDS), random.random::<f64>()) as usize;
            self.pool.extend(&words[rank.min(words.len() - 1)]);
            self.pool.push(b' ');
        }
        self.pool.truncate(len);
        self
    }

    /// The number that the key of an item is made of: scattered, or the item's own.
    pub fn id(&self, item: u64) -> u64 {
        if self.is_dense { item } else { key(item) }
    }

    /// Bytes of a key and its value.
    pub fn pair_bytes(&self) -> usize {
        self.key_bytes + self.value_bytes
    }

    /// A key that none is below.
    pub fn least(&self) -> Vec<u8> {
        vec![0; self.key_bytes]
    }

    /// Writes a key.
    pub fn key(&self, id: u64, out: &mut Vec<u8>) {
        out.clear();
        let digits = (0..DIGITS).map(|d| b"0123456789abcdef"[(id >> (60 - 4 * d)) as usize & 15]);
        match self.form {
            KeyForm::Plain if self.key_bytes == 8 => out.extend(id.to_be_bytes()),
            KeyForm::Plain => {
                out.extend(digits);
                out.extend(self.random(id, self.key_bytes - DIGITS));
            }
            KeyForm::Prefix => {
                out.resize(self.key_bytes - DIGITS, SHARED);
                out.extend(digits);
            }
            KeyForm::User => {
                debug_assert!(id < USERS, "more digits would make the prefix shorter");
                write!(out, "user:{id:023}").expect("a vector takes it");
            }
            KeyForm::Url => {
                write!(out, "https://www.site{:03}.com/topics/", id % HOSTS).expect("as above");
                out.extend(digits);
            }
        }
        debug_assert_eq!(out.len(), self.key_bytes);
    }

    /// Writes the value of a key.
    pub fn value(&self, id: u64, version: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend(id.wrapping_add(version).to_be_bytes());
        out.extend(self.random(id, self.value_bytes - 8));
    }

    /// So many random bytes, the same for each use of an id.
    fn random(&self, id: u64, len: usize) -> &[u8] {
        let at = if len > 0 { id as usize % POOL_BYTES } else { 0 };
        &self.pool[at..at + len]
    }

    /// Makes `pairs` the first pairs of these items. The memory of pairs that are there is used again.
    pub fn fill(&self, items: impl Iterator<Item = u64>, pairs: &mut Vec<Pair>) {
        let mut n = 0;
        for item in items {
            if n == pairs.len() {
                pairs.push(Pair::default());
            }
            let (id, (key, value)) = (self.id(item), &mut pairs[n]);
            self.key(id, key);
            self.value(id, 0, value);
            n += 1;
        }
        pairs.truncate(n);
    }

    /// The version of a value.
    ///
    /// # Errors
    /// It has another length than a value has.
    pub fn version(&self, id: u64, value: &[u8]) -> Result<u64> {
        ensure!(value.len() == self.value_bytes, "a value of {} bytes", value.len());
        let word: [u8; 8] = value[..8].try_into()?;
        Ok(u64::from_be_bytes(word).wrapping_sub(id))
    }
}
