//! One node: what an insert, a remove or a whole fill stores and flushes, counted.
//!
//! These are the machine-independent figures of the papers (docs/PAPERS.md, *Acceptance table*).
//! The cost of a change depends on the number of entries and not on how many slots are free behind
//! them, and a linear node keeps one slot free; so a linear node is given twice the slots, and can
//! hold as many entries as the cell says.

use std::collections::BTreeSet;
use std::marker::PhantomData;

use anyhow::{Context as _, Result, ensure};
use everleaf_pmem::sim::Event;
use everleaf_pmem::{Geometry, HEAD_WORDS, Medium, Page, Sim};
use everleaf_tree::node::{RightBounds, Run, Shape};
use everleaf_tree::slots::{Circular, Layout, Linear, Sentinel, Slot, SlotsImage};
use serde::Deserialize;

use super::kind::{Context, Figures, Measure};

/// Slots of a cache line.
const PER_LINE: usize = 4;

const LEAF: Shape = Shape { level: 0, bytes: false, slotted: false, prefix: 0 };

/// The work that is done on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum NodeWork {
    /// One insert among so many entries.
    Insert,
    /// One remove of so many entries.
    Remove,
    /// So many inserts, each greater than all before.
    Ascending,
    /// So many inserts, each smaller than all before.
    Descending,
    /// Each insert at each number of entries, beside the formula for its lines.
    Formula,
}

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeTimes {
    /// `FastFair` for linear nodes, `CircTree` for circular ones.
    system: String,
    slots: usize,
    work: NodeWork,
    /// Entries; as many as there are slots if not given.
    entries: Option<usize>,
    /// Where a single change is; the mean over all positions if not given.
    pos: Option<usize>,
    /// Pairs that a line holds, for `written_lines` only.
    #[serde(default = "per_line")]
    pairs: usize,
}

fn per_line() -> usize {
    PER_LINE
}

/// The cost of changes.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Cost {
    stores: u64,
    shifts: u64,
    flushed: u64,
    fences: u64,
    /// Lines of slots that were stored to.
    written: u64,
    /// Lines that a terminator would have begun, if the layout had one.
    terminators: u64,
}

impl Cost {
    fn add(&mut self, one: Cost) {
        self.stores += one.stores;
        self.shifts += one.shifts;
        self.flushed += one.flushed;
        self.fences += one.fences;
        self.written += one.written;
        self.terminators += one.terminators;
    }

    fn figures(self, changes: usize) -> Figures {
        let each = |count: u64| count as f64 / changes as f64;
        vec![
            ("shifts_count".into(), each(self.shifts)),
            ("stores_count".into(), each(self.stores)),
            ("written_lines".into(), each(self.written)),
            ("flushed_lines".into(), each(self.flushed)),
            ("with_terminator_lines".into(), each(self.flushed + self.terminators)),
            ("fences".into(), each(self.fences)),
        ]
    }
}

/// A leaf on a medium that records what passes its door.
struct One<L> {
    medium: Sim,
    /// Slots that the cell speaks of, not those of the page.
    slots: usize,
    pairs: usize,
    layout: PhantomData<L>,
}

impl<L: Layout> One<L> {
    /// A leaf with keys 10, 20, … from physical slot `base` on.
    fn new(slots: usize, pairs: usize, base: usize, entries: usize) -> Result<Self> {
        let in_page = if L::LOCK_FREE { 2 * slots } else { slots };
        let geometry = Geometry::new(in_page as u32).context("slots")?;
        let medium = Sim::new(geometry, 1)?;
        let page = medium.page(0)?;
        let right = RightBounds { sibling: 1, high: u64::MAX, high_record: 0 };
        let image = SlotsImage { shape: LEAF, low: 1, right, slots: &[] };
        L::build::<_, Sentinel>(&medium, page, &image);
        medium.store(page.head(0), Run { base, count: 0 }.word());
        let one = Self { medium, slots, pairs, layout: PhantomData };
        for i in 0..entries {
            one.insert(i, 10 * (i as u64 + 1))?;
        }
        Ok(one)
    }

    /// The cost of a change; `fixed` stores of it move nothing.
    fn cost(&self, fixed: u64, change: impl FnOnce(Page<'_>)) -> Result<Cost> {
        let page = self.medium.page(0)?;
        self.medium.take_events();
        {
            let _held = page.latch().lock();
            change(page);
        }
        let (mut cost, mut lines) = (Cost::default(), BTreeSet::new());
        for event in self.medium.take_events() {
            match event {
                Event::Store { word, .. } => {
                    cost.stores += 1;
                    let slot = (word as usize).checked_sub(HEAD_WORDS).map(|word| word / 2);
                    lines.extend(slot.map(|slot| slot / self.pairs));
                }
                Event::Flush { .. } => cost.flushed += 1,
                Event::Fence { .. } => cost.fences += 1,
                Event::Mark { .. } => {}
            }
        }
        cost.shifts =
            cost.stores.checked_sub(fixed).context("fewer stores than one change has")? / 2;
        cost.written = lines.len() as u64;
        Ok(cost)
    }

    /// Two stores for each shift, two for the new slot, and one more: the header's, or the one that
    /// makes the place void.
    fn insert(&self, pos: usize, key: u64) -> Result<Cost> {
        let entries = Run::of(self.medium.page(0)?).count;
        let mut cost = self.cost(3, |page| {
            let slot = Slot { ident: key, payload: 0 };
            L::insert::<_, Sentinel>(&self.medium, page, LEAF, pos, slot);
        })?;
        cost.terminators = u64::from(L::LOCK_FREE && moves_terminator(entries, self.slots));
        Ok(cost)
    }

    fn remove(&self, pos: usize) -> Result<Cost> {
        self.cost(2, |page| L::remove::<_, Sentinel>(&self.medium, page, LEAF, pos))
    }
}

/// Whether an insert among so many entries moves FAST's terminator to the start of a line (item 1 of
/// the acceptance table). Ours has none: slots behind the last one are void to begin with.
fn moves_terminator(entries: usize, slots: usize) -> bool {
    (entries + 1).is_multiple_of(PER_LINE) && entries + 1 < slots
}

/// Distinct lines of the circular run `from..to` of logical positions; `from` may be -1.
fn lines(slots: usize, base: usize, from: isize, to: isize) -> u64 {
    let line = |pos: isize| (base as isize + pos).rem_euclid(slots as isize) / PER_LINE as isize;
    (from..to).map(line).collect::<BTreeSet<_>>().len() as u64
}

/// The lines that an insert flushes by item 1 of the acceptance table, without the terminator.
fn formula<L: Layout>(slots: usize, base: usize, entries: usize, pos: usize) -> u64 {
    if L::LOCK_FREE {
        return (entries / PER_LINE - pos / PER_LINE + 1) as u64;
    }
    let (pos, entries) = (pos as isize, entries as isize);
    let is_left = pos < entries - pos;
    1 + if is_left { lines(slots, base, -1, pos) } else { lines(slots, base, pos, entries + 1) }
}

impl NodeTimes {
    fn entries(&self) -> usize {
        self.entries.unwrap_or(self.slots)
    }

    /// One change at one position, or the mean over all of them.
    fn single<L: Layout>(&self) -> Result<Figures> {
        let entries = self.entries();
        let places = entries + usize::from(self.work == NodeWork::Insert);
        let all = self.pos.map_or(0..places, |pos| pos..pos + 1);
        let (mut sum, changes) = (Cost::default(), all.len());
        for pos in all {
            let node = One::<L>::new(self.slots, self.pairs, 0, entries)?;
            sum.add(match self.work {
                NodeWork::Insert => node.insert(pos, 10 * pos as u64 + 5)?,
                _ => node.remove(pos)?,
            });
        }
        Ok(sum.figures(changes))
    }

    fn fill<L: Layout>(&self) -> Result<Figures> {
        let node = One::<L>::new(self.slots, self.pairs, 0, 0)?;
        let mut sum = Cost::default();
        for i in 0..self.entries() {
            let key = 10_000 + i as u64;
            sum.add(match self.work {
                NodeWork::Ascending => node.insert(i, key)?,
                _ => node.insert(0, 20_000 - key)?,
            });
        }
        Ok(sum.figures(1))
    }

    /// Every insert at every position, for bases at the places of a line and near the node's end.
    fn agreement<L: Layout>(&self) -> Result<Figures> {
        let bases = if L::LOCK_FREE { 1 } else { PER_LINE + 2 };
        let (mut cases, mut agreeing, mut terminators) = (0u64, 0u64, 0u64);
        for base in [0, 1, 2, 3, self.slots / 2, self.slots - 2].into_iter().take(bases) {
            for entries in 0..self.entries() {
                let node = One::<L>::new(self.slots, self.pairs, base, entries)?;
                for pos in 0..=entries {
                    let base = Run::of(node.medium.page(0)?).base;
                    let cost = node.insert(pos, 10 * pos as u64 + 5)?;
                    let expected = formula::<L>(self.slots, base, entries, pos);
                    cases += 1;
                    agreeing += u64::from(cost.flushed == expected && cost.fences == expected);
                    terminators += cost.terminators;
                    node.remove(pos)?;
                }
            }
        }
        let share = |count: u64| count as f64 / cases as f64;
        Ok(vec![
            ("cases_count".into(), cases as f64),
            ("agreeing_share".into(), share(agreeing)),
            ("terminator_share".into(), share(terminators)),
        ])
    }

    fn measure<L: Layout>(&self) -> Result<Figures> {
        match self.work {
            NodeWork::Insert | NodeWork::Remove => self.single::<L>(),
            NodeWork::Ascending | NodeWork::Descending => self.fill::<L>(),
            NodeWork::Formula => self.agreement::<L>(),
        }
    }
}

impl Measure for NodeTimes {
    fn check(&self) -> Result<()> {
        ensure!(["FastFair", "CircTree"].contains(&&self.system[..]), "FastFair or CircTree");
        ensure!(
            Geometry::new(2 * self.slots as u32).is_some() && self.slots >= 4,
            "{} slots: a power of two, 4 to 512",
            self.slots
        );
        let entries = self.entries();
        let room = self.slots - usize::from(self.work == NodeWork::Insert);
        ensure!(entries <= room, "{entries} entries in {} slots", self.slots);
        let is_single = matches!(self.work, NodeWork::Insert | NodeWork::Remove);
        ensure!(is_single || self.pos.is_none(), "only single changes have a position");
        let places = entries + usize::from(self.work == NodeWork::Insert);
        ensure!(self.pos.is_none_or(|pos| pos < places), "no such position");
        ensure!(self.pairs > 0 && entries > 0, "no pairs, or no entries");
        Ok(())
    }

    fn run(&self, _context: &Context, _round: u32) -> Result<Figures> {
        match &self.system[..] {
            "FastFair" => self.measure::<Linear>(),
            _ => self.measure::<Circular>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(text: &str, metric: &str) -> f64 {
        let node: NodeTimes = toml::from_str(text).expect("a cell");
        node.check().expect("a cell that makes sense");
        let context = Context { seed: 1, scratch: "".into(), dax: None };
        let figures = node.run(&context, 1).expect("memory");
        let found = figures.into_iter().find(|(name, _)| name == metric);
        found.expect("the metric is there").1
    }

    fn cell(system: &str, slots: usize, rest: &str) -> String {
        format!("system = {system:?}\nslots = {slots}\n{rest}")
    }

    #[test]
    fn figure_1_is_as_it_was_drawn() {
        let of = |system, rest: &str, metric| {
            figure(&cell(system, 8, &format!("entries = 5\npairs = 2\n{rest}")), metric)
        };
        let (insert, remove) = ("work = 'insert'\npos = 1", "work = 'remove'\npos = 0");
        assert_eq!(of("FastFair", insert, "shifts_count"), 4.0);
        assert_eq!(of("CircTree", insert, "shifts_count"), 1.0);
        assert_eq!(of("FastFair", insert, "written_lines"), 3.0);
        assert_eq!(of("CircTree", insert, "written_lines"), 2.0);
        assert_eq!(of("FastFair", remove, "written_lines"), 3.0);
        assert_eq!(of("CircTree", remove, "written_lines"), 1.0);
        assert_eq!(of("CircTree", remove, "shifts_count"), 0.0);
    }

    #[test]
    fn fills_cost_what_the_table_says() {
        let of = |system, work: &str, metric| {
            figure(&cell(system, 32, &format!("work = {work:?}")), metric)
        };
        assert_eq!(of("FastFair", "descending", "shifts_count"), 496.0);
        assert_eq!(of("FastFair", "descending", "flushed_lines"), 144.0);
        assert_eq!(of("FastFair", "descending", "with_terminator_lines"), 151.0);
        assert_eq!(of("CircTree", "descending", "shifts_count"), 0.0);
        assert_eq!(of("CircTree", "descending", "flushed_lines"), 64.0);
        assert_eq!(of("CircTree", "ascending", "with_terminator_lines"), 64.0);
    }

    #[test]
    fn every_insert_into_a_small_node_flushes_what_the_formula_says() {
        for system in ["FastFair", "CircTree"] {
            let text = cell(system, 16, "work = 'formula'");
            assert_eq!(figure(&text, "agreeing_share"), 1.0, "{system}");
        }
        // 1 + 2 + … + 16 positions; six bases if circular.
        assert_eq!(figure(&cell("CircTree", 16, "work = 'formula'"), "cases_count"), 816.0);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for rest in [
            "work = 'insert'",
            "work = 'remove'\nentries = 4\npos = 4",
            "work = 'formula'\npos = 1",
        ] {
            let node: NodeTimes = toml::from_str(&cell("CircTree", 8, rest)).expect("a cell");
            assert!(node.check().is_err(), "{rest}");
        }
    }
}
