//! Trees of every kind behind one interface of words, so that one test serves them all.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::cell::Cell;
use std::collections::HashSet;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use everleaf_crash_check::Recording;
use everleaf_pmem::sim::Event;
use everleaf_pmem::{Error, Medium, Page, PageNo, Result, Sim};
use everleaf_pool::Pool;
use everleaf_tree::blink::{Blink, Chunk, Condition};
use everleaf_tree::node::{RightBounds, Run, Shape, sibling};
use everleaf_tree::slots::{Keys, Strings, Words};
use everleaf_tree::slots::{Layout, Probe, Slot};
use everleaf_tree::{INDEX_ANCHOR, Index, Reading, TreeReport};

/// The tree itself, of a kind.
pub type BlinkOf<M, T> = Blink<M, (<T as Kind>::L, <T as Kind>::P, <T as Kind>::K)>;

/// A type of tree, named by the tree on plain memory and good for any medium.
pub trait Kind: Sized + 'static {
    type L: Layout;
    type P: Probe;
    type K: Keys;
    /// The tree as an index of words.
    type Tree<M: Medium>: Index;
    /// The same kind, with what happens in its nodes noted.
    type Watched: Kind;
    /// Pages that a test of a few hundred keys needs.
    const PAGES: PageNo;

    fn wrap<M: Medium>(tree: BlinkOf<M, Self>) -> Self::Tree<M>;
    fn blink<M: Medium>(tree: &Self::Tree<M>) -> &BlinkOf<M, Self>;

    fn name() -> String {
        let name = std::any::type_name::<(Self::L, Self::P, Self::K)>();
        let parts = name.split(['<', '>', '(', ')', ',', ' ']).filter(|part| !part.is_empty());
        let parts: Vec<_> = parts.map(|part| part.rsplit("::").next().unwrap_or(part)).collect();
        parts.join(" ")
    }
    /// A new tree in a new pool.
    fn make<M: Medium>(m: M) -> Result<Self::Tree<M>> {
        Self::make_by(m, Reading::default())
    }
    fn make_by<M: Medium>(m: M, reading: Reading) -> Result<Self::Tree<M>> {
        let pool = Arc::new(Blink::<M, (Self::L, Self::P, Self::K)>::format_pool(m)?);
        Blink::create(pool, INDEX_ANCHOR)?.reading(reading).map(Self::wrap)
    }
    fn open_pool<M: Medium>(m: M) -> Result<Arc<Pool<M>>> {
        Blink::<M, (Self::L, Self::P, Self::K)>::open_pool(m).map(Arc::new)
    }
    /// The tree of a pool that has been made before.
    fn open<M: Medium>(m: M) -> Result<Self::Tree<M>> {
        Blink::open(Self::open_pool(m)?, INDEX_ANCHOR).map(Self::wrap)
    }
    fn pool<M: Medium>(tree: &Self::Tree<M>) -> &Arc<Pool<M>> {
        Self::blink(tree).pool()
    }
    /// Looks at every page of the tree and of the pool, and that no record is named twice or is
    /// free for others to use.
    fn check<M: Medium>(tree: &Self::Tree<M>) -> Result<TreeReport, String> {
        let mut report = Self::blink(tree).check().map_err(|e| e.to_string())?;
        report.damages.extend(Self::pool(tree).check());
        if !report.damages.is_empty() {
            return Err(format!("{:?}", report.damages));
        }
        let in_use: Result<HashSet<_>> = Self::pool(tree).records().collect();
        let mut in_use = in_use.map_err(|e| e.to_string())?;
        match report.records.iter().find(|r| !in_use.remove(r)) {
            Some(r) => Err(format!("{r:?} is named twice, or free")),
            None => Ok(report),
        }
    }
}

impl<M: Medium, L: Layout, P: Probe> Kind for Blink<M, (L, P, Words)> {
    type L = L;
    type P = P;
    type K = Words;
    type Tree<N: Medium> = Blink<N, (L, P, Words)>;
    type Watched = Blink<M, (Watched<L>, P, Words)>;
    const PAGES: PageNo = 128;
    fn wrap<N: Medium>(tree: Blink<N, (L, P, Words)>) -> Self::Tree<N> {
        tree
    }
    fn blink<N: Medium>(tree: &Self::Tree<N>) -> &Blink<N, (L, P, Words)> {
        tree
    }
}

impl<M: Medium, L: Layout, P: Probe> Kind for Blink<M, (L, P, Strings)> {
    type L = L;
    type P = P;
    type K = Strings;
    type Tree<N: Medium> = Coded<N, L, P>;
    type Watched = Blink<M, (Watched<L>, P, Strings)>;
    const PAGES: PageNo = 512;
    fn wrap<N: Medium>(tree: Blink<N, (L, P, Strings)>) -> Self::Tree<N> {
        Coded(tree)
    }
    fn blink<N: Medium>(tree: &Self::Tree<N>) -> &Blink<N, (L, P, Strings)> {
        &tree.0
    }
}

/// Byte strings that stand for words, in the same order. They are awkward on purpose: the first is
/// empty, eight in a row share all but their ends, of which some differ in length only, and some
/// only behind ten equal bytes.
pub mod code {
    use everleaf_pmem::{Error, Result};

    /// The ends, in order; none begins with a byte as great as the stem's.
    const ENDS: [&[u8]; 8] = [
        b"",
        b"\0",
        b"\0\0",
        b"\0\0\0\0\0\0\0\0\0\0",
        b"\0\0\0\0\0\0\0\0\0\0\x01",
        b"a",
        b"a\0",
        b"aaaaaaaaaaaa",
    ];
    const STEM: &[u8] = b"bucket/";

    pub fn key(word: u64) -> Vec<u8> {
        let group = word / 8;
        let mut key = Vec::new();
        if group > 0 {
            key.extend(STEM);
            key.extend(group.to_be_bytes());
        }
        key.extend(ENDS[word as usize % 8]);
        key
    }

    pub fn word(key: &[u8]) -> Result<u64> {
        let (group, end) = match key.strip_prefix(STEM).and_then(|rest| rest.split_first_chunk()) {
            Some((group, end)) => (u64::from_be_bytes(*group), end),
            None => (0, key),
        };
        let end = ENDS.iter().position(|e| *e == end);
        end.map(|end| group * 8 + end as u64).ok_or_else(|| alien(key))
    }

    /// Values have different lengths, so that a replaced record may be of another class.
    pub fn value(word: u64) -> Vec<u8> {
        let mut value = word.to_be_bytes().to_vec();
        value.resize(8 + word as usize % 3 * 8, !(word as u8));
        value
    }

    pub fn word_of_value(bytes: &[u8]) -> Result<u64> {
        let word = bytes.first_chunk().map(|word| u64::from_be_bytes(*word));
        word.filter(|word| value(*word) == bytes).ok_or_else(|| alien(bytes))
    }

    fn alien(bytes: &[u8]) -> Error {
        Error::Invalid { what: format!("{bytes:?} was never written") }
    }
}

/// A tree of byte strings as an index of words.
pub struct Coded<M: Medium, L: Layout, P: Probe>(pub Blink<M, (L, P, Strings)>);

type Pair = (Vec<u8>, Vec<u8>);

fn words_of((key, value): &Pair) -> Result<(u64, u64)> {
    Ok((code::word(key)?, code::word_of_value(value)?))
}

impl<M: Medium, L: Layout, P: Probe> Coded<M, L, P> {
    fn put(&self, key: u64, value: u64, condition: Condition) -> Result<Option<u64>> {
        let put = self.0.put(&code::key(key), &code::value(value), condition)?;
        put.old.map(|old| code::word_of_value(&old)).transpose()
    }
}

/// Gathers pairs while they are `within`, up to `limit`.
fn gather(
    start: Bound<u64>,
    limit: usize,
    within: impl Fn(u64) -> bool,
    chunk: impl Fn(Bound<&[u8]>, usize) -> Result<Chunk<Vec<u8>, Vec<u8>>>,
) -> Result<Vec<(u64, u64)>> {
    let (mut found, mut next) = (Vec::new(), Some(start.map(code::key)));
    while let Some(from) = next.take().filter(|_| found.len() < limit) {
        let part = chunk(from.as_ref().map(Vec::as_slice), limit - found.len())?;
        for pair in &part.entries {
            let (key, value) = words_of(pair)?;
            if !within(key) {
                return Ok(found);
            }
            found.push((key, value));
        }
        next = part.next;
    }
    Ok(found)
}

impl<M: Medium, L: Layout, P: Probe> Index for Coded<M, L, P> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        self.0.get(&code::key(key))?.map(|value| code::word_of_value(&value)).transpose()
    }
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Always)
    }
    fn add(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Absent)
    }
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.put(key, value, Condition::Present)
    }
    fn remove(&self, key: u64) -> Result<Option<u64>> {
        let put = self.0.remove(&code::key(key))?;
        put.old.map(|old| code::word_of_value(&old)).transpose()
    }
    fn first(&self) -> Result<Option<(u64, u64)>> {
        self.0.first()?.as_ref().map(words_of).transpose()
    }
    fn last(&self) -> Result<Option<(u64, u64)>> {
        self.0.last()?.as_ref().map(words_of).transpose()
    }
    fn range(&self, from: Bound<u64>, to: Bound<u64>, limit: usize) -> Result<Vec<(u64, u64)>> {
        let within = |key| (Bound::Unbounded, to).contains(&key);
        gather(from, limit, within, |at, limit| self.0.chunk_up(at, limit))
    }
    fn range_back(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
        limit: usize,
    ) -> Result<Vec<(u64, u64)>> {
        let within = |key| (from, Bound::Unbounded).contains(&key);
        gather(to, limit, within, |at, limit| self.0.chunk_down(at, limit))
    }
}

/// Counts of what has happened in a script: [splits, merges] of leaves and of inner nodes, [growths,
/// shrinkings] of the root, updates, nodes seen wrapped around, merges of words whose [left, right]
/// node was empty, inner nodes that were split to take another one's last child in, and leaves that got entries of
/// their left neighbour.
#[derive(Debug, Clone, Copy, Default)]
pub struct Happened {
    pub splits: [u64; 2],
    pub merges: [u64; 2],
    pub grown: u64,
    pub shrunk: u64,
    pub updates: u64,
    pub wrapped: u64,
    pub emptied: u64,
    pub of_empty: [u64; 2],
    pub made_room: u64,
    pub gifts: u64,
}

impl std::ops::AddAssign for Happened {
    fn add_assign(&mut self, other: Self) {
        for i in 0..2 {
            self.splits[i] += other.splits[i];
            self.merges[i] += other.merges[i];
            self.of_empty[i] += other.of_empty[i];
        }
        self.grown += other.grown;
        self.shrunk += other.shrunk;
        self.updates += other.updates;
        self.wrapped += other.wrapped;
        self.emptied += other.emptied;
        self.made_room += other.made_room;
        self.gifts += other.gifts;
    }
}

thread_local!(pub static HAPPENED: Cell<Happened> = Cell::default());

pub fn happened(note: impl FnOnce(&mut Happened)) {
    let mut now = HAPPENED.get();
    note(&mut now);
    HAPPENED.set(now);
}

/// A layout, watched.
pub struct Watched<L>(std::marker::PhantomData<L>);

fn watch_run(page: Page<'_>) {
    let run = Run::of(page);
    happened(|h| h.wrapped += u64::from(run.base + run.count > page.slots()));
}

impl<L: Layout> Layout for Watched<L> {
    everleaf_tree::layout_as!(L: NAME, HASH, LOCK_FREE, LOGGED);
    everleaf_tree::layout_as!(L: capacity, build, recover);
    fn insert<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize, slot: Slot) {
        L::insert::<M, P>(m, page, shape, pos, slot);
        watch_run(page);
    }
    fn remove<M: Medium, P: Probe>(m: &M, page: Page<'_>, shape: Shape, pos: usize) {
        L::remove::<M, P>(m, page, shape, pos);
        // Only a merge takes an entry out of an inner node.
        if shape.level > 0 {
            happened(|h| h.merges[usize::from(shape.level > 1)] += 1);
        }
    }
    fn absorb<M: Medium, P: Probe>(
        m: &M,
        page: Page<'_>,
        shape: Shape,
        slots: &[Slot],
        to: RightBounds,
    ) {
        let before = Run::of(page).count;
        L::absorb::<M, P>(m, page, shape, slots, to);
        watch_run(page);
        happened(|h| h.of_empty[0] += u64::from(before == 0 && !slots.is_empty()));
        happened(|h| h.of_empty[1] += u64::from(before > 0 && slots.is_empty()));
    }
    fn take_before<M: Medium, P: Probe>(
        m: &M,
        page: Page<'_>,
        shape: Shape,
        slots: &[Slot],
        low: u64,
    ) {
        L::take_before::<M, P>(m, page, shape, slots, low);
        happened(|h| h.gifts += 1);
    }
    fn trim<M: Medium, P: Probe>(
        m: &M,
        page: Page<'_>,
        shape: Shape,
        keep: usize,
        to: RightBounds,
    ) {
        let is_split = sibling(page) != Some(to.sibling);
        L::trim::<M, P>(m, page, shape, keep, to);
        if !is_split {
            return;
        }
        happened(|h| h.splits[usize::from(shape.level > 0)] += 1);
    }
}

/// The medium as each power cut between two stores leaves it, if all caches were written back.
pub fn images(record: &Recording) -> impl Iterator<Item = Arc<Sim>> {
    let mut words = record.initial.clone();
    record.events.iter().filter_map(move |event| {
        let Event::Store { word, value } = *event else { return None };
        words[word as usize] = value;
        let sim = Sim::from_image(record.geometry, record.limit, &words);
        Some(Arc::new(sim.expect("memory")))
    })
}

/// That an operation was refused as unsupported.
pub fn is_unsupported<T>(answer: Result<T>) -> bool {
    matches!(answer, Err(Error::Unsupported { .. }))
}
