//! Changes of one node: a pair more, a pair less, a new value. The caller is alone in the tree.

use everleaf_pmem::{Medium, Page, PageNo, Result};

use super::WbTree;
use super::node::{ARRAY_LINE, STATE, VALID, View, array_words, bit, capacity, line_of_pair, pair};
use crate::parts::persist;
use crate::version::Version;

impl<M: Medium, V: Version> WbTree<M, V> {
    /// Stores a new value for a key that is there: one line, one fence.
    pub(super) fn replace(&self, key: u64, value: u64) -> Result<Option<u64>> {
        let (page, _held) = self.pool.latch(self.leaf_of(key)?)?;
        let view = View::of(page)?;
        let Some(k) = view.find(key) else { return Ok(None) };
        let m = self.pool.medium();
        let _op = m.enter()?;
        let (old, i) = (view.value(k), view.at(k));
        m.store(pair(page, i)[1], value);
        persist(m, page, line_of_pair(i));
        Ok(Some(old))
    }

    /// Adds a key that is not there.
    pub(super) fn put(&self, key: u64, value: u64) -> Result<()> {
        let leaf = self.leaf_of(key)?;
        let leaf = if self.is_full(leaf)? { self.make_room(key)? } else { leaf };
        self.add(leaf, key, value)
    }

    pub(super) fn is_full(&self, no: PageNo) -> Result<bool> {
        let page = self.pool.page(no)?;
        Ok(View::of(page)?.len() == capacity(page))
    }

    /// Adds a pair to a node that has room: four lines, three fences.
    pub(super) fn add(&self, no: PageNo, key: u64, value: u64) -> Result<()> {
        let m = self.pool.medium();
        let _op = m.enter()?;
        let (page, _held) = self.pool.latch(no)?;
        let (state, mut pairs) = self.begin(page)?;
        let i = (!(state >> 1)).trailing_zeros() as usize;
        debug_assert!(i < capacity(page), "a node with room");
        let at = pairs.partition_point(|other| pair(page, *other)[0].load() < key);
        pairs.insert(at, i);
        m.store(pair(page, i)[0], key);
        m.store(pair(page, i)[1], value);
        persist(m, page, line_of_pair(i));
        self.commit(page, &pairs, state | bit(i));
        Ok(())
    }

    /// Removes a key: three lines, three fences.
    pub(super) fn take_out(&self, key: u64) -> Result<Option<u64>> {
        let m = self.pool.medium();
        let (page, _held) = self.pool.latch(self.leaf_of(key)?)?;
        let view = View::of(page)?;
        let Some(k) = view.find(key) else { return Ok(None) };
        let (old, i) = (view.value(k), view.at(k));
        let _op = m.enter()?;
        let (state, mut pairs) = self.begin(page)?;
        m.fence();
        pairs.remove(k);
        self.commit(page, &pairs, state & !bit(i));
        Ok(Some(old))
    }

    /// Says that the slot array is not valid, flushed and unfenced: one line. Answers bitmap and pairs as they were.
    /// An array that a crash has left is made valid first.
    fn begin(&self, page: Page<'_>) -> Result<(u64, Vec<usize>)> {
        let m = self.pool.medium();
        let (pairs, mut state) = (View::of(page)?.pairs(), page.head(STATE).load());
        if state & VALID == 0 {
            state |= VALID;
            self.commit(page, &pairs, state);
        }
        m.store(page.head(STATE), state & !VALID);
        m.flush(page, 0);
        Ok((state, pairs))
    }

    /// The slot array, and then the bitmap, which commits: two lines, two fences.
    fn commit(&self, page: Page<'_>, pairs: &[usize], state: u64) {
        let m = self.pool.medium();
        self.store_array(page, pairs);
        persist(m, page, ARRAY_LINE);
        m.store(page.head(STATE), state);
        persist(m, page, 0);
    }

    /// Stores the slot array, unflushed.
    pub(super) fn store_array(&self, page: Page<'_>, pairs: &[usize]) {
        for (i, value) in array_words(pairs).into_iter().enumerate() {
            let word = page.body_word(i);
            if word.load() != value {
                self.pool.medium().store(word, value);
            }
        }
    }
}
