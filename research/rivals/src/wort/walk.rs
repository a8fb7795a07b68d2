//! Ways through the tree: to a key, to any leaf, over a range; and the header of a node as it should be.

use everleaf_pmem::{HEAD_WORDS, Medium, PageNo, Result};
use everleaf_pool::damaged;

use super::Wort;
use super::node::{Child, Head, KEPT, NIBBLES, nibble, shared};
use crate::cells::Cell;
use crate::span::Span;
use crate::version::Version;

/// Children of a node.
pub(super) const CHILDREN: usize = 16;
/// Words of a leaf.
pub(super) const LEAF_WORDS: usize = 2;
/// Header word of the anchor that has the topmost child.
const ROOT_CHILD_WORD: usize = 2;

/// A word that names a child: of a node, or of the anchor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub page: PageNo,
    /// Index of the word in its page, the header first.
    pub word: usize,
}

impl Place {
    pub fn in_node(page: PageNo, child: usize) -> Self {
        Self { page, word: HEAD_WORDS + child }
    }
}

impl<M: Medium, V: Version> Wort<M, V> {
    pub(super) fn root(&self) -> Place {
        Place { page: self.anchor, word: ROOT_CHILD_WORD }
    }

    #[inline]
    pub(super) fn child(&self, place: Place) -> Result<Child> {
        Ok(Child::of_word(self.pool.page(place.page)?.word(place.word).load()))
    }

    /// Key and value of a leaf.
    #[inline]
    pub(super) fn leaf(&self, leaf: Cell) -> Result<(u64, u64)> {
        let page = self.leaves.page(leaf)?;
        let word = |i| self.leaves.word(page, leaf, i).load();
        Ok((word(0), word(1)))
    }

    /// The header of a node to which `depth` nibbles lead; `None` if a crash has left another one and nothing is
    /// below. Nothing is stored.
    #[inline]
    pub(super) fn head(&self, no: PageNo, depth: usize) -> Result<Option<Head>> {
        let head = self.stored_head(no)?;
        if usize::from(head.depth) == depth {
            Ok(Some(head))
        } else {
            self.computed(no, head, depth)
        }
    }

    pub(super) fn stored_head(&self, no: PageNo) -> Result<Head> {
        let page = self.pool.page(no)?;
        let head = Head::of_word(page.head(0).load());
        if head.at() >= NIBBLES {
            return Err(damaged(page, 0, format!("a prefix that ends behind the key: {head:?}")));
        }
        Ok(head)
    }

    /// The header that a node should have.
    #[cold]
    fn computed(&self, no: PageNo, head: Head, depth: usize) -> Result<Option<Head>> {
        if head.at() < depth {
            let what = format!("{head:?} of a node at depth {depth}");
            return Err(damaged(self.pool.page(no)?, 0, what));
        }
        if V::PUBLISHED {
            return self.of_two_leaves(no, depth).map(Some);
        }
        let key = self.any_key(no)?;
        Ok(key.map(|key| Head::of_key(key, depth, head.at() - depth)))
    }

    /// `recovery_prefix` of the source.
    fn of_two_leaves(&self, no: PageNo, depth: usize) -> Result<Head> {
        let mut keys = [None; 2];
        let mut found = 0;
        for i in 0..CHILDREN {
            let child = self.child(Place::in_node(no, i))?;
            if child != Child::None && found < 2 {
                keys[found] = self.least_key(child)?;
                found += 1;
            }
        }
        let (Some(a), Some(b)) = (keys[0], keys[1]) else {
            let what = "recovery_prefix reads a leaf that it has not set";
            return Err(damaged(self.pool.page(no)?, 0, what));
        };
        Ok(Head::of_key(b, depth, self.split(no, depth, [a, b])?))
    }

    /// How many nibbles two keys share that are both led to by `depth` nibbles; `no` is a page to blame.
    pub(super) fn split(&self, no: PageNo, depth: usize, keys: [u64; 2]) -> Result<usize> {
        let len = if depth < NIBBLES { shared(keys[0], keys[1], depth) } else { 0 };
        if depth + len >= NIBBLES {
            return Err(damaged(self.pool.page(no)?, 0, "two leaves for one way"));
        }
        Ok(len)
    }

    /// The least key below a child; `None` if there is no leaf. O(depth), and what removes have left empty.
    fn least_key(&self, child: Child) -> Result<Option<u64>> {
        match child {
            Child::None => Ok(None),
            Child::Leaf(leaf) => self.leaf(leaf).map(|(key, _)| Some(key)),
            Child::Node(no) => self.any_key(no),
        }
    }

    /// The least key below a node.
    pub(super) fn any_key(&self, no: PageNo) -> Result<Option<u64>> {
        for i in 0..CHILDREN {
            if let Some(key) = self.least_key(self.child(Place::in_node(no, i))?)? {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// The leaf of a key, and the word that names it. Writers have headers `repaired` on the way.
    #[inline]
    pub(super) fn find(&self, key: u64, repaired: bool) -> Result<Option<(Place, Cell)>> {
        let (mut place, mut depth) = (self.root(), 0);
        loop {
            let no = match self.child(place)? {
                Child::None => return Ok(None),
                Child::Leaf(leaf) => {
                    return Ok((self.leaf(leaf)?.0 == key).then_some((place, leaf)));
                }
                Child::Node(no) => no,
            };
            let Some(head) = self.head(no, depth)? else { return Ok(None) };
            if repaired {
                self.repair(no, head)?;
            }
            if !head.agrees(key) {
                return Ok(None);
            }
            place = Place::in_node(no, nibble(key, head.at()));
            depth = head.at() + 1;
        }
    }

    /// The whole prefix of a node: nibbles `head.depth..head.at()` of a key that is 0 elsewhere, or anything there.
    /// `None` if the header has not all of it and nothing is below.
    pub(super) fn prefix(&self, no: PageNo, head: Head) -> Result<Option<u64>> {
        if usize::from(head.len) <= KEPT { Ok(Some(head.prefix())) } else { self.any_key(no) }
    }

    /// Collects what lies below a child to which the first `depth` nibbles of `base` lead; it is 0 behind them.
    pub(super) fn visit(
        &self,
        child: Child,
        depth: usize,
        base: u64,
        span: &mut Span,
    ) -> Result<()> {
        let no = match child {
            Child::None => return Ok(()),
            Child::Leaf(leaf) => {
                let entry = self.leaf(leaf)?;
                if span.contains(entry.0) && !span.is_full() {
                    span.found.push(entry);
                }
                return Ok(());
            }
            Child::Node(no) => no,
        };
        let Some(head) = self.head(no, depth)? else { return Ok(()) };
        let Some(prefix) = self.prefix(no, head)? else { return Ok(()) };
        let (place, below) = (4 * (NIBBLES - 1 - head.at()), above(depth));
        // The nibbles of the prefix, between those of the way and the children's.
        let base = base | prefix & below & !(above(head.at()));
        for i in 0..CHILDREN {
            let i = if span.back { CHILDREN - 1 - i } else { i };
            let low = base | (i as u64) << place;
            let high = low | ((1 << place) - 1);
            if span.is_full() {
                return Ok(());
            }
            if low <= span.high && high >= span.low {
                self.visit(self.child(Place::in_node(no, i))?, head.at() + 1, low, span)?;
            }
        }
        Ok(())
    }
}

/// The bits of a key behind its first `nibbles` nibbles.
fn above(nibbles: usize) -> u64 {
    u64::MAX >> (4 * nibbles)
}
