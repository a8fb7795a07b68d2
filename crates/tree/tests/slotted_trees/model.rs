//! Everything that a tree of slotted nodes can do, against a map, and as any ordered index.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::path::Path;
use std::sync::Arc;

use everleaf_crash_check::conformance::Suite;
use everleaf_file::FileOptions;
use everleaf_file::io::SimIo;
use everleaf_testing::{Rng, seed_or, times};
use everleaf_tree::blink::{BatchChange, Before, Condition, KeepBefore};
use everleaf_tree::slotted::Slotted;
use everleaf_tree::{FilePool, INDEX_ANCHOR, SlottedTree, leaks};

use super::texts::Texts;
use super::watched::{Tree, kill, open, pack, tidy};

type Bytes = Vec<u8>;
type Model = BTreeMap<Bytes, Bytes>;

/// Tags of the notes of a change of a node: an insert, an update, a removal, a compaction, an image, trims
/// and additions at both ends.
const TAGS: std::ops::RangeInclusive<usize> = 7..=15;

/// Empty keys, keys that differ in trailing zeros or in length, prefixes that tie for thousands of bytes,
/// lengths around what a node keeps whole, and keys that ascend.
fn key(rng: &mut Rng, page_bytes: u64, clock: &mut u64) -> Bytes {
    let whole = page_bytes as usize / 8;
    let stem = match rng.below(20) {
        0..4 => vec![],
        4..8 => b"user/0000000000".to_vec(),
        8 => vec![0; rng.below(9) as usize],
        9..13 => vec![b'e'; whole - 6 + rng.below(9) as usize],
        13 => vec![b'k'; 2 * whole],
        14 => vec![b't'; 5000],
        15..18 => format!("{:030}", rng.below(60)).into_bytes(),
        _ => {
            *clock += 1;
            return format!("log/{clock:08}").into_bytes();
        }
    };
    let mut key = stem;
    key.extend((0..rng.below(4)).map(|_| [0, 1, b'a', 255][rng.below(4) as usize]));
    key
}

/// Each length around what an entry holds, records, and extents.
fn value(rng: &mut Rng, page_bytes: u64) -> Bytes {
    let most = page_bytes / 8;
    let len = match rng.below(30) {
        0 => page_bytes + rng.below(3 * page_bytes),
        1..4 => most + rng.below(200),
        4..12 => most.saturating_sub(3) + rng.below(6),
        12..16 => 0,
        _ => rng.below(most),
    };
    vec![rng.next() as u8; len as usize]
}

/// A key that is there, or else a new one.
fn known(rng: &mut Rng, model: &Model, new: Bytes) -> Bytes {
    let behind = model.range(new.clone()..).next().or_else(|| model.iter().next());
    behind.filter(|_| rng.below(3) > 0).map_or(new, |pair| pair.0.clone())
}

fn pairs<'m>(all: impl Iterator<Item = (&'m Bytes, &'m Bytes)>) -> Vec<(Bytes, Bytes)> {
    all.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// All pairs from a bound on, chunk by chunk.
fn scan(tree: &Tree, from: Bound<Bytes>, upwards: bool, limit: usize) -> Vec<(Bytes, Bytes)> {
    let (mut found, mut next) = (Vec::new(), Some(from));
    while let Some(from) = next {
        let from = from.as_ref().map(Vec::as_slice);
        let chunk = if upwards { tree.chunk_up(from, limit) } else { tree.chunk_down(from, limit) };
        let chunk = chunk.expect("sound");
        found.extend(chunk.entries);
        next = chunk.next;
    }
    found
}

fn look(tree: &Tree, model: &Model, rng: &mut Rng, key: &Bytes) {
    let (above, limit) = (model.range(key.clone()..), 1 + rng.below(9) as usize);
    match rng.below(8) {
        0 => assert_eq!(scan(tree, Included(key.clone()), true, limit), pairs(above)),
        1 => {
            let below = model.range::<Bytes, _>((Unbounded, Excluded(key.clone())));
            assert_eq!(scan(tree, Excluded(key.clone()), false, limit), pairs(below.rev()));
        }
        2 | 3 => {
            let wanted = model.range(..=key.clone()).next_back();
            assert_eq!(tree.floor(key).expect("sound"), pairs(wanted.into_iter()).pop());
        }
        _ => {
            assert_eq!(tree.get(key).expect("sound").as_ref(), model.get(key));
            assert_eq!(tree.contains(key).expect("sound"), model.contains_key(key));
        }
    }
}

fn write(tree: &Tree, model: &mut Model, rng: &mut Rng, key: Bytes, value: Option<Bytes>) {
    let Some(value) = value else {
        assert_eq!(tree.remove(&key).expect("readable").old, model.remove(&key));
        return;
    };
    let condition = [Condition::Always, Condition::Present, Condition::Absent];
    let condition = condition[rng.below(3) as usize];
    let old = model.get(&key).cloned();
    let done = condition == Condition::Always || (condition == Condition::Present) == old.is_some();
    let put = tree.put(&key, &value, condition).expect("room");
    assert_eq!((put.old, put.epoch.is_some()), (old, done));
    if done {
        model.insert(key, value);
    }
}

/// Keeps what a batch replaces, large values, too.
#[derive(Default)]
struct Kept(RefCell<BTreeMap<Bytes, Option<Bytes>>>);

impl KeepBefore<[u8], Bytes> for Kept {
    fn is_due(&self, key: &[u8]) -> bool {
        !self.0.borrow().contains_key(key)
    }
    fn is_kept(&self, key: &[u8]) -> everleaf_pmem::Result<bool> {
        Ok(self.0.borrow().contains_key(key))
    }
    fn takes(&self, _: usize) -> bool {
        true
    }
    fn keep(&self, key: &[u8], before: Before<Bytes>) -> everleaf_pmem::Result<()> {
        let before = match before {
            Before::Absent => None,
            Before::Value(value) => Some(value),
            other => panic!("{other:?}"),
        };
        self.0.borrow_mut().insert(key.to_vec(), before);
        Ok(())
    }
    fn keep_inside(
        &self,
        key: &[u8],
        bytes: usize,
        append: &mut dyn FnMut(&mut Bytes) -> everleaf_pmem::Result<()>,
    ) -> everleaf_pmem::Result<()> {
        let mut value = Bytes::new();
        append(&mut value)?;
        assert_eq!(value.len(), bytes);
        self.keep(key, Before::Value(value))
    }
}

fn change_of<'a>(key: &'a Bytes, value: &'a Option<Bytes>) -> BatchChange<'a, [u8], [u8]> {
    BatchChange { key, value: value.as_deref() }
}

/// Many changes at once: some near one another, some that ascend behind all that is there, and some in between that
/// somebody else makes after the places were found.
fn batch(tree: &Tree, model: &mut Model, rng: &mut Rng, page_bytes: u64, clock: &mut u64) {
    let mut all = BTreeMap::new();
    let rising = if rng.one_in(4) { rng.below(200) } else { 0 };
    for i in 0..rising + 1 + rng.below(40) {
        let new = key(rng, page_bytes, clock);
        let key = match i < rising {
            true => format!("log/{:08}", *clock + i).into_bytes(),
            false => known(rng, model, new),
        };
        let value = (i < rising || !rng.one_in(3)).then(|| value(rng, page_bytes));
        all.insert(key, value);
    }
    *clock += rising;
    let owned: Vec<(Bytes, Option<Bytes>)> = all.into_iter().collect();
    let changes: Vec<_> = owned.iter().map(|(key, value)| change_of(key, value)).collect();
    let mut places = vec![None; changes.len()];
    // The first time as if the keys had been read before.
    for _ in 0..1 + rng.below(2) {
        let seen = places.clone();
        tree.touch(&changes, &seen, &mut places).expect("readable");
        for _ in 0..rng.below(3) {
            let (key, _) = &owned[rng.below(owned.len() as u64) as usize];
            let other = Some(value(rng, page_bytes)).filter(|_| !rng.one_in(3));
            write(tree, model, rng, key.clone(), other);
        }
    }
    let (kept, keeps, mut done) = (Kept::default(), rng.one_in(2), 0);
    while done < changes.len() {
        let keeper = keeps.then_some(&kept as &dyn KeepBefore<[u8], Bytes>);
        let some = tree.change_leaf(keeper, &changes[done..], &mut places[done..]);
        done += some.expect("room");
    }
    let mut expected = BTreeMap::new();
    for (key, value) in owned {
        let old = match &value {
            Some(value) => model.insert(key.clone(), value.clone()),
            None => model.remove(&key),
        };
        if keeps && (old.is_some() || value.is_some()) {
            expected.insert(key, old);
        }
    }
    assert!(kept.0.into_inner() == expected, "what was replaced was kept");
}

/// The tree holds what the model does, and nothing is damaged or lost.
fn compare(tree: &Tree, model: &Model, what: &str) -> Vec<u64> {
    assert!(scan(tree, Unbounded, true, 7) == pairs(model.iter()), "{what}: upwards");
    assert!(scan(tree, Unbounded, false, 7) == pairs(model.iter().rev()), "{what}: downwards");
    let report = tree.check().expect("readable");
    assert!(report.damages.is_empty(), "{what}: {:?}", report.damages);
    assert_eq!((report.entries, report.missing_entries), (model.len() as u64, 0), "{what}");
    assert!(tree.pool().check().is_empty(), "{what}");
    let lost = leaks(tree.pool(), std::slice::from_ref(&report)).expect("readable");
    assert_eq!(lost, Default::default(), "{what}");
    report.nodes_by_level
}

/// Random operations in times of growth and of shrinkage, with a kill now and then, and at last a drain.
/// If `packs`, pages lose now and then what a file need not keep of them.
fn against_a_model(page_bytes: u32, steps: u64, packs: bool) {
    let seed = seed_or(1) ^ u64::from(page_bytes);
    let what = format!("pages of {page_bytes}, seed {seed}");
    let (mut rng, mut io) = (Rng(seed), SimIo::new(seed));
    let (mut tree, mut model) = (open(&io, page_bytes), Model::new());
    let (mut notes, mut clock, mut levels, mut free) = ([0; 16], 0, 0, 0);
    for step in 0..steps {
        let new = key(&mut rng, page_bytes.into(), &mut clock);
        let key = known(&mut rng, &model, new);
        let grows = step * 10 / steps % 3 != 2;
        match rng.below(10) {
            0..2 => look(&tree, &model, &mut rng, &key),
            2 if grows && rng.one_in(4) => {
                batch(&tree, &mut model, &mut rng, page_bytes.into(), &mut clock);
            }
            n if n < if grows { 9 } else { 4 } => {
                let value = Some(value(&mut rng, page_bytes.into()));
                write(&tree, &mut model, &mut rng, key, value);
            }
            _ => write(&tree, &mut model, &mut rng, key, None),
        }
        if packs && step % 50 == 0 {
            free = free.max(pack(&tree));
        }
        if step % 100 == 0 {
            tidy(&tree);
        }
        if step % (steps / 12) == 0 {
            levels = levels.max(compare(&tree, &model, &format!("{what}, step {step}")).len());
            notes.iter_mut().zip(tree.pool().medium().notes()).for_each(|(all, n)| *all += n);
            io = kill(tree, &io);
            tree = open(&io, page_bytes);
        }
    }
    let keys: Vec<_> = model.keys().cloned().collect();
    for (i, key) in keys.iter().enumerate() {
        let far = if i % 2 == 0 { key } else { &keys[keys.len() - 1 - i / 2] };
        write(&tree, &mut model, &mut rng, far.clone(), None);
        if i % 100 == 0 {
            tidy(&tree);
        }
    }
    keys.into_iter().for_each(|key| write(&tree, &mut model, &mut rng, key, None));
    assert_eq!(compare(&tree, &model, &what), [1], "{what}: an empty tree is one leaf");
    assert!(!packs || free > 0, "{what}: no page was ever free");
    println!("{what}: {levels} levels, {free} free pages, notes {:?}", &notes[TAGS]);
    assert!(notes[TAGS].iter().all(|n| *n > 0), "{what}: {:?}", &notes[TAGS]);
    assert!(page_bytes > 512 || levels > 2, "{what}: {levels} levels");
}

#[test]
fn slotted_trees_behave_like_btreemap() {
    let steps = times(6000);
    for page_bytes in [512, 1024, 4096] {
        against_a_model(page_bytes, steps, false);
    }
}

/// Also redo: a page that went home without its gap meets the changes that came after.
#[test]
fn trees_need_nothing_of_what_a_file_need_not_keep() {
    let steps = times(6000);
    against_a_model(512, steps, true);
    against_a_model(2048, steps, true);
}

/// A pool that is killed and opened again.
struct Machine {
    io: SimIo,
    file: FilePool,
}

impl Machine {
    fn open(io: SimIo) -> (Self, Texts<everleaf_file::File, Slotted>) {
        let options = FileOptions {
            slots: 28,
            max_pages: 60_000,
            create: true,
            interval: std::time::Duration::from_millis(2),
            ..FileOptions::default()
        };
        let (disk, path) = (Arc::new(io.clone()), Path::new("/pool/p.ever"));
        let file = FilePool::open_for::<Slotted>(disk, path, &options).expect("it opens");
        let tree = SlottedTree::open(Arc::clone(file.pool()), INDEX_ANCHOR).expect("room");
        (Self { io, file }, Texts(tree))
    }
}

#[test]
fn slotted_trees_conform_across_kills() {
    let machine = RefCell::new(None);
    let make = || {
        let (made, tree) = Machine::open(SimIo::new(1));
        machine.replace(Some(made));
        tree
    };
    let reboot = |tree| {
        let Machine { io, file } = machine.take().expect("it was made");
        file.pool().medium().sync().expect("a disk");
        file.pool().medium().abandon();
        drop((tree, file));
        let (made, tree) = Machine::open(io.power_cut(1));
        machine.replace(Some(made));
        tree
    };
    let suite = Suite { keys: 150, ..Suite::default() };
    suite.run(make, reboot).unwrap_or_else(|what| panic!("{what}"));
}
