//! How long keys, values and names may be. This is checked once, when they come in.

use crate::{Error, Result};

/// The longest key, in bytes: 64 KiB. The empty key is a key like any other.
pub const KEY_BYTES_MAX: usize = 65_536;

/// The longest value, in bytes: 4 GiB − 1.
pub const VALUE_BYTES_MAX: usize = u32::MAX as usize;

/// The longest name of a tree, in bytes of UTF-8. A name has at least one byte.
pub const TREE_NAME_BYTES_MAX: usize = 255;

const _: () = assert!(KEY_BYTES_MAX == everleaf_pool::MAX_KEY_BYTES);
const _: () = assert!(VALUE_BYTES_MAX as u64 == everleaf_pool::MAX_VALUE_BYTES);
// A name is a key of the catalog, which must not be the empty one: that is the undo list's.
const _: () = assert!(TREE_NAME_BYTES_MAX <= KEY_BYTES_MAX);

/// Refuses a key that is too long.
pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    let (bytes, bytes_max) = (key.len() as u64, KEY_BYTES_MAX as u64);
    if bytes > bytes_max { Err(Error::KeyTooLong { bytes, bytes_max }) } else { Ok(()) }
}

/// Refuses a value that is too long.
pub(crate) fn check_value(value: &[u8]) -> Result<()> {
    check_value_len(value.len() as u64)
}

/// Refuses a value of so many bytes if that is too long.
pub(crate) fn check_value_len(bytes: u64) -> Result<()> {
    let bytes_max = VALUE_BYTES_MAX as u64;
    if bytes > bytes_max { Err(Error::ValueTooLong { bytes, bytes_max }) } else { Ok(()) }
}

/// Refuses an empty name and one that is too long.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let (bytes, bytes_max) = (name.len(), TREE_NAME_BYTES_MAX);
    if (1..=bytes_max).contains(&bytes) {
        Ok(())
    } else {
        Err(Error::TreeName { bytes, bytes_max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive() {
        assert!(check_key(&[0; KEY_BYTES_MAX]).is_ok());
        assert!(matches!(check_key(&[0; KEY_BYTES_MAX + 1]), Err(Error::KeyTooLong { .. })));
        let too_long = check_key(&[0; KEY_BYTES_MAX + 1]).map_err(|error| error.to_string());
        let message = "a key has 0 to 65,536 bytes, this one has 65,537";
        assert_eq!(too_long, Err(message.to_owned()));
        let nameless = check_name("").map_err(|error| error.to_string());
        let message = "the name of a tree has 1 to 255 bytes, this one has 0";
        assert_eq!(nameless, Err(message.to_owned()));
        assert!(check_key(b"").is_ok());
        assert!(check_name("").is_err());
        assert!(check_name(&"n".repeat(TREE_NAME_BYTES_MAX)).is_ok());
        assert!(check_name(&"n".repeat(TREE_NAME_BYTES_MAX + 1)).is_err());
    }
}
