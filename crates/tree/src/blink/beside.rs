//! Readers that do not wait for a writer that is inside a node: they read beside it (FAST+FAIR §5), if the layout allows
//! that.
//!
//! Their findings are checked against the next node's lower bound, because a search cannot move to the left
//! (docs/PAPERS.md, F6), and what looks damaged is only unfinished. Here are the ways in which the papers' trees are
//! read; `reading.rs` compares them.

use everleaf_pmem::{Error, Latch, Medium, Page, PageNo, Result, Retries, Seen, Version};
use everleaf_pool::StoredValue;

use crate::blink::descend::{Blink, FoundNode, Passing, Seek};
use crate::blink::reading::Reading;
use crate::node::{KeyOf, Kind, LOW_WORD, NodeAt, NodeReads, TreeKey, ValueOf, damaged};
use crate::slots::Limits;
use crate::slots::racing::Racing;

/// The search reads a node beside the writer that is inside.
pub(super) struct Beside;

impl<M: Medium, K: Kind> Passing<M, K> for Beside {
    fn version(tree: &Blink<M, K>, page: Page<'_>) -> Result<Version> {
        tree.read_version_racing(page)
    }

    fn has_arrived(page: Page<'_>, seek: Seek<'_, KeyOf<K>>) -> bool {
        match seek {
            Seek::At(key) => key.order().is_none_or(|key| page.head(LOW_WORD).load() <= key),
            Seek::Below(key) => {
                key.order().is_none_or(|key| page.head(LOW_WORD).load() < key || key == 0)
            }
            Seek::Min | Seek::Max => true,
        }
    }

    fn child(
        tree: &Blink<M, K>,
        node: &NodeAt<'_, K>,
        version: Version,
        seek: Seek<'_, KeyOf<K>>,
    ) -> Result<PageNo> {
        match version.is_racing() {
            true => tree.child_beside_writer(node, version, seek),
            false => tree.child_of(node, seek),
        }
    }
}

/// A value that was found, or what leads to it.
type Found<'p, M, K> = StoredValue<ValueOf<K>, <K as NodeReads>::Far<'p, M>>;

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

    /// As [`read_spot`](Self::read_spot), for a tree that is not read as most are.
    #[inline(never)]
    pub(super) fn read_otherwise<T>(
        &self,
        seek: Seek<'_, KeyOf<K>>,
        mut settled: impl FnMut(&FoundNode<'_, K>) -> Result<T>,
        racing: impl Fn(Racing<'_>) -> Result<T>,
    ) -> Result<T> {
        if self.reading != Reading::LockFree || !Self::LOCK_FREE {
            return Self::read_held(self.latch_at(seek, 0)?, settled);
        }
        let mut turns = Retries::default();
        loop {
            if let Some(Some(spot)) = self.try_descend::<Beside>(seek, 0)? {
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
            turns.again("a search for a leaf")?;
        }
    }

    /// Like [`read_version`](Self::read_version), but with the version of a writer that is inside.
    pub(super) fn read_version_racing(&self, page: Page<'_>) -> Result<Version> {
        match page.latch().read_version_racing() {
            Seen::Ready(version) => Ok(version),
            Seen::Absent => self.fetch(page, Latch::read_version_racing),
        }
    }

    /// Whether bounds that were read beside a writer, after it was decided to stay in the node, are
    /// still those of what is sought.
    fn covers(limits: Limits, seek: Seek<'_, KeyOf<K>>) -> bool {
        let below = |key: u64| limits.high.is_none_or(|high| key < high);
        match seek {
            Seek::At(key) => key.order().is_none_or(|key| limits.low <= key && below(key)),
            Seek::Below(key) => key.order().is_none_or(|key| below(key.saturating_sub(1))),
            Seek::Min => true,
            Seek::Max => limits.high.is_none(),
        }
    }

    /// The child of a node that a writer is changing.
    #[cold]
    fn child_beside_writer(
        &self,
        node: &NodeAt<'_, K>,
        version: Version,
        seek: Seek<'_, KeyOf<K>>,
    ) -> Result<PageNo> {
        let page = node.page();
        let racing = Racing::new(page, node.shape(), version.is_leftward());
        if !Self::covers(racing.limits, seek) {
            return Err(damaged(page, "its bounds have moved"));
        }
        let at_or_below = |bound: u64| racing.last_below(|key| key <= bound);
        let slot = match seek {
            Seek::Min => at_or_below(racing.limits.low),
            Seek::Max => at_or_below(u64::MAX),
            Seek::At(key) => key.order().and_then(at_or_below),
            // Below the lowest key there is nothing; the first leaf says so.
            Seek::Below(key) => key
                .order()
                .and_then(|bound| at_or_below(bound.saturating_sub(1).max(racing.limits.low))),
        };
        let Some(slot) = slot else {
            return Err(damaged(page, "has no child for a key within its bounds"));
        };
        K::child(&self.pool, K::raced(slot))
    }

    /// The value of a key in a leaf that a writer is changing.
    #[cold]
    pub(super) fn found_beside_writer(
        &self,
        leaf: Racing<'_>,
        key: &KeyOf<K>,
    ) -> Result<Option<Found<'_, M, K>>> {
        let Some(key) = key.order() else { return Ok(None) };
        // In a leaf of words the identity is the key.
        let slot = leaf.last_below(|k| k <= key).filter(|slot| slot.ident == key);
        slot.map(|slot| K::found(&self.pool, K::raced(slot))).transpose()
    }
}
