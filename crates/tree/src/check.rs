//! Checking a tree: everything that its pages and records say is looked at, and nothing believed.
//!
//! Level by level from the root down, each from left to right by the sibling links. These rules must hold:
//! nodes are pages of nodes in the map and are met once; keys rise, lie within their node's bounds
//! and are named once; a node's lower bound is its left neighbour's upper one; each entry of a
//! parent names the node that begins at its separator; every record that is named can be read. A
//! node without an entry in its parent is no damage: a split that a crash interrupted, counted. Nor is the entry of a node
//! that another one has absorbed, in a merge that is announced still: the next open for writing removes it.
//!
//! Others may write meanwhile. Each node is read at one moment: version, read, validate. A link is
//! believed if the node that holds it is unchanged when the next one's version is known; else the walk
//! goes on with a search for the key that it has come to. A contradiction between two nodes is damage
//! if both are as they were read.
//!
//! The leaves are shared out to threads by their keys: each walks from an entry of the level above to that with which
//! the next share begins, and counts what lies between the two separators, whatever a leaf holds beside that.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::OnceLock;
use std::{mem, panic, thread};

use everleaf_pmem::{
    Error, LINE_BYTES, LatchGuard, Medium, Page, PageNo, Result, Retries, Version, fallible,
};
use everleaf_pool::{Glance, Leaks, PageDamage, Pool, PoolLook, RecordRef, kind};

use crate::blink::{Blink, Seek, announced, log};
use crate::node::{
    EntryView, Kind, NodeAt, OwnedKeyOf, RUN_WORD, Shape, TreeKey, TreeValue, settled, sibling,
};

/// How often a node that others change is read before it is latched.
const TRIES: u32 = 8;

/// The name of this memory in errors.
const CHECK: &str = "a check of a tree";

/// The damage of a node that ends its level though the level above has more entries.
const MORE_ENTRIES: &str = "ends its level, but the level above has more entries";

/// The attempt that is repeated while the tree gets another root.
const ROOT: &str = "reading the root of a tree";

/// How the leaves of a tree are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// Threads, at most.
    pub threads: usize,
    /// Leaves of each, about, at least: to start a thread takes as long as to look at some.
    pub leaves: usize,
}

impl Shares {
    /// Threads of one check, at most: they wait for one disk.
    const MOST: usize = 32;

    /// As many threads as there are processors, if the leaves are worth it.
    pub fn of_machine() -> Self {
        // The system has files read for the answer, which takes longer than to check a small tree: it is asked once.
        static PROCESSORS: OnceLock<usize> = OnceLock::new();
        let processors =
            *PROCESSORS.get_or_init(|| thread::available_parallelism().map_or(1, usize::from));
        Self { threads: processors.min(Self::MOST), leaves: 256 }
    }

    /// Which of `n` entries of the level above the leaves are whose.
    fn split(self, n: usize) -> impl Iterator<Item = Range<usize>> {
        let shares = (n / self.leaves.max(1)).clamp(1, self.threads.max(1));
        let at = move |share: usize| (n as u64 * share as u64 / shares as u64) as usize;
        (0..shares).map(move |share| at(share)..at(share + 1))
    }
}

/// The contents of a tree, and its damage.
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
    /// All damage that was found.
    pub damages: Vec<PageDamage>,
    /// The tree's nodes, each once, in the order of the walk.
    pub pages: Vec<PageNo>,
    /// The tree's log page, if it has one.
    pub log: Option<PageNo>,
    /// The records that the tree names: of its entries and of bounds.
    pub records: Vec<RecordRef>,
}

/// A node as it was when it was read; its number is right for as long as that stands.
#[derive(Clone, Copy)]
struct Witness<'t> {
    page: Page<'t>,
    version: Version,
}

impl Witness<'_> {
    fn stands(&self) -> bool {
        self.page.latch().validate(self.version)
    }
}

/// The source that led the walk to a node.
#[derive(Clone, Copy)]
enum Way<'t> {
    /// The anchor.
    Root(PageNo),
    /// A node, by its sibling link or by an entry.
    Node(Witness<'t>),
    /// None: the node has to be searched for.
    Search,
}

/// An entry of the level above: the node that must begin at a separator.
struct ParentEntry<'t, K: Kind> {
    separator: OwnedKeyOf<K>,
    child: PageNo,
    way: Way<'t>,
}

impl<K: Kind> ParentEntry<'_, K> {
    /// Whether it leads to a page although that begins before it: so a gift ends that a crash has cut off.
    fn is_late_for(&self, no: PageNo) -> bool {
        K::GIVES && self.child == no
    }

    /// Whether a share that ends before the entry has come to its end with a page that begins at `begin`.
    fn is_reached(&self, no: PageNo, begin: &OwnedKeyOf<K>) -> bool {
        *begin >= self.separator || self.is_late_for(no)
    }
}

/// An entry of a node as it was when that was read. Its later answers are those of the page by then.
struct VisitedEntry<'t, K: Kind> {
    entry: K::Entry<'t>,
    key: OwnedKeyOf<K>,
    /// The record that it referred to.
    record: Option<RecordRef>,
}

/// The findings of one visit of a node.
struct VisitedNode<'t, K: Kind> {
    at: Witness<'t>,
    shape: Shape,
    low: OwnedKeyOf<K>,
    /// `None` is +infinity.
    high: Option<OwnedKeyOf<K>>,
    next: Option<PageNo>,
    /// The records of its bounds.
    bounds: [Option<RecordRef>; 2],
    /// Each entry whose key can be read.
    entries: Vec<VisitedEntry<'t, K>>,
    /// How much of it is used, and how much there is.
    fill: (usize, usize),
}

impl<K: Kind> VisitedNode<'_, K> {
    /// Whether it begins where the walk has come to, or, if `first` is the entry that the walk begins with, before that:
    /// a gift that a crash has cut off leaves a greater separator behind.
    fn begins(&self, begin: &OwnedKeyOf<K>, first: Option<&ParentEntry<'_, K>>) -> bool {
        let is_late = first.is_some_and(|entry| entry.is_late_for(self.at.page.no()));
        self.low == *begin || is_late && self.low < *begin
    }
}

/// Where a visit ended.
enum Visit<'t, K: Kind> {
    Node(VisitedNode<'t, K>),
    /// The way there has changed meanwhile.
    Moved,
    /// It is damaged; that has been noted.
    Lost,
}

/// The result of a search for the place of the walk.
enum Located<'t> {
    Node(Witness<'t>, Option<LatchGuard<'t>>),
    /// The tree is not that high any more.
    NoLevel,
}

pub(crate) struct CheckWalk<'t, M: Medium, K: Kind> {
    tree: &'t Blink<M, K>,
    /// The map.
    owners: &'t [u8],
    /// The glance that looks at the nodes; without one they are fetched.
    glance: Option<&'t Glance<'t, M>>,
    /// A node that its left neighbour may have absorbed, in a merge that a crash has cut off: its parent's entry is the
    /// rest of that.
    absorbed: Option<PageNo>,
    report: TreeReport,
    /// How much of the leaves is used, and how much there is.
    fill: (usize, usize),
    /// Damage that counts if the node is as it was read.
    doubts: Vec<PageDamage>,
    /// The version of each node when it was met.
    met: HashMap<PageNo, Version>,
    /// Nodes that were met again with another version: bounded, or a cycle would never end.
    again: u32,
    /// Nodes that hold keys of the share before, too, and may be met there.
    grown: HashSet<PageNo>,
    /// The entries of the node before, whose memory the next one uses again.
    spare: Vec<VisitedEntry<'t, K>>,
}

/// The findings of a thread in its share of the leaves.
struct Share {
    report: TreeReport,
    fill: (usize, usize),
    met: HashMap<PageNo, Version>,
    grown: HashSet<PageNo>,
}

/// Walks some shares of the leaves, each in a thread of its own, and another one `here`. It is one function for all kinds
/// of trees.
fn in_threads(
    here: &mut dyn FnMut() -> Result<()>,
    ranges: &mut dyn Iterator<Item = Range<usize>>,
    share: &(dyn Fn(Range<usize>) -> Result<Share> + Sync),
) -> Result<Vec<Share>> {
    thread::scope(|scope| {
        let (mut begun, mut done) = (Vec::new(), Vec::new());
        for range in ranges {
            let of_thread = range.clone();
            let thread = thread::Builder::new().spawn_scoped(scope, move || share(of_thread));
            fallible::push(&mut begun, (range, thread), CHECK)?;
        }
        here()?;
        for (range, thread) in begun {
            let found = match thread {
                Ok(thread) => thread.join().unwrap_or_else(|what| panic::resume_unwind(what)),
                // The system has no more threads.
                Err(_) => share(range),
            };
            fallible::push(&mut done, found?, CHECK)?;
        }
        Ok(done)
    })
}

impl<'t, M: Medium, K: Kind> CheckWalk<'t, M, K> {
    pub fn run(
        tree: &'t Blink<M, K>,
        owners: &'t [u8],
        glance: Option<&'t Glance<'t, M>>,
        shares: Shares,
    ) -> Result<TreeReport> {
        let mut walk = Self::new(tree, owners, glance);
        if !M::JOURNALED {
            let anchor = tree.medium().page(tree.anchor())?;
            walk.report.log = log::page_of(anchor);
            walk.absorbed = announced(anchor).map(|(_, right)| right);
        }
        let Some((root, top)) = walk.top()? else { return Ok(walk.report) };
        walk.report.nodes_by_level = fallible::filled(0, usize::from(top) + 1, CHECK)?;
        let mut above = Vec::new();
        let entry = ParentEntry { separator: K::Key::lowest(), child: root, way: Way::Root(root) };
        fallible::push(&mut above, entry, CHECK)?;
        for level in (1..=top).rev() {
            above = walk.level(level, &above, None, None)?;
        }
        walk.leaves(&above, shares)?;
        let mut report = walk.report;
        let (used, room) = walk.fill;
        report.fill = if room > 0 { used as f64 / room as f64 } else { 0.0 };
        Ok(report)
    }

    fn new(tree: &'t Blink<M, K>, owners: &'t [u8], glance: Option<&'t Glance<'t, M>>) -> Self {
        CheckWalk {
            tree,
            owners,
            glance,
            absorbed: None,
            report: TreeReport { anchor: tree.anchor(), ..TreeReport::default() },
            fill: (0, 0),
            doubts: Vec::new(),
            met: HashMap::new(),
            again: 0,
            grown: HashSet::new(),
            spare: Vec::new(),
        }
    }

    /// Walks the leaves, a thread for each share but the first.
    fn leaves(&mut self, above: &[ParentEntry<'t, K>], shares: Shares) -> Result<()> {
        let mut shares = shares.split(above.len());
        let own = shares.next().unwrap_or_default();
        if own.len() == above.len() {
            return self.level(0, above, None, None).map(drop);
        }
        let (tree, owners, glances) = (self.tree, self.owners, self.glance.is_some());
        let absorbed = self.absorbed;
        let share = |range: Range<usize>| {
            // A glance holds one page, which is one thread's.
            let glance = glances.then(|| Glance::new(tree.pool()));
            let mut walk = CheckWalk::new(tree, owners, glance.as_ref());
            walk.absorbed = absorbed;
            walk.report.nodes_by_level = fallible::filled(0, 1, CHECK)?;
            let from = above.get(range.start).map(|entry| &entry.separator);
            walk.level(0, &above[range.clone()], from, above.get(range.end))?;
            let CheckWalk { report, fill, met, grown, .. } = walk;
            Ok(Share { report, fill, met, grown })
        };
        let mut here = || self.level(0, &above[own.clone()], None, above.get(own.end)).map(drop);
        let shares = in_threads(&mut here, &mut shares, &share)?;
        shares.into_iter().try_for_each(|share| self.add(share))
    }

    /// Adds what was found in the share behind those that have been added.
    fn add(&mut self, share: Share) -> Result<()> {
        let Share { mut report, fill, met, grown } = share;
        let own = &mut self.report;
        own.entries += report.entries;
        own.nodes_by_level[0] += report.nodes_by_level[0];
        own.key_bytes += report.key_bytes;
        own.value_bytes += report.value_bytes;
        own.missing_entries += report.missing_entries;
        self.fill = (self.fill.0 + fill.0, self.fill.1 + fill.1);
        fallible::append(&mut own.records, &report.records, CHECK)?;
        fallible::more(&mut own.damages, report.damages.len(), CHECK)?;
        own.damages.append(&mut report.damages);
        fallible::more(&mut own.pages, report.pages.len(), CHECK)?;
        fallible::more_keys(&mut self.met, met.len(), CHECK)?;
        for no in report.pages {
            match self.met.get(&no) {
                None => {
                    self.met.insert(no, met[&no]);
                    self.report.pages.push(no);
                }
                Some(before) if *before == met[&no] && !grown.contains(&no) => {
                    self.damage(no, 0, "is reached twice");
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The root and its level.
    fn top(&mut self) -> Result<Option<(PageNo, u8)>> {
        let mut turns = Retries::default();
        loop {
            let root = self.tree.root();
            let (at, bytes) = match self.read(root) {
                Ok(seen) => seen,
                Err(_) if self.tree.root() != root => {
                    turns.go_on(ROOT)?;
                    continue;
                }
                seen => match self.guard(root, seen)? {
                    Some(seen) => seen,
                    None => return Ok(None),
                },
            };
            let node = K::node(bytes);
            if self.tree.root() != root || !at.stands() {
                turns.go_on(ROOT)?;
                continue;
            }
            let Some(top) = node else {
                self.damage(root, 8 * kind::KIND_WORD, "the root is no node");
                return Ok(None);
            };
            return Ok(Some((root, top.level())));
        }
    }

    /// A node to be read, and where its bytes are until the next one is asked for.
    fn read(&self, no: PageNo) -> Result<(Witness<'t>, Page<'t>)> {
        let page = self.tree.medium().page(no)?;
        let (bytes, version) = match self.glance {
            Some(glance) => glance.page(no)?,
            None => (page, self.tree.read_version(page)?),
        };
        Ok((Witness { page, version }, bytes))
    }

    fn damage(&mut self, page: PageNo, offset_bytes_in_page: usize, what: impl Into<String>) {
        self.report.damages.push(PageDamage { page, offset_bytes_in_page, what: what.into() });
    }

    /// Notes what is damage if the node that is being read does not change meanwhile.
    fn doubt(&mut self, page: PageNo, offset_bytes_in_page: usize, what: impl Into<String>) {
        self.doubts.push(PageDamage { page, offset_bytes_in_page, what: what.into() });
    }

    /// Makes damage of `no` of an answer that says so.
    fn guard<T>(&mut self, no: PageNo, answer: Result<T>) -> Result<Option<T>> {
        let found = self.suspect(no, answer);
        self.report.damages.append(&mut self.doubts);
        found
    }

    /// Makes a doubt about `no` of an answer that says so.
    fn suspect<T>(&mut self, no: PageNo, answer: Result<T>) -> Result<Option<T>> {
        match answer {
            Ok(found) => Ok(Some(found)),
            Err(error @ Error::Corrupt { .. }) => {
                self.doubts.push(PageDamage::of(error, no, self.tree.pool()));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn stands(&self, way: Way<'t>) -> bool {
        match way {
            Way::Root(no) => self.tree.root() == no,
            Way::Node(witness) => witness.stands(),
            Way::Search => false,
        }
    }

    /// Walks one level, or its share from the key `from` on and before the entry `stop`, and answers the entries that it
    /// has for the one below.
    fn level(
        &mut self,
        level: u8,
        above: &[ParentEntry<'t, K>],
        from: Option<&OwnedKeyOf<K>>,
        stop: Option<&ParentEntry<'t, K>>,
    ) -> Result<Vec<ParentEntry<'t, K>>> {
        let mut below = Vec::new();
        let first = above.first().map(|entry| (entry.child, entry.way));
        // Without an entry if the level above has gone meanwhile.
        let mut next = Some(first.unwrap_or((self.tree.root(), Way::Search)));
        // Entries of the level above that have been met; the key that the walk has come to, and
        // whether a node must begin there.
        let begin = from.map(|key| K::Key::own(key.borrow())).transpose()?;
        let (mut at, mut begin, mut exact) = (0, begin.unwrap_or_else(K::Key::lowest), true);
        while let Some((no, way)) = next {
            if let Some(stop) = stop.filter(|stop| stop.is_reached(no, &begin)) {
                if exact {
                    self.arrive((no, way), &begin, stop, &above[at..]);
                }
                break;
            }
            let (mut node, is_searched) = match self.visit(no, way, level)? {
                Visit::Node(node) => (node, false),
                Visit::Moved => match self.search(level, &begin)? {
                    Some(node) => (node, true),
                    None => break,
                },
                Visit::Lost => {
                    // The links end here; go on with what the parents know.
                    at += above[at..].iter().position(|e| e.child == no).map_or(0, |i| i + 1);
                    next = above.get(at).map(|e| (e.child, e.way));
                    if let Some(entry) = above.get(at) {
                        (begin, exact) = (K::Key::own(entry.separator.borrow())?, false);
                    }
                    continue;
                }
            };
            let no = node.at.page.no();
            self.report.nodes_by_level[usize::from(level)] += 1;
            // A node that has taken over its left neighbour holds what has been counted, too.
            let is_grown = is_searched && node.low < begin;
            if exact && !is_searched && !node.begins(&begin, above.first().filter(|_| at == 0)) {
                self.damage(no, 0, "begins where its left neighbour does not end");
            }
            if !is_grown {
                self.meet(&node, above, &mut at);
            }
            if is_grown {
                fallible::insert(&mut self.grown, no, CHECK)?;
            }
            let end = stop.map(|stop| &stop.separator);
            self.count(&node, is_grown.then_some(&begin), end, &mut below)?;
            self.spare = mem::take(&mut node.entries);
            next = node.next.map(|right| (right, Way::Node(node.at)));
            match node.high {
                Some(high) => (begin, exact) = (high, true),
                None => {
                    next = self.remaining(&node.at, above, &mut at);
                    if let Some(stop) = stop.filter(|_| next.is_none()) {
                        self.ends_early(&node.at, stop);
                    }
                    if let Some(entry) = above.get(at).filter(|_| next.is_some()) {
                        (begin, exact) = (K::Key::own(entry.separator.borrow())?, false);
                    }
                }
            }
        }
        Ok(below)
    }

    /// Compares where a share ends with where the next one begins: a node leads to another by its sibling link. An entry
    /// of the share that was not met leads to no node.
    fn arrive(
        &mut self,
        (no, way): (PageNo, Way<'t>),
        begin: &OwnedKeyOf<K>,
        stop: &ParentEntry<'t, K>,
        unmet: &[ParentEntry<'t, K>],
    ) {
        let is_same = stop.is_late_for(no) || *begin == stop.separator && no == stop.child;
        for entry in unmet.iter().chain((!is_same).then_some(stop)) {
            if self.must_lead(entry) && self.stands(way) {
                let differs = format!("its parent's entry leads to page {}", entry.child);
                let misses = format!("no node begins where page {} should", entry.child);
                self.damage(no, 0, if *begin == entry.separator { differs } else { misses });
            }
        }
    }

    /// Whether an entry is still there, and a node must begin where it says.
    fn must_lead(&self, entry: &ParentEntry<'t, K>) -> bool {
        self.absorbed != Some(entry.child) && self.stands(entry.way)
    }

    /// The last node of a share says that it is the last one of its level.
    fn ends_early(&mut self, last: &Witness<'t>, stop: &ParentEntry<'t, K>) {
        if self.must_lead(stop) && last.stands() {
            self.damage(last.page.no(), 0, MORE_ENTRIES);
        }
    }

    /// Behind the last node of a level: an entry of the level above that nobody has met.
    fn remaining(
        &mut self,
        last: &Witness<'t>,
        above: &[ParentEntry<'t, K>],
        at: &mut usize,
    ) -> Option<(PageNo, Way<'t>)> {
        while let Some(entry) = above.get(*at) {
            if self.must_lead(entry) && last.stands() {
                self.damage(last.page.no(), 0, MORE_ENTRIES);
                return Some((entry.child, entry.way));
            }
            *at += 1;
        }
        None
    }

    /// Finds the entry of a node in the level above. An entry whose node has changed since says
    /// nothing.
    fn meet(&mut self, node: &VisitedNode<'t, K>, above: &[ParentEntry<'t, K>], at: &mut usize) {
        let no = node.at.page.no();
        while let Some(passed) = above.get(*at).filter(|e| e.separator < node.low) {
            if self.must_lead(passed) && node.at.stands() {
                self.damage(no, 0, format!("no node begins where page {} should", passed.child));
            }
            *at += 1;
        }
        match above.get(*at).filter(|e| e.separator == node.low) {
            Some(entry) => {
                if entry.child != no && self.stands(entry.way) && node.at.stands() {
                    self.damage(no, 0, format!("its parent's entry leads to page {}", entry.child));
                }
                *at += 1;
            }
            None => {
                *at += usize::from(above.get(*at).is_some_and(|e| e.is_late_for(no)));
                self.report.missing_entries += 1;
            }
        }
    }

    /// Reads the node that `way` leads to, as it is at one moment.
    fn visit(&mut self, no: PageNo, way: Way<'t>, level: u8) -> Result<Visit<'t, K>> {
        for tries in 0.. {
            self.doubts.clear();
            let seen = if tries < TRIES {
                self.read(no).map(|(at, bytes)| (at, bytes, None))
            } else {
                let latched = self.tree.pool().latch(no);
                latched.map(|(page, held)| {
                    (Witness { page, version: held.before() }, page, Some(held))
                })
            };
            let seen = self.suspect(no, seen)?;
            if !self.stands(way) {
                return Ok(Visit::Moved);
            }
            let Some((at, bytes, held)) = seen else { return Ok(self.lost()) };
            let Some(node) = self.look((at, bytes), level, held)? else { continue };
            return self.settle(node, at);
        }
        unreachable!("a node that is latched does not change")
    }

    /// Reads a node, whose latch is let go if it is held; `None` if it changed meanwhile.
    fn look(
        &mut self,
        (at, bytes): (Witness<'t>, Page<'t>),
        level: u8,
        held: Option<LatchGuard<'t>>,
    ) -> Result<Option<Option<VisitedNode<'t, K>>>> {
        let node = self.node(at, bytes, level);
        if held.is_none() && !at.stands() {
            return Ok(None);
        }
        let node = node?;
        if let Some(held) = held {
            held.unlock_unchanged();
        }
        Ok(Some(node))
    }

    /// Counts the doubts as damage.
    fn lost(&mut self) -> Visit<'t, K> {
        self.report.damages.append(&mut self.doubts);
        Visit::Lost
    }

    /// Believes what a visit found.
    fn settle(
        &mut self,
        node: Option<VisitedNode<'t, K>>,
        at: Witness<'t>,
    ) -> Result<Visit<'t, K>> {
        let no = at.page.no();
        let Some(node) = node else { return Ok(self.lost()) };
        self.report.damages.append(&mut self.doubts);
        fallible::more_keys(&mut self.met, 1, CHECK)?;
        match self.met.insert(no, at.version) {
            None => fallible::push(&mut self.report.pages, no, CHECK)?,
            Some(before)
                if before != at.version && self.again <= self.tree.pool().pages_in_groups() =>
            {
                // Its page has changed, and may be another node by now.
                self.again += 1;
            }
            Some(_) => {
                self.damage(no, 0, "is reached twice");
                return Ok(Visit::Lost);
            }
        }
        Ok(Visit::Node(node))
    }

    /// The node that covers the key that the walk has come to, by a search from the root.
    fn search(&mut self, level: u8, begin: &OwnedKeyOf<K>) -> Result<Option<VisitedNode<'t, K>>> {
        for tries in 0.. {
            self.doubts.clear();
            let found = match self.find(level, begin, tries >= TRIES) {
                Ok(Located::Node(at, held)) => Ok((at, held)),
                Ok(Located::NoLevel) => return Ok(None),
                Err(error) => Err(error),
            };
            // An error of a search counts only if nothing has changed where it came from.
            let Some((at, held)) = self.guard(self.tree.root(), found)? else { return Ok(None) };
            let Some(node) = self.look((at, at.page), level, held)? else { continue };
            return Ok(match self.settle(node, at)? {
                Visit::Node(node) => Some(node),
                Visit::Moved | Visit::Lost => None,
            });
        }
        unreachable!("a node that is latched does not change")
    }

    fn find(&self, level: u8, begin: &OwnedKeyOf<K>, latched: bool) -> Result<Located<'t>> {
        let (tree, seek) = (self.tree, Seek::At(begin.borrow()));
        let found = if latched {
            tree.latch_at(seek, level)?.map(|(spot, held)| (spot, Some(held)))
        } else {
            tree.descend(seek, level)?.map(|spot| (spot, None))
        };
        let Some((spot, held)) = found else { return Ok(Located::NoLevel) };
        Ok(Located::Node(Witness { page: spot.node.page(), version: spot.version }, held))
    }

    /// Reads a page that should be a node of `level`, and notes doubts.
    fn node(
        &mut self,
        at: Witness<'t>,
        page: Page<'t>,
        level: u8,
    ) -> Result<Option<VisitedNode<'t, K>>> {
        let (tree, no) = (self.tree, page.no());
        let is_inside = no < tree.pool().pages_in_groups();
        let mut owner = self.owners.get(no as usize).copied();
        if owner != Some(kind::NODE) && is_inside {
            // Its page may be new since the map was read.
            owner = Some(tree.pool().owner(no)?);
        }
        if owner != Some(kind::NODE) {
            self.doubt(no, 0, "is reached, but the map does not call it a node");
        }
        let Some(node) = NodeAt::<K>::of(page, level) else {
            self.doubt(no, 8 * kind::KIND_WORD, format!("is no node of level {level}"));
            return Ok(None);
        };
        let shape = node.shape();
        if let Some((offset, what)) = K::flaw(page, shape) {
            self.doubt(no, offset, what);
            return Ok(None);
        }
        if level > 0 && node.count() == 0 {
            self.doubt(no, 8 * RUN_WORD, "holds 0 entries");
            return Ok(None);
        }
        let Some(low) = self.suspect(no, K::low(tree.pool(), page))? else { return Ok(None) };
        let low = low.unwrap_or_else(K::Key::lowest);
        let next = sibling(page);
        let high = match next {
            Some(_) => match self.suspect(no, K::high(tree.pool(), page))? {
                Some(high) => Some(high),
                None => return Ok(None),
            },
            None => None,
        };
        if high.as_ref().is_some_and(|high| *high <= low) {
            self.doubt(no, 0, "ends where it begins, or before");
        }
        if !K::bounds_fit(&node, &low, high.as_ref()) {
            self.doubt(no, 0, "its prefix or its upper bound does not fit its bounds");
        }
        let bounds = K::bound_records(page);
        let (entries, fill) = (Vec::new(), K::fill(&node));
        let mut visited = VisitedNode { at, shape, low, high, next, bounds, entries, fill };
        self.entries(&mut visited, &node)?;
        Ok(Some(visited))
    }

    /// Reads the entries of a node.
    fn entries(&mut self, node: &mut VisitedNode<'t, K>, at: &NodeAt<'t, K>) -> Result<()> {
        let (pool, no) = (self.tree.pool(), at.page().no());
        let (mut idents, mut entries, mut n) = (HashSet::new(), mem::take(&mut self.spare), 0);
        let more = at.count().saturating_sub(entries.len());
        fallible::more(&mut entries, more, CHECK)?;
        for pos in 0..at.count() {
            let EntryView { offset, identity, entry } = K::look(at, pos);
            if let Some(identity) = identity
                && !fallible::insert(&mut idents, identity, CHECK)?
            {
                self.doubt(no, offset, "two slots have one identity");
            }
            let record = K::record(node.shape, entry);
            if n == entries.len() {
                entries.push(VisitedEntry { entry, key: K::Key::lowest(), record });
            }
            let (before, here) = entries.split_at_mut(n);
            (here[0].entry, here[0].record) = (entry, record);
            let key = &mut here[0].key;
            let Some(()) = self.suspect(no, K::key_into(pool, node.shape, entry, key))? else {
                continue;
            };
            if !K::entry_fits(node.shape, entry, key) {
                self.doubt(no, offset, "its head is not that of its key");
            }
            if *key < node.low || node.high.as_ref().is_some_and(|high| *key >= *high) {
                self.doubt(no, offset, "its key is outside its node's bounds");
            }
            if before.last().is_some_and(|last| last.key >= *key) {
                self.doubt(no, offset, "its key is not above the one before");
            }
            if node.shape.level > 0 && pos == 0 && *key != node.low {
                self.doubt(no, offset, "the first entry is not that of the lower bound");
            }
            n += 1;
        }
        entries.truncate(n);
        node.entries = entries;
        Ok(())
    }

    /// Counts what a node holds, from `begin` on and before `end` if they are said; the entries of an inner one are
    /// added to `below`.
    fn count(
        &mut self,
        node: &VisitedNode<'t, K>,
        begin: Option<&OwnedKeyOf<K>>,
        end: Option<&OwnedKeyOf<K>>,
        below: &mut Vec<ParentEntry<'t, K>>,
    ) -> Result<()> {
        fallible::more(&mut self.report.records, 2 + node.entries.len(), CHECK)?;
        let [low, high] = node.bounds;
        let low = low.filter(|_| begin.is_none());
        // A node that goes on in the next share is met there, too.
        let goes_on = end.is_some_and(|end| node.high.as_ref().is_none_or(|high| high > end));
        self.report.records.extend(low.into_iter().chain(high.filter(|_| !goes_on)));
        let counts = |key: &OwnedKeyOf<K>| {
            begin.is_none_or(|begin| key >= begin) && end.is_none_or(|end| key < end)
        };
        if node.shape.level == 0 {
            self.fill.0 += node.fill.0;
            self.fill.1 += node.fill.1;
        }
        for visited in node.entries.iter().filter(|visited| counts(&visited.key)) {
            let VisitedEntry { entry, key, record } = visited;
            self.report.records.extend(*record);
            if node.shape.level == 0 {
                self.value(node, *entry, key)?;
            } else if let Some(child) =
                self.guard(node.at.page.no(), K::child(self.tree.pool(), *entry))?
            {
                let separator = K::Key::own(key.borrow())?;
                let way = Way::Node(node.at);
                fallible::push(below, ParentEntry { separator, child, way }, CHECK)?;
            }
        }
        Ok(())
    }

    /// Counts a pair of a leaf, and reads its value: by a search if the leaf has changed since.
    fn value(
        &mut self,
        node: &VisitedNode<'t, K>,
        entry: K::Entry<'t>,
        key: &OwnedKeyOf<K>,
    ) -> Result<()> {
        let mut weight = match K::value_inside(entry) {
            Some(bytes) => Ok(Some(bytes)),
            None => K::found(self.tree.pool(), entry)
                .and_then(settled)
                .map(|value| Some(value.weight())),
        };
        if !node.at.stands() {
            let value = self.tree.get(key.borrow());
            weight = value.map(|value| value.map(|value| value.weight()));
        }
        if let Some(Some(bytes)) = self.guard(node.at.page.no(), weight)? {
            self.report.entries += 1;
            self.report.key_bytes += K::Key::weight(key.borrow()) as u64;
            self.report.value_bytes += bytes as u64;
        }
        Ok(())
    }
}

impl<M: Medium, K: Kind> Blink<M, K> {
    /// Looks at every node and record of the tree. Others may write meanwhile: the check sees each change
    /// either not at all or whole, and does not take it for damage. It never panics and always ends,
    /// whatever the pages hold. Costs O(size of the tree).
    ///
    /// # Errors
    /// I/O errors, and a map that cannot be read; damage is in the report.
    pub fn check(&self) -> Result<TreeReport> {
        let glance = Glance::new(self.pool());
        self.check_in(&self.pool().map_bytes()?, Some(&glance), Shares::of_machine())
    }

    /// Like [`check`](Self::check), but takes the pool's [map](everleaf_pool::Pool::map_bytes), so that a
    /// caller with many trees reads it once, or a part of it: of pages that are not in it the pool is asked,
    /// one by one. Nodes that are not in memory come there only without a `glance`. Threads share the leaves. Costs
    /// O(size of the tree).
    ///
    /// # Errors
    /// The same as for [`check`](Self::check).
    pub fn check_in(
        &self,
        owners: &[u8],
        glance: Option<&Glance<'_, M>>,
        shares: Shares,
    ) -> Result<TreeReport> {
        CheckWalk::run(self, owners, glance, shares)
    }
}

// Whether a tree has one node: what a walk beside writers cannot know of the nodes that it has not met.
//
// A node that gives its upper keys away after its left neighbour gave it some may lie wholly behind a walk
// that was between the two, and is never met. Such a node has changed meanwhile; what no tree reaches does
// not change.
impl<M: Medium, K: Kind> Blink<M, K> {
    /// Whether a search for the lower bound of a node leads to it. Also true of a node that others have
    /// changed again and again, so that nothing can be said. Costs a search.
    ///
    /// # Errors
    /// Corrupt pages; I/O errors.
    pub fn has_node(&self, no: PageNo) -> Result<bool> {
        let page = self.medium().page(no)?;
        for _ in 0..TRIES {
            let version = self.read_version(page)?;
            let Some(node) = K::node(page) else {
                if page.latch().validate(version) {
                    return Ok(false);
                }
                continue;
            };
            let low = K::low(self.pool(), page);
            if !page.latch().validate(version) {
                continue;
            }
            let low = low?.unwrap_or_else(K::Key::lowest);
            let found = self.descend(Seek::At(low.borrow()), node.level())?;
            if found.is_some_and(|found| found.node.page().no() == no) {
                return Ok(true);
            }
            // It was as it was read all the while, so the search would have come to it.
            if page.latch().validate(version) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

// The pages and records that trees name, compared with those that their pool says are in use.

/// The pages and records of a pool that trees name, gathered tree by tree: one report after the other need not be kept.
#[derive(Debug, Default)]
pub struct NamedPages {
    /// By the page's number, so that a look costs the same however many trees there are: what a tree
    /// calls the page.
    kinds: Vec<u8>,
    records: Vec<RecordRef>,
}

impl NamedPages {
    /// Adds what a tree names. Costs O(what it names).
    ///
    /// # Errors
    /// NoMemory.
    pub fn add(&mut self, tree: &TreeReport) -> Result<()> {
        fallible::append(&mut self.records, &tree.records, CHECK)?;
        // Room for all at once: in whichever order a set has its pages, as often is asked for memory.
        let most = tree.pages.iter().chain(&tree.log).copied().fold(tree.anchor, PageNo::max);
        if let more @ 1.. = (most as usize + 1).saturating_sub(self.kinds.len()) {
            fallible::more(&mut self.kinds, more, CHECK)?;
            self.kinds.resize(most as usize + 1, kind::FREE);
        }
        tree.pages.iter().for_each(|no| self.kinds[*no as usize] = kind::NODE);
        tree.log.iter().for_each(|no| self.kinds[*no as usize] = kind::LOG);
        self.kinds[tree.anchor as usize] = kind::ANCHOR;
        Ok(())
    }

    fn of(trees: &[TreeReport]) -> Result<Self> {
        let mut named = Self::default();
        trees.iter().try_for_each(|tree| named.add(tree))?;
        Ok(named)
    }

    /// Whether this is the anchor of one of the trees.
    pub fn has_anchor(&self, no: PageNo) -> bool {
        self.has(kind::ANCHOR, no)
    }

    fn has(&self, kind: u8, no: PageNo) -> bool {
        self.kinds.get(no as usize) == Some(&kind)
    }
}

/// Finds what is in use in a pool although none of `trees` names it. `trees` must be the reports of all
/// trees of the pool. With a journal there is no such leak; on strict media each crash may leave a
/// little. Costs O(pages + records).
///
/// # Errors
/// Corrupt map or record pages; I/O errors.
pub fn leaks<M: Medium>(pool: &Pool<M>, trees: &[TreeReport]) -> Result<Leaks> {
    let (named, mut records) = (NamedPages::of(trees)?, HashSet::new());
    for r in &named.records {
        fallible::insert(&mut records, *r, CHECK)?;
    }
    pool.leaks(|kind, no| named.has(kind, no), &records)
}

/// Compares a pool with its trees while others may write. It finds records that a tree names although
/// they are free, records that are named twice, and, with `and_lost`, what is in use although none of
/// the trees names it. `named` must be what all trees of the pool name, looked at after the look;
/// `has_node` says whether one of those trees has a node that no report names. Costs O(pages + records).
///
/// # Errors
/// NoMemory; those of `has_node`.
pub fn compare<M: Medium>(
    look: &PoolLook<'_, M>,
    named: &NamedPages,
    has_node: impl Fn(PageNo) -> Result<bool>,
    and_lost: bool,
) -> Result<Vec<PageDamage>> {
    let is_named = |kind, no| named.has(kind, no);
    look.compare(is_named, named.records.iter().copied(), has_node, and_lost)
}

/// Finds records that `trees` name although they are free, and records that are named twice. `trees`
/// must be the reports of all trees of the pool. Costs O(records).
///
/// # Errors
/// Corrupt map or record pages; I/O errors.
pub fn misnamed<M: Medium>(pool: &Pool<M>, trees: &[TreeReport]) -> Result<Vec<PageDamage>> {
    let mut in_use = HashSet::new();
    for r in pool.records() {
        fallible::insert(&mut in_use, r?, CHECK)?;
    }
    let named = trees.iter().flat_map(|tree| tree.records.iter().copied());
    let damage = |r: RecordRef| PageDamage {
        page: r.page(),
        offset_bytes_in_page: LINE_BYTES + 16 * usize::from(r.unit()),
        what: "a record that a tree names is free, or is named twice".into(),
    };
    Ok(named.filter(|r| !in_use.remove(r)).map(damage).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_all_entries_each_once_and_none_is_small() {
        for (threads, leaves) in [(0, 0), (1, 1), (2, 256), (3, 1), (1000, 7)] {
            for n in [0, 1, 2, 255, 256, 511, 512, 513, 10_000] {
                let shares: Vec<Range<usize>> = Shares { threads, leaves }.split(n).collect();
                assert_eq!((shares[0].start, shares[shares.len() - 1].end), (0, n));
                assert!(shares.windows(2).all(|two| two[0].end == two[1].start));
                assert!(shares.len() <= threads.max(1));
                let is_large = |share: &Range<usize>| share.len() >= leaves.max(1);
                assert!(shares.len() == 1 || shares.iter().all(is_large), "{shares:?}");
            }
        }
        assert!((1..=32).contains(&Shares::of_machine().threads));
    }
}
