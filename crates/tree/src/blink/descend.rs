//! Finding a node without latches: version, read, validate.

use std::cmp::Ordering as Order;

use everleaf_pmem::{Backoff, Held, Medium, Page, PageNo, Result, Version};

use super::{Blink, Seek, damaged};
use crate::keys::Keys;
use crate::node::{Layout, Probe, Run, Shape, Slot, sibling};

/// More moves to the right than any tree needs: the sibling chain must have a cycle.
const HOPS_MAX: u32 = 1 << 24;

/// A node that a search left by its sibling link, and its version then.
pub(crate) type Lag = (PageNo, Version);

/// A node that a search has come to.
pub(crate) struct Spot<'m> {
    pub page: Page<'m>,
    pub version: Version,
    pub shape: Shape,
    /// The last node that the search left by its sibling link: its parent may lack an entry.
    pub lag: Option<Lag>,
}

/// What one attempt yields: a result, or a reason to start again.
type Attempt<T> = Result<Option<T>>;

impl<M: Medium, L: Layout, P: Probe, K: Keys> Blink<M, L, P, K> {
    /// The node of `level` that covers what is sought; `None` if the tree is not that high (yet).
    #[inline]
    pub(crate) fn descend(&self, seek: Seek<'_, K>, level: u8) -> Result<Option<Spot<'_>>> {
        let mut wait = Backoff::default();
        loop {
            if let Some(found) = self.try_descend(seek, level)? {
                return Ok(found);
            }
            wait.pause();
        }
    }

    /// The leaf that covers what is sought.
    #[inline]
    pub(crate) fn leaf(&self, seek: Seek<'_, K>) -> Result<Spot<'_>> {
        match self.descend(seek, 0)? {
            Some(spot) => Ok(spot),
            None => unreachable!("every tree has leaves"),
        }
    }

    #[inline]
    fn try_descend(&self, seek: Seek<'_, K>, level: u8) -> Attempt<Option<Spot<'_>>> {
        let m = self.medium();
        let root = self.root();
        let mut page = m.page(root)?;
        let mut version = self.see(page)?;
        if self.root() != root {
            return Ok(None);
        }
        let (mut lag, mut hops) = (None, 0);
        let mut expected = None;
        loop {
            let Some(shape) = Shape::of(page).filter(|s| expected.is_none_or(|l| l == s.level))
            else {
                return self.unless_changed(page, version, || {
                    damaged(page, "is not the node that its parent names")
                });
            };
            if shape.level < level {
                return Ok(page.latch().validate(version).then_some(None));
            }
            let to_right = match self.is_left_of(page, shape, seek) {
                Ok(answer) => answer,
                Err(e) => return self.unless_changed(page, version, || e),
            };
            let next = if to_right {
                hops += 1;
                if hops > HOPS_MAX {
                    return self
                        .unless_changed(page, version, || damaged(page, "siblings form a cycle"));
                }
                lag = Some((page.no(), version));
                expected = Some(shape.level);
                sibling(page).unwrap_or(0)
            } else if shape.level == level {
                return Ok(page.latch().validate(version).then_some(Some(Spot {
                    page,
                    version,
                    shape,
                    lag,
                })));
            } else {
                expected = Some(shape.level - 1);
                match self.child_for(page, shape, seek) {
                    Ok(child) => child,
                    Err(e) => return self.unless_changed(page, version, || e),
                }
            };
            // The number is right if the node has not changed; and if it still has not when the
            // next node's version is known, that version belongs to the node's life under it.
            if !page.latch().validate(version) {
                return Ok(None);
            }
            let next = m.page(next)?;
            next.prefetch();
            let next_version = self.see(next)?;
            if !page.latch().validate(version) {
                return Ok(None);
            }
            (page, version) = (next, next_version);
        }
    }

    /// An error that was met while reading a page counts only if the page did not change.
    #[cold]
    fn unless_changed<T>(
        &self,
        page: Page<'_>,
        version: Version,
        error: impl FnOnce() -> everleaf_pmem::Error,
    ) -> Attempt<T> {
        if page.latch().validate(version) { Err(error()) } else { Ok(None) }
    }

    /// Whether what is sought lies to the right of the node.
    #[inline(always)]
    fn is_left_of(&self, page: Page<'_>, shape: Shape, seek: Seek<'_, K>) -> Result<bool> {
        if sibling(page).is_none() {
            return Ok(false);
        }
        Ok(match seek {
            Seek::Min => false,
            Seek::Max => true,
            Seek::At(key) => K::cmp_high(&self.pool, page, shape, key)? != Order::Less,
            Seek::Below(key) => K::cmp_high(&self.pool, page, shape, key)? == Order::Greater,
        })
    }

    /// The child of an inner node that covers what is sought.
    #[inline(always)]
    fn child_for(&self, page: Page<'_>, shape: Shape, seek: Seek<'_, K>) -> Result<PageNo> {
        let run = Run::of(page);
        let index = match seek {
            Seek::Min => 1,
            Seek::Max => run.count,
            Seek::At(key) => K::rank::<M, P>(&self.pool, page, shape, run, key)?.le,
            // Below the lowest key there is nothing; the first leaf says so.
            Seek::Below(key) => K::rank::<M, P>(&self.pool, page, shape, run, key)?.lt().max(1),
        };
        if index == 0 || index > run.count {
            return Err(damaged(page, "has no child for a key within its bounds"));
        }
        let slot = Slot::read(page, run.slot(page, index - 1));
        K::child(&self.pool, slot)
    }

    /// The node of `level` for a key, latched.
    #[inline]
    pub(crate) fn latch_for(
        &self,
        key: &K::Key,
        level: u8,
    ) -> Result<Option<(Spot<'_>, Held<'_>)>> {
        let mut wait = Backoff::default();
        loop {
            let Some(spot) = self.descend(Seek::At(key), level)? else { return Ok(None) };
            if let Some(held) = spot.page.latch().upgrade(spot.version) {
                return Ok(Some((spot, held)));
            }
            wait.pause();
        }
    }
}
