//! The undo list of a batch, as bytes: what each key had before.
//!
//! ```text
//! for each change: anchor u32 | key length u32 | value length + 1 u64, 0 for no value | key | value
//! ```

use everleaf_pmem::{PageNo, fallible};

use super::open_tree::TreeChanges;
use crate::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::{Error, Result};

const _: () = assert!(KEY_BYTES_MAX <= u32::MAX as usize, "a length is written as u32");

/// The values that changes will replace, in their order.
pub(super) fn list(batch: &[TreeChanges<'_>]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for TreeChanges { tree, changes, .. } in batch {
        for change in *changes {
            let old = tree.get(change.key)?;
            push(&mut bytes, (tree.anchor(), change.key, old.as_deref()))?;
        }
    }
    Ok(bytes)
}

/// An entry: the tree's anchor, a key, and the value that it had. The anchor of the catalog stands for
/// the names of trees.
pub(super) type UndoEntry<'a> = (PageNo, &'a [u8], Option<&'a [u8]>);

/// Adds an entry to a list.
pub(super) fn push(bytes: &mut Vec<u8>, (anchor, key, old): UndoEntry<'_>) -> Result<()> {
    let old_bytes = old.map_or(0, <[u8]>::len);
    debug_assert!(key.len() <= KEY_BYTES_MAX && old_bytes <= VALUE_BYTES_MAX);
    fallible::more(bytes, 16 + key.len() + old_bytes, "the undo list of a batch")?;
    bytes.extend(anchor.to_le_bytes());
    bytes.extend((key.len() as u32).to_le_bytes());
    bytes.extend(old.map_or(0, |old| old.len() as u64 + 1).to_le_bytes());
    bytes.extend(key);
    bytes.extend(old.unwrap_or_default());
    Ok(())
}

/// The entries of a list.
///
/// # Errors
/// Corrupt, if these bytes are no list.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<UndoEntry<'_>>> {
    let mut rest = bytes;
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let entry = entry(&mut rest);
        let entry = entry.ok_or_else(|| Error::corrupt(0, "the undo list of a batch is cut"))?;
        fallible::push(&mut entries, entry, "the undo list of a batch")?;
    }
    Ok(entries)
}

fn entry<'a>(rest: &mut &'a [u8]) -> Option<UndoEntry<'a>> {
    let mut take = |n: usize| {
        let (taken, left) = rest.split_at_checked(n)?;
        *rest = left;
        Some(taken)
    };
    let anchor = PageNo::from_le_bytes(take(4)?.try_into().ok()?);
    let key_len = u32::from_le_bytes(take(4)?.try_into().ok()?) as usize;
    let value_len = u64::from_le_bytes(take(8)?.try_into().ok()?);
    let key = take(key_len)?;
    let value = match value_len.checked_sub(1) {
        Some(len) => Some(take(usize::try_from(len).ok()?)?),
        None => None,
    };
    Some((anchor, key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_cut_anywhere_is_told_from_one_that_is_whole() {
        let mut bytes = Vec::new();
        for (key, value) in [(&b"k"[..], None), (b"", Some(&b""[..])), (b"key", Some(b"value"))] {
            bytes.extend(7u32.to_le_bytes());
            bytes.extend((key.len() as u32).to_le_bytes());
            bytes.extend(value.map_or(0, |v| v.len() as u64 + 1).to_le_bytes());
            bytes.extend(key);
            bytes.extend(value.unwrap_or_default());
        }
        let whole = [(7, &b"k"[..], None), (7, b"", Some(&b""[..])), (7, b"key", Some(b"value"))];
        assert_eq!(read(&bytes).expect("whole"), whole);
        let ends = [0, 17, 33, bytes.len()];
        for len in 0..=bytes.len() {
            assert_eq!(read(&bytes[..len]).is_ok(), ends.contains(&len), "{len} bytes");
        }
    }
}
