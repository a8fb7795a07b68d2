//! How long keys, values and names may be. Checked once, at the door.

use crate::{Error, Result};

/// The longest key in bytes: 64 KiB. The empty key is a key like any other.
pub const KEY_BYTES_MAX: usize = 65_536;

/// The longest value in bytes: 4 GiB − 1.
pub const VALUE_BYTES_MAX: usize = u32::MAX as usize;

/// The longest name of a tree in bytes of UTF-8. A name has at least one byte.
pub const TREE_NAME_BYTES_MAX: usize = 255;

/// Refuses a key that is too long with [`Error::Invalid`].
pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    check("a key", key.len(), 0, KEY_BYTES_MAX)
}

/// Refuses a value that is too long with [`Error::Invalid`].
pub(crate) fn check_value(value: &[u8]) -> Result<()> {
    check("a value", value.len(), 0, VALUE_BYTES_MAX)
}

/// Refuses an empty name and one that is too long with [`Error::Invalid`].
pub(crate) fn check_name(name: &str) -> Result<()> {
    check("the name of a tree", name.len(), 1, TREE_NAME_BYTES_MAX)
}

fn check(what: &str, bytes: usize, bytes_min: usize, bytes_max: usize) -> Result<()> {
    if (bytes_min..=bytes_max).contains(&bytes) {
        return Ok(());
    }
    let what = format!("{what} has {bytes_min} to {bytes_max} bytes, this one has {bytes}");
    Err(Error::Invalid { what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive() {
        assert!(check_key(&[0; KEY_BYTES_MAX]).is_ok());
        assert!(matches!(check_key(&[0; KEY_BYTES_MAX + 1]), Err(Error::Invalid { .. })));
        assert!(check_key(b"").is_ok());
        assert!(check_name("").is_err());
        assert!(check_name(&"n".repeat(TREE_NAME_BYTES_MAX)).is_ok());
        assert!(check_name(&"n".repeat(TREE_NAME_BYTES_MAX + 1)).is_err());
    }
}
