//! The keys and the bounds of slotted nodes.

use std::cmp::Ordering;

use everleaf_pmem::{LINE_BYTES, Medium, Page, PageNo, Result, fallible};
use everleaf_pool::Pool;

use super::{Slotted, far};
use crate::damaged::damaged;
use crate::keys::Rank;
use crate::kind::{NodeBounds, NodeKeys};
use crate::node::slotted::{Entry, View};
use crate::node::{FLAG_BYTES, FLAG_SLOTTED, Shape, Slot};

/// Lines of slots that a search asks for before it knows how many there are: those of 128 slots.
const SLOT_LINES: usize = 16;

/// An entry of a slotted node.
#[derive(Clone, Copy)]
pub struct EntryAt<'m> {
    pub(super) view: View<'m>,
    pub(super) pos: usize,
    pub(super) parts: Entry,
}

impl NodeKeys for Slotted {
    type Key = [u8];
    type Owned = Vec<u8>;
    type View<'m> = View<'m>;
    type Entry<'m> = EntryAt<'m>;
    const LOCK_FREE: bool = false;

    fn lowest() -> Vec<u8> {
        Vec::new()
    }
    fn own(key: &[u8]) -> Result<Vec<u8>> {
        fallible::copy(key, "a key")
    }
    fn key_weight(key: &Vec<u8>) -> usize {
        key.len()
    }

    #[inline(always)]
    fn shape(page: Page<'_>) -> Option<Shape> {
        Shape::with_flags(page, FLAG_BYTES | FLAG_SLOTTED)
    }
    #[inline(always)]
    fn view(page: Page<'_>) -> View<'_> {
        View::read(page)
    }
    #[inline(always)]
    fn reader_view(page: Page<'_>) -> View<'_> {
        View::read(page)
    }
    #[inline(always)]
    fn count(view: View<'_>) -> usize {
        view.count()
    }
    #[inline(always)]
    fn entry<'m>(_: Page<'m>, view: View<'m>, pos: usize) -> EntryAt<'m> {
        EntryAt { view, pos, parts: view.entry(pos) }
    }
    #[inline(always)]
    fn prefetch(page: Page<'_>) {
        page.prefetch(0);
        (1..=SLOT_LINES).for_each(|line| page.prefetch_at(LINE_BYTES * line));
    }
    fn prefetch_whole(page: Page<'_>) {
        page.prefetch_whole(0);
    }

    #[inline(always)]
    fn rank<M: Medium>(
        pool: &Pool<M>,
        _: Page<'_>,
        _: Shape,
        view: View<'_>,
        key: &[u8],
    ) -> Result<Rank> {
        view.rank(key, |place| far::compare(pool, place, key))
    }

    #[inline]
    fn key<M: Medium>(pool: &Pool<M>, _: Shape, entry: EntryAt<'_>) -> Result<Vec<u8>> {
        let mut key = Vec::new();
        match entry.view.key_into(entry.pos, &mut key)? {
            None => Ok(key),
            Some(place) => far::whole(pool, place),
        }
    }
    #[inline(always)]
    fn child<M: Medium>(_: &Pool<M>, entry: EntryAt<'_>) -> Result<PageNo> {
        Ok(entry.view.child_of(&entry.parts))
    }

    fn raced(_: Slot) -> EntryAt<'static> {
        unreachable!("no reader goes on beside a writer of a slotted node")
    }
}

impl NodeBounds for Slotted {
    const PREFIXED: bool = true;

    #[inline(always)]
    fn cmp_high<M: Medium>(
        pool: &Pool<M>,
        page: Page<'_>,
        _: Shape,
        key: &[u8],
    ) -> Result<Ordering> {
        View::read(page).cmp_high(key, |place| far::compare(pool, place, key))
    }

    fn low<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<Option<Vec<u8>>> {
        let view = View::read(page);
        view.low().map(|low| far::fence(pool, &view, low)).transpose()
    }

    fn high<M: Medium>(pool: &Pool<M>, page: Page<'_>) -> Result<Vec<u8>> {
        let view = View::read(page);
        match view.high() {
            Some(high) => far::fence(pool, &view, high),
            None => Err(damaged(page, "has a sibling but no upper bound")),
        }
    }
}
