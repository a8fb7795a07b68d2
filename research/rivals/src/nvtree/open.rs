//! Making a tree, and opening one: a walk along the leaves, which builds the inner nodes and returns what has leaked.

use std::marker::PhantomData;
use std::sync::{Arc, RwLock};

use everleaf_pmem::{Error, Medium, Page, PageNo, Result, fallible};
use everleaf_pool::{Hooks, Pool, anchor, damaged, kind, retry};

use super::NvTree;
use super::inner::{Entry, Inner};
use super::leaf;
use crate::cells::give_back;
use crate::parts::expect_lines;
use crate::spine::{LeafRange, set_range};
use crate::version::Version;

/// A report of what an open has found and done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NvOpened {
    /// Keys.
    pub keys: u64,
    /// Leaves.
    pub leaves: u64,
    /// Leaves without a key, which were taken out of the chain.
    pub dropped: u64,
    /// Pages that nothing led to and that are free again.
    pub returned: u64,
}

/// Names this memory in errors.
const LEAVES: &str = "the leaves of a tree";

impl<M: Medium, V: Version> NvTree<M, V> {
    /// The facts about the leaves that a pool must know.
    pub fn hooks() -> Hooks<M> {
        Hooks { fits: Self::fits, nodes: std::any::type_name::<Self>(), ..Hooks::default() }
    }

    /// Makes an empty pool for a tree of this type, on an empty medium of pages of 4 slots or more.
    ///
    /// # Errors
    /// InvalidOption for pages of another shape; otherwise the same as for [`Pool::format`].
    pub fn format_pool(medium: M) -> Result<Pool<M>> {
        Pool::format(medium, Self::hooks())
    }

    /// Opens a pool with a tree of this type.
    ///
    /// # Errors
    /// The same as for [`Pool::open`].
    pub fn open_pool(medium: M) -> Result<Pool<M>> {
        Pool::open(medium, Self::hooks())
    }

    /// Makes an empty tree on an anchor that has none, durably.
    ///
    /// # Errors
    /// InUse for an anchor that has a tree; the same as for [`open`](Self::open).
    pub fn create(pool: Arc<Pool<M>>, anchor: PageNo) -> Result<Self> {
        if pool.anchor(anchor)? != 0 {
            return Err(Error::InUse { what: "the anchor has a tree already" });
        }
        Self::open(pool, anchor).map(|(tree, _)| tree)
    }

    /// Opens the tree of an anchor, the only one of its pool; makes an empty one if there is none. Leaves without keys
    /// go, and what a crash has leaked is returned; that is durable when this returns. O(size of the tree).
    ///
    /// # Errors
    /// InvalidOption for a medium with a journal, whose steps need none of this; WrongLayout for a pool of other
    /// nodes; Corrupt if the chain leads to what is no leaf, or keys do not ascend along it.
    pub fn open(pool: Arc<Pool<M>>, anchor: PageNo) -> Result<(Self, NvOpened)> {
        pool.expect_nodes(Self::hooks().nodes)?;
        expect_lines::<M>("NV-tree")?;
        let (head, mut opened) = (pool.anchor(anchor)?, NvOpened::default());
        let owners = pool.map_bytes()?;
        let mut kept = vec![false; owners.len()];
        let mut leaves = Vec::new();
        if head != 0 {
            leaves = walk::<M, V>(&pool, head, (&owners, &mut kept), &mut opened)?;
        }
        opened.returned = give_back(&pool, &owners, |no| kept[no as usize])?;
        if head == 0 {
            fallible::push(&mut leaves, (0, found(&pool, anchor)?), LEAVES)?;
        }
        for (i, (low, no)) in leaves.iter().enumerate() {
            let page = pool.page(*no)?;
            let mut held = page.latch().lock();
            let high = leaves.get(i + 1).map(|(low, _)| *low);
            set_range(page, LeafRange { low: *low, high });
            held.set_ready();
        }
        opened.leaves = leaves.len() as u64;
        let inner = RwLock::new(Inner::build(pool.geometry(), &leaves)?);
        let (rebuilds, _version) = (Default::default(), PhantomData);
        Ok((Self { pool, anchor, inner, rebuilds, _version }, opened))
    }
}

/// The leaves of the chain; those without keys are taken out, but for the first.
fn walk<M: Medium, V: Version>(
    pool: &Pool<M>,
    head: PageNo,
    (owners, kept): (&[u8], &mut [bool]),
    opened: &mut NvOpened,
) -> Result<Vec<Entry>> {
    let (mut leaves, mut pairs) = (Vec::<Entry>::new(), Vec::new());
    let (mut next, mut greatest, mut left) = (head, None, None::<Page<'_>>);
    while next != 0 {
        let page = pool.page(next)?;
        if owners.get(next as usize) != Some(&kind::NODE) || kept[next as usize] {
            return Err(damaged(page, 0, "the chain leads to no leaf, or twice to one"));
        }
        (kept[next as usize], next) = (true, leaf::next(page));
        leaf::alive(page, &mut pairs)?;
        let ends = pairs.first().zip(pairs.last()).map(|(first, last)| (first.0, last.0));
        let follows = ends.is_none_or(|(min, _)| greatest.is_none_or(|max| max < min));
        if !follows && !V::PUBLISHED {
            return Err(damaged(page, 0, "keys do not ascend along the leaves"));
        }
        match (ends, left) {
            (Some((min, max)), _) if follows => {
                fallible::push(
                    &mut leaves,
                    (if left.is_none() { 0 } else { min }, page.no()),
                    LEAVES,
                )?;
                (greatest, left) = (Some(max), Some(page));
                opened.keys += pairs.len() as u64;
            }
            (_, None) => {
                fallible::push(&mut leaves, (0, page.no()), LEAVES)?;
                left = Some(page);
            }
            // No search would look here.
            (_, Some(left)) => {
                let _held = left.latch().lock();
                leaf::set_next(pool.medium(), left, next);
                kept[page.no() as usize] = false;
                opened.dropped += 1;
            }
        }
    }
    Ok(leaves)
}

/// The first leaf of a new tree.
fn found<M: Medium>(pool: &Pool<M>, anchor: PageNo) -> Result<PageNo> {
    let m = pool.medium();
    retry(|| {
        let mut step = pool.step();
        let (head, _head_held) = step.new_page(kind::NODE)?;
        let (anchor_page, _anchor_held) = pool.latch(anchor)?;
        let mut op = step.enter()?;
        step.publish_alloc(&mut op);
        leaf::build(m, head, &[], 0, true);
        m.fence();
        anchor::set_root(m, &mut op, anchor_page, head.no());
        drop(op);
        Ok(head.no())
    })
}
