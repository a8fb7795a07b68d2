//! Many pairs a call, for languages in which a call is dear: what their bindings have in common.
//!
//! A scan fills a buffer of the caller with pairs, one behind the other:
//!
//! ```text
//!   key length (u32) | value length (u32) | key | value | key length …
//! ```
//!
//! Over a tree it is filled from a cursor that stays. A cursor of a transaction borrows that, so over a transaction the scan keeps
//! the last key that it gave, and begins anew behind it with each call. Steps from there that have failed fail again, and
//! are passed over then.

use std::ops::Bound;

use crate::{Error, ReadCursor, Result};

/// Bytes before each pair: two lengths.
const HEAD: usize = 8;

/// A walk over a range: what it has not given yet.
#[derive(Debug)]
pub struct Scan {
    /// Where it begins, until it has.
    near: Bound<Vec<u8>>,
    far: Bound<Vec<u8>>,
    is_reverse: bool,
    keys_only: bool,
    /// The cursor has come to its first pair.
    has_begun: bool,
    /// The cursor is at a pair that was not given, because it did not fit.
    waits: bool,
    has_ended: bool,
    /// Steps of a cursor that is made anew which have failed since the last key. They tell no key to go on behind.
    failed: usize,
    /// The error of the next call: it came up behind pairs that were given.
    error: Option<Error>,
}

/// A caller's buffer, and what is in it.
#[derive(Debug)]
pub struct Pairs<'a> {
    buffer: &'a mut [u8],
    /// Bytes that the pairs take.
    pub used: usize,
    /// How many there are.
    pub count: usize,
    /// Bytes of a first pair that does not fit; else 0.
    pub needed: usize,
}

/// Whether a step that has failed so goes on behind what it has met, if it is done again. Others try the same again.
pub fn goes_on_behind(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Io { .. })
}

/// A way that is told what it comes to.
trait Track {
    /// A pair was given, or cannot be.
    fn passed(&mut self, key: &[u8]);

    /// A step has failed; says whether the caller has heard of that already.
    fn was_told(&mut self, error: &Error) -> bool;
}

/// A cursor that stays knows where it is.
impl Track for () {
    fn passed(&mut self, _key: &[u8]) {}

    fn was_told(&mut self, _error: &Error) -> bool {
        false
    }
}

/// The way of a cursor that is made anew for each call.
struct Anew {
    last: Option<Vec<u8>>,
    /// Steps that have failed since the last key.
    failed: usize,
    /// How many of them, from calls before, this call has not come to.
    told: usize,
}

impl Track for Anew {
    fn passed(&mut self, key: &[u8]) {
        (self.last, self.failed, self.told) = (Some(key.to_vec()), 0, 0);
    }

    fn was_told(&mut self, error: &Error) -> bool {
        if !goes_on_behind(error) {
            return false;
        }
        match self.told.checked_sub(1) {
            Some(told) => self.told = told,
            None => {
                self.failed += 1;
                return false;
            }
        }
        true
    }
}

impl Scan {
    /// Over the keys between two bounds. It reads nothing yet.
    pub fn new(
        (from, to): (Bound<Vec<u8>>, Bound<Vec<u8>>),
        is_reverse: bool,
        keys_only: bool,
    ) -> Self {
        let (near, far) = if is_reverse { (to, from) } else { (from, to) };
        let (has_begun, waits, has_ended) = (false, false, false);
        let (failed, error) = (0, None);
        Self { near, far, is_reverse, keys_only, has_begun, waits, has_ended, failed, error }
    }

    /// It gives nothing more.
    pub fn end(&mut self) {
        self.has_ended = true;
    }

    /// To be asked before each call.
    ///
    /// # Errors
    /// That which the last call has met behind the pairs that it gave.
    pub fn expect_no_error(&mut self) -> Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// Adds the next pairs, as many as fit, from a cursor that stays from call to call.
    ///
    /// # Errors
    /// Those of the cursor, if there is no pair before; else the next call has it. The next one goes on behind a pair that
    /// cannot be read.
    pub fn fill(&mut self, cursor: &mut impl ReadCursor, pairs: &mut Pairs<'_>) -> Result<()> {
        let filled = self.go_on(cursor, pairs, &mut ());
        self.keep_error(filled, pairs)
    }

    /// The same, from a cursor that is made anew for each call.
    ///
    /// # Errors
    /// Those of [`fill`](Self::fill).
    pub fn fill_anew(&mut self, cursor: &mut impl ReadCursor, pairs: &mut Pairs<'_>) -> Result<()> {
        let mut track = Anew { last: None, failed: self.failed, told: self.failed };
        (self.has_begun, self.waits) = (false, false);
        let filled = self.go_on(cursor, pairs, &mut track);
        self.failed = track.failed;
        if let Some(key) = track.last {
            self.near = Bound::Excluded(key);
        }
        self.keep_error(filled, pairs)
    }

    fn keep_error(&mut self, filled: Result<()>, pairs: &Pairs<'_>) -> Result<()> {
        match filled {
            Err(error) if pairs.count > 0 => self.error = Some(error),
            filled => filled?,
        }
        Ok(())
    }

    /// Goes on from where it was. `track` is told what it comes to.
    fn go_on(
        &mut self,
        cursor: &mut impl ReadCursor,
        pairs: &mut Pairs<'_>,
        track: &mut impl Track,
    ) -> Result<()> {
        while !self.has_ended {
            if !self.waits {
                match self.step(cursor) {
                    Ok(true) => {}
                    Ok(false) => {
                        self.end();
                        break;
                    }
                    Err(error) if track.was_told(&error) => continue,
                    Err(error) => return Err(error),
                }
            }
            self.waits = false;
            let Some(key) = cursor.key() else { continue };
            if self.is_behind(key) {
                self.end();
                break;
            }
            let pair = match self.keys_only {
                true => Ok(Some((key, &[][..]))),
                false => cursor.pair(),
            };
            match pair {
                Ok(Some((key, value))) => {
                    if !pairs.push(key, value) {
                        self.waits = true;
                        break;
                    }
                    track.passed(key);
                }
                // Its value was large, and was removed before it was read.
                Ok(None) => {}
                Err(error) => {
                    // That pair is lost, and the next ones are not.
                    if let Some(key) = cursor.key() {
                        track.passed(key);
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Takes the cursor to the next pair, or the first one.
    fn step(&mut self, cursor: &mut impl ReadCursor) -> Result<bool> {
        if self.has_begun {
            return if self.is_reverse { cursor.prev() } else { cursor.next() };
        }
        // Also after an error: the cursor goes on behind a pair that cannot be read.
        self.has_begun = true;
        let is_there = match (&self.near, self.is_reverse) {
            (Bound::Unbounded, false) => cursor.first(),
            (Bound::Unbounded, true) => cursor.last(),
            (Bound::Included(key) | Bound::Excluded(key), false) => cursor.seek(key),
            (Bound::Included(key) | Bound::Excluded(key), true) => cursor.seek_for_prev(key),
        }?;
        match &self.near {
            Bound::Excluded(near) if is_there && cursor.key() == Some(&near[..]) => {
                if self.is_reverse { cursor.prev() } else { cursor.next() }
            }
            _ => Ok(is_there),
        }
    }

    fn is_behind(&self, key: &[u8]) -> bool {
        match (&self.far, self.is_reverse) {
            (Bound::Unbounded, _) => false,
            (Bound::Included(far), false) => key > &far[..],
            (Bound::Excluded(far), false) => key >= &far[..],
            (Bound::Included(far), true) => key < &far[..],
            (Bound::Excluded(far), true) => key <= &far[..],
        }
    }
}

impl<'a> Pairs<'a> {
    /// None, in an empty buffer.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, used: 0, count: 0, needed: 0 }
    }

    /// Adds a pair; says whether it had room.
    fn push(&mut self, key: &[u8], value: &[u8]) -> bool {
        // Lengths of keys and values are below 2³² each.
        let needed = HEAD + key.len() + value.len();
        let rest = self.buffer.get_mut(self.used..).unwrap_or_default();
        let Some(place) = rest.get_mut(..needed) else {
            if self.count == 0 {
                self.needed = needed;
            }
            return false;
        };
        let (lengths, bytes) = place.split_at_mut(HEAD);
        lengths[..4].copy_from_slice(&(key.len() as u32).to_ne_bytes());
        lengths[4..].copy_from_slice(&(value.len() as u32).to_ne_bytes());
        let (key_place, value_place) = bytes.split_at_mut(key.len());
        key_place.copy_from_slice(key);
        value_place.copy_from_slice(value);
        self.used += needed;
        self.count += 1;
        true
    }
}
