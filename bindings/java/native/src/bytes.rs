//! Keys and values between Java and the store.
//!
//! They are copied: an array of Java may move at any time.

#![allow(unsafe_code)]

use jni::Env;
use jni::objects::{JByteArray, JByteBuffer, JLongArray};
use jni::sys::{jbyte, jlong};

use crate::failure::{Failure, Result, invalid};

/// Bytes of a key or a value that take no allocation.
const SHORT: usize = 240;
/// A virtual machine may have arrays that are a little shorter than the largest `int`.
const ARRAY_MAX: usize = i32::MAX as usize - 8;

/// Bytes of an array of Java. It lives on the stack, where its size does no harm.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Taken {
    Short([jbyte; SHORT], usize),
    Long(Vec<jbyte>),
}

impl Taken {
    #[inline]
    pub(crate) fn new(env: &Env<'_>, array: &JByteArray<'_>) -> Result<Self> {
        let len = array.len(env)?;
        if len > SHORT {
            return Self::long(env, array, len);
        }
        let mut bytes = [0; SHORT];
        array.get_region(env, 0, &mut bytes[..len])?;
        Ok(Self::Short(bytes, len))
    }

    /// The bytes of an array, or nothing if there is no array.
    pub(crate) fn some(env: &Env<'_>, array: &JByteArray<'_>) -> Result<Option<Self>> {
        if array.is_null() { Ok(None) } else { Self::new(env, array).map(Some) }
    }

    #[inline(never)]
    fn long(env: &Env<'_>, array: &JByteArray<'_>, len: usize) -> Result<Self> {
        let mut bytes = Vec::new();
        let no_memory =
            |_| store::Error::NoMemory { what: "a copy of a key or a value", bytes: len };
        bytes.try_reserve_exact(len).map_err(no_memory)?;
        bytes.resize(len, 0);
        array.get_region(env, 0, &mut bytes)?;
        Ok(Self::Long(bytes))
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(bytes, len) => unsigned(&bytes[..*len]),
            Self::Long(bytes) => unsigned(bytes),
        }
    }

    /// A text in UTF-8.
    pub(crate) fn text(&self) -> Result<&str> {
        str::from_utf8(self.bytes()).map_err(|_| invalid("a name is not UTF-8"))
    }
}

impl AsRef<[u8]> for Taken {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

#[inline]
fn unsigned(bytes: &[jbyte]) -> &[u8] {
    // SAFETY: both are bytes, and each value of one is a value of the other.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

/// The bytes of Java for bytes of the store.
#[inline]
pub(crate) fn signed(bytes: &[u8]) -> &[jbyte] {
    // SAFETY: both are bytes, and each value of one is a value of the other.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len()) }
}

/// A new array with these bytes.
#[inline]
pub(crate) fn give<'l>(env: &mut Env<'l>, bytes: &[u8]) -> Result<JByteArray<'l>> {
    if bytes.len() > ARRAY_MAX {
        return Err(too_long(bytes.len()));
    }
    let array = JByteArray::new(env, bytes.len())?;
    if !bytes.is_empty() {
        array.set_region(env, 0, signed(bytes))?;
    }
    Ok(array)
}

/// Refuses what an array cannot have: a caller that removes bytes to give them asks before.
pub(crate) fn expect_fits(bytes: u64) -> Result<()> {
    if bytes > ARRAY_MAX as u64 {
        return Err(too_long(bytes as usize));
    }
    Ok(())
}

/// A new array, or null.
pub(crate) fn give_some<'l>(env: &mut Env<'l>, bytes: Option<&[u8]>) -> Result<JByteArray<'l>> {
    bytes.map_or_else(|| Ok(JByteArray::default()), |bytes| give(env, bytes))
}

#[cold]
fn too_long(bytes: usize) -> Failure {
    invalid(format!("{bytes} bytes do not fit an array of Java: read parts of the value by readAt"))
}

/// A new array of numbers.
pub(crate) fn give_numbers<'l>(env: &mut Env<'l>, numbers: &[jlong]) -> Result<JLongArray<'l>> {
    let array = JLongArray::new(env, numbers.len())?;
    array.set_region(env, 0, numbers)?;
    Ok(array)
}

/// Pieces one after the other, each behind its length. Java takes them apart.
pub(crate) fn pack<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Vec<u8> {
    let mut packed = Vec::new();
    for piece in pieces {
        // The pieces are names, texts and pairs: an array that is too long is refused by `give`.
        packed.extend_from_slice(&(piece.len() as u32).to_be_bytes());
        packed.extend_from_slice(piece);
    }
    packed
}

/// Writes to a direct buffer.
pub(crate) fn in_buffer<T>(
    env: &Env<'_>,
    buffer: &JByteBuffer<'_>,
    write: impl FnOnce(&mut [u8]) -> Result<T>,
) -> Result<T> {
    let address = env.get_direct_buffer_address(buffer)?;
    let capacity = env.get_direct_buffer_capacity(buffer)?;
    // SAFETY: the buffer is direct, or it had no address. It has so many bytes at that address until it is collected, which
    // the argument prevents during the call. `Scan` of Java lets nobody else read or write it meanwhile.
    let bytes = unsafe { std::slice::from_raw_parts_mut(address, capacity) };
    write(bytes)
}

/// The pieces that Java has packed so.
pub(crate) fn unpack(mut packed: &[u8]) -> Result<Vec<&[u8]>> {
    let mut pieces = Vec::new();
    while !packed.is_empty() {
        pieces.push(piece(&mut packed)?);
    }
    Ok(pieces)
}

/// The first one of packed pieces, which is taken off.
pub(crate) fn piece<'p>(packed: &mut &'p [u8]) -> Result<&'p [u8]> {
    let piece = packed
        .split_first_chunk()
        .and_then(|(len, rest)| rest.split_at_checked(u32::from_be_bytes(*len) as usize));
    let (piece, rest) = piece.ok_or_else(|| invalid("packed pieces are cut off"))?;
    *packed = rest;
    Ok(piece)
}

/// Values for Java, each behind its length; -1 stands for none.
pub(crate) fn give_values<'l>(
    env: &mut Env<'l>,
    values: &[Option<impl AsRef<[u8]>>],
) -> Result<JByteArray<'l>> {
    let mut packed = Vec::new();
    for value in values {
        let value = value.as_ref().map(AsRef::as_ref);
        let len = value.map_or(Ok(-1), |value| i32::try_from(value.len()));
        packed.extend(len.map_err(|_| too_long(value.map_or(0, <[u8]>::len)))?.to_be_bytes());
        packed.extend_from_slice(value.unwrap_or_default());
    }
    give(env, &packed)
}
