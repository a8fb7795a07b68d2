//! Checking a tree: everything that its pages and records say is looked at, and nothing believed.
//!
//! Level by level from the root down, each from left to right by the sibling links. What must hold:
//! nodes are pages of nodes in the map and are met once; keys rise, lie within their node's bounds
//! and are named once; a node's lower bound is its left neighbour's upper one; each entry of a
//! parent names the node that begins at its separator; every record that is named can be read. A
//! node without an entry in its parent is no damage: a split that a crash interrupted, counted.

use std::borrow::Borrow;
use std::collections::HashSet;

use everleaf_pmem::{Error, LINE_BYTES, Medium, Page, PageNo, Result, room};
use everleaf_pool::{Damage, Leaks, Pool, RecordRef, kind};

use crate::blink::{Blink, log};
use crate::keys::Keys;
use crate::node::{Layout, Probe, RUN_WORD, Run, Shape, Slot, sibling};

/// What a tree holds, and what is wrong with it.
#[derive(Debug, Clone, Default)]
pub struct TreeReport {
    /// The page that names the tree in its pool.
    pub anchor: PageNo,
    /// Keys.
    pub entries: u64,
    /// Nodes of each level, the leaves first.
    pub nodes_by_level: Vec<u64>,
    /// Slots used of all slots in the leaves, 0 to 1.
    pub fill: f64,
    /// Bytes of all keys.
    pub key_bytes: u64,
    /// Bytes of all values.
    pub value_bytes: u64,
    /// Nodes that their parent has no entry for: a crash came between the two steps of a split.
    /// Searches find them, and the next writer that passes enters them.
    pub missing_entries: u64,
    /// What is wrong.
    pub damages: Vec<Damage>,
    /// The tree's nodes.
    pub pages: HashSet<PageNo>,
    /// The tree's log page, if it has one.
    pub log: Option<PageNo>,
    /// The records that the tree names: of its entries and of bounds.
    pub records: Vec<RecordRef>,
}

/// What memory here is for.
const CHECK: &str = "a check of a tree";

/// What is in use in a pool and named by none of `trees`; give it the reports of all trees of the
/// pool. On a journal that is nothing; on strict media each crash may leave a little.
/// O(pages + records).
///
/// # Errors
/// Corrupt map or record pages; I/O errors.
pub fn leaks<M: Medium>(pool: &Pool<M>, trees: &[TreeReport]) -> Result<Leaks> {
    let mut named = HashSet::new();
    for r in trees.iter().flat_map(|tree| &tree.records) {
        room::insert(&mut named, *r, CHECK)?;
    }
    // By the page's number, so that a look costs the same however many trees there are.
    let mut kinds = room::filled(kind::FREE, pool.pages_in_groups() as usize, CHECK)?;
    let mut name = |no: PageNo, kind| {
        if let Some(place) = kinds.get_mut(no as usize) {
            *place = kind;
        }
    };
    for tree in trees {
        tree.pages.iter().for_each(|no| name(*no, kind::NODE));
        tree.log.iter().for_each(|no| name(*no, kind::LOG));
        name(tree.anchor, kind::ANCHOR);
    }
    pool.leaks(|kind, no| kinds.get(no as usize) == Some(&kind), &named)
}

/// What is wrong with the records that `trees` name; give it the reports of all trees of the pool:
/// records that are free, and records that are named twice. O(records).
///
/// # Errors
/// Corrupt map or record pages; I/O errors.
pub fn misnamed<M: Medium>(pool: &Pool<M>, trees: &[TreeReport]) -> Result<Vec<Damage>> {
    let mut in_use = HashSet::new();
    for r in pool.records() {
        room::insert(&mut in_use, r?, CHECK)?;
    }
    let named = trees.iter().flat_map(|tree| tree.records.iter().copied());
    let damage = |r: RecordRef| Damage {
        page: r.page(),
        offset_bytes_in_page: LINE_BYTES + 16 * usize::from(r.unit()),
        what: "a record that a tree names is free, or is named twice".into(),
    };
    Ok(named.filter(|r| !in_use.remove(r)).map(damage).collect())
}

/// An entry of the level above: the node that must begin at a separator.
struct Entry<K: Keys> {
    separator: K::Owned,
    child: PageNo,
}

/// A node with its bounds. `high`: `None` is +infinity.
struct Node<'t, K: Keys> {
    page: Page<'t>,
    shape: Shape,
    run: Run,
    low: K::Owned,
    high: Option<K::Owned>,
}

struct Walk<'t, M: Medium, L: Layout, P: Probe, K: Keys> {
    tree: &'t Blink<M, L, P, K>,
    /// The map.
    owners: &'t [u8],
    report: TreeReport,
}

impl<M: Medium, L: Layout, P: Probe, K: Keys> Blink<M, L, P, K> {
    /// Looks at every node and record of the tree. Run it while nobody writes. Never panics and
    /// always ends, whatever the pages hold. O(size of the tree).
    ///
    /// # Errors
    /// I/O errors, and a map that cannot be read; damage is in the report.
    pub fn check(&self) -> Result<TreeReport> {
        self.check_in(&self.pool().map_bytes()?)
    }

    /// As [`check`](Self::check), with the [map](Pool::map_bytes) read already: who checks many trees
    /// reads it once. O(size of the tree).
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_in(&self, owners: &[u8]) -> Result<TreeReport> {
        let report = TreeReport { anchor: self.anchor(), ..TreeReport::default() };
        let mut walk = Walk { tree: self, owners, report };
        let anchor = self.medium().page(self.anchor())?;
        walk.report.log = log::page_of(anchor);
        let root = self.root();
        let page = self.medium().page(root).and_then(|page| self.see(page).map(|_| page));
        let Some(page) = walk.guard(root, page)? else { return Ok(walk.report) };
        let Some(top) = Shape::of(page) else {
            walk.damage(root, 8 * kind::KIND_WORD, "the root is no node");
            return Ok(walk.report);
        };
        walk.report.nodes_by_level = room::filled(0, usize::from(top.level) + 1, CHECK)?;
        let mut above = Vec::new();
        room::push(&mut above, Entry { separator: K::lowest(), child: root }, CHECK)?;
        for level in (0..=top.level).rev() {
            above = walk.level(level, &above)?;
        }
        let mut report = walk.report;
        let slots = report.nodes_by_level[0] as f64 * self.pool().geometry().slots() as f64;
        report.fill = if slots > 0.0 { report.entries as f64 / slots } else { 0.0 };
        Ok(report)
    }
}

impl<'t, M: Medium, L: Layout, P: Probe, K: Keys> Walk<'t, M, L, P, K> {
    fn damage(&mut self, page: PageNo, offset_bytes_in_page: usize, what: impl Into<String>) {
        self.report.damages.push(Damage { page, offset_bytes_in_page, what: what.into() });
    }

    /// Makes damage of `no` of an answer that says so.
    fn guard<T>(&mut self, no: PageNo, answer: Result<T>) -> Result<Option<T>> {
        match answer {
            Ok(found) => Ok(Some(found)),
            Err(error @ Error::Corrupt { .. }) => {
                self.damage(no, 0, error.to_string());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Walks one level and answers the entries that it has for the one below.
    fn level(&mut self, level: u8, above: &[Entry<K>]) -> Result<Vec<Entry<K>>> {
        let mut below = Vec::new();
        let mut next = above.first().map(|entry| entry.child);
        // Entries of the level above that have been met; where the next node must begin.
        let (mut at, mut begin) = (0, Some(K::lowest()));
        while let Some(no) = next {
            let Some(node) = self.node(no, level)? else {
                // The links end here; go on with what the parents know.
                at += above[at..].iter().position(|e| e.child == no).map_or(0, |i| i + 1);
                (next, begin) = (above.get(at).map(|e| e.child), None);
                continue;
            };
            self.report.nodes_by_level[usize::from(level)] += 1;
            if begin.is_some_and(|begin| begin != node.low) {
                self.damage(no, 0, "begins where its left neighbour does not end");
            }
            self.meet(&node, above, &mut at);
            self.slots(&node, &mut below)?;
            next = sibling(node.page);
            begin = node.high;
            if next.is_none() && at < above.len() {
                self.damage(no, 0, "ends its level, but the level above has more entries");
                next = Some(above[at].child);
            }
        }
        Ok(below)
    }

    /// Finds the entry of a node in the level above.
    fn meet(&mut self, node: &Node<'t, K>, above: &[Entry<K>], at: &mut usize) {
        let no = node.page.no();
        while let Some(passed) = above.get(*at).filter(|e| e.separator < node.low) {
            self.damage(no, 0, format!("no node begins where page {} should", passed.child));
            *at += 1;
        }
        match above.get(*at).filter(|e| e.separator == node.low) {
            Some(entry) if entry.child != no => {
                self.damage(no, 0, format!("its parent's entry leads to page {}", entry.child));
                *at += 1;
            }
            Some(_) => *at += 1,
            None => self.report.missing_entries += 1,
        }
    }

    /// The node on a page that should be one of `level`, met for the first time.
    fn node(&mut self, no: PageNo, level: u8) -> Result<Option<Node<'t, K>>> {
        let tree = self.tree;
        let page = tree.medium().page(no).and_then(|page| tree.see(page).map(|_| page));
        let Some(page) = self.guard(no, page)? else { return Ok(None) };
        if !room::insert(&mut self.report.pages, no, CHECK)? {
            self.damage(no, 0, "is reached twice");
            return Ok(None);
        }
        if self.owners.get(no as usize) != Some(&kind::NODE) {
            self.damage(no, 0, "is reached, but the map does not call it a node");
        }
        let shape = Shape::of(page).filter(|s| s.level == level && s.bytes == K::BYTES);
        let Some(shape) = shape else {
            self.damage(no, 8 * kind::KIND_WORD, format!("is no node of level {level}"));
            return Ok(None);
        };
        let run = Run::of(page);
        if run.count > page.slots() || level > 0 && run.count == 0 {
            self.damage(no, 8 * RUN_WORD, format!("holds {} entries", run.count));
            return Ok(None);
        }
        room::more(&mut self.report.records, 2, CHECK)?;
        self.report.records.extend(K::bound_records(page).into_iter().flatten());
        let Some(low) = self.guard(no, K::low(tree.pool(), page))? else { return Ok(None) };
        let low = low.unwrap_or_else(K::lowest);
        let high = match sibling(page) {
            Some(_) => match self.guard(no, K::high(tree.pool(), page))? {
                Some(high) => Some(high),
                None => return Ok(None),
            },
            None => None,
        };
        if high.as_ref().is_some_and(|high| *high <= low) {
            self.damage(no, 0, "ends where it begins, or before");
        }
        if !K::bounds_fit(page, shape, &low, high.as_ref()) {
            self.damage(no, 0, "its prefix or its upper bound does not fit its bounds");
        }
        Ok(Some(Node { page, shape, run, low, high }))
    }

    /// Checks the slots of a node; those of an inner one are added to `below`.
    fn slots(&mut self, node: &Node<'t, K>, below: &mut Vec<Entry<K>>) -> Result<()> {
        let (pool, no) = (self.tree.pool(), node.page.no());
        let (mut last, mut idents) = (None, HashSet::new());
        room::more(&mut self.report.records, node.run.count, CHECK)?;
        for pos in 0..node.run.count {
            let p = node.run.slot(node.page, pos);
            let (slot, offset) = (Slot::read(node.page, p), LINE_BYTES + 16 * p);
            if !room::insert(&mut idents, slot.ident, CHECK)? {
                self.damage(no, offset, "two slots have one identity");
            }
            self.report.records.extend(K::record(node.shape, slot));
            let Some(key) = self.guard(no, K::key(pool, node.shape, slot))? else { continue };
            if !K::slot_fits(node.shape, slot, &key) {
                self.damage(no, offset, "its head is not that of its key");
            }
            if key < node.low || node.high.as_ref().is_some_and(|high| key >= *high) {
                self.damage(no, offset, "its key is outside its node's bounds");
            }
            if last.as_ref().is_some_and(|last| *last >= key) {
                self.damage(no, offset, "its key is not above the one before");
            }
            if node.shape.level > 0 {
                if pos == 0 && key != node.low {
                    self.damage(no, offset, "the first entry is not that of the lower bound");
                }
                if let Some(child) = self.guard(no, K::child(pool, slot))? {
                    let separator = K::own(key.borrow())?;
                    room::push(below, Entry { separator, child }, CHECK)?;
                }
            } else if let Some(value) = self.guard(no, K::value(pool, slot))? {
                self.report.entries += 1;
                self.report.key_bytes += K::key_weight(&key) as u64;
                self.report.value_bytes += K::weight(&value) as u64;
            }
            last = Some(key);
        }
        Ok(())
    }
}
