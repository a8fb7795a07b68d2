//! How readers and writers of one leaf get along (FAST+FAIR §5): four ways to read, of which a
//! tree uses one.
//!
//! | | waits for | one key, one leaf | can return what a crash takes back |
//! |---|---|---|---|
//! | [`Reading::Optimistic`] | a writer inside the leaf or on the way | linearizable; a leaf is one moment | no: a writer leaves after its last fence |
//! | [`Reading::LockFree`] | nobody, but for a page's first touch | linearizable; a leaf is one moment | yes (docs/PAPERS.md, F16) |
//! | [`Reading::Latched`] | a writer, and then keeps writers out | as optimistic, and never starts again | no |
//! | `Reading::Crabbing` | whoever is inside a node on the way, readers too | as latched | no |
//!
//! In all four a scan over several leaves is not one moment (docs/PAPERS.md, F19). On media with a
//! journal each way can return what a crash takes back, up to the durable epoch.
//!
//! *Starting again is bounded.* An optimistic reader that has failed eight times, because writers came
//! in between, stops merges and latches one node after the other down to the leaf, and reads under the
//! leaf's latch. Without merges no node dies, so it cannot lose its way. A lock-free reader never
//! latches: each time that it starts again somebody else has got on. What is large is not read in a
//! leaf at all, but after it ([`everleaf_pool::LargeValue`]).
//!
//! *The anomaly of lock-free reading*, by name: **unflushed read**: a reader sees a store before its
//! writer has flushed it; if power fails then, the reader has told somebody of a value that never
//! was. Another one is ruled out here: **torn leaf**: of two changes of one leaf that a scan runs
//! beside, it would show the later and miss the earlier. The paper's readers look again only if
//! writers changed direction meanwhile; ours validate the whole latch word, so they run beside one
//! change at most, which commits by one store.

use std::mem;

use everleaf_pmem::{Error, Latch, Medium, Result, Retries, Version};
use everleaf_pool::StoredValue;

use crate::blink::descend::{Blink, FoundNode, Reading, Seek};
use crate::node::{FarValue, FoundValue, KeyOf, Kind, NodeAt, NodeBytes, TreeKey, ValueOf};
use crate::slots::Slot;
use crate::slots::racing::Racing;

/// After so many failed attempts an optimistic reader keeps writers out.
const TRIES: u32 = 8;

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Whether readers can go on beside a writer.
    const LOCK_FREE: bool = K::LOCK_FREE && M::ORDERED;

    /// Returns the tree with another way to read. The pool does not remember it: choose it at each open.
    ///
    /// # Errors
    /// Unsupported for [`Reading::LockFree`] where a store can leave a node that readers cannot use:
    /// other layouts than [`Linear`](crate::slots::Linear), byte strings, and media that move slots by
    /// vectors ([`Medium::ORDERED`] is false).
    pub fn reading(mut self, reading: Reading) -> Result<Self> {
        if reading == Reading::LockFree && !Self::LOCK_FREE {
            return Err(Error::Unsupported {
                what: format!(
                    "readers of {} nodes cannot go on beside a writer here: lock-free reading needs \
                     linear nodes of words on a medium with ordered stores",
                    K::NAME
                ),
            });
        }
        self.reading = reading;
        Ok(self)
    }

    /// Reads one leaf: by `settled` if nobody is changing it, by `racing` beside a writer. What they
    /// answer counts only after the leaf was validated; so neither reads from a disk what can be read
    /// after that.
    #[inline]
    pub(super) fn read_leaf<T>(
        &self,
        seek: Seek<'_, KeyOf<K>>,
        mut settled: impl FnMut(&NodeAt<'_, K>) -> Result<T>,
        racing: impl Fn(Racing<'_>) -> Result<T>,
    ) -> Result<T> {
        self.read_spot(seek, |spot| settled(&spot.node), racing)
    }

    /// As [`read_leaf`](Self::read_leaf), for who remembers the leaf and its version.
    #[inline(always)]
    pub(super) fn read_spot<T>(
        &self,
        seek: Seek<'_, KeyOf<K>>,
        mut settled: impl FnMut(&FoundNode<'_, K>) -> Result<T>,
        racing: impl Fn(Racing<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut turns = Retries::default();
        loop {
            let found = match self.reading {
                Reading::LockFree if Self::LOCK_FREE => self.try_descend::<true>(seek, 0)?,
                Reading::Latched => return self.read_latched(seek, settled),
                #[cfg(feature = "crabbing")]
                Reading::Crabbing => return self.read_latched(seek, settled),
                _ => self.try_descend::<false>(seek, 0)?,
            };
            if let Some(Some(spot)) = found {
                let answer = if spot.version.is_racing() {
                    let node = spot.node;
                    let leaf = Racing::new(node.page(), node.shape(), spot.version.is_leftward());
                    Self::covers(leaf.limits, seek).then(|| racing(leaf))
                } else {
                    Some(settled(&spot))
                };
                if let Some(answer) = answer
                    && spot.node.page().latch().validate(spot.version)
                {
                    return answer;
                }
            }
            if turns.count() + 1 == TRIES && self.reading == Reading::Optimistic {
                return self.read_undisturbed(seek, settled);
            }
            turns.again("a search for a leaf")?;
        }
    }

    /// Reads one leaf for a reader whom writers have kept from it: its way cannot be cut off, since no
    /// node dies without a merge, and the leaf is latched.
    #[cold]
    fn read_undisturbed<T>(
        &self,
        seek: Seek<'_, KeyOf<K>>,
        mut settled: impl FnMut(&FoundNode<'_, K>) -> Result<T>,
    ) -> Result<T> {
        let _no_merge = self.lock_merges();
        let Some((spot, held)) = self.walk(seek, 0)? else { unreachable!("every tree has leaves") };
        let answer = settled(&spot);
        held.unlock_unchanged();
        answer
    }

    #[cold]
    fn read_latched<T>(
        &self,
        seek: Seek<'_, KeyOf<K>>,
        mut settled: impl FnMut(&FoundNode<'_, K>) -> Result<T>,
    ) -> Result<T> {
        let Some((spot, held)) = self.latch_at(seek, 0)? else {
            unreachable!("every tree has leaves")
        };
        let answer = settled(&spot);
        held.unlock_unchanged();
        answer
    }

    /// Like [`read_version`](Self::read_version), but with the version of a writer that is inside.
    pub(super) fn read_version_racing(&self, page: everleaf_pmem::Page<'_>) -> Result<Version> {
        match page.latch().read_version_racing() {
            everleaf_pmem::Seen::Ready(version) => Ok(version),
            everleaf_pmem::Seen::Absent => self.fetch(page, Latch::read_version_racing),
        }
    }
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// The value of a key. The tree's [`Reading`](crate::blink::Reading) decides what it sees of writers that are
    /// under way, and whether it waits for them. On media with epochs it sees writes before they are
    /// durable.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    #[inline]
    pub fn get(&self, key: &KeyOf<K>) -> Result<Option<ValueOf<K>>> {
        let found = self.read_leaf(
            Seek::At(key),
            |at| {
                let found = |entry| K::found(&self.pool, entry);
                K::find(&self.pool, at, key, found)
            },
            |leaf| {
                self.found_beside_writer(leaf, key)
                    .map(|slot| K::found(&self.pool, K::raced(slot)))
                    .transpose()
            },
        )?;
        // The leaf is left alone by now: a large value takes as long as it takes.
        found.map(|found| found.settle(FarValue::read)).transpose()
    }

    /// Whether a key is there. Does not read its value.
    ///
    /// # Errors
    /// I/O errors and Corrupt.
    pub fn contains(&self, key: &KeyOf<K>) -> Result<bool> {
        self.read_leaf(
            Seek::At(key),
            |at| Ok(K::find(&self.pool, at, key, |_| Ok(()))?.is_some()),
            |leaf| Ok(self.found_beside_writer(leaf, key).is_some()),
        )
    }

    #[cold]
    fn found_beside_writer(&self, leaf: Racing<'_>, key: &KeyOf<K>) -> Option<Slot> {
        let key = key.order()?;
        // In a leaf of words the identity is the key.
        leaf.last_below(|k| k <= key).filter(|slot| slot.ident == key)
    }
}

impl<M: Medium, K: Kind + NodeBytes> Blink<M, K> {
    /// Copies the value of a key into a list, which is cleared before. Says whether the key is there.
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory; the list holds anything then.
    #[inline]
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let mut found = FoundValue::new(mem::take(value));
        let is_there = self.find_value(key, &mut found)?;
        *value = found.take()?;
        Ok(is_there)
    }

    /// Finds the value of a key, as [`get_into`](Self::get_into): one that is large and in memory is not copied.
    ///
    /// # Errors
    /// As [`get_into`](Self::get_into).
    #[inline]
    pub fn find_value(&self, key: &[u8], value: &mut FoundValue) -> Result<bool> {
        let found = self.read_leaf(
            Seek::At(key),
            |at| {
                let found = |entry| K::value_into(&self.pool, at.shape(), entry, value);
                K::find(&self.pool, at, key, found)
            },
            |_| Ok(None),
        )?;
        match found {
            None => {
                value.own().clear();
                Ok(false)
            }
            Some(StoredValue::Inline(())) => Ok(true),
            Some(StoredValue::External(far)) => far.read_into(value.own()).map(|()| true),
        }
    }

    /// Fills a buffer with bytes of the value of a key, from byte `offset` of it on, all of one value. Says
    /// how many that were, fewer than asked for only at the value's end; none if the key is not there. Of a
    /// value in extents it reads the pages in which they are, and no others.
    ///
    /// # Errors
    /// I/O errors, Corrupt, NoMemory; the buffer holds anything then.
    pub fn read_at(&self, key: &[u8], offset: u64, buf: &mut [u8]) -> Result<Option<usize>> {
        let found = self.read_leaf(
            Seek::At(key),
            |at| {
                let part = |entry| K::part_into(&self.pool, at.shape(), entry, offset, buf);
                K::find(&self.pool, at, key, part)
            },
            |_| Ok(None),
        )?;
        Ok(match found {
            None => None,
            Some(StoredValue::Inline(bytes)) => Some(bytes),
            Some(StoredValue::External(far)) => Some(far.read_at(offset, buf)?),
        })
    }

    /// How many bytes the value of a key has. Does not read a value in extents.
    ///
    /// # Errors
    /// I/O errors, Corrupt.
    pub fn value_len(&self, key: &[u8]) -> Result<Option<u64>> {
        self.read_leaf(
            Seek::At(key),
            |at| {
                let bytes = |entry| K::value_bytes(&self.pool, at.shape(), entry);
                K::find(&self.pool, at, key, bytes)
            },
            |_| Ok(None),
        )
    }
}
