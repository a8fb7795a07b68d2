//! The arguments that say which keys.

use std::ops::Bound;

use everleaf::prefix_end;

use crate::escape::{ByteArg, argument};
use crate::failure::Result;

/// What `range` of trees, snapshots and transactions takes.
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
