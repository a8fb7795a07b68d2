//! A sorted list of nodes of one pair on persistent memory, and what leads into it from DRAM.
//!
//! The [skip list](crate::skiplist) has towers above it, the [uTree](crate::utree) a tree; the list is the same.
//!
//! ```text
//! anchor   | w2 the link to the first node |
//! node     a cell of 32 bytes: key | value | link | height; two in a line, in pages of any shape
//! link     page << 32 | cell << 2 | 2 not flushed yet (only in Sound) | 1 the node of this link is removed
//! ```
//!
//! | change | lines, each row durable before the next | lines / fences |
//! |---|---|---|
//! | insert | the node; the link of the node before | 2 / 2 |
//! | remove | the mark in the node's own link; the link of the node before | 2 / 2 |
//! | update | the value | 1 / 1 |
//!
//! The lines of the pool's map for new pages are the allocator's and come on top. A crash can leave a node that
//! nothing leads to, which the next open finds free; or one that is marked and still linked, which it unlinks.
//!
//! **Threads.** A [`Medium`] has no compare-and-swap. A writer therefore latches the page of the word that it
//! changes, compares, stores and unlatches, and waits for nobody while it has a latch: two words of one page are
//! changed one after the other, which the sources do not need. Searches take no latch. A node that was removed is
//! used again when no operation runs any more that could be on its way to it ([`limbo`](crate::limbo)).
//!
//! **Bugs**, which a version may have, and which of them a source has ([`Above::BUGS`]):
//!
//! - **a** Others see a link, or an entry in DRAM, before the node is durable. A reader may answer what a crash then
//!   takes back. Worse, a writer may link its node behind one that no durable link leads to: its insert is answered,
//!   and the crash loses both.
//! - **b** The first node of an empty list is not flushed at all.
//! - **c** A remove does not mark the node: it changes the link before it alone, and what another thread links behind
//!   the node in the meantime is gone.
//!
//! Without **a**, a link is stored with a tag, flushed, and stored again without it; a thread that meets the tag flushes the
//! line first. A value has no bit for a tag. There the latch is the tag: an update holds it until the value is
//! durable, and a reader that meets it held flushes the value's line. With one thread that flushes nothing more.

pub mod above;
mod level;
pub(crate) mod link;
mod open;

pub use above::Above;
pub use open::ListOpened;

use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::Arc;

use everleaf_pmem::{Medium, PageNo, Result};
use everleaf_pool::Pool;
use everleaf_tree::Index;
use everleaf_tree::blink::Condition;

use crate::cells::{Cell, Cells};
use crate::limbo::Limbo;
use crate::span::Span;
use crate::version::Version;

/// A list on a strict medium, with what leads into it, in one of its two versions. Every write is durable when it
/// returns.
pub struct List<M: Medium, V: Version, A: Above> {
    pool: Arc<Pool<M>>,
    anchor: PageNo,
    nodes: Cells<M>,
    above: A,
    limbo: Limbo<Retired<A::Gone>>,
    _version: PhantomData<V>,
}

/// An item that has been taken out and may still be looked at.
enum Retired<G> {
    Node(Cell),
    Above(G),
}

impl<M: Medium, V: Version, A: Above> List<M, V, A> {
    /// The pool that the list is in.
    pub fn pool(&self) -> &Arc<Pool<M>> {
        &self.pool
    }

    /// Whether this version has a bug, and the source has it.
    fn has(bug: char) -> bool {
        A::BUGS.contains(bug) && V::has(bug)
    }

    /// Nodes have no way back: each entry is searched for from the top.
    fn collect_back(&self, span: &mut Span) -> Result<()> {
        while !span.is_full() {
            let Some(entry) = self.floor(span.high)?.filter(|entry| span.contains(entry.0)) else {
                break;
            };
            span.found.push(entry);
            match entry.0.checked_sub(1) {
                Some(high) => span.high = high,
                None => break,
            }
        }
        Ok(())
    }

    fn collect(&self, span: Option<Span>) -> Result<Vec<(u64, u64)>> {
        let Some(mut span) = span else { return Ok(Vec::new()) };
        let _pin = self.limbo.pin();
        match span.back {
            true => self.collect_back(&mut span)?,
            false => self.collect_from(&mut span)?,
        }
        Ok(span.found)
    }
}

impl<M: Medium, V: Version, A: Above> Index for List<M, V, A> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        let _pin = self.limbo.pin();
        self.value_of(key)
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        let _pin = self.limbo.pin();
        self.put(key, value, Condition::Always)
    }
    fn add(&self, key: u64, value: u64) -> Result<Option<u64>> {
        let _pin = self.limbo.pin();
        self.put(key, value, Condition::Absent)
    }
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        let _pin = self.limbo.pin();
        self.replace(key, value)
    }
    fn remove(&self, key: u64) -> Result<Option<u64>> {
        let pin = self.limbo.pin();
        let removed = self.take_out(key)?;
        drop(pin);
        self.limbo.collect(|retired| match retired {
            Retired::Node(node) => self.nodes.put_back(node),
            Retired::Above(gone) => self.above.put_back(gone),
        });
        Ok(removed)
    }
    fn first(&self) -> Result<Option<(u64, u64)>> {
        self.range(Bound::Unbounded, Bound::Unbounded, 1).map(|found| found.first().copied())
    }
    fn last(&self) -> Result<Option<(u64, u64)>> {
        self.range_back(Bound::Unbounded, Bound::Unbounded, 1).map(|found| found.first().copied())
    }
    fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>> {
        self.collect(Span::of(from, to, limit, false))
    }
    fn range_back(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, u64)>> {
        self.collect(Span::of(from, to, limit, true))
    }
}
