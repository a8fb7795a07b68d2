//! The answer of a read: a byte string of its own that is cheap to make.
//!
//! ```text
//! here  up to 30 bytes in place
//! part  longer ones of an iterator: a part of a room that its strings have in common, counted
//! lent  a large value that is in memory: the same bytes, counted
//! own   all others
//! ```
//!
//! To allocate and to free takes longer than a step of a cursor. So a short string takes no memory beside its own 32 bytes,
//! and those of an iterator take an allocation for many of them.

use std::array::TryFromSliceError;
use std::borrow::Borrow;
use std::cell::Cell;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use everleaf_pmem::fallible;
use everleaf_pmem::fallible::taken;
use everleaf_pmem::{SharedPair, SharedPart, SharedRoom};
use everleaf_tree::FoundValue;

use crate::{Error, Result};

/// A byte string of so many bytes is in place.
pub(crate) const SHORT_MAX: usize = 30;
/// Bytes of a room for parts: with its head and the allocator's a page, and more than a leaf has of pairs.
const ROOM_BYTES: usize = 4096 - 32;
/// A longer one is no part of a room, of which it would leave too much free.
pub(crate) const PART_MAX: usize = ROOM_BYTES / 4;
/// A value of so many bytes is not copied, but taken from where it was read to.
pub(crate) const TAKEN_MIN: usize = 1 << 14;

/// A thread keeps memory of no more bytes for its next call.
pub(crate) const SPARE_BYTES: usize = 1 << 16;

/// Lends a buffer that this thread uses again.
pub(crate) fn with_spare<T>(use_it: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    thread_local! {
        static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    // Taken out: a call within the call gets another one.
    let mut spare = SPARE.try_with(Cell::take).unwrap_or_default();
    let answer = use_it(&mut spare);
    if spare.capacity() <= SPARE_BYTES {
        let _ = SPARE.try_with(|kept| kept.set(spare));
    }
    answer
}

/// A key or a value that was read: a byte string of its own, which stays as it is whatever becomes of tree, iterator and
/// [`Db`](crate::Db), and goes from thread to thread.
///
/// It derefs to `&[u8]`, compares and hashes as that does, and is a key and a value for all of the API. It is cheap to make:
/// up to 30 bytes are in place and allocate nothing. The longer strings that an iterator gives share allocations, and large
/// values that are in memory are not copied. To clone one is O(1), unless it has an allocation of its own; then it copies.
///
/// **Memory.** One of 31 to 1,016 bytes from an iterator keeps the 4 KiB that it shares in memory, and a large value its
/// key. If you keep few of many for long, keep [`into_vec`](Bytes::into_vec) of them, which has no more than its bytes.
///
/// ```
/// use everleaf::Bytes;
///
/// # fn main() -> everleaf::Result<()> {
/// # let db = everleaf::Db::in_memory()?;
/// let tree = db.tree("t")?;
/// tree.put("ada", 7_u32.to_be_bytes())?;
/// let (key, value) = tree.first()?.expect("a pair");
/// assert!(key == b"ada" && key.starts_with(b"a"));
/// assert_eq!(u32::from_be_bytes(value.try_into().unwrap()), 7);
/// tree.put(&key, "eight")?;
/// db.close()?;
/// assert_eq!(key, Bytes::from("ada"));
/// # Ok(())
/// # }
/// ```
pub struct Bytes(Is);

enum Is {
    Here(u8, [u8; SHORT_MAX]),
    There(There),
}

#[derive(Clone)]
enum There {
    Own(Vec<u8>),
    Part(SharedPart),
    Lent(SharedPair),
}

impl There {
    #[inline(never)]
    fn bytes(&self) -> &[u8] {
        match self {
            There::Own(bytes) => bytes,
            There::Part(part) => part.bytes(),
            There::Lent(pair) => pair.value(),
        }
    }
}

impl Bytes {
    /// One in place, if it is so short.
    #[inline(always)]
    pub(crate) fn here(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= SHORT_MAX).then(|| Self::short(bytes))
    }

    /// One that is so short, which is asked before.
    #[inline(always)]
    pub(crate) fn short(bytes: &[u8]) -> Self {
        let len = bytes.len().min(SHORT_MAX);
        let mut here = [0; SHORT_MAX];
        // By two pieces that overlap: a copy of any length is a call, which takes longer.
        if !(copy_by::<16>(bytes, &mut here) || copy_by::<8>(bytes, &mut here)) {
            let (pieces, rest) = bytes.as_chunks::<4>();
            // Less than eight bytes.
            if let Some(piece) = pieces.first() {
                here[..4].copy_from_slice(piece);
            }
            let at = 4 * pieces.len();
            for (to, from) in here[at..].iter_mut().zip(rest) {
                *to = *from;
            }
        }
        Bytes(Is::Here(len as u8, here))
    }

    /// A copy.
    ///
    /// # Errors
    /// [`NoMemory`](crate::Error::NoMemory).
    #[inline]
    pub(crate) fn copy(bytes: &[u8], what: &'static str) -> Result<Self> {
        match Self::here(bytes) {
            Some(here) => Ok(here),
            None => Self::copy_long(bytes, what),
        }
    }

    #[inline(never)]
    fn copy_long(bytes: &[u8], what: &'static str) -> Result<Self> {
        fallible::copy(bytes, what).map(There::Own).map(Self::there)
    }

    /// A copy in a room, or in another one that takes its place if it is full.
    ///
    /// # Errors
    /// [`NoMemory`](crate::Error::NoMemory).
    #[inline]
    pub(crate) fn part(
        bytes: &[u8],
        room: &mut Option<SharedRoom>,
        what: &'static str,
    ) -> Result<Self> {
        if bytes.len() <= SHORT_MAX {
            return Ok(Self::short(bytes));
        }
        match room {
            Some(room) if bytes.len() <= PART_MAX => match room.add(bytes) {
                Some(part) => Ok(Self::there(There::Part(part))),
                None => Self::part_of_new(bytes, room, what),
            },
            None if bytes.len() <= PART_MAX => {
                Self::part_of_new(bytes, room.insert(new_room(what)?), what)
            }
            _ => Self::copy(bytes, what),
        }
    }

    /// The same in a room that is full: in the same one if nobody has a part of it any more.
    #[inline(never)]
    fn part_of_new(bytes: &[u8], room: &mut SharedRoom, what: &'static str) -> Result<Self> {
        if !room.clear() {
            *room = new_room(what)?;
        }
        let part = room.add(bytes).expect("an empty room has room for a part");
        Ok(Self::there(There::Part(part)))
    }

    /// A value that others hold, too, if little else would stay in memory with it.
    #[inline]
    pub(crate) fn lent(pair: &SharedPair) -> Option<Self> {
        let bytes = pair.value().len();
        let is_most = bytes > PART_MAX.max(pair.len() / 2);
        is_most.then(|| Self::there(There::Lent(pair.clone())))
    }

    fn there(there: There) -> Self {
        Bytes(Is::There(there))
    }

    /// A value that was found. A long one is taken with its list.
    ///
    /// # Errors
    /// [`NoMemory`](crate::Error::NoMemory).
    #[inline]
    pub(crate) fn found(value: &mut FoundValue, what: &'static str) -> Result<Self> {
        match Self::here(value.bytes()) {
            Some(here) => Ok(here),
            None => Self::found_long(value, what),
        }
    }

    fn found_long(value: &mut FoundValue, what: &'static str) -> Result<Self> {
        if let Some(lent) = value.shared().and_then(Self::lent) {
            return Ok(lent);
        }
        // The list may have been made for longer values.
        match value.memory() > 2 * value.bytes().len() {
            true => Self::copy(value.bytes(), what),
            false => value.take().map(Self::from),
        }
    }

    /// Bytes of memory that it leads to, if it has them for itself.
    #[inline]
    pub(crate) fn taken(&self) -> u64 {
        match &self.0 {
            Is::Here(..) => 0,
            Is::There(There::Own(bytes)) => taken(bytes.capacity()),
            Is::There(_) => taken(self.len()),
        }
    }

    /// Returns the bytes as a vector. O(1) if they have an allocation of their own, as a long value of a `get` has; else it
    /// copies them.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let db = everleaf::Db::in_memory()?;
    /// let tree = db.tree("t")?;
    /// tree.put("a", "1")?;
    /// let mut keys: Vec<Vec<u8>> = Vec::new();
    /// for key in tree.keys() {
    ///     keys.push(key?.into_vec());
    /// }
    /// assert_eq!(keys, [b"a"]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Is::There(There::Own(bytes)) => bytes,
            _ => self.to_vec(),
        }
    }
}

/// Copies N to 2 N bytes by their first and their last N; says whether there are so many.
#[inline(always)]
fn copy_by<const N: usize>(bytes: &[u8], to: &mut [u8; SHORT_MAX]) -> bool {
    let (Some(first), Some(last)) = (bytes.first_chunk::<N>(), bytes.last_chunk::<N>()) else {
        return false;
    };
    to[..N].copy_from_slice(first);
    if let Some(to) = to.get_mut(bytes.len() - N..bytes.len()) {
        to.copy_from_slice(last);
    }
    true
}

#[cold]
fn new_room(what: &'static str) -> Result<SharedRoom> {
    SharedRoom::new(ROOM_BYTES as u32).ok_or(Error::NoMemory { what, bytes: ROOM_BYTES })
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Is::Here(len, here) => &here[..usize::from(*len)],
            Is::There(there) => there.bytes(),
        }
    }
}

impl AsRef<[u8]> for Bytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Bytes {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl Default for Bytes {
    /// The empty string.
    fn default() -> Self {
        Bytes(Is::Here(0, [0; SHORT_MAX]))
    }
}

impl Clone for Bytes {
    fn clone(&self) -> Self {
        Bytes(match &self.0 {
            Is::Here(len, here) => Is::Here(*len, *here),
            Is::There(there) => Is::There(there.clone()),
        })
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Hash for Bytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl PartialEq for Bytes {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Bytes {}

impl PartialOrd for Bytes {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bytes {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

/// Equality with the other types of byte strings, from both sides.
macro_rules! equals {
    ($([$($n:tt)*] $Other:ty),* $(,)?) => {$(
        impl<$($n)*> PartialEq<$Other> for Bytes {
            #[inline]
            fn eq(&self, other: &$Other) -> bool {
                **self == other[..]
            }
        }

        impl<$($n)*> PartialEq<Bytes> for $Other {
            #[inline]
            fn eq(&self, other: &Bytes) -> bool {
                self[..] == **other
            }
        }
    )*};
}

equals!(
    [] [u8], [] &[u8], [const N: usize] [u8; N], [const N: usize] &[u8; N], [] Vec<u8>,
);

impl From<Vec<u8>> for Bytes {
    /// Keeps the vector, unless the bytes have room in place.
    fn from(bytes: Vec<u8>) -> Self {
        Self::here(&bytes).unwrap_or(Self::there(There::Own(bytes)))
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        Self::here(bytes).unwrap_or_else(|| Self::there(There::Own(bytes.to_vec())))
    }
}

impl<const N: usize> From<[u8; N]> for Bytes {
    fn from(bytes: [u8; N]) -> Self {
        Self::from(&bytes[..])
    }
}

impl<const N: usize> From<&[u8; N]> for Bytes {
    fn from(bytes: &[u8; N]) -> Self {
        Self::from(&bytes[..])
    }
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Self {
        Self::from(text.as_bytes())
    }
}

impl From<Bytes> for Vec<u8> {
    /// Does what [`Bytes::into_vec`] does.
    fn from(bytes: Bytes) -> Self {
        bytes.into_vec()
    }
}

impl<const N: usize> TryFrom<Bytes> for [u8; N] {
    type Error = TryFromSliceError;

    fn try_from(bytes: Bytes) -> Result<Self, TryFromSliceError> {
        (&bytes[..]).try_into()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};
    use std::hash::DefaultHasher;
    use std::thread;

    use super::*;

    const WHAT: &str = "a test";

    fn pattern(len: usize) -> Vec<u8> {
        (1..=251).cycle().take(len).collect()
    }

    /// Lengths at which it is made in another way, and those beside them.
    fn lengths() -> impl Iterator<Item = usize> {
        let ends = [0, 16, SHORT_MAX, 64, PART_MAX, ROOM_BYTES, TAKEN_MIN];
        ends.into_iter().flat_map(|n: usize| n.saturating_sub(1)..=n + 1)
    }

    /// One of each kind with these bytes.
    fn all_kinds(bytes: &[u8]) -> Vec<Bytes> {
        let pair = SharedPair::copy(b"key", bytes).expect("memory");
        let mut kinds = vec![
            Bytes::copy(bytes, WHAT).expect("memory"),
            Bytes::part(bytes, &mut None, WHAT).expect("memory"),
            Bytes::from(bytes.to_vec()),
            Bytes::from(bytes),
            Bytes::there(There::Lent(pair.clone())),
        ];
        kinds.extend(Bytes::lent(&pair));
        kinds
    }

    #[test]
    fn it_has_its_bytes_at_every_length_and_however_it_is_made() {
        assert_eq!(size_of::<Bytes>(), 32);
        assert_eq!(size_of::<Option<Bytes>>(), 32);
        assert_eq!(Bytes::default(), b"");
        for len in lengths() {
            let bytes = pattern(len);
            for made in all_kinds(&bytes) {
                assert_eq!(made, bytes, "{len}");
                assert_eq!(made.clone(), made, "{len}");
                assert_eq!(made.clone().into_vec(), bytes, "{len}");
                assert_eq!(Vec::from(made), bytes, "{len}");
            }
        }
    }

    #[test]
    fn what_is_short_takes_no_memory_and_what_is_long_is_moved() {
        assert_eq!(Bytes::from(pattern(SHORT_MAX)).taken(), 0);
        let long = pattern(SHORT_MAX + 1);
        let place = long.as_ptr();
        let bytes = Bytes::from(long);
        assert_eq!(bytes.taken(), taken(SHORT_MAX + 1));
        assert_eq!(bytes.as_ptr(), place);
        let again = bytes.into_vec();
        assert_eq!(again.as_ptr(), place);
    }

    #[test]
    fn it_equals_is_ordered_and_hashed_as_its_slice() {
        let hash = |bytes: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = DefaultHasher::new();
            bytes(&mut hasher);
            hasher.finish()
        };
        let mut all: Vec<_> = lengths().map(pattern).collect();
        all.extend([b"a".to_vec(), b"b".to_vec(), vec![0], vec![255; 31]]);
        for left in &all {
            for right in &all {
                for (a, b) in all_kinds(left).into_iter().zip(all_kinds(right).into_iter().rev()) {
                    assert_eq!(a.cmp(&b), left.cmp(right));
                    assert_eq!(a == b, left == right);
                }
            }
            let bytes = Bytes::from(left.clone());
            assert_eq!(hash(&|to| bytes.hash(to)), hash(&|to| left[..].hash(to)));
            assert_eq!(format!("{bytes:?}"), format!("{left:?}"));
        }
        let abc = Bytes::from("abc");
        let slice: &[u8] = b"abc";
        assert!(abc == *b"abc" && abc == b"abc" && abc == *slice && abc == slice);
        assert!(*b"abc" == abc && b"abc" == abc && *slice == abc && slice == abc);
        assert!(abc == b"abc".to_vec() && b"abc".to_vec() == abc && abc != b"abd");
        let set = BTreeSet::from([abc.clone(), Bytes::from("abd")]);
        assert!(set.contains(&b"abd"[..]) && !set.contains(&b"ab"[..]));
        assert_eq!(HashMap::from([(abc.clone(), 1)]).get(&b"abc"[..]), Some(&1));
        assert_eq!(<[u8; 3]>::try_from(abc.clone()).ok(), Some(*b"abc"));
        assert!(<[u8; 4]>::try_from(abc).is_err());
    }

    #[test]
    fn parts_share_a_room_until_it_is_full_and_outlive_it() {
        let mut room = None;
        let of = |n: u8, room: &mut _| Bytes::part(&[n; 100], room, WHAT).expect("memory");
        let many: Vec<_> = (0..100).map(|n| of(n, &mut room)).collect();
        let beside = |two: &[Bytes]| two[0].as_ptr().wrapping_add(100) == two[1].as_ptr();
        assert_eq!(many.windows(2).filter(|two| !beside(two)).count(), 100 / (ROOM_BYTES / 100));
        drop(room);
        let kept = many[57].clone();
        drop(many);
        assert_eq!(kept, [57; 100]);
        // Nobody keeps any: one room does for all.
        let mut room = None;
        let places: BTreeSet<_> = (0..100).map(|n| of(n, &mut room).as_ptr().addr()).collect();
        assert_eq!(places.len(), ROOM_BYTES / 100);
    }

    #[test]
    fn only_a_value_that_is_most_of_its_pair_is_lent() {
        let lent = |key: usize, value: usize| {
            Bytes::lent(&SharedPair::copy(&pattern(key), &pattern(value)).expect("memory"))
        };
        assert_eq!(lent(10, 2000).as_deref(), Some(&pattern(2000)[..]));
        assert!(lent(10, PART_MAX).is_none() && lent(3000, 2000).is_none());
    }

    #[test]
    fn a_long_value_that_was_found_is_taken_unless_its_list_is_much_longer() {
        let mut value = FoundValue::new(pattern(TAKEN_MIN));
        let place = value.bytes().as_ptr();
        let taken = Bytes::found(&mut value, WHAT).expect("memory");
        assert_eq!((taken.as_ptr(), &taken[..]), (place, &pattern(TAKEN_MIN)[..]));
        let mut long = pattern(4 * TAKEN_MIN);
        long.truncate(TAKEN_MIN);
        let copied = Bytes::found(&mut FoundValue::new(long), WHAT).expect("memory");
        assert_eq!(copied.into_vec().capacity(), TAKEN_MIN);
    }

    #[test]
    fn it_goes_to_other_threads() {
        let all: Vec<_> = lengths().flat_map(|len| all_kinds(&pattern(len))).collect();
        thread::scope(|scope| {
            let (all, again) = (all.clone(), &all);
            scope.spawn(move || {
                assert_eq!(all, *again);
                drop(all);
            });
        });
        assert!(all.iter().all(|bytes| *bytes == pattern(bytes.len())));
    }
}
