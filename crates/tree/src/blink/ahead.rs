//! Looking ahead at what writes will need: for who must know before the first of several writes that
//! none of them will fail.

use everleaf_pmem::{Medium, PageNo, Result, fallible};

use crate::blink::descend::{Blink, Seek};
use crate::node::{KeyOf, Kind, NodeRoom};

/// A node on the way to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// Its page.
    pub page: PageNo,
    /// How full it is.
    pub room: NodeRoom,
    /// Bytes of its longest key, if it may be split; else 0.
    pub longest: usize,
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// The nodes on the way to `key`, the leaf first, for a value of so many bytes. Reads all keys of the
    /// nodes that `adds` more such entries may split. Nobody else may write meanwhile.
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory.
    pub fn stages(&self, key: &KeyOf<K>, value_bytes: usize, adds: usize) -> Result<Vec<Stage>> {
        let mut stages = Vec::new();
        for level in 0.. {
            let Some(spot) = self.descend::<false>(Seek::At(key), level)? else { break };
            let (page, view) = (spot.page, K::reader_view(spot.page));
            let room = K::stage::<M>(page, spot.shape, view, key, value_bytes);
            let mut stage = Stage { page: page.no(), room, longest: 0 };
            if room.load.saturating_add(adds.saturating_mul(room.entry)) > room.room {
                for pos in 0..K::count(view) {
                    let key = K::key(&self.pool, spot.shape, K::entry(page, view, pos))?;
                    stage.longest = stage.longest.max(K::key_weight(&key));
                }
                if crate::node::sibling(page).is_some() {
                    let high = K::high(&self.pool, page)?;
                    stage.longest = stage.longest.max(K::key_weight(&high));
                }
            }
            fallible::push(&mut stages, stage, "the way to a key")?;
        }
        Ok(stages)
    }
}
