//! The lowest level: the list that survives.

use everleaf_pmem::{Medium, PageNo, Result};
use everleaf_tree::blink::Condition;

use super::link::{HEIGHT, KEY, LINK, Link, Place, VALUE};
use super::{Above, List, Retired};
use crate::cells::Cell;
use crate::span::Span;
use crate::version::Version;

/// A place between two nodes: all nodes up to `before` have lower keys, and `next` is its link.
struct Spot {
    before: Place,
    next: Link,
    /// The node of `next`, if it has the key.
    found: Option<Cell>,
}

impl<M: Medium, V: Version, A: Above> List<M, V, A> {
    pub(super) fn head(&self) -> Place {
        Place::of_anchor(self.anchor)
    }

    pub(super) fn stored(&self, place: Place) -> Result<Link> {
        Ok(Link(self.pool.page(place.page)?.word(place.word).load()))
    }

    /// A link. In `Sound`, who meets one that may not be durable makes it so.
    #[inline]
    fn link(&self, place: Place) -> Result<Link> {
        let link = self.stored(place)?;
        if link.is_dirty() { self.help(place, link) } else { Ok(link) }
    }

    #[cold]
    fn help(&self, place: Place, link: Link) -> Result<Link> {
        self.persist(place.page, place.word)?;
        // Else somebody else has gone on from it, who made it durable before.
        self.swap(place, link, link.clean())?;
        Ok(link.clean())
    }

    #[inline]
    fn word(&self, node: Cell, i: usize) -> Result<u64> {
        let page = self.nodes.page(node)?;
        Ok(self.nodes.word(page, node, i).load())
    }

    /// Flushes the line of a word, and fences.
    pub(super) fn persist(&self, page: PageNo, word: usize) -> Result<()> {
        let page = self.pool.page(page)?;
        let m = self.pool.medium();
        m.flush(page, page.word(word).line());
        m.fence();
        Ok(())
    }

    /// Compares and swaps, under the latch of the page.
    pub(super) fn swap(&self, place: Place, old: Link, new: Link) -> Result<bool> {
        let (page, held) = self.pool.latch(place.page)?;
        let word = page.word(place.word);
        if word.load() != old.0 {
            held.unlock_unchanged();
            return Ok(false);
        }
        let _op = self.pool.medium().enter()?;
        self.pool.medium().store(word, new.0);
        Ok(true)
    }

    /// Compares and swaps a link durably; false if it was another one. One line, one fence.
    fn relink(&self, place: Place, old: Link, new: Link) -> Result<bool> {
        let stored = Self::tagged(new);
        if !self.swap(place, old, stored)? {
            return Ok(false);
        }
        self.persisted(place, stored)?;
        Ok(true)
    }

    /// A link as it is stored before it is durable.
    fn tagged(link: Link) -> Link {
        if Self::has('a') { link } else { link.dirty() }
    }

    /// Makes a link durable that this thread has stored.
    fn persisted(&self, place: Place, stored: Link) -> Result<()> {
        self.persist(place.page, place.word)?;
        if stored.is_dirty() {
            self.swap(place, stored, stored.clean())?;
        }
        Ok(())
    }

    /// Where a search for a key begins: the link of the last node with an entry above that is not removed.
    fn start(&self, key: u64) -> Result<(Place, Link)> {
        let mut key = key;
        while let Some((lower, node)) = self.above.below(key)? {
            let link = self.link(Place::of_node(node))?;
            if !link.is_marked() {
                return Ok((Place::of_node(node), link));
            }
            key = lower;
        }
        Ok((self.head(), self.link(self.head())?))
    }

    /// Where a key is, or would be. A writer unlinks removed nodes on its way.
    fn locate(&self, key: u64, unlink: bool) -> Result<Spot> {
        'again: loop {
            let (mut before, mut next) = self.start(key)?;
            while let Some(node) = next.node() {
                let behind = self.link(Place::of_node(node))?;
                if behind.is_marked() {
                    let behind = behind.unmarked();
                    if unlink && !self.relink(before, next, behind)? {
                        continue 'again;
                    }
                    next = behind;
                    continue;
                }
                let found = self.word(node, KEY)?;
                if found >= key {
                    return Ok(Spot { before, next, found: (found == key).then_some(node) });
                }
                (before, next) = (Place::of_node(node), behind);
            }
            return Ok(Spot { before, next, found: None });
        }
    }

    /// The value of a node. In `Sound` it is durable.
    fn value(&self, node: Cell) -> Result<u64> {
        let page = self.nodes.page(node)?;
        let word = self.nodes.word(page, node, VALUE);
        let value = word.load();
        if !Self::has('a') && page.latch().is_locked() {
            self.persist(node.page, word.index())?;
        }
        Ok(value)
    }

    pub(super) fn value_of(&self, key: u64) -> Result<Option<u64>> {
        if let Some(node) = self.above.exact(key)?
            && !self.link(Place::of_node(node))?.is_marked()
        {
            return self.value(node).map(Some);
        }
        match self.locate(key, false)?.found {
            Some(node) => self.value(node).map(Some),
            None => Ok(None),
        }
    }

    /// The last entry that is not above a key.
    pub(super) fn floor(&self, key: u64) -> Result<Option<(u64, u64)>> {
        let (place, mut next) = self.start(key)?;
        let mut last = place.node();
        while let Some(node) = next.node() {
            let behind = self.link(Place::of_node(node))?;
            if self.word(node, KEY)? > key {
                break;
            }
            if !behind.is_marked() {
                last = Some(node);
            }
            next = behind;
        }
        match last {
            Some(node) => Ok(Some((self.word(node, KEY)?, self.value(node)?))),
            None => Ok(None),
        }
    }

    /// Collects entries upwards.
    pub(super) fn collect_from(&self, span: &mut Span) -> Result<()> {
        let mut next = self.locate(span.low, false)?.next;
        while let Some(node) = next.node() {
            let behind = self.link(Place::of_node(node))?;
            let key = self.word(node, KEY)?;
            if span.is_full() || key > span.high {
                break;
            }
            if !behind.is_marked() && key >= span.low {
                span.found.push((key, self.value(node)?));
            }
            next = behind;
        }
        Ok(())
    }

    /// Adds a key; what is to be done if it is there, the condition says.
    pub(super) fn put(&self, key: u64, value: u64, condition: Condition) -> Result<Option<u64>> {
        let mut new = None;
        let done = self.try_put((key, value), condition, &mut new);
        // Nothing leads to it: it was not needed.
        new.into_iter().for_each(|node| self.nodes.put_back(node));
        done
    }

    fn try_put(
        &self,
        (key, value): (u64, u64),
        condition: Condition,
        new: &mut Option<Cell>,
    ) -> Result<Option<u64>> {
        let (m, height) = (self.pool.medium(), A::height_of(key));
        loop {
            let spot = self.locate(key, true)?;
            if let Some(node) = spot.found {
                if condition == Condition::Absent {
                    return self.value(node).map(Some);
                }
                match self.set_value(node, value)? {
                    Some(old) => return Ok(Some(old)),
                    None => continue,
                }
            }
            let node = match *new {
                Some(node) => node,
                None => *new.insert(self.nodes.take()?),
            };
            let words = [key, value, spot.next.0, height as u64];
            let stored = Self::tagged(Link::to(node));
            if Self::has('b') && spot.before == self.head() && spot.next.node().is_none() {
                self.store_node(node, &words)?;
                if self.swap(spot.before, spot.next, stored)? {
                    *new = None;
                    self.raise(key, node, height)?;
                    return Ok(None);
                }
                continue;
            }
            self.store_node(node, &words)?;
            if Self::has('a') && A::FIRST {
                self.above.add(key, node, height);
            }
            self.nodes.flush(node)?;
            m.fence();
            if self.swap(spot.before, spot.next, stored)? {
                *new = None;
                self.persisted(spot.before, stored)?;
                self.raise(key, node, height)?;
                return Ok(None);
            }
            if Self::has('a') && A::FIRST {
                self.raze(key, node);
            }
        }
    }

    fn store_node(&self, node: Cell, words: &[u64]) -> Result<()> {
        let _op = self.pool.medium().enter()?;
        self.nodes.store(node, words)
    }

    /// Enters a node above, unless somebody removes it.
    fn raise(&self, key: u64, node: Cell, height: usize) -> Result<()> {
        if height == 0 {
            return Ok(());
        }
        self.above.add(key, node, height);
        if self.stored(Place::of_node(node))?.is_marked() {
            self.raze(key, node);
        }
        Ok(())
    }

    fn raze(&self, key: u64, node: Cell) {
        if let Some(gone) = self.above.remove(key, node) {
            self.limbo.retire(Retired::Above(gone));
        }
    }

    pub(super) fn replace(&self, key: u64, value: u64) -> Result<Option<u64>> {
        while let Some(node) = self.locate(key, true)?.found {
            if let Some(old) = self.set_value(node, value)? {
                return Ok(Some(old));
            }
        }
        Ok(None)
    }

    /// Replaces the value of a node, unless it is removed: one line, one fence.
    fn set_value(&self, node: Cell, value: u64) -> Result<Option<u64>> {
        let m = self.pool.medium();
        let (page, held) = self.pool.latch(node.page)?;
        if Link(self.nodes.word(page, node, LINK).load()).is_marked() {
            held.unlock_unchanged();
            return Ok(None);
        }
        let word = self.nodes.word(page, node, VALUE);
        let old = word.load();
        {
            let _op = m.enter()?;
            m.store(word, value);
        }
        let held = (!Self::has('a')).then_some(held);
        m.flush(page, word.line());
        m.fence();
        drop(held);
        Ok(Some(old))
    }

    pub(super) fn take_out(&self, key: u64) -> Result<Option<u64>> {
        loop {
            let Spot { before, next, found } = self.locate(key, true)?;
            let Some(node) = found else { return Ok(None) };
            let place = Place::of_node(node);
            let behind = self.link(place)?;
            if behind.is_marked() {
                continue;
            }
            if Self::has('c') {
                let old = self.word(node, VALUE)?;
                self.raze(key, node);
                if !self.relink(before, next, behind)? {
                    continue;
                }
                self.limbo.retire(Retired::Node(node));
                return Ok(Some(old));
            }
            let Some((old, stored)) = self.mark(node, behind)? else { continue };
            self.persisted(place, stored)?;
            if !self.relink(before, next, behind)? {
                // Somebody else has unlinked it, or the way there has changed. It must be durable, since the
                // cell is used again.
                let spot = self.locate(key, true)?;
                self.persist(spot.before.page, spot.before.word)?;
            }
            if self.word(node, HEIGHT)? > 0 {
                self.raze(key, node);
            }
            self.limbo.retire(Retired::Node(node));
            return Ok(Some(old));
        }
    }

    /// Marks a node whose link is `behind`, and answers its value and the link as stored; `None` if it has another
    /// link. Nothing is flushed.
    fn mark(&self, node: Cell, behind: Link) -> Result<Option<(u64, Link)>> {
        let m = self.pool.medium();
        let (page, held) = self.pool.latch(node.page)?;
        let word = self.nodes.word(page, node, LINK);
        if word.load() != behind.0 {
            held.unlock_unchanged();
            return Ok(None);
        }
        // Values change under this latch, and not in a node that is marked.
        let old = self.nodes.word(page, node, VALUE).load();
        let stored = Self::tagged(behind.marked());
        let _op = m.enter()?;
        m.store(word, stored.0);
        Ok(Some((old, stored)))
    }
}
