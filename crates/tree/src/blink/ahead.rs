//! Looking ahead at what writes will need: for who must know before the first of several writes that
//! none of them will fail.

use std::borrow::Borrow;

use everleaf_pmem::{Medium, PageNo, Result, fallible};
use everleaf_pool::retry;

use super::seek::Seek;
use super::tree::Blink;
use crate::keys::{KeyBounds, KeyOrder, ValueWrites};
use crate::kind::{KeyOf, Kind};
use crate::node::{Layout, Run, Slot};

/// A node on the way to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// Its page.
    pub page: PageNo,
    /// Its entries.
    pub count: usize,
    /// How many it takes.
    pub capacity: usize,
    /// Bytes of its longest key, if it may be split; else 0.
    pub longest: usize,
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Looks at everything that a write of `key` changes or frees, and returns whether the key is there.
    /// A page that cannot be read, or that is damaged, is an error now, and not when the write is half
    /// done.
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory.
    pub fn touch(&self, key: &KeyOf<K>) -> Result<bool> {
        retry(|| {
            let Some((spot, held)) = self.latch_for(key, 0)? else {
                return Err(everleaf_pool::Stop::Busy);
            };
            let run = Run::of(spot.page);
            let rank = K::Keys::rank::<M, K::Probe>(&self.pool, spot.page, spot.shape, run, key)?;
            if rank.exact {
                let slot = Slot::read(spot.page, run.slot(spot.page, rank.le - 1));
                let mut step = self.pool.step();
                K::Keys::release(&mut step, slot)?;
            }
            held.unlock_unchanged();
            Ok(rank.exact)
        })
    }

    /// The nodes on the way to `key`, the leaf first. Reads all keys of the nodes that `adds` more entries
    /// may split. Nobody else may write meanwhile.
    ///
    /// # Errors
    /// The same as for [`touch`](Self::touch).
    pub fn stages(&self, key: &KeyOf<K>, adds: usize) -> Result<Vec<Stage>> {
        let mut stages = Vec::new();
        for level in 0.. {
            let Some(spot) = self.descend::<false>(Seek::At(key), level)? else { break };
            let (page, run) = (spot.page, Run::of(spot.page));
            let capacity = K::Layout::capacity::<M>(page.slots(), spot.shape);
            let count = run.count.min(page.slots());
            let mut stage = Stage { page: page.no(), count, capacity, longest: 0 };
            if count + adds > capacity {
                for pos in 0..count {
                    let slot = Slot::read(page, run.slot(page, pos));
                    let key = K::Keys::key(&self.pool, spot.shape, slot)?;
                    stage.longest = stage.longest.max(K::Keys::key_weight(&key));
                }
                if crate::node::sibling(page).is_some() {
                    let high = K::Keys::high(&self.pool, page)?;
                    let _: &KeyOf<K> = high.borrow();
                    stage.longest = stage.longest.max(K::Keys::key_weight(&high));
                }
            }
            fallible::push(&mut stages, stage, "the way to a key")?;
        }
        Ok(stages)
    }
}
