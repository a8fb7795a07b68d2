//! Splits, under the log, and what an open does about a split that was cut off.

use everleaf_pmem::{Medium, PageNo, Result};
use everleaf_pool::kind::{KIND_WORD, NODE, pack};

use super::WbTree;
use super::node::{
    ARRAY_LINE, ARRAY_WORDS, LINK, STATE, VALID, View, bit, capacity, level, link, pair,
};
use crate::cells::new_page;
use crate::parts::persist;
use crate::version::Version;

/// Header word of the log that names the node that is being split.
const LOGGED: usize = 3;
/// Header word of the log that names the new node.
const NEW: usize = 4;

/// A node that nothing leads to yet.
struct Fresh<'a> {
    level: u8,
    link: u64,
    pairs: &'a [(u64, u64)],
}

impl<M: Medium, V: Version> WbTree<M, V> {
    /// Splits the full leaf for a key, and the full nodes above it first. Answers the leaf that has room for it.
    pub(super) fn make_room(&self, key: u64) -> Result<PageNo> {
        let mut way = vec![self.root()?];
        loop {
            let page = self.pool.page(way[way.len() - 1])?;
            if level(page) == 0 {
                break;
            }
            way.push(View::of(page)?.child(key));
        }
        // The lowest node above the leaf that has room.
        let mut full = way.len() - 1;
        while full > 0 && self.is_full(way[full - 1])? {
            full -= 1;
        }
        let mut parent = if full == 0 { self.grow(way[0])? } else { way[full - 1] };
        for &no in &way[full..] {
            let (least, new) = self.split(no, parent)?;
            parent = if key < least { no } else { new };
        }
        Ok(parent)
    }

    /// Puts a new root above the old one: three lines, two fences.
    fn grow(&self, old: PageNo) -> Result<PageNo> {
        let m = self.pool.medium();
        let level = level(self.pool.page(old)?) + 1;
        let no = new_page(&self.pool)?;
        let _op = m.enter()?;
        self.build(no, &Fresh { level, link: old.into(), pairs: &[] }, 2)?;
        m.fence();
        self.set_root(no)?;
        Ok(no)
    }

    /// Writes a node that nothing leads to and flushes its first lines, unfenced.
    fn build(&self, no: PageNo, fresh: &Fresh<'_>, lines: usize) -> Result<()> {
        let m = self.pool.medium();
        let (page, _held) = self.pool.latch(no)?;
        for (i, (key, value)) in fresh.pairs.iter().enumerate() {
            let [k, v] = pair(page, i);
            m.store(k, *key);
            m.store(v, *value);
        }
        self.store_array(page, &(0..fresh.pairs.len()).collect::<Vec<_>>());
        let state = (0..fresh.pairs.len()).fold(VALID, |state, i| state | bit(i));
        m.store(page.head(STATE), state);
        m.store(page.head(LINK), fresh.link);
        m.store(page.head(KIND_WORD), pack(NODE, fresh.level, 0, 0));
        (0..lines).for_each(|line| m.flush(page, line));
        Ok(())
    }

    /// The lines of a node.
    fn node_lines(&self) -> usize {
        1 + self.pool.geometry().slots() / 4
    }

    /// Moves the upper half of a full node to a new one, which its parent gets. Answers its least key, and itself.
    fn split(&self, no: PageNo, parent: PageNo) -> Result<(u64, PageNo)> {
        let m = self.pool.medium();
        let new = new_page(&self.pool)?;
        let _op = m.enter()?;
        self.begin_log(no, new)?;
        let page = self.pool.page(no)?;
        let (view, is_leaf) = (View::of(page)?, level(page) == 0);
        let (mut kept, half) = (view.pairs(), view.len() / 2);
        let least = view.key(half);
        // The middle key of an inner node goes up, and its child is the leftmost one.
        let first = if is_leaf { half } else { half + 1 };
        let moved: Vec<_> = (first..view.len()).map(|k| (view.key(k), view.value(k))).collect();
        let after = if is_leaf { link(page).into() } else { view.value(half) };
        kept.truncate(half);
        let fresh = Fresh { level: level(page), link: after, pairs: &moved };
        let lines = if V::has('a') { 1 } else { self.node_lines() };
        self.build(new, &fresh, lines)?;
        m.fence();
        {
            let (page, _held) = self.pool.latch(no)?;
            self.store_array(page, &kept);
            let state = kept.iter().fold(VALID, |state, i| state | bit(*i));
            m.store(page.head(STATE), state);
            if is_leaf {
                m.store(page.head(LINK), new.into());
            }
            m.flush(page, ARRAY_LINE);
            m.flush(page, 0);
            m.fence();
        }
        if V::has('c') {
            self.end_log()?;
        }
        self.add(parent, least, new.into())?;
        if !V::has('c') {
            self.end_log()?;
        }
        Ok((least, new))
    }

    /// Copies a node into the log, and makes that count: the lines of a node and one, two fences.
    fn begin_log(&self, no: PageNo, new: PageNo) -> Result<()> {
        let m = self.pool.medium();
        let node = self.pool.page(no)?;
        let (log, _held) = self.pool.latch(self.log)?;
        for i in 0..ARRAY_WORDS + 2 * capacity(node) {
            m.store(log.body_word(i), node.body_word(i).load());
        }
        m.store(log.head(STATE), node.head(STATE).load());
        m.store(log.head(LINK), node.head(LINK).load());
        m.store(log.head(NEW), new.into());
        (0..self.node_lines()).for_each(|line| m.flush(log, line));
        m.fence();
        m.store(log.head(LOGGED), no.into());
        if !V::has('b') {
            persist(m, log, 0);
        }
        Ok(())
    }

    /// One line, one fence.
    fn end_log(&self) -> Result<()> {
        let (log, _held) = self.pool.latch(self.log)?;
        self.pool.medium().store(log.head(LOGGED), 0);
        persist(self.pool.medium(), log, 0);
        Ok(())
    }

    /// The node that was being split when a crash came, and the new one.
    pub(super) fn cut_off(&self) -> Result<Option<(PageNo, PageNo)>> {
        let log = self.pool.page(self.log)?;
        let word = |i| log.head(i).load() as PageNo;
        Ok((word(LOGGED) != 0).then(|| (word(LOGGED), word(NEW))))
    }

    /// Ends a split that was cut off: by the log, unless the new node `is_linked`. Durable when it returns.
    pub(super) fn settle(&self, no: PageNo, is_linked: bool) -> Result<()> {
        let m = self.pool.medium();
        let _op = m.enter()?;
        if !is_linked {
            let log = self.pool.page(self.log)?;
            let (page, _held) = self.pool.latch(no)?;
            for i in 0..ARRAY_WORDS {
                m.store(page.body_word(i), log.body_word(i).load());
            }
            m.store(page.head(STATE), log.head(STATE).load());
            m.store(page.head(LINK), log.head(LINK).load());
            m.flush(page, ARRAY_LINE);
            m.flush(page, 0);
            m.fence();
        }
        self.end_log()
    }

    /// Makes the log and an empty root of a tree that has none.
    pub(super) fn found(&mut self) -> Result<()> {
        let (log, root) = (new_page(&self.pool)?, new_page(&self.pool)?);
        let m = self.pool.medium();
        let _op = m.enter()?;
        self.build(log, &Fresh { level: 0, link: 0, pairs: &[] }, 1)?;
        {
            let (page, _held) = self.pool.latch(log)?;
            m.store(page.head(LOGGED), 0);
            m.flush(page, 0);
        }
        self.build(root, &Fresh { level: 0, link: 0, pairs: &[] }, 2)?;
        m.fence();
        self.set_log(log)?;
        self.log = log;
        self.set_root(root)
    }
}
