//! Copies what the trees have, then what nobody has.

use std::collections::{BTreeSet, HashMap, HashSet};

use everleaf::{Error, Result, TREE_NAME_BYTES_MAX};
use everleaf_pmem::PageNo;
use everleaf_pool::{CATALOG_ANCHOR, RecordRef};
use everleaf_tree::salvage::{NodeBound, NodeEntry, NodeView};

use crate::fragments::Gap;
use crate::marks::Marks;
use crate::new_pool::NewPool;
use crate::report::{KeyRange, Loss, Origin, Salvaged, SalvagedTree};
use crate::survey::{Pair, Survey};
use crate::trees::{CATALOG, OldTrees, catalog_entry};

/// Where pairs go that may be older than what there was.
const OLDER: &str = "lost+found/older/";

/// Entries of a leaf, one behind the other, that cannot be read.
struct Unreadable {
    loss: Loss,
    pairs: u64,
}

pub(crate) struct Copier<'c> {
    pub survey: &'c mut Survey,
    pub old: &'c OldTrees,
    pub marks: &'c Marks,
    pub new_pool: &'c mut NewPool,
    pub report: &'c mut Salvaged,
    /// Told how many nodes and record pages are done.
    pub progress: &'c mut dyn FnMut(u64),
    done: u64,
    /// The names of all trees, so that those of `lost+found` differ from them.
    names: HashSet<String>,
    /// Of each tree, where it is in the report.
    places: Vec<Option<usize>>,
    /// Record pages with another record than a leaf says.
    suspect: BTreeSet<PageNo>,
    /// Records that a leaf names and may not believe to be its own.
    disputed: HashSet<RecordRef>,
    /// Records that are copied, although a leaf that is too old names them, too.
    settled: HashSet<RecordRef>,
    /// Of each tree of the report that has some: the trees for its pairs that may be older.
    older: HashMap<usize, Vec<usize>>,
}

impl<'c> Copier<'c> {
    pub fn new(
        survey: &'c mut Survey,
        old: &'c OldTrees,
        marks: &'c Marks,
        new_pool: &'c mut NewPool,
        report: &'c mut Salvaged,
        progress: &'c mut dyn FnMut(u64),
    ) -> Self {
        let names = old.trees.iter().filter_map(|tree| tree.name.clone()).collect();
        let places = vec![None; old.trees.len()];
        Self {
            survey,
            old,
            marks,
            new_pool,
            report,
            progress,
            done: 0,
            names,
            places,
            suspect: BTreeSet::new(),
            disputed: HashSet::new(),
            settled: HashSet::new(),
            older: HashMap::new(),
        }
    }

    /// Copies everything.
    pub fn run(&mut self) -> Result<()> {
        self.trees()?;
        self.strays()?;
        self.records()?;
        self.count_losses();
        let lost: u64 = self.report.trees.iter().map(|tree| tree.pairs_lost).sum();
        assert!(lost <= self.report.pairs_lost, "a lost pair is some tree's, or its tree is lost");
        self.report.trees.sort_by(|a, b| a.name.cmp(&b.name));
        let names = self.report.trees.iter().map(|tree| &tree.name);
        assert!(
            names.is_sorted_by(|a, b| a < b),
            "two trees of the report are one of the new pool"
        );
        Ok(())
    }

    /// A name that no tree has.
    fn new_name(&mut self, wanted: String) -> String {
        let mut name = wanted;
        while !self.names.insert(name.clone()) {
            name.push('~');
        }
        name
    }

    /// Makes a tree of the new pool and chooses it.
    fn add(&mut self, name: String, origin: Origin) -> Result<usize> {
        self.new_pool.choose(&name)?;
        let (pairs, pairs_found, pairs_lost, pairs_lost_is_exact) = (0, 0, 0, false);
        let tree =
            SalvagedTree { name, origin, pairs, pairs_found, pairs_lost, pairs_lost_is_exact };
        self.report.trees.push(tree);
        Ok(self.report.trees.len() - 1)
    }

    /// Says how many pairs each tree lacks: what the pool says that it had, less what it has. Where that is not
    /// known, it is what leaves name and cannot be read.
    fn count_losses(&mut self) {
        let counts = self.survey.medium().counts().cloned();
        let mut is_exact = counts.is_some();
        for (tree, at) in self.old.trees.iter().zip(&self.places) {
            let Some(at) = *at else { continue };
            let had = counts.as_ref().map(|counts| counts.get(&tree.anchor).copied().unwrap_or(0));
            let own = &mut self.report.trees[at];
            // A tree without a name may have been on its way out.
            let lost = had.filter(|_| own.origin == Origin::Named);
            let lost = lost.and_then(|had| had.checked_sub(own.pairs));
            own.pairs_lost_is_exact = lost.is_some();
            is_exact &= lost.is_some();
            let Some(lost) = lost else { continue };
            own.pairs_lost = lost;
            let is_own =
                |loss: &&mut Loss| loss.keys.is_some() && loss.tree.as_ref() == Some(&own.name);
            let known: u64 =
                self.survey.losses.iter_mut().filter(is_own).filter_map(|loss| loss.pairs).sum();
            let mut unknown: Vec<_> = self
                .survey
                .losses
                .iter_mut()
                .filter(|loss| loss.pairs.is_none())
                .filter(is_own)
                .collect();
            let left = lost.checked_sub(known);
            // Of several ranges only the sum is known.
            if let Some(left) = left.filter(|left| unknown.len() == 1 || *left == 0) {
                unknown.iter_mut().for_each(|loss| loss.pairs = Some(left));
            }
        }
        for tree in self.report.trees.iter_mut().filter(|tree| tree.is_found()) {
            tree.pairs_lost_is_exact = true;
        }
        let mut lost: u64 = self.report.trees.iter().map(|tree| tree.pairs_lost).sum();
        let mut gone: Vec<_> = counts.into_iter().flatten().collect();
        gone.retain(|(anchor, _)| {
            *anchor != CATALOG_ANCHOR && self.old.trees.iter().all(|tree| tree.anchor != *anchor)
        });
        gone.sort_unstable();
        for (anchor, pairs) in gone {
            let what = format!("the tree of page {anchor} is lost, with its name");
            let mut loss = Loss::new("data", self.survey.offset(anchor), what);
            (loss.page, loss.pairs) = (Some(anchor), Some(pairs));
            self.survey.losses.push(loss);
            lost += pairs;
        }
        (self.report.pairs_lost, self.report.pairs_lost_is_exact) = (lost, is_exact);
    }

    fn step(&mut self) -> Result<()> {
        self.done += 1;
        (self.progress)(self.done);
        self.survey.tidy()
    }

    fn trees(&mut self) -> Result<()> {
        for gap in &self.old.trees[CATALOG].gaps {
            self.lack("the catalog", None, gap, self.old.trees[CATALOG].anchor);
        }
        for (i, tree) in self.old.trees.iter().enumerate().skip(1) {
            if tree.is_dropped {
                continue;
            }
            let (name, origin) = match &tree.name {
                Some(name) => (name.clone(), Origin::Named),
                None => {
                    let what = format!("the name of the tree of page {} is lost", tree.anchor);
                    let offset = self.survey.offset(tree.anchor);
                    self.survey.losses.push(Loss::new("data", offset, what));
                    (self.new_name(format!("lost+found/tree-{}", tree.anchor)), Origin::Unnamed)
                }
            };
            let at = self.add(name.clone(), origin)?;
            self.places[i] = Some(at);
            self.leaves(&tree.parts, at)?;
            for gap in &tree.gaps {
                self.lack(&format!("tree {name:?}"), Some(&name), gap, tree.anchor);
            }
        }
        Ok(())
    }

    /// Notes that a tree has no leaf for some keys.
    fn lack(&mut self, who: &str, tree: Option<&str>, gap: &Gap, anchor: PageNo) {
        let offset = self.survey.offset(gap.page.unwrap_or(anchor));
        let what = match gap.page {
            Some(no) => format!("{who} has no leaf from page {no} on that can be read"),
            None => format!("{who} has no first leaf that can be read"),
        };
        let mut loss = Loss::new("data", offset, what);
        loss.page = gap.page;
        loss.tree = tree.map(str::to_owned);
        let from = Some(gap.span.from.clone()).filter(|key| !key.is_empty());
        loss.keys = Some(KeyRange { from, to: gap.span.to.clone() });
        self.survey.losses.push(loss);
    }

    /// Copies the leaves of some parts into one tree, those that are too old last.
    fn leaves(&mut self, parts: &[usize], at: usize) -> Result<()> {
        for is_stale in [false, true] {
            for no in parts.iter().flat_map(|part| &self.old.fragments.parts[*part].leaves) {
                let info = self.survey.info(*no);
                if info.is_stale == is_stale && !self.old.fragments.contested.contains(no) {
                    self.leaf(*no, at, is_stale)?;
                }
            }
        }
        Ok(())
    }

    fn leaf(&mut self, no: PageNo, at: usize, is_stale: bool) -> Result<()> {
        self.step()?;
        let node = match self.survey.node(no) {
            Ok(node) => node,
            Err(error) => {
                self.survey.losses.push(self.survey.loss_of(&error, no));
                return Ok(());
            }
        };
        let name = self.report.trees[at].name.clone();
        self.new_pool.choose(&name)?;
        let (mut unreadable, mut twice, mut older) = (None::<Unreadable>, 0, Vec::new());
        if is_stale {
            self.doubt(&node, &name);
        }
        let mut before = match &node.low {
            NodeBound::At(low) => Some(low.clone()),
            _ => None,
        };
        for entry in &node.entries {
            match self.read(&node, entry, is_stale) {
                Ok(pair) if is_stale => older.push(pair),
                Ok((key, value)) => {
                    self.close_unreadable(&mut unreadable, at, Some(&key));
                    before = Some(key.clone());
                    if self.new_pool.put(key, &value)? {
                        self.report.trees[at].pairs += 1;
                    } else {
                        twice += 1;
                    }
                }
                // Nobody knows whether there is such a pair.
                Err(_) if is_stale => {}
                Err(error) => {
                    if let Some(pair) = self.older_pair(&node, entry) {
                        older.push(pair);
                    }
                    let unreadable = unreadable.get_or_insert_with(|| {
                        let page = self.survey.page_of(&node, entry);
                        let mut loss = self.survey.loss_of(&error, page);
                        loss.page = Some(page);
                        loss.tree = Some(name.clone());
                        loss.keys = Some(KeyRange { from: before.clone(), to: None });
                        Unreadable { loss, pairs: 0 }
                    });
                    unreadable.pairs += 1;
                }
            }
        }
        let high = match &node.high {
            NodeBound::At(high) => Some(&high[..]),
            _ => None,
        };
        self.close_unreadable(&mut unreadable, at, high);
        self.put_older(at, older)?;
        if twice > 0 {
            let what = format!("page {no}: {twice} keys are in another leaf of the tree, too");
            let mut loss = Loss::new("data", self.survey.offset(no), what);
            (loss.page, loss.tree) = (Some(no), Some(name));
            self.survey.losses.push(loss);
        }
        Ok(())
    }

    /// Says that what a leaf holds may be older than it was.
    fn doubt(&mut self, node: &NodeView, name: &str) {
        let key = |bound: &NodeBound| match bound {
            NodeBound::At(key) => Some(key.clone()),
            _ => None,
        };
        let no = node.page;
        let what = format!(
            "page {no}: its pairs may be older than they were, or may have been removed: they are in {:?}",
            older_name(name)
        );
        let mut loss = Loss::new("data", self.survey.offset(no), what);
        (loss.page, loss.tree) = (Some(no), Some(name.to_owned()));
        loss.keys = Some(KeyRange { from: key(&node.low), to: key(&node.high) });
        self.survey.losses.push(loss);
    }

    /// The pair of an entry whose record is on a page that may be older than it was.
    fn older_pair(&mut self, node: &NodeView, entry: &NodeEntry) -> Option<Pair> {
        let is_older = |r: RecordRef| self.survey.info(r.page()).is_stale;
        entry.record().filter(|r| is_older(*r))?;
        self.survey.pair_of(node, entry).ok()
    }

    /// Puts pairs that may be older than what a tree had beside it, without those whose key it has.
    fn put_older(&mut self, at: usize, pairs: Vec<Pair>) -> Result<()> {
        if pairs.is_empty() {
            return Ok(());
        }
        let name = self.report.trees[at].name.clone();
        self.new_pool.choose(&name)?;
        let mut missing = Vec::new();
        for pair in pairs {
            if self.new_pool.get(&pair.0)?.is_none() {
                missing.push(pair);
            }
        }
        let mut places = self.older.remove(&at);
        for pair in missing {
            self.put_stray(&mut places, &older_name(&name), Origin::Older, pair)?;
        }
        if let Some(places) = places {
            self.older.insert(at, places);
        }
        Ok(())
    }

    /// The pair of an entry, if it is to be believed.
    fn read(&mut self, node: &NodeView, entry: &NodeEntry, is_stale: bool) -> Result<Pair> {
        let Some(r) = entry.record() else { return self.survey.pair_of(node, entry) };
        if !self.marks.is_own(r, is_stale) {
            self.disputed.insert(r);
            let what = format!("page {}: a record that two nodes name", r.page());
            return Err(Error::corrupt(self.survey.pool.record_offset(r), what));
        }
        if self.survey.info(r.page()).is_stale && !is_stale {
            let what = format!("page {}: its records may be older than they were", r.page());
            return Err(Error::corrupt(self.survey.pool.record_offset(r), what));
        }
        let pair = self.survey.pair_of(node, entry);
        if pair.is_err() && self.survey.pair(r).is_ok() {
            self.suspect.insert(r.page());
        }
        if pair.is_ok() && self.marks.is_named_again(r) {
            self.settled.insert(r);
        }
        pair
    }

    fn close_unreadable(
        &mut self,
        unreadable: &mut Option<Unreadable>,
        at: usize,
        to: Option<&[u8]>,
    ) {
        let Some(Unreadable { mut loss, pairs }) = unreadable.take() else { return };
        loss.pairs = Some(pairs);
        if let Some(keys) = &mut loss.keys {
            keys.to = to.map(<[u8]>::to_vec);
        }
        self.report.trees[at].pairs_lost += pairs;
        self.survey.losses.push(loss);
    }

    /// Leaves of trees that nobody knows.
    fn strays(&mut self) -> Result<()> {
        let fragments = &self.old.fragments;
        let groups = self.old.strays.iter().map(|parts| {
            parts.iter().flat_map(|part| fragments.parts[*part].leaves.iter().copied()).collect()
        });
        let single = fragments.contested.iter().map(|no| vec![*no]);
        let groups: Vec<Vec<PageNo>> = groups.chain(single).collect();
        for leaves in groups {
            let Some(first) = leaves.first() else { continue };
            let what = format!("nothing says of which tree the leaf on page {first} is");
            let mut loss = Loss::new("data", self.survey.offset(*first), what);
            loss.page = Some(*first);
            self.survey.losses.push(loss);
            let name = self.new_name(format!("lost+found/leaf-{first}"));
            let at = self.add(name, Origin::Stray)?;
            for no in leaves {
                self.leaf(no, at, self.survey.info(no).is_stale)?;
            }
        }
        Ok(())
    }

    /// Records in use that no node names, or two of which nothing says whose it is.
    fn records(&mut self) -> Result<()> {
        let (mut stray, mut empty, mut older) = (None, None, None);
        for i in 0..self.survey.records.len() {
            self.step()?;
            let no = self.survey.records[i];
            let records = self.survey.pool.records_on(no)?;
            let mut found = 0;
            for r in records {
                let is_disputed = self.disputed.contains(&r) && !self.settled.contains(&r);
                if self.marks.has(&self.survey.records, r) && !is_disputed {
                    continue;
                }
                found += usize::from(!is_disputed);
                let pair = match self.survey.pair(r) {
                    Ok(pair) => pair,
                    Err(error) => {
                        let mut loss = self.survey.loss_of(&error, no);
                        loss.page = Some(no);
                        self.survey.losses.push(loss);
                        continue;
                    }
                };
                if pair.1.is_empty() {
                    self.put_stray(&mut empty, "lost+found/empty", Origin::Doubtful, pair)?;
                } else if self.survey.info(no).is_stale {
                    let name = older_name("lost+found/records");
                    self.put_stray(&mut older, &name, Origin::Older, pair)?;
                } else if is_disputed || !self.put_found(no, &pair)? {
                    self.put_stray(&mut stray, "lost+found/records", Origin::Stray, pair)?;
                }
            }
            if found > 0 {
                let what = format!("page {no}: {found} records that no node names");
                let mut loss = Loss::new("data", self.survey.offset(no), what);
                loss.page = Some(no);
                self.survey.losses.push(loss);
            }
        }
        Ok(())
    }

    /// Puts a pair into the tree that it must be of, if there is one that lacks the key.
    fn put_found(&mut self, no: PageNo, pair: &Pair) -> Result<bool> {
        if self.suspect.contains(&no) {
            return Ok(false);
        }
        let Some(tree) = self.old.owner_of_record(self.survey, pair) else { return Ok(false) };
        if tree == CATALOG {
            // It has served as the name of a tree, if it can.
            return Ok(catalog_entry(pair).is_some_and(|(name, _)| {
                name.is_none() || self.old.trees.iter().any(|tree| tree.name == name)
            }));
        }
        let Some(at) = self.places[tree] else { return Ok(false) };
        let name = self.report.trees[at].name.clone();
        self.new_pool.choose(&name)?;
        let is_new = self.new_pool.put(pair.0.clone(), &pair.1)?;
        if is_new {
            self.report.trees[at].pairs += 1;
            self.report.trees[at].pairs_found += 1;
        }
        Ok(is_new)
    }

    /// Puts a pair into a tree of `lost+found`; into a further one, if it has another value there.
    fn put_stray(
        &mut self,
        places: &mut Option<Vec<usize>>,
        name: &str,
        origin: Origin,
        (key, value): Pair,
    ) -> Result<()> {
        let mut places_of = places.take().unwrap_or_default();
        let mut i = 0;
        loop {
            if i == places_of.len() {
                let name = self.new_name(name.to_owned());
                places_of.push(self.add(name, origin)?);
            }
            let at = places_of[i];
            let name = self.report.trees[at].name.clone();
            self.new_pool.choose(&name)?;
            match self.new_pool.get(&key)? {
                None => {
                    self.new_pool.put(key, &value)?;
                    self.report.trees[at].pairs += 1;
                    break;
                }
                Some(old) if old == value => break,
                Some(_) => i += 1,
            }
        }
        *places = Some(places_of);
        Ok(())
    }
}

/// The tree for pairs that may be older than what a tree had.
fn older_name(tree: &str) -> String {
    let tree = tree.strip_prefix("lost+found/").unwrap_or(tree);
    // Room for what tells names apart.
    let most = TREE_NAME_BYTES_MAX - OLDER.len() - 8;
    let end = (0..=most.min(tree.len())).rev().find(|end| tree.is_char_boundary(*end));
    OLDER.to_owned() + &tree[..end.unwrap_or(0)]
}
