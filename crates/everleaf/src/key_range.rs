//! Arguments of callers: byte strings, and ranges of them.
//!
//! Both traits are there for the compiler's sake. A method that took `impl RangeBounds<K>` could not find out `K` for
//! `&from..&to`, `..` and their like, and a type that is no byte string would be refused without a word of what to do.

use std::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

/// A byte string, as keys, values and the ends of ranges are: every type that is `AsRef<[u8]>`. These are text (`&str`,
/// `String`), `Vec<u8>`, `&[u8]`, `[u8; N]`, references to them, and types of your own that implement `AsRef<[u8]>`.
///
/// [`keys::encode`](crate::keys::encode) makes byte strings of numbers and tuples, in the order of their values.
/// `to_be_bytes` of an integer keeps the order, too, if all integers have one width and none is negative.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no byte string",
    label = "keys and values are byte strings: `&str`, `String`, `Vec<u8>`, `&[u8]`, `[u8; N]` and the like",
    note = "an integer, a float or a tuple becomes one by `everleaf::keys::encode(value)`, in the order of the values",
    note = "a type of your own is one if it implements `AsRef<[u8]>`"
)]
pub trait AsBytes: AsRef<[u8]> {
    /// Returns the bytes.
    fn as_bytes(&self) -> &[u8];
}

#[diagnostic::do_not_recommend]
impl<T: AsRef<[u8]> + ?Sized> AsBytes for T {
    #[inline(always)]
    fn as_bytes(&self) -> &[u8] {
        self.as_ref()
    }
}

/// A range of keys: the ranges of Rust of [byte strings](AsBytes), `..`, and pairs of [`Bound`]s.
///
/// Both ends have one type: `"a".."b"`, `&from..&to` of two `Vec<u8>`s or two `String`s. For ends of different types
/// or lengths there is [`between`].
///
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
/// use std::ops::Bound::{Excluded, Unbounded};
///
/// let tree = db.tree("t")?;
/// for key in ["a", "b", "c"] {
///     tree.put(key, "")?;
/// }
/// let (from, to) = (String::from("a"), String::from("b"));
/// assert_eq!(tree.range(&from..&to).count(), 1);
/// assert_eq!(tree.range(from..=to).count(), 2);
/// assert_eq!(tree.range((Excluded("a"), Unbounded)).count(), 2);
/// assert_eq!(tree.range(..).count(), 3);
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no range of keys",
    label = "a range of byte strings goes here",
    note = "`\"a\"..\"b\"`, `&from..&to`, `from..=to`, `..to`, `from..`, `..` and `(Bound, Bound)` are ranges of keys, if \
            their ends are byte strings: `&str`, `String`, `Vec<u8>`, `&[u8]`, `[u8; N]` and the like",
    note = "of integers take `keys::encode(from)..keys::encode(to)`",
    note = "`everleaf::between(from, to)` is a range whose ends differ in their types or lengths"
)]
pub trait KeyRange {
    /// Returns where the range begins.
    fn low(&self) -> Bound<&[u8]>;

    /// Returns where the range ends.
    fn high(&self) -> Bound<&[u8]>;
}

macro_rules! key_ranges {
    ($($range:ty),*) => {$(
        #[diagnostic::do_not_recommend]
        impl<K: AsBytes> KeyRange for $range {
            fn low(&self) -> Bound<&[u8]> {
                RangeBounds::<K>::start_bound(self).map(K::as_bytes)
            }

            fn high(&self) -> Bound<&[u8]> {
                RangeBounds::<K>::end_bound(self).map(K::as_bytes)
            }
        }
    )*};
}

key_ranges!(
    Range<K>,
    RangeInclusive<K>,
    RangeFrom<K>,
    RangeTo<K>,
    RangeToInclusive<K>,
    (Bound<K>, Bound<K>)
);

impl KeyRange for RangeFull {
    fn low(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }

    fn high(&self) -> Bound<&[u8]> {
        Bound::Unbounded
    }
}

/// Returns the range from `from` up to but without `to`, as `from..to` does. Its ends may have different types or lengths,
/// which the ends of Rust's own ranges cannot have.
///
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
/// use everleaf::between;
///
/// let tree = db.tree("fruit")?;
/// tree.put("apple", "red")?;
/// tree.put("pear", "green")?;
/// // b"apple"..b"pear" is no range for Rust: one end has 5 bytes, the other one 4.
/// assert_eq!(tree.range(between(b"apple", b"pear")).count(), 1);
/// assert_eq!(tree.range(between(String::from("b"), [0xFF])).count(), 1);
/// # Ok(())
/// # }
/// ```
pub fn between(from: impl AsBytes, to: impl AsBytes) -> impl KeyRange {
    Between { from, to }
}

struct Between<A, B> {
    from: A,
    to: B,
}

impl<A: AsBytes, B: AsBytes> KeyRange for Between<A, B> {
    fn low(&self) -> Bound<&[u8]> {
        Bound::Included(self.from.as_bytes())
    }

    fn high(&self) -> Bound<&[u8]> {
        Bound::Excluded(self.to.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bounds of what a method is given.
    fn bounds(range: impl KeyRange) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (range.low().map(<[u8]>::to_vec), range.high().map(<[u8]>::to_vec))
    }

    #[test]
    fn every_range_of_byte_strings_has_its_bounds() {
        use Bound::{Excluded, Included, Unbounded};
        let (a, b) = (b"a".to_vec(), b"b".to_vec());
        let half_open = (Included(a.clone()), Excluded(b.clone()));
        assert_eq!(bounds("a".."b"), half_open);
        assert_eq!(bounds(String::from("a")..String::from("b")), half_open);
        assert_eq!(bounds(&String::from("a")..&String::from("b")), half_open);
        assert_eq!(bounds(&a..&b), half_open);
        assert_eq!(bounds(a.clone()..b.clone()), half_open);
        assert_eq!(bounds(&a[..]..&b[..]), half_open);
        assert_eq!(bounds(b"a"..b"b"), half_open);
        assert_eq!(bounds(*b"a"..*b"b"), half_open);
        assert_eq!(bounds(&&a..&&b), half_open);
        assert_eq!(bounds(between("a", &b)), half_open);
        assert_eq!(bounds("a"..="b"), (Included(a.clone()), Included(b.clone())));
        assert_eq!(bounds(&a..), (Included(a.clone()), Unbounded));
        assert_eq!(
            bounds(..&7_u64.to_be_bytes()),
            (Unbounded, Excluded(vec![0, 0, 0, 0, 0, 0, 0, 7]))
        );
        assert_eq!(bounds(..="b"), (Unbounded, Included(b.clone())));
        assert_eq!(bounds(..), (Unbounded, Unbounded));
        assert_eq!(bounds((Excluded("a"), Included("b"))), (Excluded(a), Included(b.clone())));
        assert_eq!(bounds((Unbounded, Excluded(&b))), (Unbounded, Excluded(b)));
    }
}
