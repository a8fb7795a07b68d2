//! Keys and ranges of one tree, as a set of spans that neither meet nor overlap: what a transaction has read, or has
//! locked.
//!
//! Behind a key `k` comes `k` with a zero byte, and nothing lies between the two. So each bound is a place before some
//! byte string, a key alone is a span, and spans that meet become one: a scan of any length is one span.

use std::cmp::Ordering;
use std::ops::Bound;

use everleaf_pmem::fallible;
use everleaf_pmem::fallible::taken;

use crate::Result;
use crate::sorted::{self, Sorted};

/// Names this memory in errors.
const SPANS: &str = "what a transaction has read or locked";

/// Where a span ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Upto<'k> {
    /// Behind the key that it begins with.
    Itself,
    /// Before this byte string.
    Before(&'k [u8]),
    /// Behind all keys.
    End,
}

/// The same, kept.
#[derive(Debug)]
enum End {
    Itself,
    Before(Vec<u8>),
    Last,
}

/// The spans.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    /// By where they begin.
    spans: Sorted<End>,
    /// Bytes that their ends take.
    end_bytes: u64,
}

/// Whether `place` is the first one behind `key`.
fn is_behind(place: &[u8], key: &[u8]) -> bool {
    place.split_last().is_some_and(|(last, rest)| *last == 0 && rest == key)
}

/// How the end of a span from `start` on lies to a place.
fn end_to(start: &[u8], upto: Upto<'_>, place: &[u8]) -> Ordering {
    match upto {
        Upto::Itself if place <= start => Ordering::Greater,
        Upto::Itself if is_behind(place, start) => Ordering::Equal,
        Upto::Itself => Ordering::Less,
        Upto::Before(end) => end.cmp(place),
        Upto::End => Ordering::Greater,
    }
}

/// Whether a span ends behind another one.
fn ends_behind((start, upto): (&[u8], Upto<'_>), (other, of_other): (&[u8], Upto<'_>)) -> bool {
    match of_other {
        Upto::End => false,
        Upto::Before(end) => end_to(start, upto, end) == Ordering::Greater,
        Upto::Itself => match upto {
            Upto::End => true,
            Upto::Before(end) => end_to(other, of_other, end) == Ordering::Less,
            Upto::Itself => start > other,
        },
    }
}

impl End {
    fn of(upto: Upto<'_>) -> Result<Self> {
        Ok(match upto {
            Upto::Itself => End::Itself,
            Upto::Before(end) => End::Before(fallible::copy(end, SPANS)?),
            Upto::End => End::Last,
        })
    }

    fn upto(&self) -> Upto<'_> {
        match self {
            End::Itself => Upto::Itself,
            End::Before(end) => Upto::Before(end),
            End::Last => Upto::End,
        }
    }

    fn bytes(&self) -> u64 {
        if let End::Before(end) = self { taken(end.capacity()) } else { 0 }
    }

    /// Takes another end, in the memory of this one if that will do.
    fn set(&mut self, start: &[u8], upto: Upto<'_>) -> Result<()> {
        match (&mut *self, upto) {
            (End::Before(own), Upto::Before(end)) => {
                own.clear();
                fallible::append(own, end, SPANS)?;
            }
            (_, Upto::Itself) => *self = End::Before(behind(start)?),
            (_, upto) => *self = End::of(upto)?,
        }
        Ok(())
    }
}

/// The place behind a key.
pub(crate) fn behind(key: &[u8]) -> Result<Vec<u8>> {
    sorted::behind(key, SPANS)
}

impl Spans {
    /// Bytes that they take of memory.
    pub fn bytes(&self) -> u64 {
        self.spans.bytes() + self.end_bytes
    }

    /// Bytes that one more takes at most, but for room for others.
    pub fn bytes_of(start: &[u8], upto: Upto<'_>) -> u64 {
        let end = if let Upto::Before(end) = upto { taken(end.len()) } else { 0 };
        Sorted::<End>::ENTRY_BYTES + taken(start.len()) + end
    }

    /// Adds what lies from `start` on, if anything does.
    ///
    /// # Errors
    /// [`NoMemory`](crate::Error::NoMemory); what was added before is still there.
    pub fn add(&mut self, start: &[u8], upto: Upto<'_>) -> Result<()> {
        if end_to(start, upto, start) != Ordering::Greater {
            return Ok(());
        }
        if let Err(place) = self.spans.place(start)
            && let [below, above] = self.spans.beside(place)
            && below.is_none_or(|(first, end)| end_to(first, end.upto(), start) == Ordering::Less)
        {
            let meets = above.is_some_and(|(next, _)| end_to(start, upto, next) != Ordering::Less);
            let end = End::of(upto)?;
            let bytes = end.bytes();
            self.spans.insert(place, start, end, SPANS)?;
            self.end_bytes += bytes;
            return if meets { self.join(start) } else { Ok(()) };
        }
        let (first, end) =
            self.spans.at_or_before(start).expect("it begins in a span, or at the end of one");
        if !ends_behind((start, upto), (first, end.upto())) {
            return Ok(());
        }
        self.end_bytes -= end.bytes();
        let set = end.set(start, upto);
        if set.is_err() {
            // It is not known any more where it ended: it holds more than it should.
            *end = End::Last;
        }
        self.end_bytes += end.bytes();
        set?;
        self.join(start)
    }

    /// Has the span that `start` lies in take over those that it meets.
    fn join(&mut self, start: &[u8]) -> Result<()> {
        loop {
            let next = self.spans.range(Bound::Excluded(start), Bound::Unbounded).next();
            let Some((next, _)) = next else { return Ok(()) };
            let next = fallible::copy(next, SPANS)?;
            let (first, end) = self.spans.at_or_before(start).expect("it was just added");
            if end_to(first, end.upto(), &next) == Ordering::Less {
                return Ok(());
            }
            let first = fallible::copy(first, SPANS)?;
            let of_next = self.spans.remove(&next).expect("it was just there");
            self.end_bytes -= of_next.bytes();
            let (_, end) = self.spans.at_or_before(start).expect("it was just there");
            if ends_behind((&next, of_next.upto()), (&first, end.upto())) {
                self.end_bytes -= end.bytes();
                let set = end.set(&next, of_next.upto());
                if set.is_err() {
                    *end = End::Last;
                }
                self.end_bytes += end.bytes();
                set?;
            }
        }
    }

    /// Whether a span has a part of what lies from `start` on.
    pub fn meets(&self, start: &[u8], upto: Upto<'_>) -> bool {
        let below = self.spans.range(Bound::Unbounded, Bound::Included(start)).next_back();
        let above = self.spans.range(Bound::Excluded(start), Bound::Unbounded).next();
        let is_behind = |(first, end): (_, &End)| end_to(first, end.upto(), start).is_gt();
        let is_some = end_to(start, upto, start).is_gt();
        is_some
            && (below.is_some_and(is_behind)
                || above.is_some_and(|(next, _)| end_to(start, upto, next).is_gt()))
    }

    /// All spans in order, disjoint.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Upto<'_>)> {
        let all = self.spans.range(Bound::Unbounded, Bound::Unbounded);
        all.map(|(start, end)| (start, end.upto()))
    }
}

/// So many keys are noted as they come before they are put among the spans: most transactions read fewer, and need no
/// order of them.
const FEW: usize = 32;
/// A longer key is put there at once: it would be copied twice.
const SHORT: usize = 64;
/// The first of them gets room for a few like it.
const FIRST_BYTES: usize = 96;

/// The parts of a tree that a transaction has read.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    spans: Spans,
    /// The last keys that were read: of each its length, in a byte, and itself.
    keys: Vec<u8>,
    count: usize,
}

impl Reads {
    /// Bytes that they take of memory.
    pub fn bytes(&self) -> u64 {
        self.spans.bytes() + taken(self.keys.capacity())
    }

    /// Adds what lies from `start` on, if anything does.
    ///
    /// # Errors
    /// [`NoMemory`](crate::Error::NoMemory); what was added before is still there.
    pub fn add(&mut self, start: &[u8], upto: Upto<'_>) -> Result<()> {
        if upto != Upto::Itself || start.len() > SHORT {
            return self.spans.add(start, upto);
        }
        if self.count == FEW {
            self.settle()?;
        }
        let room = if self.keys.capacity() == 0 { FIRST_BYTES } else { 0 };
        fallible::more(&mut self.keys, room.max(1 + start.len()), SPANS)?;
        self.keys.push(start.len() as u8);
        self.keys.extend_from_slice(start);
        self.count += 1;
        Ok(())
    }

    /// Where a key is among the last ones, which was just added; none if it is not there.
    pub fn mark(&self, key: &[u8]) -> Option<u32> {
        let is_there = self.count > 0 && key.len() <= SHORT;
        is_there.then(|| (self.keys.len() - key.len() - 1) as u32)
    }

    /// Whether the key at a mark is this one. No more than `FEW` were added since.
    pub fn has_at(&self, mark: u32, key: &[u8]) -> bool {
        self.keys.get(mark as usize..).and_then(|list| last_keys(list).next()) == Some(key)
    }

    /// Puts the last keys among the spans.
    fn settle(&mut self) -> Result<()> {
        for key in last_keys(&self.keys) {
            self.spans.add(key, Upto::Itself)?;
        }
        self.keys.clear();
        self.count = 0;
        Ok(())
    }

    /// All of it; some keys may come twice, and not in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Upto<'_>)> {
        self.spans.iter().chain(last_keys(&self.keys).map(|key| (key, Upto::Itself)))
    }
}

/// The keys of a list that has the length of each before it.
fn last_keys(mut list: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = list.split_first()?;
        let (key, rest) = rest.split_at_checked(usize::from(*len))?;
        list = rest;
        Some(key)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use everleaf_testing::Rng;

    use super::*;

    /// All byte strings of up to three bytes out of three, in order.
    fn places() -> Vec<Vec<u8>> {
        let mut all = BTreeSet::from([Vec::new()]);
        for _ in 0..3 {
            let longer =
                all.iter().flat_map(|place| [0, 1, 255].map(|b| [&place[..], &[b]].concat()));
            all = all.iter().cloned().chain(longer.collect::<Vec<_>>()).collect();
        }
        all.into_iter().collect()
    }

    fn holds(start: &[u8], upto: Upto<'_>, key: &[u8]) -> bool {
        key >= start && end_to(start, upto, key) == Ordering::Greater
    }

    #[test]
    fn a_set_of_spans_holds_what_was_added_and_nothing_else() {
        let places = places();
        for seed in 0..200 {
            let mut rng = Rng(seed);
            let (mut reads, mut added) = (Spans::default(), BTreeSet::new());
            for _ in 0..rng.below(30) {
                let pick = |rng: &mut Rng| &places[rng.below(places.len() as u64) as usize][..];
                let (a, b) = (pick(&mut rng), pick(&mut rng));
                let upto = match rng.below(5) {
                    0 | 1 => Upto::Itself,
                    2 if rng.one_in(4) => Upto::End,
                    _ if a < b => Upto::Before(b),
                    _ => Upto::Itself,
                };
                reads.add(a, upto).expect("memory");
                added.extend(places.iter().filter(|key| holds(a, upto, key)));
                let spans: Vec<_> = reads.iter().collect();
                for key in &places {
                    let found = spans.iter().any(|(start, upto)| holds(start, *upto, key));
                    assert_eq!(found, added.contains(key), "seed {seed}: {key:?} in {spans:?}");
                }
                let (from, to) = (pick(&mut rng), pick(&mut rng));
                for upto in [Upto::Itself, Upto::Before(to), Upto::End] {
                    let is_some = end_to(from, upto, from).is_gt();
                    let meets = spans.iter().any(|(start, of)| {
                        end_to(from, upto, start).is_gt() && end_to(start, *of, from).is_gt()
                    });
                    let expected = is_some && meets;
                    assert_eq!(reads.meets(from, upto), expected, "seed {seed}: {from:?} {upto:?}");
                }
                for two in spans.windows(2) {
                    let gap = end_to(two[0].0, two[0].1, two[1].0);
                    assert_eq!(gap, Ordering::Less, "seed {seed}: {spans:?} meet");
                }
                let ends: u64 = reads
                    .spans
                    .range(Bound::Unbounded, Bound::Unbounded)
                    .map(|(_, end)| end.bytes())
                    .sum();
                assert_eq!(reads.end_bytes, ends, "seed {seed}");
            }
        }
    }

    #[test]
    fn what_was_read_is_there_however_many_there_are() {
        let long = [7; SHORT + 1];
        for n in [0, 1, FEW, FEW + 1, 5 * FEW] {
            let mut reads = Reads::default();
            reads.add(&long, Upto::Itself).expect("memory");
            reads.add(b"x", Upto::Before(b"z")).expect("memory");
            let keys: Vec<_> = (0..n).map(|i| vec![(i % 50) as u8; i % (SHORT + 1)]).collect();
            for key in &keys {
                reads.add(key, Upto::Itself).expect("memory");
            }
            let all: Vec<_> = reads.iter().collect();
            let has = |key: &[u8]| all.iter().any(|(start, upto)| holds(start, *upto, key));
            assert!(keys.iter().all(|key| has(key)) && has(&long) && has(b"y"), "{n} keys");
            assert!(!has(b"z") && !has(&long[1..]) && all.len() <= n + 2, "{n} keys");
            if let Some(last) = keys.last() {
                let mark = reads.mark(last).expect("it is short");
                reads.add(b"other", Upto::Itself).expect("memory");
                assert_eq!(reads.has_at(mark, last), n % FEW != 0, "{n} keys");
                assert!(!reads.has_at(mark, b"others"));
            }
            assert!(reads.count <= FEW && reads.bytes() >= reads.spans.bytes() + n.min(1) as u64);
        }
    }

    #[test]
    fn a_scan_in_either_direction_is_one_span() {
        for up in [true, false] {
            let mut reads = Spans::default();
            for i in 0..1000_u32 {
                let key = |n: u32| n.to_be_bytes();
                let (from, to) = if up { (i, i + 1) } else { (1000 - i, 1001 - i) };
                reads.add(&key(from), Upto::Before(&key(to))).expect("memory");
                assert_eq!(reads.iter().count(), 1);
            }
            assert!(reads.bytes() < 1000, "{} bytes", reads.bytes());
        }
    }
}
