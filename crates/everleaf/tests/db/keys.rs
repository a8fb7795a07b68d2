//! Keys of values: their bytes are those of the specification, their order is that of the values, and what was not
//! encoded is refused with a place and never with a panic.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::ops::Bound;

use everleaf::keys::{self, Decode, Encode};
use everleaf::{Db, Error, KeyRange};
use proptest::prelude::*;

/// The cases of the specification, and what FoundationDB's Python binding makes of integers of more than 8 bytes.
#[test]
fn bytes_are_those_of_the_tuple_layer() {
    let is = |value: Vec<u8>, bytes: &[u8]| assert_eq!(value, bytes, "{bytes:02x?}");
    is(keys::encode((b"foo\0bar",)), b"\x01foo\x00\xFFbar\x00");
    is(keys::encode(("F\u{d4}O\0bar",)), b"\x02F\xC3\x94O\x00\xFFbar\x00");
    let inner = (&b"foo\0bar"[..], None::<u8>, ());
    is(keys::encode((inner,)), b"\x05\x01foo\x00\xFFbar\x00\x00\xFF\x05\x00\x00");
    is(keys::encode((-5_551_212,)), b"\x11\xABK\x93");
    is(keys::encode((-42_f32,)), b"\x20\x3D\xD7\xFF\xFF");
    is(keys::encode(0), b"\x14");
    is(keys::encode(-1), b"\x13\xFE");
    is(keys::encode(255_u8), b"\x15\xFF");
    is(keys::encode(256), b"\x16\x01\x00");
    is(keys::encode(u64::MAX), b"\x1C\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF");
    is(keys::encode(1_u128 << 64), b"\x1D\x09\x01\0\0\0\0\0\0\0\0");
    is(keys::encode(-i128::from(u64::MAX)), b"\x0C\0\0\0\0\0\0\0\0");
    is(keys::encode(-(1_i128 << 64)), b"\x0B\xF6\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF");
    is(keys::encode((1.0, false, true, None::<bool>)), b"\x21\xBF\xF0\0\0\0\0\0\0\x26\x27\x00");
    is(keys::encode(()), b"");
    is(keys::encode(((),)), b"\x05\x00");
}

fn is_same<T: Encode + Decode + PartialEq + Debug>(value: &T) -> Vec<u8> {
    let key = keys::encode(value);
    assert_eq!(&keys::decode::<T>(&key).expect("it was encoded"), value);
    // As an element of a tuple it has other bytes.
    let inner = keys::encode(((value,), 7));
    let ((again,), 7) = keys::decode::<((T,), u8)>(&inner).expect("it was encoded") else {
        panic!("{inner:02x?} has lost its last element");
    };
    assert_eq!(&again, value);
    key
}

#[test]
fn integers_of_all_widths_sort_by_their_value() {
    let mut all = vec![i128::MIN, i128::MAX];
    for bits in 0..127 {
        let power = 1_i128 << bits;
        all.extend([power - 1, power, power + 1].into_iter().flat_map(|n| [n, -n]));
    }
    all.sort_unstable();
    all.dedup();
    let mut last = Vec::new();
    for n in all {
        let key = is_same(&n);
        assert!(last < key, "{n}");
        last = key;
        macro_rules! narrower {
            ($($int:ident)*) => {$(
                match $int::try_from(n) {
                    Ok(narrow) => assert_eq!(is_same(&narrow), last, "{n} as {}", stringify!($int)),
                    Err(_) => {
                        let refused = keys::decode::<$int>(&last);
                        assert!(matches!(refused, Err(Error::KeyEncoding { offset: 0, .. })), "{n}");
                    }
                }
            )*};
        }
        narrower!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 isize);
    }
    assert!(last < is_same(&u128::MAX));
}

/// A float with its total order.
#[derive(Debug, Clone, Copy)]
struct Total(f64);

impl PartialEq for Total {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

#[test]
fn floats_sort_by_their_total_order_and_keep_their_bits() {
    let bits = [0, 1, 2, f64::MIN_POSITIVE.to_bits(), 1.0_f64.to_bits(), 1.5_f64.to_bits()];
    let bits = bits.into_iter().chain([f64::MAX, f64::INFINITY, f64::NAN].map(f64::to_bits));
    let bits = bits.chain([f64::NAN.to_bits() + 1, u64::MAX >> 1]);
    let mut all: Vec<f64> =
        bits.flat_map(|bits| [bits, bits | 1 << 63]).map(f64::from_bits).collect();
    all.sort_by(f64::total_cmp);
    for two in all.windows(2) {
        let [a, b] = [two[0], two[1]].map(keys::encode);
        assert!(a < b, "{two:?}");
        assert_eq!(Total(keys::decode(&a).expect("encoded")), Total(two[0]));
    }
    for n in [0_u32, 1 << 31, 1, f32::NAN.to_bits(), f32::NEG_INFINITY.to_bits(), u32::MAX] {
        let back: f32 = keys::decode(keys::encode(f32::from_bits(n))).expect("encoded");
        assert_eq!(back.to_bits(), n);
    }
    assert!(keys::encode(-0.0) < keys::encode(0.0));
    assert!(keys::encode(f32::INFINITY) < keys::encode(f64::NEG_INFINITY));
}

#[test]
fn types_sort_as_the_documentation_says() {
    let all = [
        keys::encode(None::<u8>),
        keys::encode(b"\xFF\xFF"),
        keys::encode(""),
        keys::encode("\u{10FFFF}"),
        keys::encode(((),)),
        keys::encode((("z", 9),)),
        keys::encode(i128::MIN),
        keys::encode(u128::MAX),
        keys::encode(-f32::NAN),
        keys::encode(-f64::NAN),
        keys::encode(false),
        keys::encode(true),
    ];
    assert!(all.is_sorted_by(|a, b| a < b), "{all:02x?}");
}

/// A tuple of everything.
type All = (Option<String>, Vec<u8>, (Option<i64>, (String, Option<()>)), u128, bool, [u8; 2]);

/// Few letters, so that texts are often equal, or each other's prefixes.
fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof![Just('\0'), Just('\u{1}'), Just('a'), Just('\u{ff}')],
        0..4,
    )
    .prop_map(|letters| letters.into_iter().collect())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(prop_oneof![Just(0), Just(1), Just(0xFE), Just(0xFF)], 0..4)
}

/// Numbers of all lengths, often near to where a length ends.
fn number() -> impl Strategy<Value = i64> {
    (any::<i64>(), 0..64_u32, -2..3_i64).prop_map(|(n, bits, near)| match near {
        0 => n >> bits,
        near => (1_i64 << (bits % 63)).wrapping_add(near).wrapping_mul(n.signum()),
    })
}

fn all() -> impl Strategy<Value = All> {
    let inner = (proptest::option::of(number()), (text(), proptest::option::of(Just(()))));
    let wide =
        (number(), 0..80_u32).prop_map(|(n, bits)| u128::from(n.unsigned_abs()) << (bits % 65));
    let two = prop_oneof![Just([0, 0]), Just([0, 0xFF]), Just([1, 0])];
    (proptest::option::of(text()), bytes(), inner, wide, any::<bool>(), two)
}

fn is_in(range: &impl KeyRange, key: &[u8]) -> bool {
    let above = match range.low() {
        Bound::Included(low) => key >= low,
        other => panic!("{other:?}"),
    };
    let below = match range.high() {
        Bound::Excluded(high) => key < high,
        other => panic!("{other:?}"),
    };
    above && below
}

/// Decodes bytes that may be anything to a type: what is accepted is just what would have been encoded.
fn decode_any<T: Encode + Decode>(key: &[u8]) -> bool {
    match keys::decode::<T>(key) {
        Ok(value) => {
            assert_eq!(keys::encode(&value), key, "another key has the same value");
            true
        }
        Err(Error::KeyEncoding { offset, what }) => {
            assert!(offset <= key.len() as u64 && !what.is_empty(), "{offset} of {key:02x?}");
            false
        }
        Err(other) => panic!("{key:02x?}: {other}"),
    }
}

/// To every type that there is.
fn decode_all(key: &[u8]) -> usize {
    let decoders: [fn(&[u8]) -> bool; 16] = [
        decode_any::<All>,
        decode_any::<()>,
        decode_any::<((),)>,
        decode_any::<u8>,
        decode_any::<i64>,
        decode_any::<u128>,
        decode_any::<i128>,
        decode_any::<f32>,
        decode_any::<f64>,
        decode_any::<bool>,
        decode_any::<String>,
        decode_any::<Vec<u8>>,
        decode_any::<[u8; 3]>,
        decode_any::<Option<(Option<String>,)>>,
        decode_any::<(String, i64)>,
        decode_any::<((Option<Vec<u8>>, (u8,)), Option<f64>)>,
    ];
    decoders.iter().filter(|decode| decode(key)).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_order_of_keys_is_that_of_their_values(a in all(), b in all()) {
        let order = keys::encode(&a).cmp(&keys::encode(&b));
        prop_assert_eq!(order, a.cmp(&b));
        is_same(&a);
        // Alone, and where one ends before the other.
        prop_assert_eq!(keys::encode(&a.0).cmp(&keys::encode(&b.0)), a.0.cmp(&b.0));
        prop_assert_eq!(keys::encode(&a.2).cmp(&keys::encode(&b.2)), a.2.cmp(&b.2));
        prop_assert_eq!(keys::encode((&a.0, &a.1)).cmp(&keys::encode(&a)), Ordering::Less);
    }

    #[test]
    fn the_range_of_elements_has_all_that_begin_with_them_and_nothing_else(
        a in (text(), bytes(), proptest::option::of(text()), number()),
        b in (text(), bytes(), proptest::option::of(text()), number()),
    ) {
        let key = keys::encode(&b);
        prop_assert_eq!(is_in(&keys::starting_with(&a.0), &key), a.0 == b.0);
        let two = (&a.0, &a.1);
        prop_assert_eq!(is_in(&keys::starting_with(two), &key), two == (&b.0, &b.1));
        let three = (&a.0, &a.1, &a.2);
        prop_assert_eq!(is_in(&keys::starting_with(three), &key), three == (&b.0, &b.1, &b.2));
        prop_assert_eq!(is_in(&keys::starting_with(&a), &key), a == b);
        // Its own beginnings, and the range of nothing, which has all.
        prop_assert!(is_in(&keys::starting_with((&b.0, &b.1, &b.2)), &key));
        prop_assert!(is_in(&keys::starting_with(()), &key));
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(key in proptest::collection::vec(any::<u8>(), 0..40)) {
        decode_all(&key);
    }

    #[test]
    fn damaged_keys_are_decoded_or_refused(
        value in all(), at in any::<proptest::sample::Index>(), byte in any::<u8>(), kind in 0..4_u8,
    ) {
        let mut key = keys::encode(&value);
        let at = at.index(key.len());
        match kind {
            0 => key[at] = byte,
            1 => key.insert(at, byte),
            2 => drop(key.remove(at)),
            _ => key.truncate(at),
        }
        if kind == 3 {
            prop_assert!(!decode_any::<All>(&key), "all of it was needed");
        }
        decode_all(&key);
    }
}

#[test]
fn a_refused_key_says_where_and_why() {
    let why = |refused: everleaf::Result<()>| refused.expect_err("refused").to_string();
    let key = keys::encode(("ada", 300));
    let decoded = keys::decode::<(String, u8)>(&key).map(drop);
    assert_eq!(
        why(decoded),
        "a key cannot be decoded at its byte 5: the integer 300 does not fit u8"
    );
    assert_eq!(
        why(keys::decode::<u128>(keys::encode(-7)).map(drop)),
        "a key cannot be decoded at its byte 0: the integer -7 does not fit u128"
    );
    assert_eq!(
        why(keys::decode::<i8>([&b"\x1D\x11"[..], &[1; 17]].concat()).map(drop)),
        "a key cannot be decoded at its byte 0: an integer of i8 was expected, and one of 17 bytes was found"
    );
    assert_eq!(
        why(keys::decode::<(String, String)>(&key).map(drop)),
        "a key cannot be decoded at its byte 5: text was expected, and type code 0x16 was found"
    );
    assert_eq!(
        why(keys::decode::<String>(&key).map(drop)),
        "a key cannot be decoded at its byte 5: the key goes on behind its last element"
    );
    assert_eq!(
        why(keys::decode::<(String, i32)>(&key[..3]).map(drop)),
        "a key cannot be decoded at its byte 3: the key ends within text, before the zero byte that ends it"
    );
    // A longer way to write 0, 5, −5 and 2^40, and lengths that do not fit.
    for key in [
        &b"\x15\x00"[..],
        b"\x16\x00\x05",
        b"\x12\xFF\xFA",
        b"\x1D\x06\x01\0\0\0\0\0",
        b"\x1D\x00",
        b"\x0B\xFF",
        b"\x1D\x11\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"\x1D\xFF\x01",
        b"\x0B",
    ] {
        assert_eq!(decode_all(key), 0, "{key:02x?}");
    }
    assert_eq!(decode_all(b"\x02\xC3\x00"), 0, "it is not UTF-8");
}

#[test]
fn a_tree_has_the_order_of_the_values() -> everleaf::Result<()> {
    let db = Db::in_memory()?;
    let tree = db.tree("t")?;
    let mut values: Vec<(i64, String)> = Vec::new();
    for number in [-70_000, -256, -1, 0, 1, 255, 256, i64::MAX, i64::MIN] {
        for text in ["", "a", "a\0", "ab"] {
            tree.put(keys::encode((number, text)), "")?;
            values.push((number, text.into()));
        }
    }
    values.sort();
    let stored: Vec<(i64, String)> =
        tree.keys().map(|key| keys::decode(key?)).collect::<everleaf::Result<_>>()?;
    assert_eq!(stored, values);
    let from_to = keys::encode(-1)..keys::encode(256);
    assert_eq!(tree.range(from_to).count(), 4 * 4);
    assert_eq!(tree.remove_range(keys::starting_with((0, "a")))?, 1);
    assert_eq!(tree.range(keys::starting_with(0)).count(), 3);
    Ok(())
}
