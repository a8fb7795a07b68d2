//! The arguments that say which keys.

use std::ops::Bound;

use everleaf::{Cursor, prefix_end};

use crate::escape::{ByteArg, argument};
use crate::failure::{CommandError, Result};

/// The bounds that `range` of trees, snapshots and transactions takes.
pub type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Keys within bounds, all that are given.
#[derive(clap::Args)]
pub struct BoundArgs {
    /// Start at this key, itself included
    #[arg(long, value_name = "K", value_parser = argument(), allow_hyphen_values = true)]
    from: Option<ByteArg>,
    /// End before this key
    #[arg(long, value_name = "K", value_parser = argument(), allow_hyphen_values = true)]
    to: Option<ByteArg>,
    /// Only keys that start with this
    #[arg(long, value_name = "P", value_parser = argument(), allow_hyphen_values = true)]
    prefix: Option<ByteArg>,
}

impl BoundArgs {
    /// Whether none is given.
    pub fn is_none(&self) -> bool {
        self.from.is_none() && self.to.is_none() && self.prefix.is_none()
    }

    /// The least key and the end of the keys that are within.
    pub fn bounds(&self) -> Result<KeyBounds> {
        let mut from = self.from.as_ref().map_or(&[][..], |key| &key.0);
        let to = self.to.as_ref().map(|key| key.0.clone());
        let mut to = to.map_or(Bound::Unbounded, Bound::Excluded);
        if let Some(ByteArg(prefix)) = &self.prefix {
            from = from.max(prefix);
            to = match (to, prefix_end(prefix)?) {
                (Bound::Excluded(to), Bound::Excluded(end)) => Bound::Excluded(to.min(end)),
                (Bound::Unbounded, end) => end,
                (to, _) => to,
            };
        }
        Ok((Bound::Included(from.to_vec()), to))
    }
}

/// Gives the keys within bounds to `each`, in order or from the last to the first, at most so many, and
/// returns how many that were. No value is read. The first error ends it, and so does one of `each`.
pub fn for_each_key<E: From<CommandError> + From<everleaf::Error>>(
    mut cursor: Cursor,
    (from, to): &KeyBounds,
    reverse: bool,
    limit: u64,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<u64, E> {
    let is_within = |key: &[u8]| {
        let is_after = match from {
            Bound::Included(from) => key >= &from[..],
            Bound::Excluded(from) => key > &from[..],
            Bound::Unbounded => true,
        };
        let is_before = match to {
            Bound::Included(to) => key <= &to[..],
            Bound::Excluded(to) => key < &to[..],
            Bound::Unbounded => true,
        };
        is_after && is_before
    };
    let start = if reverse { to } else { from };
    let mut found = match (start, reverse) {
        (Bound::Unbounded, false) => cursor.first()?,
        (Bound::Unbounded, true) => cursor.last()?,
        (Bound::Included(key) | Bound::Excluded(key), false) => cursor.seek(key)?,
        (Bound::Included(key) | Bound::Excluded(key), true) => cursor.seek_for_prev(key)?,
    };
    if limit == 0 {
        return Ok(0);
    }
    // The first one may be the bound itself, which is not within.
    if let Bound::Excluded(bound) = start
        && found
        && cursor.key() == Some(&bound[..])
    {
        found = if reverse { cursor.prev()? } else { cursor.next()? };
    }
    let mut count = 0;
    while found {
        let Some(key) = cursor.key().filter(|key| is_within(key)) else { break };
        each(key)?;
        count += 1;
        if count == limit {
            break;
        }
        found = if reverse { cursor.prev()? } else { cursor.next()? };
    }
    Ok(count)
}
