//! Writers: insert, a new value, remove, and the repair of a header. The caller is alone in the tree.

use everleaf_pmem::{Medium, PageNo, Result};
use everleaf_pool::kind::{KIND_WORD, NODE, pack};

use super::Wort;
use super::node::{Child, Head, nibble, shared};
use super::walk::{CHILDREN, Place};
use crate::cells::{Cell, new_page};
use crate::version::Version;

/// Lines of a node: the header, and eight children each.
const NODE_LINES: usize = 3;

impl<M: Medium, V: Version> Wort<M, V> {
    /// Stores a value, and answers the old one. The lines are those of the table in the module's documentation.
    pub(super) fn put(&self, key: u64, value: u64) -> Result<Option<u64>> {
        let (mut place, mut depth) = (self.root(), 0);
        loop {
            let no = match self.child(place)? {
                Child::None => return self.add_leaf(place, key, value).map(|()| None),
                Child::Leaf(leaf) => {
                    let (old, _) = self.leaf(leaf)?;
                    if old == key {
                        return self.set_value(leaf, value).map(Some);
                    }
                    let len = self.split(leaf.page, depth, [old, key])?;
                    let head = Head::of_key(key, depth, len);
                    let old = (nibble(old, head.at()), Child::Leaf(leaf));
                    return self.part(place, head, old, (key, value), None).map(|()| None);
                }
                Child::Node(no) => no,
            };
            let head = match self.head(no, depth)? {
                Some(head) => head,
                // Nothing is below, so the node may have any prefix.
                None => Head::of_key(key, depth, self.stored_head(no)?.at() - depth),
            };
            self.repair(no, head)?;
            let prefix = match self.prefix(no, head)? {
                Some(prefix) => prefix,
                None => {
                    self.repair(no, Head::of_key(key, depth, head.len.into()))?;
                    key
                }
            };
            let len = shared(prefix, key, depth);
            if len < head.len.into() {
                let below = depth + len + 1;
                let shorter = Head::of_key(prefix, below, head.at() - below);
                let old = (nibble(prefix, depth + len), Child::Node(no));
                let head = Head::of_key(key, depth, len);
                let shorten = Some((no, shorter));
                return self.part(place, head, old, (key, value), shorten).map(|()| None);
            }
            place = Place::in_node(no, nibble(key, head.at()));
            depth = head.at() + 1;
        }
    }

    fn add_leaf(&self, place: Place, key: u64, value: u64) -> Result<()> {
        let m = self.pool.medium();
        let leaf = self.leaves.take()?;
        let done = m.enter().and_then(|_op| {
            self.leaves.fill(leaf, &[key, value])?;
            m.fence();
            self.store(place, Child::Leaf(leaf).word())?;
            m.fence();
            Ok(())
        });
        done.inspect_err(|_| self.leaves.put_back(leaf))
    }

    /// Puts a new node into the way, with what was there as one child and a new leaf as the other. With `shorten`
    /// what was there is a node, which gets a new header.
    fn part(
        &self,
        place: Place,
        head: Head,
        old: (usize, Child),
        (key, value): (u64, u64),
        shorten: Option<(PageNo, Head)>,
    ) -> Result<()> {
        let m = self.pool.medium();
        let leaf = self.leaves.take()?;
        let no = new_page(&self.pool).inspect_err(|_| self.leaves.put_back(leaf))?;
        let new = (nibble(key, head.at()), Child::Leaf(leaf));
        let done = m.enter().and_then(|_op| {
            self.build(no, head, [old, new])?;
            self.leaves.fill(leaf, &[key, value])?;
            m.fence();
            self.store(place, Child::Node(no).word())?;
            if let Some((no, head)) = shorten {
                self.store(Place { page: no, word: 0 }, head.word())?;
            }
            m.fence();
            Ok(())
        });
        done.inspect_err(|_| {
            self.leaves.put_back(leaf);
            // If it does not work the next open returns the page.
            let _ = self.pool.free_page(no, NODE);
        })
    }

    /// Writes a node that nothing leads to and flushes it, unfenced: three lines.
    fn build(&self, no: PageNo, head: Head, children: [(usize, Child); 2]) -> Result<()> {
        debug_assert!(children[0].0 != children[1].0, "the children differ in a nibble");
        let (page, _held) = self.pool.latch(no)?;
        let m = self.pool.medium();
        let mut words = [0; CHILDREN];
        children.iter().for_each(|(i, child)| words[*i] = child.word());
        m.store(page.head(0), head.word());
        m.store(page.head(KIND_WORD), pack(NODE, 0, 0, 0));
        for (i, &value) in words.iter().enumerate() {
            let word = page.body(i);
            // A fresh page is 0, and the line is flushed as it is.
            if word.load() != value {
                m.store(word, value);
            }
        }
        (0..NODE_LINES).for_each(|line| m.flush(page, line));
        Ok(())
    }

    /// Stores a word and flushes its line, unfenced.
    fn store(&self, place: Place, value: u64) -> Result<()> {
        let (page, _held) = self.pool.latch(place.page)?;
        let word = page.word(place.word);
        self.pool.medium().store(word, value);
        self.pool.medium().flush(page, word.line());
        Ok(())
    }

    /// Gives a node the header that it should have: one line and one fence if it has another.
    pub(super) fn repair(&self, no: PageNo, head: Head) -> Result<()> {
        if self.stored_head(no)? == head {
            return Ok(());
        }
        let _op = self.pool.medium().enter()?;
        self.store(Place { page: no, word: 0 }, head.word())?;
        self.pool.medium().fence();
        Ok(())
    }

    /// Replaces the value of a leaf: one line and one fence.
    pub(super) fn set_value(&self, leaf: Cell, value: u64) -> Result<u64> {
        let m = self.pool.medium();
        let _op = m.enter()?;
        let (page, _held) = self.pool.latch(leaf.page)?;
        let word = self.leaves.word(page, leaf, 1);
        let old = word.load();
        m.store(word, value);
        m.flush(page, word.line());
        m.fence();
        Ok(old)
    }

    /// Removes a leaf: one line and one fence. Its cell is free then.
    pub(super) fn take_out(&self, place: Place, leaf: Cell) -> Result<u64> {
        let (_, old) = self.leaf(leaf)?;
        let _op = self.pool.medium().enter()?;
        self.store(place, Child::None.word())?;
        self.pool.medium().fence();
        self.leaves.put_back(leaf);
        Ok(old)
    }
}
