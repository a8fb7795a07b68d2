//! The arguments that say which keys.

use std::ops::Bound;

use everleaf::{Range, Tree, prefix_end};

use crate::escape::{ByteArg, argument};
use crate::failure::Result;

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

    /// The pairs of a tree that are within.
    pub fn of(&self, tree: &Tree) -> Result<Range> {
        let mut from = self.from.as_ref().map_or(&[][..], |key| &key.0);
        let mut to = self.to.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(&key.0[..]));
        let Some(ByteArg(prefix)) = &self.prefix else {
            return Ok(tree.range::<&[u8], _>((Bound::Included(from), to)));
        };
        from = from.max(prefix);
        let end = prefix_end(prefix)?;
        if let Bound::Excluded(end) = &end {
            to = match to {
                Bound::Excluded(to) => Bound::Excluded(to.min(end)),
                _ => Bound::Excluded(end),
            };
        }
        Ok(tree.range::<&[u8], _>((Bound::Included(from), to)))
    }
}
