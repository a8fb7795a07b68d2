//! The trees of the pool: their names, what belongs to them, and what they lack.

use std::collections::BTreeSet;

use everleaf::{Result, TREE_NAME_BYTES_MAX};
use everleaf_pmem::PageNo;
use everleaf_pool::{CATALOG_ANCHOR, kind};

use crate::fragments::{Fragments, Gap, Span, owner_of};
use crate::marks::Marks;
use crate::report::Loss;
use crate::survey::{Pair, Survey};

/// Where the catalog is among the trees.
pub(crate) const CATALOG: usize = 0;

/// A tree of the old pool.
#[derive(Debug)]
pub(crate) struct OldTree {
    pub name: Option<String>,
    pub anchor: PageNo,
    /// Its parts, by their places in `fragments.parts`.
    pub parts: Vec<usize>,
    /// The keys for which it has no leaf, in order.
    pub gaps: Vec<Gap>,
    /// Whether [`gaps`](Self::gaps) has been filled in.
    gaps_known: bool,
    /// Whether it never got a root, so that it has no leaf and lacks none.
    is_rootless: bool,
    /// Whether it was dropped: what is left of it was on its way out.
    pub is_dropped: bool,
}

/// Parts that belong to one tree, whichever it is.
struct Cluster {
    parts: Vec<usize>,
    /// The trees that they lead to.
    links: BTreeSet<usize>,
    /// The keys that they are for, if nothing leads to a tree and they are known.
    hull: Option<Span>,
    /// Whether they can be of the catalog.
    is_catalog: bool,
}

/// All trees, and the parts whose tree is unknown.
pub(crate) struct OldTrees {
    pub fragments: Fragments,
    /// The catalog first.
    pub trees: Vec<OldTree>,
    /// Clusters of parts whose tree is unknown.
    pub strays: Vec<Vec<usize>>,
    /// The trees that have gaps.
    lacking: Vec<usize>,
}

impl OldTrees {
    /// Finds all trees and gives each what must be its own.
    pub fn new(survey: &mut Survey) -> Result<Self> {
        let mut old = Self {
            fragments: Fragments::new(),
            trees: Vec::new(),
            strays: Vec::new(),
            lacking: Vec::new(),
        };
        old.add_tree(survey, CATALOG_ANCHOR)?;
        assert!(old.trees[CATALOG].anchor == CATALOG_ANCHOR, "the catalog is the first tree");
        let losses = survey.losses.len();
        for (name, anchor) in entries_of(survey, &old.fragments, &[CATALOG])? {
            old.enter(survey, name, anchor)?;
        }
        let has_gaps = !old.fragments.find_gaps(survey, &[CATALOG])?.is_empty();
        let is_whole =
            losses == survey.losses.len() && (!has_gaps || old.trees[CATALOG].is_rootless);
        for anchor in survey.anchors.clone() {
            if old.trees.iter().all(|tree| tree.anchor != anchor) {
                old.add_tree(survey, anchor)?;
            }
        }
        let is_known = |no: &PageNo| old.trees.iter().any(|tree| tree.anchor == *no);
        // A tree is in the catalog from its beginning; and it has an anchor.
        survey.is_closed &=
            is_whole || survey.map_is_whole && survey.lost_anchors.iter().all(is_known);
        old.fragments.add_orphans(survey)?;
        old.find_gaps(survey)?;
        old.assign(survey)?;
        let given: usize = old.trees.iter().map(|tree| tree.parts.len()).sum();
        let stray: usize = old.strays.iter().map(Vec::len).sum();
        assert_eq!(given + stray, old.fragments.parts.len(), "a part has one tree, or none");
        let lacks = |i: &usize| !old.trees[*i].gaps.is_empty();
        old.lacking = (0..old.trees.len()).filter(lacks).collect();
        Ok(old)
    }

    /// Adds the tree of an anchor, which may be one that cannot be read.
    fn add_tree(&mut self, survey: &mut Survey, anchor: PageNo) -> Result<()> {
        let is_anchor = survey.info(anchor).kind == kind::ANCHOR;
        let root = if is_anchor { survey.pool.anchor(anchor)? } else { 0 };
        let parts = vec![self.fragments.trees];
        self.fragments.add_tree(survey, root)?;
        let is_rootless = is_anchor && root == 0;
        let gaps = Vec::new();
        self.trees.push(OldTree {
            name: None,
            anchor,
            parts,
            gaps,
            gaps_known: false,
            is_rootless,
            is_dropped: false,
        });
        Ok(())
    }

    /// Gives the tree of an anchor its name, or notes that it was dropped.
    fn enter(&mut self, survey: &mut Survey, name: Option<String>, anchor: PageNo) -> Result<()> {
        if let Some(name) = name {
            return self.name(survey, name, anchor);
        }
        let at = match self.trees.iter().position(|tree| tree.anchor == anchor) {
            Some(at) => at,
            None if self.fragments.trees == self.fragments.parts.len() => {
                self.add_tree(survey, anchor)?;
                self.trees.len() - 1
            }
            None => return Ok(()),
        };
        // One with a name is in use, whatever else the catalog says.
        self.trees[at].is_dropped = at != CATALOG && self.trees[at].name.is_none();
        Ok(())
    }

    /// Gives the tree of an anchor its name. While no part has been made, a tree that is not known
    /// is added.
    fn name(&mut self, survey: &mut Survey, name: String, anchor: PageNo) -> Result<()> {
        let has_name = |tree: &OldTree| tree.name.as_ref() == Some(&name);
        let at = self.trees.iter().position(|tree| tree.anchor == anchor);
        let is_free = at.is_none_or(|at| at != CATALOG && self.trees[at].name.is_none());
        if self.trees.iter().any(has_name) || !is_free {
            let what = format!("the catalog's entry {name:?} names page {anchor} again");
            survey.losses.push(Loss::new("data", survey.offset(anchor), what));
            return Ok(());
        }
        let at = match at {
            Some(at) => at,
            None if self.fragments.trees == self.fragments.parts.len() => {
                self.add_tree(survey, anchor)?;
                self.trees.len() - 1
            }
            None => {
                // Its parts have been looked for without it.
                survey.is_closed = false;
                let (parts, gaps) = (Vec::new(), Vec::new());
                let tree = OldTree {
                    name: None,
                    anchor,
                    parts,
                    gaps,
                    is_rootless: false,
                    is_dropped: false,
                    gaps_known: false,
                };
                self.trees.push(tree);
                self.trees.len() - 1
            }
        };
        self.trees[at].name = Some(name);
        self.trees[at].is_dropped = false;
        Ok(())
    }

    /// Looks which keys the trees have no leaf for.
    fn find_gaps(&mut self, survey: &mut Survey) -> Result<()> {
        for tree in self.trees.iter_mut().filter(|tree| !tree.is_rootless) {
            tree.gaps = self.fragments.find_gaps(survey, &tree.parts)?;
            tree.gaps_known = true;
        }
        Ok(())
    }

    /// Gives parts to trees, as long as that makes others clear.
    fn assign(&mut self, survey: &mut Survey) -> Result<()> {
        let mut left = Vec::new();
        for (parts, links) in self.fragments.clusters() {
            let hull = self.hull(survey, &parts, &links)?;
            let is_catalog = self.could_be_catalog(survey, &parts)?;
            left.push(Cluster { parts, links, hull, is_catalog });
        }
        loop {
            let mut rest = Vec::new();
            let before = left.len();
            for cluster in left {
                match self.owner(survey, &cluster) {
                    Some(tree) => self.give(survey, cluster.parts, tree)?,
                    None => rest.push(cluster),
                }
            }
            if rest.len() == before {
                self.strays = rest.into_iter().map(|cluster| cluster.parts).collect();
                return Ok(());
            }
            left = rest;
        }
    }

    /// Makes parts those of a tree.
    fn give(&mut self, survey: &mut Survey, parts: Vec<usize>, tree: usize) -> Result<()> {
        let own = &mut self.trees[tree];
        let at = own.parts.len();
        own.parts.extend(parts);
        if own.gaps_known {
            // All of them anew would cost the square of the damage.
            for part in &own.parts[at..] {
                self.fragments.fill(survey, *part, &mut own.gaps)?;
            }
        } else {
            own.gaps = self.fragments.find_gaps(survey, &own.parts)?;
            own.gaps_known = true;
        }
        if tree == CATALOG {
            let parts = self.trees[tree].parts[at..].to_vec();
            for (name, anchor) in entries_of(survey, &self.fragments, &parts)? {
                self.enter(survey, name, anchor)?;
            }
        }
        Ok(())
    }

    /// The keys that parts are for, if it can matter and is known.
    fn hull(
        &self,
        survey: &mut Survey,
        parts: &[usize],
        links: &BTreeSet<usize>,
    ) -> Result<Option<Span>> {
        let mut hull = None;
        if survey.is_closed && links.is_empty() {
            for part in parts {
                let Some(own) = self.fragments.hull(survey, *part)? else { return Ok(None) };
                hull = Some(match hull {
                    None => own,
                    Some(hull) => own.with(hull),
                });
            }
        }
        Ok(hull)
    }

    fn owner(&self, survey: &Survey, cluster: &Cluster) -> Option<usize> {
        // Later findings may have shown that not all is known.
        let hull = cluster.hull.as_ref().filter(|_| survey.is_closed);
        let gaps: Vec<_> = self.trees.iter().map(|tree| &tree.gaps[..]).collect();
        owner_of(&cluster.links, hull, &gaps, |tree| tree != CATALOG || cluster.is_catalog)
    }

    /// Whether the pairs of some parts, as far as they can be read, are entries of a catalog.
    fn could_be_catalog(&self, survey: &mut Survey, parts: &[usize]) -> Result<bool> {
        for part in parts {
            for no in &self.fragments.parts[*part].leaves {
                survey.tidy()?;
                let Ok(node) = survey.node(*no) else { continue };
                for entry in &node.entries {
                    if let Ok(pair) = survey.pair_of(&node, entry) {
                        return Ok(catalog_entry(&pair).is_some());
                    }
                }
            }
        }
        Ok(true)
    }

    /// The only tree that a record with this pair, which no leaf names, can be of.
    pub fn owner_of_record(&self, survey: &Survey, pair: &Pair) -> Option<usize> {
        if !survey.is_closed {
            return None;
        }
        let is_catalog = catalog_entry(pair).is_some();
        let has = |i: &usize| {
            let gaps = &self.trees[*i].gaps;
            let at = gaps.partition_point(|gap| gap.span.from <= pair.0);
            (*i != CATALOG || is_catalog) && at > 0 && gaps[at - 1].span.has(&pair.0)
        };
        let mut owners = self.lacking.iter().copied().filter(has);
        owners.next().filter(|_| owners.next().is_none())
    }

    /// Names trees by records of the catalog that no leaf of it names.
    pub fn name_by_records(&mut self, survey: &mut Survey, marks: &Marks) -> Result<()> {
        if self.trees[CATALOG].gaps.is_empty() {
            return Ok(());
        }
        let mut found = Vec::new();
        for i in 0..survey.records.len() {
            survey.tidy()?;
            for r in survey.pool.records_on(survey.records[i])? {
                if marks.has(&survey.records, r) {
                    continue;
                }
                let Ok(pair) = survey.pair(r) else { continue };
                if self.owner_of_record(survey, &pair) == Some(CATALOG) {
                    found.extend(catalog_entry(&pair));
                }
            }
        }
        for (name, anchor) in found {
            if survey.info(anchor).kind == kind::ANCHOR {
                self.enter(survey, name, anchor)?;
            }
        }
        Ok(())
    }
}

/// Name and anchor, if a pair can be an entry of the catalog; a tree that was dropped has no name.
pub(crate) fn catalog_entry((key, value): &Pair) -> Option<(Option<String>, PageNo)> {
    let anchor = PageNo::from_le_bytes(value.as_slice().try_into().ok()?);
    if anchor <= CATALOG_ANCHOR {
        return None;
    }
    if let [0xff, page @ ..] = &key[..] {
        return (page == anchor.to_be_bytes()).then_some((None, anchor));
    }
    let name = String::from_utf8(key.clone()).ok()?;
    (1..=TREE_NAME_BYTES_MAX).contains(&name.len()).then_some((Some(name), anchor))
}

/// The entries of the catalog in some parts; what cannot be read is noted.
fn entries_of(
    survey: &mut Survey,
    fragments: &Fragments,
    parts: &[usize],
) -> Result<Vec<(Option<String>, PageNo)>> {
    let mut found = Vec::new();
    for no in parts.iter().flat_map(|part| &fragments.parts[*part].leaves) {
        survey.tidy()?;
        let Ok(node) = survey.node(*no) else { continue };
        for entry in &node.entries {
            let page = survey.page_of(&node, entry);
            let mut loss = match survey.pair_of(&node, entry) {
                Ok(pair) => match catalog_entry(&pair) {
                    Some(entry) => {
                        found.push(entry);
                        continue;
                    }
                    // The engine's own.
                    None if pair.0.is_empty() => continue,
                    None => Loss::new("data", survey.offset(page), "no entry of a catalog"),
                },
                Err(error) => survey.loss_of(&error, page),
            };
            loss.what = format!("the name of a tree: {}", loss.what);
            survey.losses.push(loss);
        }
    }
    Ok(found)
}
