//! Where a key belongs: among the entries of a node, or beyond its high fence.
//!
//! Halves of the slots are ruled out until a few lines are left, and one pass of vectors counts those in them
//! whose six bytes are not above the key's. Only where six bytes are equal are entries looked at, by bisection
//! if there are many. Zeros that pad a short suffix are no bytes of it: where heads are equal and one suffix is
//! shorter than they are, the lengths decide.

use std::cmp::Ordering;

use everleaf_pmem::Result;

use crate::node::Rank;
use crate::slotted::view::{Bytes, Entry, HEAD_BYTES, HIGH_HEAD_WORD, Node, head_behind, padded};

/// Bytes of the high fence that a header word holds.
const HIGH_HEAD_BYTES: usize = 8;

/// What bytes of a stored key say about its order to another key.
enum Known {
    Order(Ordering),
    /// All that is kept of it is how the other key begins.
    Part,
}

/// The order of a stored string, of which `stored` bytes are kept, to another string. The first `head`
/// bytes of both are equal, those behind the end of either taken as zeros; `compare` tells the order of what
/// is kept behind `head` to bytes of the other.
#[inline(always)]
fn order(
    (stored, cut): (usize, bool),
    other: &[u8],
    head: usize,
    compare: impl FnOnce(&[u8]) -> Ordering,
) -> Known {
    if stored < head || other.len() < head {
        // A string that goes on behind the other, which ends within the head, is the greater one.
        return Known::Order(match stored.cmp(&other.len()) {
            Ordering::Equal if cut => Ordering::Greater,
            order => order,
        });
    }
    if !cut {
        return Known::Order(compare(&other[head..]));
    }
    let kept = other.len().min(stored);
    match compare(&other[head..kept]) {
        Ordering::Equal if other.len() > stored => Known::Part,
        // What is kept is all of the other key, and a cut key is longer than what is kept of it.
        Ordering::Equal => Known::Order(Ordering::Greater),
        order => Known::Order(order),
    }
}

/// How two strings are ordered of which one is stored behind the head.
enum Behind {
    Order(Ordering),
    /// More than 8 bytes of it have to be looked at, or it is cut.
    Long,
}

impl<B: Bytes> Node<B> {
    /// How many slots are not above a word.
    #[inline(always)]
    fn slots_le(&self, word: u64) -> usize {
        self.bytes().slots_le(self.count(), word)
    }

    /// Ranks a key that lies between the fences. `far` answers the order of the key in a record to this
    /// one.
    ///
    /// # Errors
    /// Those of `far`; Corrupt.
    #[inline]
    pub fn rank(&self, key: &[u8], far: impl FnMut(u64) -> Result<Ordering>) -> Result<Rank> {
        let last = head_behind(key, self.prefix_len()) | 0xffff;
        let le = self.slots_le(last);
        if le == 0 {
            return Ok(Rank { le, exact: false });
        }
        let slot = self.slot(le - 1);
        if slot | 0xffff != last {
            return Ok(Rank { le, exact: false });
        }
        // Most often there is just one such key, and a short one.
        match self.short_order(&self.entry_of(slot), key) {
            Behind::Order(Ordering::Less) => Ok(Rank { le, exact: false }),
            Behind::Order(Ordering::Equal) => Ok(Rank { le, exact: true }),
            _ => self.rank_equal_heads(key, last, le, far),
        }
    }

    /// The order of an entry to a key with the same head, if 8 more bytes decide it.
    #[inline(always)]
    fn short_order(&self, entry: &Entry, key: &[u8]) -> Behind {
        let (prefix, rest) = (self.prefix_len(), entry.rest());
        let ours = padded(self.bytes(), entry.rest_at, rest);
        let theirs = head_behind(key, prefix + HEAD_BYTES);
        if entry.cut || (ours == theirs && rest > 8) {
            return Behind::Long;
        }
        // What pads the shorter one with zeros is less than no byte of the other: lengths decide.
        let len = key.len().saturating_sub(prefix);
        Behind::Order(ours.cmp(&theirs).then(entry.suffix.cmp(&len)))
    }

    /// The slots before `le` have the head of the key, and `last` is the greatest word with that head.
    #[inline(never)]
    fn rank_equal_heads(
        &self,
        key: &[u8],
        last: u64,
        le: usize,
        mut far: impl FnMut(u64) -> Result<Ordering>,
    ) -> Result<Rank> {
        match self.order(le - 1, key, &mut far)? {
            Ordering::Less => return Ok(Rank { le, exact: false }),
            Ordering::Equal => return Ok(Rank { le, exact: true }),
            Ordering::Greater => {}
        }
        let mut high = le - 1;
        if high == 0 || self.slot(high - 1) | 0xffff != last {
            return Ok(Rank { le: high, exact: false });
        }
        let mut low = match (last & !0xffff).checked_sub(1) {
            Some(below) => self.slots_le(below).min(high),
            None => 0,
        };
        while low < high {
            let middle = (low + high) / 2;
            match self.order(middle, key, &mut far)? {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(Rank { le: middle + 1, exact: true }),
                Ordering::Greater => high = middle,
            }
        }
        Ok(Rank { le: low, exact: false })
    }

    /// The order of an entry to a key with the same head.
    #[inline]
    fn order(
        &self,
        pos: usize,
        key: &[u8],
        far: &mut impl FnMut(u64) -> Result<Ordering>,
    ) -> Result<Ordering> {
        let entry = self.entry(pos);
        if let Behind::Order(order) = self.short_order(&entry, key) {
            return Ok(order);
        }
        let suffix = key.get(self.prefix_len()..).unwrap_or_default();
        let known = order((entry.suffix, entry.cut), suffix, HEAD_BYTES, |rest| {
            self.bytes().cmp_bytes(entry.rest_at, entry.rest(), rest)
        });
        match known {
            Known::Order(order) => Ok(order),
            Known::Part => match self.far_of(&entry)? {
                Some(place) => far(place),
                None => Err(self.damage("an entry changes")),
            },
        }
    }

    /// Compares a key with the high fence; less if there is none. `far` answers the order of a fence that
    /// is in a record to the key.
    ///
    /// # Errors
    /// Those of `far`.
    #[inline]
    pub fn cmp_high(
        &self,
        key: &[u8],
        far: impl FnOnce(u64) -> Result<Ordering>,
    ) -> Result<Ordering> {
        let Some((at, kept)) = self.high_at() else { return Ok(Ordering::Less) };
        let prefix = self.prefix_len();
        if prefix > 0 {
            let begin = &key[..prefix.min(key.len())];
            let order = self.bytes().cmp_bytes(at, prefix, begin).reverse();
            if order != Ordering::Equal {
                return Ok(order);
            }
        }
        let head = self.bytes().load_le(8 * HIGH_HEAD_WORD);
        match head_behind(key, prefix).cmp(&head) {
            Ordering::Equal => self.cmp_high_behind(key, (at, kept), far),
            order => Ok(order),
        }
    }

    /// The heads are equal.
    #[cold]
    fn cmp_high_behind(
        &self,
        key: &[u8],
        (at, kept): (usize, usize),
        far: impl FnOnce(u64) -> Result<Ordering>,
    ) -> Result<Ordering> {
        let prefix = self.prefix_len();
        let suffix = key.get(prefix..).unwrap_or_default();
        let stored = (kept.saturating_sub(prefix), self.high_is_long());
        let known = order(stored, suffix, HIGH_HEAD_BYTES, |rest| {
            let behind = prefix + HIGH_HEAD_BYTES;
            self.bytes().cmp_bytes(at + behind, kept - behind, rest)
        });
        let order = match known {
            Known::Order(order) => order,
            Known::Part => match self.high().and_then(|high| high.record) {
                Some(record) => far(record)?,
                None => return Err(self.damage("its high fence changes")),
            },
        };
        Ok(order.reverse())
    }
}
