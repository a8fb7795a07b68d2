//! The trees, and fragments of trees whose root is out of reach.
//!
//! ```text
//! part       the nodes that one walk finds: from its top down, and along the siblings at each level.
//!            A tree's own part starts at the root that its anchor names. Other parts, the orphans,
//!            start at nodes that no part has yet, those of the highest levels first
//! link       an orphan whose right neighbour is a node of another part belongs to the tree of that part
//! segment    leaves of a part that follow each other by their links; between two segments is a gap
//! ```
//!
//! A node counts as the child or sibling that a pointer means only if its bounds are those that the
//! pointer's place says. So a page that was freed and used again, or is another pool's, is not taken for
//! what it was.

use std::collections::{BTreeMap, BTreeSet};

use everleaf::Result;
use everleaf_pmem::PageNo;
use everleaf_pool::kind;
use everleaf_tree::salvage::{NodeBound, NodeEntry, NodeView};

use crate::report::Loss;
use crate::survey::Survey;

/// A range of keys: from one on, up to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub from: Vec<u8>,
    pub to: Option<Vec<u8>>,
}

impl Span {
    pub fn has(&self, key: &[u8]) -> bool {
        *self.from <= *key && self.to.as_ref().is_none_or(|to| key < &to[..])
    }

    /// The least range that has both.
    pub fn with(self, other: Span) -> Span {
        let to = self.to.zip(other.to).map(|(a, b)| a.max(b));
        Span { from: self.from.min(other.from), to }
    }

    fn holds(&self, other: &Span) -> bool {
        let ends = match (&self.to, &other.to) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(to)) => to <= own,
        };
        self.from <= other.from && ends
    }
}

/// The nodes that one walk finds: those of a tree, or of a fragment of one.
#[derive(Debug, Default)]
pub(crate) struct TreePart {
    /// Its leaves, from the left to the right.
    pub leaves: Vec<PageNo>,
    /// Where among the leaves a new segment begins.
    breaks: Vec<usize>,
    /// Its highest nodes, from the left to the right.
    top: Vec<PageNo>,
    /// Other parts that must belong to the same tree.
    links: BTreeSet<u32>,
    /// The nodes of those parts that it leads to.
    met: Vec<PageNo>,
}

/// Keys for which a tree has no leaf, and the page that should have the first of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gap {
    pub span: Span,
    pub page: Option<PageNo>,
}

/// All parts, those of trees first. A part's number, as its nodes bear it, counts from 1.
pub(crate) struct Fragments {
    pub parts: Vec<TreePart>,
    /// How many of the parts are those of trees.
    pub trees: usize,
    /// Leaves that more than one tree claims.
    pub contested: BTreeSet<PageNo>,
}

/// The way along one level.
struct LevelWalk<'s> {
    survey: &'s mut Survey,
    id: u32,
    level: u8,
    out: Vec<PageNo>,
    breaks: Vec<usize>,
    below: Vec<PageNo>,
    links: BTreeSet<u32>,
    met: Vec<PageNo>,
}

impl LevelWalk<'_> {
    /// Follows the siblings from a node on, until one that has been met, or cannot be.
    fn follow(&mut self, start: PageNo) -> Result<()> {
        let (mut next, mut left) = (Some(start), None::<NodeView>);
        while let Some(no) = next {
            self.survey.tidy()?;
            let info = self.survey.info(no);
            if info.owner == self.id {
                return Ok(());
            }
            let Some(node) = self.node(no, left.as_ref()) else { return Ok(()) };
            if info.owner != 0 {
                self.links.insert(info.owner);
                self.met.push(no);
                return Ok(());
            }
            for (at, entry) in node.entries.iter().enumerate() {
                let Some(child) = entry.child() else { continue };
                let found = self.is_node(child, self.level - 1).then(|| self.survey.node(child));
                match found {
                    Some(Ok(found)) if self.is_child(&node, at, &found) => self.below.push(child),
                    Some(_) => self.misled(no, child),
                    None => {}
                }
            }
            if left.is_none() {
                self.breaks.push(self.out.len());
            }
            debug_assert!(info.owner == 0 && info.level == self.level);
            self.survey.info_mut(no).owner = self.id;
            self.out.push(no);
            next = node.sibling;
            left = Some(node);
        }
        Ok(())
    }

    fn is_node(&self, no: PageNo, level: u8) -> bool {
        let info = self.survey.info(no);
        info.kind == kind::NODE && info.level == level
    }

    /// Whether a node is the child that an entry of its parent means: it begins at the entry's separator,
    /// and ends at the next one, or where a right sibling begins of which the parent need not know yet. A
    /// page of another pool may begin like the lost one: the first leaf of any tree has no lower bound.
    fn is_child(&self, parent: &NodeView, at: usize, child: &NodeView) -> bool {
        if !parent.leads_to(&parent.entries[at], &child.low) {
            return false;
        }
        let is_stale = |no| self.survey.info(no).is_stale;
        if self.survey.medium().has_gaps() || is_stale(parent.page) || is_stale(child.page) {
            return true;
        }
        let is_end = match (parent.entries.get(at + 1), &child.high) {
            (_, NodeBound::Unknown) => true,
            (Some(_), NodeBound::Open) => false,
            (Some(next), high) => parent.leads_to(next, high),
            (None, high) => parent.high == NodeBound::Unknown || parent.high == *high,
        };
        let is_next = |no| self.survey.node(no).is_ok_and(|next| next.low == child.high);
        is_end || child.sibling.is_some_and(is_next)
    }

    /// The node on a page, if it is the one that its left neighbour, if there is one, leads to.
    fn node(&mut self, no: PageNo, left: Option<&NodeView>) -> Option<NodeView> {
        let found = self.is_node(no, self.level).then(|| self.survey.node(no).ok()).flatten()?;
        let Some(left) = left else { return Some(found) };
        let is_next = match (&left.high, &found.low) {
            (NodeBound::At(high), NodeBound::At(low)) => high == low,
            (NodeBound::Unknown, NodeBound::At(_) | NodeBound::Unknown)
            | (NodeBound::At(_), NodeBound::Unknown) => true,
            _ => false,
        };
        if !is_next {
            self.misled(left.page, no);
            return None;
        }
        Some(found)
    }

    fn misled(&mut self, from: PageNo, to: PageNo) {
        let what = format!("page {from} leads to page {to}, which begins at another key");
        let mut loss = Loss::new("data", self.survey.offset(to), what);
        loss.page = Some(to);
        self.survey.losses.push(loss);
        self.survey.is_closed = false;
    }
}

impl Fragments {
    /// No parts yet.
    pub fn new() -> Self {
        Self { parts: Vec::new(), trees: 0, contested: BTreeSet::new() }
    }

    /// Adds a part of the nodes below and beside `top`.
    fn walk(&mut self, survey: &mut Survey, top: PageNo) -> Result<()> {
        let id = self.parts.len() as u32 + 1;
        let mut part = TreePart::default();
        let info = survey.info(top);
        if info.kind == kind::NODE {
            let mut starts = vec![top];
            for level in (0..=info.level).rev() {
                let (out, breaks, below) = (Vec::new(), Vec::new(), Vec::new());
                let (links, met) = (std::mem::take(&mut part.links), std::mem::take(&mut part.met));
                let mut walk = LevelWalk { survey, id, level, out, breaks, below, links, met };
                for start in starts {
                    walk.follow(start)?;
                }
                let LevelWalk { out, breaks, below, links, met, .. } = walk;
                (starts, part.links, part.met) = (below, links, met);
                if level == info.level {
                    part.top.clone_from(&out);
                }
                if level == 0 {
                    (part.leaves, part.breaks) = (out, breaks);
                }
            }
        }
        self.parts.push(part);
        Ok(())
    }

    /// Adds a tree; its root may be one that cannot be read.
    pub fn add_tree(&mut self, survey: &mut Survey, root: PageNo) -> Result<()> {
        debug_assert!(self.trees == self.parts.len(), "the parts of trees come before orphans");
        self.walk(survey, root)?;
        self.trees += 1;
        let part = &mut self.parts[self.trees - 1];
        debug_assert!(part.links.iter().all(|id| (1..self.trees as u32).contains(id)));
        part.links.clear();
        let met = std::mem::take(&mut part.met);
        for no in met {
            // Two trees have a node in common: one of them is older than it should be.
            survey.is_closed = false;
            let mut loss =
                Loss::new("data", survey.offset(no), format!("two trees lead to page {no}"));
            loss.page = Some(no);
            survey.losses.push(loss);
            self.contest(survey, no)?;
        }
        Ok(())
    }

    /// Takes the leaves below a node from the parts that have them.
    fn contest(&mut self, survey: &mut Survey, top: PageNo) -> Result<()> {
        let (mut todo, mut seen) = (vec![top], BTreeSet::new());
        while let Some(no) = todo.pop() {
            survey.tidy()?;
            let Ok(node) = survey.node(no) else { continue };
            if !seen.insert(no) {
                continue;
            }
            if node.level == 0 {
                self.contested.insert(no);
            } else {
                let children = node.entries.iter().filter_map(NodeEntry::child);
                todo.extend(children.filter(|child| {
                    let info = survey.info(*child);
                    info.kind == kind::NODE && info.level + 1 == node.level
                }));
            }
        }
        Ok(())
    }

    /// Makes parts of all nodes that no tree reaches, those of the highest levels first.
    pub fn add_orphans(&mut self, survey: &mut Survey) -> Result<()> {
        let mut by_level = BTreeMap::<u8, Vec<PageNo>>::new();
        for no in &survey.nodes {
            let info = survey.info(*no);
            if info.owner == 0 {
                by_level.entry(info.level).or_default().push(*no);
            }
        }
        for no in by_level.into_iter().rev().flat_map(|(_, nodes)| nodes) {
            if survey.info(no).owner == 0 {
                self.walk(survey, no)?;
            }
        }
        Ok(())
    }

    /// The orphans that belong together, each cluster with the trees that its links lead to.
    pub fn clusters(&self) -> Vec<(Vec<usize>, BTreeSet<usize>)> {
        let mut group: Vec<usize> = (0..self.parts.len()).collect();
        fn find(group: &mut [usize], mut i: usize) -> usize {
            while group[i] != i {
                group[i] = group[group[i]];
                i = group[i];
            }
            i
        }
        let is_tree = |i: usize| i < self.trees;
        for i in self.trees..self.parts.len() {
            for other in self.parts[i].links.iter().map(|id| *id as usize - 1) {
                if !is_tree(other) {
                    let (a, b) = (find(&mut group, i), find(&mut group, other));
                    group[a.max(b)] = a.min(b);
                }
            }
        }
        let mut found = BTreeMap::<usize, (Vec<usize>, BTreeSet<usize>)>::new();
        for i in self.trees..self.parts.len() {
            let own = found.entry(find(&mut group, i)).or_default();
            own.0.push(i);
            let links = self.parts[i].links.iter().map(|id| *id as usize - 1);
            own.1.extend(links.filter(|other| is_tree(*other)));
        }
        found.into_values().collect()
    }

    /// The keys that a part is for, as far as they are known: never more than it is for.
    pub fn hull(&self, survey: &mut Survey, no: usize) -> Result<Option<Span>> {
        let part = &self.parts[no];
        let (Some(first), Some(last)) = (part.top.first(), part.top.last()) else {
            return Ok(None);
        };
        let (first, last) = (survey.node(*first)?, survey.node(*last)?);
        let segments = self.segments(survey, no)?;
        let from = match first.low {
            NodeBound::Open => Some(Vec::new()),
            NodeBound::At(low) => Some(low),
            NodeBound::Unknown => segments.first().map(|(span, _)| span.from.clone()),
        };
        let to = match last.high {
            NodeBound::Open => Some(None),
            NodeBound::At(high) => Some(Some(high)),
            NodeBound::Unknown => segments.last().map(|(span, _)| span.to.clone()),
        };
        Ok(from.zip(to).map(|(from, to)| Span { from, to }))
    }

    /// The keys that the segments of a part are for, as far as they are known: never more; and the
    /// page behind each segment.
    fn segments(&self, survey: &mut Survey, no: usize) -> Result<Vec<(Span, Option<PageNo>)>> {
        let part = &self.parts[no];
        let ends = part.breaks.iter().skip(1).copied().chain([part.leaves.len()]);
        let mut spans = Vec::new();
        for (begin, end) in part.breaks.iter().copied().zip(ends) {
            let leaves = &part.leaves[begin..end];
            let (Some(from), Some(to)) = (first_key(survey, leaves)?, last_key(survey, leaves)?)
            else {
                continue;
            };
            let next = survey.node(leaves[leaves.len() - 1]).ok().and_then(|node| node.sibling);
            spans.push((Span { from, to }, next));
        }
        Ok(spans)
    }

    /// The keys for which none of these parts, which are one tree, has a leaf: never fewer.
    pub fn find_gaps(&self, survey: &mut Survey, parts: &[usize]) -> Result<Vec<Gap>> {
        let mut spans = Vec::new();
        for part in parts {
            spans.extend(self.segments(survey, *part)?);
        }
        spans.sort_by(|a, b| a.0.from.cmp(&b.0.from));
        let (mut gaps, mut at, mut page) = (Vec::new(), Some(Vec::new()), None);
        for (span, next) in spans {
            let Some(from) = at.take() else { break };
            if from < span.from {
                let span = Span { from: from.clone(), to: Some(span.from) };
                gaps.push(Gap { span, page });
            }
            (at, page) = (span.to.map(|to| to.max(from)), next);
        }
        gaps.extend(at.map(|from| Gap { span: Span { from, to: None }, page }));
        Ok(gaps)
    }
}

impl Fragments {
    /// Takes the keys for which a part has leaves out of the gaps of its tree.
    pub fn fill(&self, survey: &mut Survey, part: usize, gaps: &mut Vec<Gap>) -> Result<()> {
        for (span, next) in self.segments(survey, part)? {
            fill(gaps, span, next);
        }
        Ok(())
    }
}

/// Whether gaps are in order, and none touches another's keys.
fn is_in_order(gaps: &[Gap]) -> bool {
    gaps.is_sorted_by(|a, b| a.span.to.as_ref().is_some_and(|to| *to <= b.span.from))
}

/// Takes a range out of gaps, which are in order; `next` is the page behind the range.
fn fill(gaps: &mut Vec<Gap>, span: Span, next: Option<PageNo>) {
    debug_assert!(is_in_order(gaps), "they are searched by halves");
    let ends_by = |gap: &Gap, key: &[u8]| gap.span.to.as_ref().is_some_and(|to| **to <= *key);
    let first = gaps.partition_point(|gap| ends_by(gap, &span.from));
    let until = |gap: &Gap| span.to.as_ref().is_none_or(|to| gap.span.from < *to);
    let end = first + gaps[first..].partition_point(until);
    let (Some(left), Some(right)) = (gaps.get(first), gaps[first..end].last()) else { return };
    let mut rest = Vec::new();
    if left.span.from < span.from {
        let from = left.span.from.clone();
        rest.push(Gap { span: Span { from, to: Some(span.from.clone()) }, page: left.page });
    }
    if let Some(from) = span.to.filter(|to| !ends_by(right, to)) {
        rest.push(Gap { span: Span { from, to: right.span.to.clone() }, page: next });
    }
    gaps.splice(first..end, rest);
    debug_assert!(is_in_order(gaps));
}

/// Where the keys of some leaves begin, as far as it is known.
fn first_key(survey: &mut Survey, leaves: &[PageNo]) -> Result<Option<Vec<u8>>> {
    for no in leaves {
        survey.tidy()?;
        let Ok(node) = survey.node(*no) else { continue };
        match node.low {
            NodeBound::Open => return Ok(Some(Vec::new())),
            NodeBound::At(low) => return Ok(Some(low)),
            NodeBound::Unknown => {}
        }
        let key = node.entries.iter().find_map(|entry| survey.pair_of(&node, entry).ok());
        if let Some((key, _)) = key {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// Where the keys of some leaves end, as far as it is known; inside: `None` if they do not.
#[expect(clippy::option_option, reason = "not known, or without an end")]
fn last_key(survey: &mut Survey, leaves: &[PageNo]) -> Result<Option<Option<Vec<u8>>>> {
    for no in leaves.iter().rev() {
        survey.tidy()?;
        let Ok(node) = survey.node(*no) else { continue };
        match node.high {
            NodeBound::Open => return Ok(Some(None)),
            NodeBound::At(high) => return Ok(Some(Some(high))),
            NodeBound::Unknown => {}
        }
        let key = node.entries.iter().rev().find_map(|entry| survey.pair_of(&node, entry).ok());
        if let Some((mut key, _)) = key {
            key.push(0);
            return Ok(Some(Some(key)));
        }
    }
    Ok(None)
}

/// The tree to which a cluster of parts belongs: the one that its links lead to, or the only one with
/// a gap that it fits into. `gaps`: those of each tree. `may_own`: whether a tree can have such a
/// part. Both only count while nothing is missing that could be a tree.
pub(crate) fn owner_of(
    links: &BTreeSet<usize>,
    hull: Option<&Span>,
    gaps: &[&[Gap]],
    may_own: impl Fn(usize) -> bool,
) -> Option<usize> {
    if !links.is_empty() {
        return links.first().copied().filter(|_| links.len() == 1);
    }
    let has_room = |gaps: &[Gap], hull: &Span| {
        let at = gaps.partition_point(|gap| gap.span.from <= hull.from);
        at > 0 && gaps[at - 1].span.holds(hull)
    };
    let fits =
        |tree: &usize| may_own(*tree) && hull.is_some_and(|hull| has_room(gaps[*tree], hull));
    let mut owners = (0..gaps.len()).filter(fits);
    owners.next().filter(|_| owners.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(from: &str, to: &str, page: PageNo) -> Gap {
        let span = Span { from: from.into(), to: Some(to.into()).filter(|_| !to.is_empty()) };
        Gap { span, page: Some(page) }
    }

    fn filled(from: &str, to: &str) -> Vec<Gap> {
        let mut gaps = vec![gap("b", "d", 1), gap("f", "h", 2), gap("m", "", 3)];
        fill(&mut gaps, gap(from, to, 0).span, Some(9));
        gaps
    }

    #[test]
    fn a_range_is_taken_out_of_the_holes_that_it_meets() {
        let (b, f, m) = (gap("b", "d", 1), gap("f", "h", 2), gap("m", "", 3));
        for (from, to) in [("a", "b"), ("d", "f"), ("h", "m"), ("i", "k")] {
            assert_eq!(filled(from, to), [b.clone(), f.clone(), m.clone()], "{from} {to}");
        }
        assert_eq!(filled("f", "h"), [b.clone(), m.clone()]);
        assert_eq!(filled("f", "g"), [b.clone(), gap("g", "h", 9), m.clone()]);
        assert_eq!(filled("g", "h"), [b.clone(), gap("f", "g", 2), m.clone()]);
        let inside = [gap("b", "bb", 1), gap("c", "d", 9), f.clone(), m.clone()];
        assert_eq!(filled("bb", "c"), inside);
        assert_eq!(filled("c", "g"), [gap("b", "c", 1), gap("g", "h", 9), m.clone()]);
        assert_eq!(filled("a", "z"), [gap("z", "", 9)]);
        assert_eq!(filled("n", ""), [b.clone(), f.clone(), gap("m", "n", 3)]);
        assert_eq!(filled("", ""), []);
    }
}
