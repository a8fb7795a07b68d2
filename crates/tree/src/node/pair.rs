//! The types of keys and of values that nodes keep: what is asked of them, and not of a node.

use std::borrow::Borrow;
use std::convert::Infallible;

use everleaf_pmem::{Error, Medium, Result, fallible};
use everleaf_pool::{LargeValue, MAX_KEY_BYTES, MAX_VALUE_BYTES};

/// A type of keys to look for.
pub trait TreeKey: Ord {
    /// A key that owns its bytes.
    type Owned: Sync + Borrow<Self> + Clone + Ord + Send;

    /// The smallest key of all.
    fn lowest() -> Self::Owned;

    /// Copies a key.
    ///
    /// # Errors
    /// NoMemory.
    fn own(&self) -> Result<Self::Owned>;

    /// How many bytes a key has.
    fn weight(&self) -> usize;

    /// Checks that a key is not too long for any tree.
    ///
    /// # Errors
    /// KeyTooLong, which names the limit.
    #[inline(always)]
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// The number that orders a key, if one word orders all keys of this type.
    fn order(&self) -> Option<u64> {
        None
    }

    /// The key that a number orders.
    fn from_order(_order: u64) -> Option<Self::Owned> {
        None
    }
}

impl TreeKey for u64 {
    type Owned = u64;

    fn lowest() -> u64 {
        0
    }
    fn own(&self) -> Result<u64> {
        Ok(*self)
    }
    fn weight(&self) -> usize {
        size_of::<u64>()
    }
    #[inline(always)]
    fn order(&self) -> Option<u64> {
        Some(*self)
    }
    fn from_order(order: u64) -> Option<u64> {
        Some(order)
    }
}

impl TreeKey for [u8] {
    type Owned = Vec<u8>;

    fn lowest() -> Vec<u8> {
        Vec::new()
    }
    fn own(&self) -> Result<Vec<u8>> {
        fallible::copy(self, "a key")
    }
    fn weight(&self) -> usize {
        self.len()
    }
    #[inline(always)]
    fn check(&self) -> Result<()> {
        let (bytes, bytes_max) = (self.len() as u64, MAX_KEY_BYTES as u64);
        if bytes > bytes_max { Err(Error::KeyTooLong { bytes, bytes_max }) } else { Ok(()) }
    }
}

/// A type of values that are found.
pub trait TreeValue: Send {
    /// About how many bytes a value takes in memory.
    fn weight(&self) -> usize;
}

impl TreeValue for u64 {
    #[inline(always)]
    fn weight(&self) -> usize {
        size_of::<u64>()
    }
}

impl TreeValue for Vec<u8> {
    fn weight(&self) -> usize {
        self.len()
    }
}

/// A reference to a value that is read after its leaf has been left alone. Two equal ones lead to the same value for as
/// long as both exist.
pub trait FarValue: PartialEq {
    /// The value.
    type Value;

    /// Reads the value. The caller holds no latch.
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory.
    fn read(&self) -> Result<Self::Value>;

    /// About how many bytes the value will take in memory.
    fn weight(&self) -> usize;
}

impl<M: Medium> FarValue for LargeValue<'_, M> {
    type Value = Vec<u8>;

    fn read(&self) -> Result<Vec<u8>> {
        LargeValue::read(self)
    }
    fn weight(&self) -> usize {
        usize::try_from(self.value_bytes()).unwrap_or(usize::MAX)
    }
}

/// A word is in its slot.
impl FarValue for Infallible {
    type Value = u64;

    fn read(&self) -> Result<u64> {
        match *self {}
    }
    fn weight(&self) -> usize {
        match *self {}
    }
}

/// Refuses a key or a value that no tree of byte strings takes.
///
/// # Errors
/// KeyTooLong, ValueTooLong.
#[inline(always)]
pub(crate) fn check_limits(key: &[u8], value: &[u8]) -> Result<()> {
    key.check()?;
    match value.len() as u64 {
        bytes if bytes > MAX_VALUE_BYTES => {
            Err(Error::ValueTooLong { bytes, bytes_max: MAX_VALUE_BYTES })
        }
        _ => Ok(()),
    }
}
