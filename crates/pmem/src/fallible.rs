//! Memory that may be refused: what is sized by data, by a pool or by a file is reserved here, so
//! that a lack of memory is an error like any other.
//!
//! Std aborts the process where an allocation fails that has no way to say so. For a pool that is
//! a kill: what was acknowledged is there when it is opened again. Such allocations that are left
//! are small and of a fixed size.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::error::{Error, Result};

/// Reserves room for `n` more in a list that may go on growing.
///
/// # Errors
/// [`Error::NoMemory`]; the list is as before.
#[inline]
pub fn more<T>(list: &mut Vec<T>, n: usize, what: &'static str) -> Result<()> {
    match list.try_reserve(n) {
        Ok(()) => Ok(()),
        Err(_) => just(list, n, what),
    }
}

/// Appends copies of items.
///
/// # Errors
/// As [`more`].
#[inline]
pub fn append<T: Copy>(list: &mut Vec<T>, items: &[T], what: &'static str) -> Result<()> {
    more(list, items.len(), what)?;
    list.extend_from_slice(items);
    Ok(())
}

/// As [`more`], and no more than that: a list that grows by itself takes up to twice as much.
///
/// # Errors
/// As [`more`].
#[cold]
pub fn just<T>(list: &mut Vec<T>, n: usize, what: &'static str) -> Result<()> {
    list.try_reserve_exact(n).map_err(|_| refused::<T>(n, what))
}

#[cold]
fn refused<T>(n: usize, what: &'static str) -> Error {
    Error::NoMemory { what, bytes: n.saturating_mul(size_of::<T>()) }
}

/// An empty list with room for `n`.
///
/// # Errors
/// [`Error::NoMemory`].
#[inline]
pub fn list<T>(n: usize, what: &'static str) -> Result<Vec<T>> {
    let mut list = Vec::new();
    match list.try_reserve_exact(n) {
        Ok(()) => Ok(list),
        Err(_) => Err(refused::<T>(n, what)),
    }
}

/// Bytes that an allocation of `bytes` takes of memory: with the allocator's own head, and in whole pieces, as glibc
/// makes them. Another allocator takes about as much. Nothing is taken for 0 bytes.
#[inline]
pub const fn taken(bytes: usize) -> u64 {
    match bytes {
        0 => 0,
        1..=24 => 32,
        more => (more as u64 + 8).next_multiple_of(16),
    }
}

/// `n` times `value`.
///
/// # Errors
/// [`Error::NoMemory`].
pub fn filled<T: Clone>(value: T, n: usize, what: &'static str) -> Result<Vec<T>> {
    let mut filled = list(n, what)?;
    filled.resize(n, value);
    Ok(filled)
}

/// A list of `n`, in the memory of `few` if that is enough, and else in that of `many`: a short list of what is needed
/// for a moment takes no allocation.
///
/// # Errors
/// [`Error::NoMemory`].
pub fn short<'l, T: Copy, const N: usize>(
    few: &'l mut [T; N],
    many: &'l mut Vec<T>,
    n: usize,
    what: &'static str,
) -> Result<&'l mut [T]> {
    const { assert!(N > 0, "the first of the few is what the many begin as") };
    if n <= N {
        return Ok(&mut few[..n]);
    }
    *many = filled(few[0], n, what)?;
    Ok(many)
}

/// A copy of `items`.
///
/// # Errors
/// [`Error::NoMemory`].
#[inline]
pub fn copy<T: Copy>(items: &[T], what: &'static str) -> Result<Vec<T>> {
    let mut copy = list(items.len(), what)?;
    copy.extend_from_slice(items);
    Ok(copy)
}

/// Adds one.
///
/// # Errors
/// [`Error::NoMemory`]; the list is as before.
#[inline]
pub fn push<T>(list: &mut Vec<T>, item: T, what: &'static str) -> Result<()> {
    more(list, 1, what)?;
    list.push(item);
    Ok(())
}

/// Adds one to a set; says whether it was not there.
///
/// # Errors
/// [`Error::NoMemory`]; the set is as before.
#[inline]
pub fn insert<T: Eq + Hash>(set: &mut HashSet<T>, item: T, what: &'static str) -> Result<bool> {
    set.try_reserve(1).map_err(|_| refused::<T>(set.len() + 1, what))?;
    Ok(set.insert(item))
}

/// Has room for `n` more keys in a map.
///
/// # Errors
/// [`Error::NoMemory`]; the map is as before.
#[inline]
pub fn more_keys<K: Eq + Hash, V>(
    map: &mut HashMap<K, V>,
    n: usize,
    what: &'static str,
) -> Result<()> {
    map.try_reserve(n).map_err(|_| refused::<(K, V)>(map.len() + n, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_memory_has_is_an_error_and_changes_nothing() {
        let mut list = vec![1_u64];
        let refused = more(&mut list, usize::MAX / 8, "a test");
        let text = refused.expect_err("more than there is").to_string();
        assert_eq!(text, "no memory for a test: 18,446,744,073,709,551,608 bytes");
        assert_eq!(list, [1]);
        assert!(matches!(super::list::<u64>(usize::MAX, "a test"), Err(Error::NoMemory { .. })));
        push(&mut list, 2, "a test").expect("little");
        assert_eq!(copy(&list, "a test").expect("little"), [1, 2]);
        assert_eq!(filled(7, 2, "a test").expect("little"), [7, 7]);
    }
}
