//! Keys of numbers, strings and tuples, in the order of their values.
//!
//! A tree sorts its keys byte by byte. [`encode`] makes bytes whose order is that of the values, whatever their lengths
//! and signs, and [`decode`] gives the values back:
//!
//! ```
//! use everleaf::keys;
//!
//! # fn main() -> everleaf::Result<()> {
//! # let db = everleaf::Db::in_memory()?;
//! let orders = db.tree("orders")?;
//! for (customer, number) in [("ada", 9), ("ada", 10), ("adalbert", 1), ("bob", -1)] {
//!     orders.put(keys::encode((customer, number)), "")?;
//! }
//! // All orders of one customer, in the order of their numbers.
//! let mut numbers = Vec::new();
//! for key in orders.range(keys::starting_with(("ada",))).keys() {
//!     let (_, number): (String, i32) = keys::decode(key?)?;
//!     numbers.push(number);
//! }
//! assert_eq!(numbers, [9, 10]);
//! # Ok(())
//! # }
//! ```
//!
//! # The encoding
//!
//! The bytes are those of FoundationDB's tuple layer
//! ([specification](https://github.com/apple/foundationdb/blob/main/design/tuple.md)), so programs in other languages
//! can read and write them. Each element has a type code and then its bytes:
//!
//! | value | bytes |
//! |---|---|
//! | `None` | `00` |
//! | byte string: `[u8]`, `Vec<u8>`, `[u8; N]` | `01`, the bytes with `00 FF` for each `00`, `00` |
//! | text: `str`, `String` | `02`, its UTF-8 with `00 FF` for each `00`, `00` |
//! | tuple within a tuple | `05`, its elements with `00 FF` for `None`, `00` |
//! | integer < 0 of *n* bytes | `14` − *n*, the bytes of its absolute value, the highest one first, all bits flipped; from 9 bytes on `0B`, *n* flipped, these bytes |
//! | integer 0 | `14` |
//! | integer > 0 of *n* bytes | `14` + *n*, its bytes, the highest one first; from 9 bytes on `1D`, *n*, these bytes |
//! | `f32`, `f64` | `20` or `21`, its bits, the highest byte first; all bits are flipped if the sign bit is set, else the sign bit alone |
//! | `false`, `true` | `26`, `27` |
//!
//! A key is a tuple, and its bytes are those of its elements in a row. A single value is the same as a tuple of one.
//!
//! # Order
//!
//! - **Integers** of all widths and both signs sort by their value and have one encoding: `7_u8` and `7_i64` are the same
//!   key. Small numbers are short.
//! - **Floats** sort as [`f64::total_cmp`] does: −NaN, −∞, …, −0.0, 0.0, …, ∞, NaN. `-0.0` and `0.0` are two keys, and so
//!   are NaNs of different bits; all come back bit by bit. An `f32` and an `f64` never are the same key, and each `f32`
//!   comes before each `f64`.
//! - **Texts and byte strings** sort byte by byte, a prefix before its extensions. They may contain zero bytes. A text
//!   never is the same key as a byte string.
//! - **Tuples** sort by their first element, then by the second, and so on; one that ends comes before those that go on.
//! - **`None`** comes before all values, `false` before `true`.
//! - Elements of different types sort as the table above has them.
//!
//! The bytes of one element may be the beginning of another's: those of text `"a"` are, of text `"a\0b"`. But then `FF`
//! comes next, and no element begins with `FF`. So [`starting_with`] finds exactly the tuples that begin with given
//! elements.

use std::ops::Bound;

use everleaf_pmem::fallible;

use crate::{AsBytes, Bytes, Error, KeyRange, Result};
use sealed::{NotNull, Put, Reader, Take, Within};

const NULL: u8 = 0x00;
const BYTES: u8 = 0x01;
const TEXT: u8 = 0x02;
const TUPLE: u8 = 0x05;
/// Negative integers of more than 8 bytes.
const LONG_NEGATIVE: u8 = 0x0B;
const ZERO: u8 = 0x14;
/// Positive integers of more than 8 bytes.
const LONG_POSITIVE: u8 = 0x1D;
const F32: u8 = 0x20;
const F64: u8 = 0x21;
const FALSE: u8 = 0x26;
const TRUE: u8 = 0x27;
/// Ends byte strings, texts and inner tuples.
const END: u8 = 0x00;
/// Behind an `END` that ends nothing. No type has this code.
const ESCAPE: u8 = 0xFF;

/// So many bytes has an integer whose type code says its length.
const SHORT_BYTES: usize = 8;

/// Encodes a value as a key. The order of keys is that of the values: [the module](self) says more. O(bytes).
///
/// The key is as long as the value needs, and a tree refuses it if that is more than
/// [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX). Its memory is allocated as that of every `Vec`: if there is none, the process
/// ends.
///
/// ```
/// use everleaf::keys;
///
/// assert_eq!(keys::encode(("F\u{d4}O\0bar", -1, None::<u8>)), b"\x02F\xC3\x94O\x00\xFFbar\x00\x13\xFE\x00");
/// assert!(keys::encode(-300) < keys::encode(-2) && keys::encode(9) < keys::encode(10_000_000_000_u64));
/// assert_eq!(keys::encode(7_u8), keys::encode((7_i64,)));
/// ```
pub fn encode(value: impl Encode) -> Vec<u8> {
    let mut key = Vec::new();
    encode_into(value, &mut key);
    key
}

/// Appends the [encoding](encode) of a value to `key`, whose memory is used again. O(bytes).
///
/// ```
/// use everleaf::keys;
///
/// let mut key = keys::encode("sensor");
/// keys::encode_into(17_u32, &mut key);
/// assert_eq!(key, keys::encode(("sensor", 17)));
/// ```
pub fn encode_into(value: impl Encode, key: &mut Vec<u8>) {
    value.put_key(key);
}

/// Decodes a value from all bytes of a key. O(bytes).
///
/// Each key has one value: bytes that [`encode`] would not have made are refused, so that two keys never decode to the same
/// value of one type.
///
/// # Errors
///
/// - [`KeyEncoding`](Error::KeyEncoding) if the key does not hold a value of this type, with the byte at which it does
///   not.
/// - [`NoMemory`](Error::NoMemory) if an allocation failed.
///
/// ```
/// use everleaf::{Error, keys};
///
/// # fn main() -> everleaf::Result<()> {
/// let key = keys::encode(("ada", 36_u8, Some(1.5)));
/// let (name, age, size): (String, u64, Option<f64>) = keys::decode(&key)?;
/// assert_eq!((name.as_str(), age, size), ("ada", 36, Some(1.5)));
///
/// let cut_off = keys::decode::<(String, u64, f64)>(&key[..9]);
/// assert!(matches!(cut_off, Err(Error::KeyEncoding { offset: 9, .. })));
/// # Ok(())
/// # }
/// ```
pub fn decode<T: Decode>(key: impl AsBytes) -> Result<T> {
    let key = key.as_bytes();
    let (value, rest) = decode_first(key)?;
    match rest {
        [] => Ok(value),
        rest => {
            let offset = key.len() - rest.len();
            Err(refused(offset, "the key goes on behind its last element".into()))
        }
    }
}

/// Decodes the first elements of a key, and returns them and the bytes behind them, which are a key of the other
/// elements. O(bytes) of these elements.
///
/// # Errors
///
/// Those of [`decode`].
///
/// ```
/// use everleaf::keys;
///
/// # fn main() -> everleaf::Result<()> {
/// let key = keys::encode(("circle", 2.5, "red"));
/// let (kind, rest) = keys::decode_first::<String>(&key)?;
/// assert_eq!(kind, "circle");
/// assert_eq!(keys::decode::<(f64, String)>(rest)?, (2.5, "red".into()));
/// # Ok(())
/// # }
/// ```
pub fn decode_first<T: Decode>(key: &[u8]) -> Result<(T, &[u8])> {
    let mut from = Reader { key, at: 0 };
    let value = T::take_key(&mut from)?;
    Ok((value, &key[from.at..]))
}

/// Returns the range of the keys of all tuples that begin with these elements: the tuple of these elements alone, and
/// all longer ones. A single value stands for a tuple of one.
///
/// It is not the range of the keys that begin with the same bytes: the tuple of text `"a\0b"` does not begin with text
/// `"a"`, though its bytes do.
///
/// ```
/// use everleaf::keys;
///
/// # fn main() -> everleaf::Result<()> {
/// # let db = everleaf::Db::in_memory()?;
/// let points = db.tree("points")?;
/// for (sensor, time) in [("cellar", 1), ("cellar", 2), ("cellar\0door", 1), ("roof", 1)] {
///     points.put(keys::encode((sensor, time)), "")?;
/// }
/// assert_eq!(points.range(keys::starting_with("cellar")).count(), 2);
/// assert_eq!(points.range(keys::starting_with(("cellar", 2))).count(), 1);
/// assert_eq!(points.remove_range(keys::starting_with("roof"))?, 1);
/// # Ok(())
/// # }
/// ```
pub fn starting_with(elements: impl Encode) -> impl KeyRange + Clone {
    let low = encode(elements);
    // No element begins with this byte, and it says of a zero byte before it that it ends nothing.
    let high = [&low[..], &[ESCAPE]].concat();
    StartingWith { low, high }
}

#[derive(Clone)]
struct StartingWith {
    low: Vec<u8>,
    high: Vec<u8>,
}

impl KeyRange for StartingWith {
    fn low(&self) -> Bound<&[u8]> {
        Bound::Included(&self.low)
    }

    fn high(&self) -> Bound<&[u8]> {
        Bound::Excluded(&self.high)
    }
}

/// A value that [`encode`] makes a key of: integers, floats, `bool`, text, byte strings, `Option`s of them, tuples of up to
/// eight of them, also within each other, and references to all of these. An `Option` within an `Option` is refused, since
/// both would have the same `None`. Other types cannot implement this.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be encoded as a key",
    label = "keys are made of integers, floats, `bool`, text, byte strings, `Option`s and tuples of up to eight of them",
    note = "of a type of your own, encode a tuple of its fields"
)]
pub trait Encode: Put {}

#[diagnostic::do_not_recommend]
impl<T: Put + ?Sized> Encode for T {}

/// A value that [`decode`] makes of a key: the types of [`Encode`] that own their bytes, such as `String`, `Vec<u8>` and
/// `[u8; N]`. Other types cannot implement this.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be decoded from a key",
    label = "keys are decoded to integers, floats, `bool`, `String`, `Vec<u8>`, `[u8; N]`, `Option`s and tuples of up to eight of them",
    note = "text becomes a `String`, and a byte string a `Vec<u8>` or a `[u8; N]`"
)]
pub trait Decode: Take {}

#[diagnostic::do_not_recommend]
impl<T: Take> Decode for T {}

mod sealed {
    use super::Result;

    /// A key that is being decoded.
    pub struct Reader<'k> {
        pub(super) key: &'k [u8],
        /// So many bytes are decoded.
        pub(super) at: usize,
    }

    /// Where an element is.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub enum Within {
        /// In the key itself.
        Key,
        /// In a tuple that is an element, where a null is escaped.
        Tuple,
    }

    pub trait Put {
        /// Appends the value as an element.
        fn put(&self, key: &mut Vec<u8>, within: Within);

        /// Appends the value as a whole key.
        fn put_key(&self, key: &mut Vec<u8>) {
            self.put(key, Within::Key);
        }
    }

    /// A type that no null stands for, so that an `Option` of it has a null of its own.
    pub trait NotNull {}

    pub trait Take: Sized {
        /// Takes an element.
        fn take(from: &mut Reader<'_>, within: Within) -> Result<Self>;

        /// Takes a whole key.
        fn take_key(from: &mut Reader<'_>) -> Result<Self> {
            Self::take(from, Within::Key)
        }
    }
}

#[cold]
fn refused(offset: usize, what: String) -> Error {
    Error::KeyEncoding { offset: offset as u64, what }
}

impl<'k> Reader<'k> {
    /// The type code of the next element, which is to be of a type.
    fn peek(&self, wanted: &str) -> Result<u8> {
        let ended = || refused(self.at, format!("the key ends before {wanted}"));
        self.key.get(self.at).copied().ok_or_else(ended)
    }

    /// Passes the type code of the next element, which is to be this one.
    fn expect(&mut self, code: u8, wanted: &str) -> Result<()> {
        let found = self.peek(wanted)?;
        if found != code {
            return Err(self.mismatch(found, wanted));
        }
        self.at += 1;
        Ok(())
    }

    #[cold]
    fn mismatch(&self, found: u8, wanted: &str) -> Error {
        refused(self.at, format!("{wanted} was expected, and type code {found:#04x} was found"))
    }

    /// So many bytes of an element.
    fn bytes(&mut self, len: usize, wanted: &str) -> Result<&'k [u8]> {
        let rest = &self.key[self.at..];
        let Some(bytes) = rest.get(..len) else {
            let what = format!("the key ends within {wanted}, after {} of {len} bytes", rest.len());
            return Err(refused(self.key.len(), what));
        };
        self.at += len;
        Ok(bytes)
    }

    /// The bytes of an element that are escaped.
    fn escaped(&mut self, wanted: &str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            let rest = &self.key[self.at..];
            let Some(zero) = rest.iter().position(|&byte| byte == END) else {
                let what =
                    format!("the key ends within {wanted}, before the zero byte that ends it");
                return Err(refused(self.key.len(), what));
            };
            let is_escaped = rest.get(zero + 1) == Some(&ESCAPE);
            let part = &rest[..zero + usize::from(is_escaped)];
            fallible::append(&mut bytes, part, "an element of a key")?;
            self.at += zero + 1 + usize::from(is_escaped);
            if !is_escaped {
                return Ok(bytes);
            }
        }
    }

    /// Passes a null if the next element is one.
    fn null(&mut self, within: Within) -> bool {
        let null: &[u8] = if within == Within::Tuple { &[NULL, ESCAPE] } else { &[NULL] };
        let is_null = self.key[self.at..].starts_with(null);
        self.at += if is_null { null.len() } else { 0 };
        is_null
    }
}

fn put_escaped(key: &mut Vec<u8>, code: u8, bytes: &[u8]) {
    key.reserve(bytes.len() + 2);
    key.push(code);
    for (n, part) in bytes.split(|&byte| byte == END).enumerate() {
        if n > 0 {
            key.extend_from_slice(&[END, ESCAPE]);
        }
        key.extend_from_slice(part);
    }
    key.push(END);
}

/// Appends an integer by its sign and its absolute value.
fn put_integer(key: &mut Vec<u8>, is_negative: bool, magnitude: u128) {
    let bytes = magnitude.to_be_bytes();
    let bytes = &bytes[magnitude.leading_zeros() as usize / 8..];
    let flip = if is_negative { 0xFF } else { 0 };
    let len = bytes.len() as u8;
    match (bytes.len() <= SHORT_BYTES, is_negative) {
        (true, true) => key.push(ZERO - len),
        (true, false) => key.push(ZERO + len),
        (false, true) => key.extend_from_slice(&[LONG_NEGATIVE, !len]),
        (false, false) => key.extend_from_slice(&[LONG_POSITIVE, len]),
    }
    key.extend(bytes.iter().map(|byte| byte ^ flip));
}

/// Takes an integer: whether it is negative, and its absolute value.
fn take_integer(from: &mut Reader<'_>, wanted: &str) -> Result<(bool, u128)> {
    let (start, code) = (from.at, from.peek(wanted)?);
    if !(LONG_NEGATIVE..=LONG_POSITIVE).contains(&code) {
        return Err(from.mismatch(code, wanted));
    }
    from.at += 1;
    let is_negative = code < ZERO;
    let flip = if is_negative { 0xFF } else { 0 };
    let (len, is_long) = match code {
        LONG_NEGATIVE | LONG_POSITIVE => (usize::from(from.bytes(1, wanted)?[0] ^ flip), true),
        code => (usize::from(code.abs_diff(ZERO)), false),
    };
    let digits = from.bytes(len, wanted)?;
    if (is_long && len <= SHORT_BYTES) || digits.first().is_some_and(|byte| byte ^ flip == 0) {
        return Err(refused(start, format!("{wanted} has a shorter encoding than this one")));
    }
    if len > size_of::<u128>() {
        let what = format!("{wanted} was expected, and one of {len} bytes was found");
        return Err(refused(start, what));
    }
    let digit = |sum, byte: &u8| sum << 8 | u128::from(byte ^ flip);
    Ok((is_negative, digits.iter().fold(0, digit)))
}

/// The value of an integer, if it can be negative and fits.
fn signed((is_negative, magnitude): (bool, u128)) -> Option<i128> {
    if is_negative { 0_i128.checked_sub_unsigned(magnitude) } else { magnitude.try_into().ok() }
}

/// The value of an integer, if it is not negative.
fn unsigned((is_negative, magnitude): (bool, u128)) -> Option<u128> {
    (!is_negative).then_some(magnitude)
}

macro_rules! integers {
    ($sign:ident, |$n:ident| $parts:expr; $($int:ident),*) => {$(
        impl Put for $int {
            #[allow(clippy::unnecessary_cast)] // Of one of them it is.
            fn put(&self, key: &mut Vec<u8>, _: Within) {
                let $n = *self;
                let (is_negative, magnitude) = $parts;
                put_integer(key, is_negative, magnitude);
            }
        }

        impl NotNull for $int {}

        impl Take for $int {
            fn take(from: &mut Reader<'_>, _: Within) -> Result<Self> {
                const WANTED: &str = concat!("an integer of ", stringify!($int));
                let start = from.at;
                let parts @ (is_negative, magnitude) = take_integer(from, WANTED)?;
                let outside = || {
                    let minus = if is_negative { "-" } else { "" };
                    let int = stringify!($int);
                    refused(start, format!("the integer {minus}{magnitude} does not fit {int}"))
                };
                $sign(parts).and_then(|value| value.try_into().ok()).ok_or_else(outside)
            }
        }
    )*};
}

integers!(unsigned, |n| (false, n as u128); u8, u16, u32, u64, u128, usize);
integers!(signed, |n| (n < 0, n.unsigned_abs() as u128); i8, i16, i32, i64, i128, isize);

macro_rules! floats {
    ($($float:ident, $bits:ident, $code:expr);*) => {$(
        impl Put for $float {
            fn put(&self, key: &mut Vec<u8>, _: Within) {
                let (bits, sign) = (self.to_bits(), 1 << ($bits::BITS - 1));
                let ordered = if bits & sign == 0 { bits ^ sign } else { !bits };
                key.push($code);
                key.extend_from_slice(&ordered.to_be_bytes());
            }
        }

        impl NotNull for $float {}

        impl Take for $float {
            fn take(from: &mut Reader<'_>, _: Within) -> Result<Self> {
                const WANTED: &str = concat!("a float of ", stringify!($float));
                from.expect($code, WANTED)?;
                let mut bytes = [0; size_of::<$bits>()];
                bytes.copy_from_slice(from.bytes(size_of::<$bits>(), WANTED)?);
                let (ordered, sign) = ($bits::from_be_bytes(bytes), 1 << ($bits::BITS - 1));
                Ok($float::from_bits(if ordered & sign == 0 { !ordered } else { ordered ^ sign }))
            }
        }
    )*};
}

floats!(f32, u32, F32; f64, u64, F64);

impl Put for bool {
    fn put(&self, key: &mut Vec<u8>, _: Within) {
        key.push(if *self { TRUE } else { FALSE });
    }
}

impl NotNull for bool {}

impl Take for bool {
    fn take(from: &mut Reader<'_>, _: Within) -> Result<Self> {
        const WANTED: &str = "`true` or `false`";
        match from.peek(WANTED)? {
            code @ (FALSE | TRUE) => {
                from.at += 1;
                Ok(code == TRUE)
            }
            found => Err(from.mismatch(found, WANTED)),
        }
    }
}

macro_rules! strings {
    ($code:ident: $([$($n:tt)*] $string:ty),*) => {$(
        impl<$($n)*> Put for $string {
            fn put(&self, key: &mut Vec<u8>, _: Within) {
                put_escaped(key, $code, self.as_ref());
            }
        }

        impl<$($n)*> NotNull for $string {}
    )*};
}

strings!(TEXT: [] str, [] String);
strings!(BYTES: [] [u8], [] Vec<u8>, [] Bytes, [const N: usize] [u8; N]);

impl Take for String {
    fn take(from: &mut Reader<'_>, _: Within) -> Result<Self> {
        let start = from.at;
        from.expect(TEXT, "text")?;
        let bytes = from.escaped("text")?;
        String::from_utf8(bytes).map_err(|_| refused(start, "text is not UTF-8".into()))
    }
}

impl Take for Vec<u8> {
    fn take(from: &mut Reader<'_>, _: Within) -> Result<Self> {
        from.expect(BYTES, "a byte string")?;
        from.escaped("a byte string")
    }
}

impl<const N: usize> Take for [u8; N] {
    fn take(from: &mut Reader<'_>, within: Within) -> Result<Self> {
        let start = from.at;
        let outside = |bytes: Vec<u8>| {
            refused(
                start,
                format!("a byte string of {N} bytes was expected, and has {}", bytes.len()),
            )
        };
        Vec::take(from, within)?.try_into().map_err(outside)
    }
}

impl<T: Put + ?Sized> Put for &T {
    fn put(&self, key: &mut Vec<u8>, within: Within) {
        T::put(self, key, within);
    }

    fn put_key(&self, key: &mut Vec<u8>) {
        T::put_key(self, key);
    }
}

impl<T: NotNull + ?Sized> NotNull for &T {}

impl<T: Put + NotNull> Put for Option<T> {
    fn put(&self, key: &mut Vec<u8>, within: Within) {
        match (self, within) {
            (Some(value), _) => value.put(key, within),
            (None, Within::Key) => key.push(NULL),
            (None, Within::Tuple) => key.extend_from_slice(&[NULL, ESCAPE]),
        }
    }
}

impl<T: Take + NotNull> Take for Option<T> {
    fn take(from: &mut Reader<'_>, within: Within) -> Result<Self> {
        if from.null(within) { Ok(None) } else { T::take(from, within).map(Some) }
    }
}

macro_rules! tuples {
    ($($($element:ident)*;)*) => {$(
        #[allow(non_snake_case, unused_variables, clippy::unused_unit)]
        impl<$($element: Put),*> Put for ($($element,)*) {
            fn put(&self, key: &mut Vec<u8>, _: Within) {
                let ($($element,)*) = self;
                key.push(TUPLE);
                $($element.put(key, Within::Tuple);)*
                key.push(END);
            }

            fn put_key(&self, key: &mut Vec<u8>) {
                let ($($element,)*) = self;
                $($element.put(key, Within::Key);)*
            }
        }

        impl<$($element),*> NotNull for ($($element,)*) {}

        #[allow(unused_variables, clippy::unused_unit)]
        impl<$($element: Take),*> Take for ($($element,)*) {
            fn take(from: &mut Reader<'_>, _: Within) -> Result<Self> {
                from.expect(TUPLE, "a tuple")?;
                let tuple = ($($element::take(from, Within::Tuple)?,)*);
                from.expect(END, "the end of a tuple")?;
                Ok(tuple)
            }

            fn take_key(from: &mut Reader<'_>) -> Result<Self> {
                Ok(($($element::take(from, Within::Key)?,)*))
            }
        }
    )*};
}

tuples!(
    ;
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
);
