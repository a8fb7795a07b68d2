//! A row of sibling nodes with a model beside it: what a spine does to nodes, without the spine.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use everleaf_pmem::{Medium, Page, PageNo, Result};
use everleaf_testing::Rng;
use everleaf_tree::blink::gap;
use everleaf_tree::node::Rank;
use everleaf_tree::slotted::Slotted;
use everleaf_tree::slotted::{
    Asking, Edit, Even, Image, LeafCopy, Merge, Room, Split, Value, View, Went, build, check_page,
    compact, gap_of, inline_value_max, is_cut, remove, shortest_between,
};

use super::medium::{Noted, bytes, redo, set_bytes, words};

/// A stand-in for the pool: records by their names.
#[derive(Default)]
pub struct Records {
    pairs: HashMap<u64, (Vec<u8>, Vec<u8>)>,
    next: u64,
}

impl Records {
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> u64 {
        self.next += 1;
        self.pairs.insert(self.next, (key.to_vec(), value.to_vec()));
        self.next
    }
    pub fn key(&self, name: u64) -> &[u8] {
        &self.pairs[&name].0
    }
    pub fn value(&self, name: u64) -> &[u8] {
        &self.pairs[&name].1
    }
}

/// Puts zeros where a page keeps nothing.
fn zero_gap(bytes: &mut [u8]) {
    let gap = gap::<Slotted>(bytes).expect("a node is not free");
    let view = gap_of(bytes);
    assert!(gap == view && (view.is_empty() || view.start >= 64 && view.end <= bytes.len()));
    bytes[gap].fill(0);
}

/// Gives a page the bytes that come back when it was written without its gap.
fn unpack(m: &Noted, no: PageNo) {
    let page = m.page(no).expect("inside");
    let mut bytes = bytes(page);
    zero_gap(&mut bytes);
    set_bytes(m, page, &bytes);
    check_page(page).expect("a sound node stays sound");
}

/// The bytes of a page that are not the medium's.
fn own(bytes: &[u8]) -> (&[u8], &[u8]) {
    (&bytes[..48], &bytes[64..])
}

/// A row of nodes of one level. The values of inner nodes are children, whose low fences are the keys.
pub struct World {
    pub m: Arc<Noted>,
    /// Where notes are redone; its pages hold something else at first.
    shadow: Noted,
    /// Where notes are redone on pages that have come back with zeros in their gap.
    packed: Noted,
    pub level: u8,
    pub nodes: Vec<PageNo>,
    /// The separators between them.
    pub between: Vec<Vec<u8>>,
    pub model: BTreeMap<Vec<u8>, Vec<u8>>,
    pub records: Records,
    free: Vec<PageNo>,
    /// How often each thing was done.
    pub done: BTreeMap<&'static str, usize>,
}

const PAGES: PageNo = 64;

impl World {
    pub fn new(page_bytes: usize, level: u8, rng: &mut Rng) -> Self {
        let [m, shadow, packed] = [(); 3].map(|()| Noted::new(page_bytes, PAGES));
        for no in 0..PAGES {
            for m in [&m, &shadow] {
                let page = m.page(no).expect("inside");
                (0..page_bytes / 8).for_each(|word| m.store(page.word(word), rng.next()));
            }
        }
        let mut world = Self {
            m: Arc::new(m),
            shadow,
            packed,
            level,
            nodes: vec![1],
            between: vec![],
            model: BTreeMap::new(),
            records: Records::default(),
            free: (2..PAGES).rev().collect(),
            done: BTreeMap::new(),
        };
        let m = Arc::clone(&world.m);
        let page = m.page(1).expect("inside");
        let _held = page.latch().lock();
        let mut image = Image::empty(page_bytes, level).expect("memory");
        if level > 0 {
            let pushed = image.push(&[], false, Value::Inline(&7u32.to_le_bytes()));
            assert!(pushed);
            world.model.insert(vec![], 7u32.to_le_bytes().to_vec());
        }
        build(&*world.m, &mut (), page, &mut image);
        drop(_held);
        world.replay();
        world
    }

    pub fn page_bytes(&self) -> usize {
        self.m.geometry().page_bytes()
    }
    pub fn page(&self, at: usize) -> Page<'_> {
        self.m.page(self.nodes[at]).expect("inside")
    }
    pub fn view(&self, at: usize) -> View<'_> {
        View::of(self.page(at)).expect("a node")
    }
    /// Which node a key belongs to.
    pub fn at(&self, key: &[u8]) -> usize {
        self.between.partition_point(|separator| &separator[..] <= key)
    }
    fn count(&mut self, what: &'static str) {
        *self.done.entry(what).or_default() += 1;
    }

    /// The whole key at a place.
    pub fn far(&self, record: u64) -> &[u8] {
        self.records.key(record)
    }
    pub fn compare(&self, far: u64, key: &[u8]) -> Result<Ordering> {
        Ok(self.far(far).cmp(key))
    }
    pub fn rank(&self, at: usize, key: &[u8]) -> Rank {
        self.view(at).rank(key, |far| self.compare(far, key)).expect("sound")
    }
    /// The whole key at a position.
    pub fn key(&self, view: &View<'_>, pos: usize) -> Vec<u8> {
        let mut key = Vec::new();
        match view.key_into(pos, &mut key).expect("sound") {
            Some(far) => {
                let whole = self.far(far);
                assert!(whole.starts_with(&key) && whole.len() > key.len(), "a part is no part");
                whole.to_vec()
            }
            None => key,
        }
    }
    pub fn value(&self, view: &View<'_>, pos: usize) -> Vec<u8> {
        let mut value = Vec::new();
        match view.value_into(pos, &mut value).expect("sound") {
            Some(name) => self.records.value(name).to_vec(),
            None => value,
        }
    }

    /// Redoes what was noted in the shadow and compares.
    pub fn replay(&mut self) {
        let notes = self.m.take_notes();
        for note in &notes {
            redo(&self.shadow, note).expect("what was noted can be done again");
            redo(&self.packed, note).expect("its gap does not matter");
            unpack(&self.packed, note.0);
        }
        for no in notes.iter().map(|note| note.0) {
            let live = self.m.page(no).expect("inside");
            let again = self.shadow.page(no).expect("inside");
            assert_eq!(words(live), words(again), "page {no} after {:?}", tags(&notes));
            check_page(live).expect("a sound node stays sound");
            let mut used = bytes(live);
            zero_gap(&mut used);
            let packed = bytes(self.packed.page(no).expect("inside"));
            assert!(own(&used) == own(&packed), "page {no} after {:?}", tags(&notes));
        }
    }

    /// Stores a value; for inner nodes it is a child.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        let is_far = is_cut(key.len(), self.page_bytes())
            || value.len() > inline_value_max(self.page_bytes());
        let record = (self.level == 0 && is_far).then(|| self.records.add(key, value));
        let mut stored = record.map_or(Value::Inline(value), Value::Reference);
        if self.level > 0 {
            let child = u32::from_le_bytes(value.try_into().expect("a child"));
            stored = match is_cut(key.len(), self.page_bytes()) {
                true => Value::LongChild(child, self.records.add(key, &[])),
                false => Value::Child(child),
            };
        }
        for _ in 0..100 {
            let at = self.at(key);
            let rank = self.rank(at, key);
            if self.try_put(at, rank, key, stored) {
                self.model.insert(key.to_vec(), value.to_vec());
                return self.replay();
            }
            self.make_room(at, rank, key, stored);
            self.replay();
        }
        panic!("no room is made for a key of {} bytes", key.len());
    }

    fn try_put(&mut self, at: usize, rank: Rank, key: &[u8], value: Value<'_>) -> bool {
        let page = self.page(at);
        let _held = page.latch().lock();
        let (view, mut edit) = (self.view(at), Edit::default());
        let room = match rank.exact {
            true => view.room_for_update(rank.lt(), &value),
            false => view.room_for(key, value.size()),
        };
        let old = rank.exact.then(|| view.entry(rank.lt()));
        let fits = edit.put(&view, (rank, old.as_ref()), key, value);
        if fits {
            edit.apply(&*self.m, &mut (), &view);
        }
        if !rank.exact {
            assert_eq!(fits, room != Room::Full);
        }
        drop(_held);
        let what = if fits { ["insert", "update"][usize::from(rank.exact)] } else { "no room" };
        self.count(what);
        if fits && room == Room::AfterCompaction {
            self.count("compacted for it");
        }
        fits
    }

    fn make_room(&mut self, at: usize, rank: Rank, key: &[u8], value: Value<'_>) {
        let view = self.view(at);
        let bytes = 8 + view.bytes_for(key, value.size());
        let is_run = view.is_appending(rank.lt());
        if !is_run && !rank.exact || self.nodes.len() > 20 {
            let pairs = [(at > 0).then(|| at - 1), (at + 1 < self.nodes.len()).then_some(at)];
            for left in pairs.into_iter().flatten() {
                let asking = Asking {
                    in_left: left == at,
                    key,
                    pos: rank.lt(),
                    bytes,
                    replaces: rank.exact,
                };
                if self.even(left, &asking) {
                    return;
                }
            }
        }
        self.split(at, rank.lt(), bytes);
    }

    /// Evens out a node and its right neighbour.
    pub fn even(&mut self, left: usize, asking: &Asking<'_>) -> bool {
        let (a, b) = (self.page(left), self.page(left + 1));
        let (_a, _b) = (a.latch().lock(), b.latch().lock());
        let (view_a, view_b) = (self.view(left), self.view(left + 1));
        let Some(even) = Even::plan(&view_a, &view_b, asking).expect("sound") else { return false };
        even.apply(&*self.m, &mut (), a, b);
        drop((_a, _b));
        self.between[left] = even.separator().to_vec();
        let at = self.at(asking.key);
        let rank = self.rank(at, asking.key);
        let view = self.view(at);
        let free = view.free_bytes();
        let old = if rank.exact { 8 + view.entry(rank.lt()).bytes() } else { 0 };
        let wants = asking.bytes.saturating_sub(self.page_bytes() / 8 + 2);
        assert!(free + old >= wants, "room was made for the entry that asked");
        assert!(self.view(left).count() > 0 && self.view(left + 1).count() > 0);
        self.count(if asking.in_left { "even to the right" } else { "even to the left" });
        true
    }

    pub fn split(&mut self, at: usize, pos: usize, bytes: usize) {
        let m = Arc::clone(&self.m);
        let page = m.page(self.nodes[at]).expect("inside");
        let _held = page.latch().lock();
        let view = View::of(page).expect("a node");
        let keep = view.split_point(pos, bytes).expect("two entries");
        assert!(0 < keep && keep < view.count());
        let (below, above) = (self.key(&view, keep - 1), self.key(&view, keep));
        let wanted = match self.level {
            0 => shortest_between(&below, &above).to_vec(),
            _ => above.clone(),
        };
        let separator = view.separator(keep).expect("sound");
        if let Some(separator) = &separator {
            assert_eq!(*separator, wanted);
        } else {
            let cut = [&below, &above].iter().any(|key| is_cut(key.len(), view.page_bytes()));
            assert!(cut, "whole keys are known");
        }
        assert!(below < wanted && wanted <= above);
        let mut split = Split::new(&view, keep, wanted.clone()).expect("sound");
        let no = self.free.pop().expect("few nodes");
        let right = m.page(no).expect("inside");
        let _right = right.latch().lock();
        let records = match split.is_long() {
            true => [(); 2].map(|()| {
                self.records.next += 1;
                self.records.next
            }),
            false => [0; 2],
        };
        for name in records {
            self.records.pairs.insert(name, (wanted.clone(), vec![]));
        }
        split.apply(&*m, &mut (), (page, right), records);
        drop((_held, _right));
        self.nodes.insert(at + 1, no);
        self.between.insert(at, wanted);
        self.count("split");
    }

    pub fn remove(&mut self, key: &[u8]) -> bool {
        let at = self.at(key);
        let rank = self.rank(at, key);
        assert_eq!(rank.exact, self.model.contains_key(key));
        // The first child of an inner node stays.
        if !rank.exact || self.level > 0 && rank.lt() == 0 {
            return false;
        }
        let page = self.page(at);
        let _held = page.latch().lock();
        remove(&*self.m, &mut (), &self.view(at), rank.lt());
        drop(_held);
        self.model.remove(key);
        self.count("remove");
        self.replay();
        true
    }

    pub fn compact(&mut self, at: usize) {
        let page = self.page(at);
        let _held = page.latch().lock();
        let view = self.view(at);
        let free = view.free_bytes();
        compact(&*self.m, &mut (), &view, None);
        assert_eq!((self.view(at).gap(), self.view(at).dead_bytes()), (free, 0));
        drop(_held);
        self.count("compact");
        self.replay();
    }

    /// Merges a node and its right neighbour.
    pub fn merge(&mut self, left: usize) -> bool {
        let (a, b) = (self.page(left), self.page(left + 1));
        let (_a, _b) = (a.latch().lock(), b.latch().lock());
        let plan = Merge::plan(&self.view(left), &self.view(left + 1), usize::from(self.level > 0))
            .expect("sound");
        let Some(mut merge) = plan else { return false };
        merge.apply(&*self.m, &mut (), a);
        drop((_a, _b));
        self.between.remove(left);
        self.free.push(self.nodes.remove(left + 1));
        self.count("merge");
        self.replay();
        true
    }

    /// Compares all nodes with the model, and ranks with those of the model.
    pub fn compare_all(&self, probes: &[Vec<u8>]) {
        let (mut seen, mut copy) = (0, LeafCopy::default());
        for at in 0..self.nodes.len() {
            let view = self.view(at);
            check_page(view.page()).expect("sound");
            let low = at.checked_sub(1).map(|i| self.between[i].clone());
            let high = self.between.get(at).cloned();
            self.compare_fences(&view, &low, &high);
            let low = low.unwrap_or_default();
            let pairs: Vec<_> = match &high {
                Some(high) => self.model.range(low..high.clone()).collect(),
                None => self.model.range(low..).collect(),
            };
            assert_eq!(view.count(), pairs.len(), "entries of node {at}");
            for (pos, (key, value)) in pairs.iter().enumerate() {
                assert_eq!(&self.key(&view, pos), *key);
                // Behind the child of a cut separator is the name of its record.
                let found = self.value(&view, pos);
                let of_child = if self.level > 0 { 4 } else { found.len() };
                assert_eq!(&found[..of_child], &value[..]);
            }
            if self.level == 0 {
                Self::compare_copy(&view, &pairs, &mut copy);
            }
            seen += pairs.len();
            for (pos, (key, _)) in pairs.iter().enumerate() {
                assert_eq!(self.rank(at, key), Rank { le: pos + 1, exact: true });
            }
        }
        assert_eq!(seen, self.model.len());
        for key in probes {
            let at = self.at(key);
            self.compare_rank(at, key);
            for (i, high) in self.between.iter().enumerate() {
                let order = self.view(i).cmp_high(key, |far| self.compare(far, key));
                assert_eq!(order.expect("sound"), key[..].cmp(&high[..]), "{key:?} {high:?}");
            }
        }
    }

    /// Compares a copy of a leaf with what the leaf holds itself; keys that are cut are left to the leaf, and
    /// values in records to their readers. The copy had another leaf before.
    fn compare_copy(view: &View<'_>, pairs: &[(&Vec<u8>, &Vec<u8>)], copy: &mut LeafCopy) {
        assert!(copy.fill(view).expect("memory"));
        assert_eq!(copy.is_there(), !pairs.is_empty());
        assert!(copy.ascends());
        let mut last = None;
        // There and back: a step down leaves nothing of a longer key behind.
        for pos in (0..pairs.len()).chain((0..pairs.len()).rev()) {
            let entry = view.entry(pos);
            let record = view.reference_of(&entry);
            let went = match (entry.cut, record) {
                (true, _) => Went::Not,
                (false, None) => Went::Whole,
                (false, Some(_)) => Went::Far,
            };
            assert_eq!(copy.go(pos), went, "entry {pos}");
            assert_eq!(copy.record_at(pos), record, "entry {pos}");
            last = if entry.cut { last } else { Some((pos, record)) };
            // Where the copy did not go it stays.
            let Some((at, record)) = last else { continue };
            assert_eq!(copy.key(), pairs[at].0, "entry {pos}");
            match record {
                None => assert_eq!(copy.value(), pairs[at].1, "entry {pos}"),
                Some(record) => assert_eq!(copy.record(), record, "entry {pos}"),
            }
        }
        assert_eq!(
            [copy.go(pairs.len()), copy.go(usize::MAX)],
            [Went::Not; 2],
            "there are no more"
        );
        assert_eq!([copy.record_at(pairs.len()), copy.record_at(usize::MAX)], [None; 2]);
        copy.forget();
        assert!(!copy.is_there() && copy.go(0) == Went::Not);
    }

    fn compare_rank(&self, at: usize, key: &[u8]) {
        let low = at.checked_sub(1).map_or(vec![], |i| self.between[i].clone());
        let le = self.model.range(low..=key.to_vec()).count();
        let wanted = Rank { le, exact: self.model.contains_key(key) };
        assert_eq!(self.rank(at, key), wanted, "{key:?}");
    }

    fn compare_fences(&self, view: &View<'_>, low: &Option<Vec<u8>>, high: &Option<Vec<u8>>) {
        for (fence, wanted) in [(view.low(), low), (view.high(), high)] {
            let got = fence.map(|fence| {
                let mut kept = Vec::new();
                view.fence_into(fence, &mut kept).expect("sound");
                match fence.record {
                    Some(name) => {
                        assert!(self.records.key(name).starts_with(&kept));
                        self.records.key(name).to_vec()
                    }
                    None => kept,
                }
            });
            assert_eq!(got, *wanted);
        }
        assert_eq!(view.sibling().is_some(), high.is_some());
    }
}

fn tags(notes: &[super::medium::Note]) -> Vec<u8> {
    notes.iter().map(|note| note.1).collect()
}
