//! What each form reads and writes.

use crate::failure::Result;

/// Where pairs are written before they are printed.
pub type OutputLine = Vec<u8>;

/// A key and its value.
#[derive(Debug, Default)]
pub struct InputPair {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// What an input has next.
#[derive(Debug)]
pub enum InputItem {
    /// A pair.
    Pair,
    /// A line, or a record, that cannot be understood, and why.
    Bad(String),
    /// The pairs of another tree begin, of this name if it has one.
    Tree(Option<String>),
    End,
}

/// An input, pair by pair.
pub trait PairSource {
    /// What comes next; puts a pair into `pair`.
    ///
    /// # Errors
    ///
    /// What leaves no sense in going on.
    fn next(&mut self, pair: &mut InputPair) -> Result<InputItem>;

    /// The line in which that began, counted from 1.
    fn line(&self) -> u64;

    /// Bytes of input that were taken.
    fn bytes(&self) -> u64;

    /// What a user may want to know who wonders about the result.
    fn hint(&self) -> Option<String> {
        None
    }
}
