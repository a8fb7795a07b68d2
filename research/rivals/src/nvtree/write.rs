//! Writes: an entry is appended, or the leaf is written anew.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use everleaf_pmem::{Geometry, LatchGuard, Medium, Page, PageNo, Result, fallible};
use everleaf_pool::{Step, Stop, anchor, kind, note_free, retry};
use everleaf_tree::blink::Condition;

use super::NvTree;
use super::inner::{Inner, Row, place, row_capacity};
use super::leaf::{self, ALIVE, REMOVED};
use crate::spine::{LeafRange, range, set_dead, set_range};
use crate::version::Version;

/// A key and what it is to have: a value, or none.
type Wanted = (u64, Option<u64>);
/// A new page, latched.
type New<'p> = (Page<'p>, LatchGuard<'p>);

/// The page that leads to a leaf: another leaf, or the anchor.
enum Before<'m> {
    Leaf(Page<'m>),
    Anchor(Page<'m>),
}

impl<M: Medium, V: Version> NvTree<M, V> {
    pub(super) fn put(&self, key: u64, value: u64, condition: Condition) -> Result<Option<u64>> {
        self.set((key, Some(value)), condition)
    }

    pub(super) fn take_out(&self, key: u64) -> Result<Option<u64>> {
        self.set((key, None), Condition::Present)
    }

    fn set(&self, wanted: Wanted, condition: Condition) -> Result<Option<u64>> {
        let mut is_full = false;
        retry(|| {
            if is_full {
                self.write_anew(wanted, condition)
            } else {
                self.try_set(wanted, condition, &mut is_full)
            }
        })
    }

    fn try_set(
        &self,
        (key, value): Wanted,
        condition: Condition,
        is_full: &mut bool,
    ) -> Result<Option<u64>, Stop> {
        let found = self.leaf(key)?;
        let page = found.page;
        let held = page.latch().upgrade(found.version).ok_or(Stop::Busy)?;
        let old = leaf::find(page, key);
        if is_unwanted(old, condition) {
            held.unlock_unchanged();
            return Ok(old);
        }
        let m = self.pool.medium();
        let done = {
            let _op = m.enter()?;
            let removed = [REMOVED, key, old.unwrap_or(0)];
            match (old, value) {
                (None, Some(value)) => leaf::append(m, page, &[[ALIVE, key, value]], !V::has('b')),
                (Some(_), Some(value)) => {
                    leaf::append(m, page, &[removed, [ALIVE, key, value]], !V::has('b'))
                }
                (_, None) => leaf::append(m, page, &[removed], !V::has('b')),
            }
        };
        if !done {
            *is_full = true;
            held.unlock_unchanged();
            return Err(Stop::Busy);
        }
        Ok(old)
    }

    /// Writes the leaf of a key anew, with the change in it.
    #[cold]
    fn write_anew(&self, wanted: Wanted, condition: Condition) -> Result<Option<u64>, Stop> {
        let key = wanted.0;
        let inner = self.inner();
        let row_no = inner.row_of(key);
        let left_row = row_no.checked_sub(1).map(|left| inner.change(left));
        let mut row = inner.change(row_no);
        if row.len() == row_capacity(self.pool.geometry()) {
            drop((row, left_row));
            drop(inner);
            self.rebuild(key)?;
            return Err(Stop::Busy);
        }
        let at = place(&row, key);
        let before = match at.checked_sub(1) {
            Some(before) => Some(row[before].1),
            None => left_row.as_ref().and_then(|left| left.last()).map(|entry| entry.1),
        };
        // Latches go from left to right; pages are given back when they can be latched again.
        let mut step = self.pool.step();
        let (before, before_held) = self.before(before)?;
        let page = self.pool.page(row[at].1)?;
        let Some(held) = page.latch().try_lock_briefly() else {
            before_held.unlock_unchanged();
            return Err(Stop::Busy);
        };
        let old = leaf::find(page, key);
        if is_unwanted(old, condition) {
            before_held.unlock_unchanged();
            held.unlock_unchanged();
            return Ok(old);
        }
        self.replace(&mut step, &before, page, wanted, (&mut row, at))?;
        Ok(old)
    }

    fn before(&self, leaf: Option<PageNo>) -> Result<(Before<'_>, LatchGuard<'_>), Stop> {
        let Some(no) = leaf else {
            let (page, held) = self.pool.latch(self.anchor)?;
            return Ok((Before::Anchor(page), held));
        };
        let page = self.pool.page(no)?;
        let held = page.latch().try_lock_briefly().ok_or(Stop::Busy)?;
        Ok((Before::Leaf(page), held))
    }

    /// Puts one or two leaves in the place of one, or none, and says so in the row.
    fn replace(
        &self,
        step: &mut Step<'_, M>,
        before: &Before<'_>,
        page: Page<'_>,
        (key, value): Wanted,
        (row, at): (&mut Row, usize),
    ) -> Result<(), Stop> {
        let m = self.pool.medium();
        let loses = V::has('a') && matches!(before, Before::Anchor(_));
        let mut pairs = Vec::new();
        leaf::alive(page, &mut pairs)?;
        fallible::more(&mut pairs, 1, "the pairs of a leaf")?;
        match (pairs.binary_search_by_key(&key, |pair| pair.0), value) {
            (Ok(i), Some(value)) => pairs[i].1 = value,
            (Ok(i), None) => drop(pairs.remove(i)),
            (Err(i), Some(value)) if !loses => pairs.insert(i, (key, value)),
            (Err(_), _) => {}
        }
        let cut =
            if pairs.len() > leaf::capacity(page) / 2 { pairs.len() / 2 } else { pairs.len() };
        let (low, high) = pairs.split_at(cut);
        // A row keeps its first leaf, since searches come to it.
        let left = if low.is_empty() && at > 0 { None } else { Some(new(step)?) };
        let right = if high.is_empty() { None } else { Some(new(step)?) };
        step.free_page(page.no())?;
        let own = range(page).ok_or(Stop::Busy)?;
        let mut op = step.enter()?;
        step.publish_alloc(&mut op);
        let right_no = right.as_ref().map_or(leaf::next(page), |(right, _)| right.no());
        if let Some((right, _)) = &right {
            leaf::build(m, *right, high, leaf::next(page), !loses);
        }
        if let Some((left, _)) = &left {
            leaf::build(m, *left, low, right_no, !loses);
        }
        if left.is_some() && !loses && !V::has('b') {
            m.fence();
        }
        let first = left.as_ref().map_or(right_no, |(left, _)| left.no());
        match before {
            Before::Leaf(before) => leaf::set_next(m, *before, first),
            Before::Anchor(page) => anchor::set_root(m, &mut op, *page, first),
        }
        step.publish_free(&mut op);
        note_free(m, &mut op, page);
        set_dead(page);
        let middle = high.first().map(|pair| pair.0);
        match &left {
            Some((left, _)) => {
                set_range(*left, LeafRange { high: middle.or(own.high), ..own });
                row[at].1 = left.no();
            }
            None => {
                if let Before::Leaf(before) = before
                    && let Some(range) = range(*before)
                {
                    set_range(*before, LeafRange { high: own.high, ..range });
                }
                row.remove(at);
            }
        }
        if let (Some((right, _)), Some(middle)) = (&right, middle) {
            set_range(*right, LeafRange { low: middle, high: own.high });
            row.insert(at + 1, (middle, right.no()));
        }
        drop(op);
        Ok(())
    }

    /// Builds the inner nodes anew if the row of a key is full. Everybody waits.
    fn rebuild(&self, key: u64) -> Result<()> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        if inner.change(inner.row_of(key)).len() < row_capacity(self.pool.geometry()) {
            return Ok(());
        }
        *inner = Inner::build(self.pool.geometry(), &inner.leaves()?)?;
        self.rebuilds.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Whether leaves can have this shape.
    pub(super) fn fits(geometry: Geometry) -> bool {
        !geometry.is_whole() && geometry.slots() >= 4
    }
}

fn is_unwanted(old: Option<u64>, condition: Condition) -> bool {
    match condition {
        Condition::Always => false,
        Condition::Present => old.is_none(),
        Condition::Absent => old.is_some(),
    }
}

fn new<'p, M: Medium>(step: &mut Step<'p, M>) -> Result<New<'p>, Stop> {
    step.new_page(kind::NODE)
}
