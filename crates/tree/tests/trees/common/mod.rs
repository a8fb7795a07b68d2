//! One node on simulated memory, of any layout and with any probe: how it is set up, what it holds, and
//! what must hold in it.
#![allow(dead_code, reason = "each test program uses its own part")]

pub mod change;
pub mod faults;
pub mod script;

use std::sync::Arc;

use everleaf_crash_check::Coverage;
use everleaf_pmem::{Geometry, Medium, Page, PageNo, Sim};
use everleaf_pool::kind::KIND_WORD;
use everleaf_tree::blink::first_touch;
use everleaf_tree::node::{
    HIGH_WORD, LOW_WORD, RUN_WORD, RightBounds, Run, SIBLING_WORD, Shape, sibling,
};
use everleaf_tree::slots::Words;
use everleaf_tree::slots::{Circular, Layout, Linear, Probe, Slot};

/// Facts that the tests must know of a layout.
pub trait Nodes: Layout {
    /// Whether a run may begin at any slot and go over the end, and its word in the header is
    /// flushed with each change. Else it begins at slot 0, and a crash may leave an older count.
    const CIRCULAR: bool;

    /// Where runs may begin.
    fn bases(slots: usize) -> std::ops::Range<usize> {
        if Self::CIRCULAR { 0..slots } else { 0..1 }
    }
}

impl Nodes for Circular {
    const CIRCULAR: bool = true;
}

impl Nodes for Linear {
    const CIRCULAR: bool = false;
}

pub const LEAF: Shape = Shape { level: 0, bytes: false, slotted: false, prefix: 0 };
pub const INNER: Shape = Shape { level: 1, bytes: false, slotted: false, prefix: 0 };

/// The node under test, the one to its right, and the one after that.
pub const LEFT: PageNo = 1;
pub const RIGHT: PageNo = 2;
pub const LAST: PageNo = 3;

/// How many times the default number of images is explored.
pub fn scale() -> usize {
    everleaf_testing::times(1) as usize
}

pub fn sim(slots: u32, pages: PageNo) -> Arc<Sim> {
    Arc::new(Sim::new(Geometry::new(slots).expect("valid"), pages).expect("memory"))
}

/// The content of free slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Free {
    /// A void identity and nothing else.
    Clean,
    /// Remains of a split or a merge that was cut off: slots beyond the upper bound.
    Stale,
    /// A void identity over a payload that lies within the bounds: what a remove leaves.
    Voided,
}

/// A node before the operation under test.
#[derive(Debug, Clone)]
pub struct Node {
    pub shape: Shape,
    pub low: u64,
    pub right: RightBounds,
    pub base: usize,
    pub slots: Vec<Slot>,
    pub free: Free,
}

pub const END: RightBounds = RightBounds { sibling: 0, high: 0, high_record: 0 };

pub fn to(sibling: PageNo, high: u64) -> RightBounds {
    RightBounds { sibling, high, high_record: 0 }
}

impl Node {
    /// Stores the node; what the medium holds at the start of a record counts as persisted.
    pub fn put<M: Medium, P: Probe>(&self, m: &M, no: PageNo) {
        let page = m.page(no).expect("inside");
        let run = Run { base: self.base, count: self.slots.len() };
        m.store(page.head(KIND_WORD), self.shape.word());
        m.store(page.head(LOW_WORD), self.low);
        m.store(page.head(HIGH_WORD), self.right.high);
        m.store(page.head(SIBLING_WORD), u64::from(self.right.sibling));
        m.store(page.head(RUN_WORD), run.word());
        let leaf = self.shape.key_word() == 0;
        let void = if leaf && self.low == 0 { u64::MAX } else { 0 };
        for pos in 0..page.slots() {
            let stale =
                if self.right.sibling != 0 { self.right.high.wrapping_add(pos as u64) } else { 0 };
            let slot = match (self.slots.get(pos), self.free) {
                (Some(slot), _) => *slot,
                (None, Free::Stale) if self.right.sibling != 0 && leaf => {
                    Slot { ident: stale, payload: 7 }
                }
                (None, Free::Stale) if self.right.sibling != 0 => {
                    Slot { ident: 900 + pos as u64, payload: stale }
                }
                (None, Free::Voided) => {
                    Slot { ident: void, payload: self.low.wrapping_add(pos as u64) }
                }
                _ => Slot { ident: void, payload: 7 },
            };
            let p = run.slot(page, pos);
            m.store(page.body(2 * p), slot.ident);
            m.store(page.body(2 * p + 1), slot.payload);
        }
        P::rebuild(page, run, self.shape.key_word());
    }

    /// A count that the header of a linear node may have had before: the same, the least or the
    /// greatest.
    pub fn old_count(&self, slots: usize) -> usize {
        match self.free {
            Free::Clean => self.slots.len(),
            Free::Stale => 0,
            Free::Voided => slots - 1,
        }
    }
}

pub fn key(shape: Shape, slot: Slot) -> u64 {
    if shape.key_word() == 0 { slot.ident } else { slot.payload }
}

/// The run's slots in order.
pub fn content(page: Page<'_>) -> Vec<Slot> {
    let run = Run::of(page);
    (0..run.count).map(|pos| Slot::read(page, run.slot(page, pos))).collect()
}

/// Whether a slot outside the run would be taken for a live one. Restated here on purpose.
fn is_live(page: Page<'_>, shape: Shape, slot: Slot) -> bool {
    let key = key(shape, slot);
    let low = page.head(LOW_WORD).load();
    let inside = key >= low && (sibling(page).is_none() || key < page.head(HIGH_WORD).load());
    inside && (shape.key_word() == 0 || slot.ident != 0)
}

/// Checks what always holds in a node that nobody is changing.
pub fn invariants<P: Probe>(page: Page<'_>, shape: Shape) -> Result<(), String> {
    let run = Run::of(page);
    if run.count > page.slots() || run.base >= page.slots() {
        return Err(format!("{run:?} of {} slots", page.slots()));
    }
    for pos in 0..page.slots() {
        let slot = Slot::read(page, run.slot(page, pos));
        if is_live(page, shape, slot) != (pos < run.count) {
            return Err(format!("{slot:?} at position {pos} of {run:?}"));
        }
    }
    let keys: Vec<u64> = content(page).iter().map(|slot| key(shape, *slot)).collect();
    if !keys.is_sorted_by(|a, b| a < b) {
        return Err(format!("out of order: {keys:?}"));
    }
    let around = keys.iter().flat_map(|&k| [k.saturating_sub(1), k, k.saturating_add(1)]);
    for wanted in around.chain([0, page.head(LOW_WORD).load(), u64::MAX]) {
        searched::<P>(page, run, shape.key_word(), &keys, wanted)?;
    }
    Ok(())
}

/// A probe ranks and finds one key as a walk over all of them does.
fn searched<P: Probe>(
    page: Page<'_>,
    run: Run,
    word: usize,
    keys: &[u64],
    wanted: u64,
) -> Result<(), String> {
    let (rank, found) = (P::rank(page, run, word, wanted), P::find(page, run, word, wanted));
    let (le, at) =
        (keys.iter().filter(|k| **k <= wanted).count(), keys.iter().position(|k| *k == wanted));
    if (rank, found) == (le, at) {
        return Ok(());
    }
    Err(format!("{wanted} in {keys:?} of {run:?} is ranked {rank} and found at {found:?}"))
}

/// Recovers a node as its first touch does.
pub fn recover<L: Layout, P: Probe, M: Medium>(m: &M, no: PageNo) -> Result<(), String> {
    let page = m.page(no).expect("inside");
    let _held = page.latch().lock();
    first_touch::<M, (L, P, Words)>(m, page).map_err(|e| e.to_string())
}

/// Inserts keys until the node is full and then removes everything, from both ends in turn: a
/// recovered node is as good as any. `fresh` are slots within the bounds, in order.
pub fn carry_on<L: Layout, P: Probe, M: Medium>(
    m: &M,
    no: PageNo,
    shape: Shape,
    fresh: &[Slot],
) -> Result<(), String> {
    let page = m.page(no).expect("inside");
    let _held = page.latch().lock();
    let mut model = content(page);
    for &slot in fresh {
        let at = model.partition_point(|s| key(shape, *s) < key(shape, slot));
        let taken =
            model.iter().any(|s| s.ident == slot.ident || key(shape, *s) == key(shape, slot));
        if taken || model.len() == L::capacity::<M>(page.slots(), shape) {
            continue;
        }
        L::insert::<M, P>(m, page, shape, at, slot);
        model.insert(at, slot);
        invariants::<P>(page, shape)?;
    }
    let mut turn = 0;
    while !model.is_empty() {
        let at = [0, model.len() - 1, model.len() / 2][turn % 3];
        L::remove::<M, P>(m, page, shape, at);
        model.remove(at);
        turn += 1;
        invariants::<P>(page, shape)?;
        if content(page) != model {
            return Err(format!("{:?} instead of {model:?} after a remove", content(page)));
        }
    }
    Ok(())
}

/// Prints what was looked at, for the log of the run.
pub fn print(what: &str, stats: Coverage) {
    println!("{what}: {stats}");
}
