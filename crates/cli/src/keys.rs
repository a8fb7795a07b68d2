//! The arguments that say which keys.

use std::ops::Bound;

use everleaf::{Range, Tree};

use crate::escape::{Bytes, argument};

/// Keys within bounds, all that are given.
#[derive(clap::Args)]
pub struct Bounds {
    /// Start at this key, itself included
    #[arg(long, value_name = "K", value_parser = argument(), allow_hyphen_values = true)]
    from: Option<Bytes>,
    /// End before this key
    #[arg(long, value_name = "K", value_parser = argument(), allow_hyphen_values = true)]
    to: Option<Bytes>,
    /// Only keys that start with this
    #[arg(long, value_name = "P", value_parser = argument(), allow_hyphen_values = true)]
    prefix: Option<Bytes>,
}

impl Bounds {
    /// Whether none is given.
    pub fn is_none(&self) -> bool {
        self.from.is_none() && self.to.is_none() && self.prefix.is_none()
    }

    /// The pairs of a tree that are within.
    pub fn of(&self, tree: &Tree) -> Range {
        let mut from = self.from.as_ref().map_or(&[][..], |key| &key.0);
        let mut to = self.to.as_ref().map_or(Bound::Unbounded, |key| Bound::Excluded(&key.0[..]));
        let Some(Bytes(prefix)) = &self.prefix else {
            return tree.range::<&[u8], _>((Bound::Included(from), to));
        };
        from = from.max(prefix);
        let end = prefix_end(prefix);
        if let Some(end) = &end {
            to = match to {
                Bound::Excluded(to) => Bound::Excluded(to.min(end)),
                _ => Bound::Excluded(end),
            };
        }
        tree.range::<&[u8], _>((Bound::Included(from), to))
    }
}

/// The first key after all that start with `prefix`; none if it is all 0xFF.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let at = prefix.iter().rposition(|&byte| byte < 0xFF)?;
    let mut end = prefix[..=at].to_vec();
    end[at] += 1;
    Some(end)
}
