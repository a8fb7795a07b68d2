//! Images that writes have kept for those who read at a cut, as they came, until somebody looks for one.
//!
//! ```text
//! list    where, lengths, stamps  │ where, lengths, stamps  │ …        one of 56 bytes a write
//! bytes   key, value              │ key, value              │ …        of all of them, one behind the other
//! ```
//!
//! A write beside a cut that nobody reads at, such as a snapshot at each end of an epoch, copies key and value behind
//! those of the write before. It searches for nothing, allocates nothing of its own, and what it kept is dropped with
//! all of its cut at once.

use std::ops::Range;

use everleaf_pmem::LINE_BYTES;
use everleaf_pmem::fallible;
use everleaf_pmem::fallible::taken;
use everleaf_pmem::page::prefetch;
use everleaf_tree::blink::{Before, Was};
use everleaf_tree::slotted::common;

use crate::sorted::head_of;
use crate::{Bytes, Error, Result};

pub(super) const IMAGES: &str = "what snapshots see";

/// The processor is asked for one so many before it is handed out.
const AHEAD: usize = 8;

/// The processor is asked for so many lines of memory that will be written.
const LINES_AHEAD: usize = 4;

/// A longer value is not copied again, but kept in the memory that it came in.
const COPIED_MAX: usize = 1024;

/// Says the same as [`Before`], in less memory.
#[derive(Debug)]
pub(super) enum Kept {
    Absent,
    Value(Bytes),
    TooLarge,
    Lost(Box<Error>),
}

impl Kept {
    /// A copy, for who reads it.
    pub fn shown(&self) -> Result<Before<Vec<u8>>> {
        Ok(match self {
            Kept::Absent => Before::Absent,
            Kept::Value(value) => Before::Value(fallible::copy(value, IMAGES)?),
            Kept::TooLarge => Before::TooLarge,
            Kept::Lost(error) => Before::Lost((**error).clone()),
        })
    }

    /// The same, for who goes through a leaf.
    pub fn was(&self) -> Was<'_> {
        match self {
            Kept::Absent => Was::Absent,
            Kept::Value(value) => Was::Value(value),
            Kept::TooLarge | Kept::Lost(_) => Was::Lost,
        }
    }

    /// Bytes of the memory that it leads to.
    pub fn bytes(&self) -> u64 {
        match self {
            Kept::Absent | Kept::TooLarge => 0,
            Kept::Value(value) => value.taken(),
            Kept::Lost(_) => taken(size_of::<Error>()),
        }
    }
}

/// A value beside the list.
#[derive(Debug)]
enum Value {
    Absent,
    /// So many bytes behind the key.
    Copied(u32),
    Own(Vec<u8>),
    TooLarge,
    Lost(Box<Error>),
}

impl Value {
    /// It takes so much memory that is not the list's.
    fn own_bytes(&self) -> u64 {
        match self {
            Value::Own(value) => taken(value.capacity()),
            Value::Lost(_) => taken(size_of::<Error>()),
            Value::Absent | Value::Copied(_) | Value::TooLarge => 0,
        }
    }
}

/// The image that one write has kept.
#[derive(Debug)]
struct Recent {
    /// Where its bytes begin, counted from the first ones that the list ever had.
    at: u64,
    key_len: u32,
    value: Value,
    stamps: Stamps,
}

/// When a write kept something.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamps {
    /// The stamp of the write.
    pub until: u64,
    /// The newest cut then, and 1: a key with an image that is not older needs no other one.
    pub newest: u64,
}

/// The images that writes have kept, in the order in which they did.
#[derive(Debug, Default)]
pub(super) struct Recents {
    list: Vec<Recent>,
    bytes: Vec<u8>,
    /// Where the first of these bytes is, counted in the same way.
    begin: u64,
    /// Bytes of values that are not among them.
    own_bytes: u64,
}

impl Recents {
    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether it takes no memory. When it becomes empty its room stays, for those who come next.
    pub fn is_bare(&self) -> bool {
        self.list.capacity() == 0
    }

    /// All that it takes.
    pub fn bytes(&self) -> u64 {
        taken(self.list.capacity() * size_of::<Recent>())
            + taken(self.bytes.capacity())
            + self.own_bytes
    }

    /// Bytes that the kept images take, without room for more.
    pub fn bytes_used(&self) -> u64 {
        (self.list.len() * size_of::<Recent>() + self.bytes.len()) as u64 + self.own_bytes
    }

    fn key<'b>(bytes: &'b [u8], begin: u64, recent: &Recent) -> &'b [u8] {
        &bytes[recent.key_range(begin)]
    }

    /// Keeps what a key had.
    ///
    /// # Errors
    /// NoMemory: nothing is kept.
    pub fn push(&mut self, key: &[u8], before: Before<Vec<u8>>, stamps: Stamps) -> Result<()> {
        let value = match before {
            Before::Value(value) if value.len() <= COPIED_MAX => {
                let copy = |to: &mut Vec<u8>| fallible::append(to, &value, IMAGES);
                return self.push_copied(key, value.len(), copy, stamps);
            }
            Before::Absent => Value::Absent,
            Before::Value(value) => Value::Own(value),
            Before::TooLarge => Value::TooLarge,
            Before::Lost(error) => Value::Lost(Box::new(error)),
        };
        self.push_with(key, 0, |_| Ok(value), stamps)
    }

    /// Keeps a value of so many bytes, which `append` copies behind what is there.
    ///
    /// # Errors
    /// NoMemory, and those of `append`: nothing is kept.
    pub fn push_copied(
        &mut self,
        key: &[u8],
        bytes: usize,
        append: impl FnOnce(&mut Vec<u8>) -> Result<()>,
        stamps: Stamps,
    ) -> Result<()> {
        if bytes > COPIED_MAX {
            let mut own = fallible::list(bytes, IMAGES)?;
            append(&mut own)?;
            return self.push_with(key, 0, |_| Ok(Value::Own(own)), stamps);
        }
        let value = |to: &mut Vec<u8>| {
            let before = to.len();
            append(to).map(|()| Value::Copied((to.len() - before) as u32))
        };
        self.push_with(key, bytes, value, stamps)
    }

    #[inline(always)]
    fn push_with(
        &mut self,
        key: &[u8],
        bytes: usize,
        value: impl FnOnce(&mut Vec<u8>) -> Result<Value>,
        stamps: Stamps,
    ) -> Result<()> {
        fallible::more(&mut self.list, 1, IMAGES)?;
        fallible::more(&mut self.bytes, key.len() + bytes, IMAGES)?;
        let before = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let value = match value(&mut self.bytes) {
            Ok(value) => value,
            Err(error) => {
                self.bytes.truncate(before);
                return Err(error);
            }
        };
        self.own_bytes += value.own_bytes();
        let at = self.begin + before as u64;
        self.list.push(Recent { at, key_len: key.len() as u32, value, stamps });
        self.prefetch(self.bytes.len() - before);
        Ok(())
    }

    /// Asks the processor for the memory that the next one goes to, which takes about as many bytes as the last one. Else the
    /// writer's lock waits for it.
    #[inline(always)]
    fn prefetch(&self, bytes: usize) {
        prefetch(self.list.as_ptr_range().end.wrapping_add(1).cast());
        let end = self.bytes.as_ptr_range().end;
        for line in 1..=bytes.div_ceil(LINE_BYTES).min(LINES_AHEAD) {
            prefetch(end.wrapping_add(line * LINE_BYTES));
        }
    }

    /// Drops what was kept up to a stamp; says how many writes had kept it.
    pub fn drop_until(&mut self, stamp: u64) -> usize {
        let n = self.list.partition_point(|recent| recent.stamps.until <= stamp);
        self.own_bytes -= self.list.drain(..n).map(|recent| recent.value.own_bytes()).sum::<u64>();
        self.shorten();
        n
    }

    /// Drops the newest that was kept of a key, if `is_own` says of its stamp that it is to go; says whether there is one.
    pub fn take_back(&mut self, key: &[u8], is_own: impl Fn(u64) -> bool) -> bool {
        let is = |recent: &Recent| {
            is_own(recent.stamps.until) && Self::key(&self.bytes, self.begin, recent) == key
        };
        let Some(at) = self.list.iter().rposition(is) else { return false };
        self.own_bytes -= self.list.remove(at).value.own_bytes();
        self.shorten();
        true
    }

    /// Hands out all that was kept, by rising keys and those of a key as they came. `take` may ask for the value.
    ///
    /// # Errors
    /// NoMemory, and the first error of `take`, which has not had that image then. Images that it has had are gone, the
    /// rest stays in its order.
    pub fn sort_out(
        &mut self,
        mut take: impl FnMut(&[u8], Stamps, &mut dyn FnMut() -> Result<Kept>) -> Result<()>,
    ) -> Result<()> {
        let mut order = self.by_keys()?;
        let (bytes, begin) = (&self.bytes, self.begin);
        let (mut n, mut done) = (0, Ok(()));
        for &(_, no) in &order {
            if let Some(&(_, soon)) = order.get(n + AHEAD) {
                prefetch((&raw const self.list[soon]).cast());
            }
            let recent = &mut self.list[no];
            let key = Self::key(bytes, begin, recent);
            let own = recent.value.own_bytes();
            let copied = recent.value_range(begin);
            let value = &mut recent.value;
            done = take(key, recent.stamps, &mut || value.take(&bytes[copied.clone()]));
            if done.is_err() {
                break;
            }
            self.own_bytes -= own;
            n += 1;
        }
        order.truncate(n);
        self.remove(order);
        done
    }

    /// The places of all in the list, by keys and those of a key as they came. A word of each key goes before them: where
    /// two differ in it, as most do, no key is looked at.
    fn by_keys(&self) -> Result<Vec<(u64, usize)>> {
        let key = |no: usize| Self::key(&self.bytes, self.begin, &self.list[no]);
        let mut order = fallible::list(self.list.len(), IMAGES)?;
        let all = 0..self.list.len();
        let Some(first) = all.clone().next().map(key) else { return Ok(order) };
        let begin = all.clone().fold(first.len(), |len, no| common(&first[..len], key(no)));
        order.extend(all.map(|no| (head_of(&key(no)[begin..]), no)));
        order.sort_unstable_by(|&(a, m), &(b, n)| {
            a.cmp(&b).then_with(|| key(m).cmp(key(n))).then_with(|| m.cmp(&n))
        });
        Ok(order)
    }

    /// Removes those at some places.
    fn remove(&mut self, mut gone: Vec<(u64, usize)>) {
        if gone.len() == self.list.len() {
            self.list.clear();
        } else {
            gone.sort_unstable_by_key(|&(_, no)| std::cmp::Reverse(no));
            let mut no = 0;
            self.list.retain(|_| {
                let is_gone = gone.pop_if(|&mut (_, first)| first == no).is_some();
                no += 1;
                !is_gone
            });
        }
        self.shorten();
    }

    /// Drops the bytes before those of the first one.
    fn shorten(&mut self) {
        let gone = match self.list.first() {
            Some(first) => (first.at - self.begin) as usize,
            None => self.bytes.len(),
        };
        if gone > 0 {
            self.bytes.drain(..gone);
            self.begin += gone as u64;
        }
    }

    /// Gives all memory back if nothing is kept.
    pub fn give_back(&mut self) {
        if self.list.is_empty() {
            *self = Self::default();
        }
    }
}

impl Recent {
    fn key_range(&self, begin: u64) -> Range<usize> {
        let at = (self.at - begin) as usize;
        at..at + self.key_len as usize
    }

    fn value_range(&self, begin: u64) -> Range<usize> {
        let at = self.key_range(begin).end;
        match self.value {
            Value::Copied(len) => at..at + len as usize,
            _ => at..at,
        }
    }
}

impl Value {
    /// Its value as [`Kept`], in memory of its own.
    fn take(&mut self, copied: &[u8]) -> Result<Kept> {
        if let Value::Copied(_) = self {
            return Ok(Kept::Value(Bytes::copy(copied, IMAGES)?));
        }
        Ok(match std::mem::replace(self, Value::Absent) {
            Value::Absent | Value::Copied(_) => Kept::Absent,
            Value::Own(value) => Kept::Value(value.into()),
            Value::TooLarge => Kept::TooLarge,
            Value::Lost(error) => Kept::Lost(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(until: u64) -> Stamps {
        Stamps { until, newest: until }
    }

    fn value(len: usize, byte: u8) -> Before<Vec<u8>> {
        Before::Value(vec![byte; len])
    }

    fn text(kept: Kept) -> String {
        match kept {
            Kept::Absent => "absent".into(),
            Kept::Value(value) => format!("{} x {:?}", value.len(), value.first()),
            Kept::TooLarge => "too large".into(),
            Kept::Lost(error) => error.to_string(),
        }
    }

    /// All that is handed out, until a key that is refused.
    fn sorted(
        recents: &mut Recents,
        refused: Option<&[u8]>,
    ) -> (bool, Vec<(Vec<u8>, u64, String)>) {
        let mut seen = Vec::new();
        let done = recents.sort_out(|key, stamps, kept| {
            if Some(key) == refused {
                return Err(Error::NoMemory { what: IMAGES, bytes: 1 });
            }
            seen.push((key.to_vec(), stamps.until, text(kept()?)));
            Ok(())
        });
        (done.is_ok(), seen)
    }

    fn some() -> Recents {
        let mut recents = Recents::default();
        let all: [(&[u8], Before<Vec<u8>>); 6] = [
            (b"b", value(3, 1)),
            (b"", Before::Absent),
            (b"", value(0, 0)),
            (b"a", value(COPIED_MAX + 1, 2)),
            (b"b", Before::TooLarge),
            (b"b", value(COPIED_MAX, 3)),
        ];
        for (i, (key, before)) in all.into_iter().enumerate() {
            recents.push(key, before, stamps(i as u64)).expect("memory");
        }
        recents
    }

    #[test]
    fn all_is_handed_out_by_keys_and_as_it_came() {
        let mut recents = some();
        let (done, seen) = sorted(&mut recents, None);
        let row = |key: &[u8], until, text: &str| (key.to_vec(), until, text.to_string());
        let all = [
            row(b"", 1, "absent"),
            row(b"", 2, "0 x None"),
            row(b"a", 3, "1025 x Some(2)"),
            row(b"b", 0, "3 x Some(1)"),
            row(b"b", 4, "too large"),
            row(b"b", 5, "1024 x Some(3)"),
        ];
        assert_eq!((done, seen), (true, all.to_vec()));
        assert!(recents.is_empty() && !recents.is_bare() && recents.bytes_used() == 0);
        recents.give_back();
        assert!(recents.is_bare() && recents.bytes() == 0);
    }

    #[test]
    fn keys_that_begin_alike_come_in_their_order() {
        let mut rng = everleaf_testing::Rng(3);
        for begin in [&b""[..], b"user", b"a long beginning of all keys"] {
            let mut recents = Recents::default();
            let mut model = Vec::new();
            for n in 0..2000 {
                // Zeros at the end, and keys that differ behind the first eight bytes only.
                let len = rng.below(12) as usize;
                let rest: Vec<u8> = (0..len).map(|_| rng.below(2) as u8).collect();
                let key = [begin, &rest].concat();
                recents.push(&key, value(n as usize % 40, 1), stamps(n)).expect("memory");
                model.push((key, n));
            }
            model.sort();
            let (done, seen) = sorted(&mut recents, None);
            let seen: Vec<_> = seen.into_iter().map(|(key, until, _)| (key, until)).collect();
            assert!(done && seen == model, "keys that begin with {begin:?}");
        }
    }

    #[test]
    fn what_is_left_after_an_error_is_as_it_was() {
        let mut recents = some();
        let (done, seen) = sorted(&mut recents, Some(b"b"));
        assert_eq!((done, seen.len(), recents.len()), (false, 3, 3));
        assert_eq!(recents.drop_until(3), 1);
        recents.push(b"c", value(1, 9), stamps(6)).expect("memory");
        let (done, seen) = sorted(&mut recents, None);
        let stamps: Vec<u64> = seen.iter().map(|(_, until, _)| *until).collect();
        assert_eq!((done, stamps), (true, vec![4, 5, 6]));
    }

    #[test]
    fn the_newest_of_a_key_is_taken_back_and_the_oldest_are_dropped() {
        let mut recents = some();
        assert!(!recents.take_back(b"x", |_| true));
        assert!(!recents.take_back(b"b", |until| until > 5));
        assert!(recents.take_back(b"b", |until| until == 5));
        assert!(recents.take_back(b"a", |_| true));
        assert_eq!(recents.own_bytes, 0);
        assert_eq!((recents.drop_until(2), recents.len()), (3, 1));
        assert_eq!(sorted(&mut recents, None).1, [(b"b".to_vec(), 4, "too large".to_string())]);
        assert_eq!(recents.bytes_used(), 0);
    }

    #[test]
    fn a_copy_that_fails_keeps_nothing() {
        let mut recents = some();
        let (len, used) = (recents.len(), recents.bytes_used());
        for bytes in [1, COPIED_MAX + 1] {
            let refuse = |to: &mut Vec<u8>| {
                to.push(1);
                Err(Error::NoMemory { what: IMAGES, bytes: 1 })
            };
            recents.push_copied(b"k", bytes, refuse, stamps(7)).expect_err("refused");
        }
        assert_eq!((recents.len(), recents.bytes_used()), (len, used));
    }
}
