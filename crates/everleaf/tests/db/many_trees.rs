//! Many trees in a memory that holds few of them: what names the root of a tree leaves memory as all of it does, and
//! a tree that nobody uses is forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf::io::{Fault, SimIo};
use everleaf::{Bytes, Db, Error, Options};
use everleaf_testing::{Rng, seed_or, vecs};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn name(i: u64) -> String {
    format!("tree {i:05}")
}

/// The most bytes that the pool says while it has many trees.
struct Looks {
    most: u64,
    peak: u64,
}

impl Looks {
    fn look(&mut self, db: &Db, what: &str) {
        let memory = db.stats().expect("open").memory;
        self.peak = self.peak.max(memory.bytes);
        assert!(memory.bytes <= self.most, "{what}: {memory:?}");
    }
}

/// Without eviction of anchors this takes 22 MiB.
#[test]
fn trees_that_nobody_uses_leave_memory() {
    const TREES: u64 = 5000;
    const MEMORY: u64 = 2 << 20;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("p.ever");
    let options = Options::new().memory(MEMORY);
    // A writer's shortest turn may change 16 pages, of the few that there is room for here, and as many again before
    // its slot tells of them; `many_trees`, with more, allows for nothing.
    let mut looks = Looks { most: MEMORY + MEMORY / 8, peak: 0 };
    let db = options.open(&path).expect("new");
    for i in 0..TREES {
        db.tree(&name(i)).expect("room").put("k", name(i)).expect("room");
        looks.look(&db, "made");
    }
    let mut rng = Rng(seed_or(3));
    let mut use_some = |db: &Db, looks: &mut Looks| {
        for _ in 0..1000 {
            let i = 1 + rng.below(TREES / 2 - 1) * 2;
            let tree = db.tree(&name(i)).expect("there");
            assert_eq!(tree.get("k").expect("sound"), Some(name(i).into_bytes().into()));
            tree.put("k", name(i)).expect("room");
            assert_eq!(tree.len().expect("sound"), 1);
            looks.look(db, "used");
        }
    };
    use_some(&db, &mut looks);
    assert_eq!(db.check().expect("read"), []);
    looks.look(&db, "checked");
    for i in (0..TREES).step_by(2) {
        assert!(db.drop_tree(&name(i)).expect("there"));
        looks.look(&db, "dropped");
    }
    use_some(&db, &mut looks);
    // As a kill leaves it, but for the end of the epoch.
    drop(db);
    let db = options.open(&path).expect("sound");
    use_some(&db, &mut looks);
    assert_eq!(db.check().expect("read"), []);
    looks.look(&db, "checked");
    assert_eq!(db.tree_names().expect("read").len() as u64, TREES / 2);
    let memory = db.stats().expect("open").memory;
    println!("{} bytes at most, {memory:?}", looks.peak);
    // Of the trees that were used since the open, not half had room at once. How many of the dropped ones were read as
    // well is a matter of when they were gone.
    assert!(memory.evictions > TREES / 5, "{memory:?}");
    db.close().expect("no fault");
}

/// In a memory that holds few trees, a check reads two pages of each, the anchor and the node, and each of them once.
/// It drives no other page out of memory for that.
#[test]
fn a_check_of_many_trees_reads_each_page_once() {
    const TREES: u64 = 5000;
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options::new().memory(2 << 20);
    let db = options.open(dir.path().join("p.ever")).expect("new");
    for i in 0..TREES {
        db.tree(&name(i)).expect("room").put("k", name(i)).expect("room");
    }
    db.checkpoint().expect("no fault");
    let memory = || db.stats().expect("open").memory;
    for _ in 0..2 {
        let before = memory();
        assert_eq!(db.check().expect("read"), []);
        let read = memory().misses - before.misses;
        let left = memory().evictions - before.evictions;
        assert!(left < 200, "{left} pages left memory");
        // Beside those the pages of the catalog, some of them more often.
        assert!(
            (2 * TREES - 500..2 * TREES + 500).contains(&read),
            "{read} pages for {TREES} trees"
        );
    }
}

/// A handle and its clone stay one tree, and snapshots see what there was, however many trees come and go.
#[test]
fn what_somebody_needs_of_a_tree_is_not_forgotten() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Options::new().open(dir.path().join("p.ever")).expect("new");
    let held = db.tree("held").expect("room");
    held.put("k", "old").expect("room");
    db.tree("seen").expect("room").put("k", "old").expect("room");
    let snapshot = db.snapshot().expect("open");
    db.tree("seen").expect("there").put("k", "new").expect("room");
    let others = || (0..1500).for_each(|i| drop(db.tree(&name(i)).expect("room")));
    others();
    // Its root becomes another one, of which the first handle hears.
    let again = db.tree("held").expect("there");
    for i in 0..2000_u64 {
        again.put(i.to_be_bytes(), [7; 100]).expect("room");
    }
    others();
    for i in 0..2000_u64 {
        assert!(held.contains(i.to_be_bytes()).expect("sound"), "{i}");
        held.put(i.to_be_bytes(), "v").expect("room");
    }
    assert_eq!(again.len().expect("sound"), 2001);
    assert!(db.drop_tree("held").expect("there"));
    assert!(matches!(held.get("k"), Err(Error::NoTree)));
    assert!(matches!(again.get("k"), Err(Error::NoTree)));
    for (name, now) in [("seen", Some(&b"new"[..])), ("held", None)] {
        let before = snapshot.tree(name).expect("open").expect("there");
        assert_eq!(before.get("k").expect("sound").as_deref(), Some(&b"old"[..]), "{name}");
        let tree = db.open_tree(name).expect("sound");
        let value = tree.and_then(|tree| tree.get("k").expect("sound"));
        assert_eq!(value.as_deref(), now, "{name}");
    }
    assert_eq!(db.check().expect("read"), []);
}

/// One thread's trees, and what they hold.
struct Owner {
    prefix: u64,
    rng: Rng,
    trees: BTreeMap<String, Pairs>,
    renamed: u64,
}

impl Owner {
    const TREES: u64 = 40;

    fn name(&mut self) -> String {
        format!("{}-{}", self.prefix, self.rng.below(Self::TREES))
    }

    fn step(&mut self, db: &Db) {
        let name = self.name();
        let key = self.rng.below(60).to_be_bytes();
        match self.rng.below(20) {
            0..8 => {
                let value = vec![7; self.rng.below(200) as usize];
                let old = db.tree(&name).expect("room").insert(key, &value).expect("room");
                let pairs = self.trees.entry(name).or_default();
                assert_eq!(old.map(Bytes::into_vec), pairs.insert(key.to_vec(), value));
            }
            8..11 => {
                let tree = db.tree(&name).expect("room");
                let pairs = self.trees.entry(name).or_default();
                assert_eq!(
                    tree.remove(key).expect("room").map(Bytes::into_vec),
                    pairs.remove(&key[..])
                );
            }
            11..15 => {
                let tree = db.open_tree(&name).expect("sound");
                assert_eq!(tree.is_some(), self.trees.contains_key(&name), "{name}");
                let Some(tree) = tree else { return };
                let pairs = &self.trees[&name];
                assert_eq!(
                    tree.get(key).expect("sound").as_deref(),
                    pairs.get(&key[..]).map(Vec::as_slice)
                );
                assert_eq!(tree.len().expect("sound"), pairs.len() as u64);
            }
            15 => {
                let there = db.drop_tree(&name).expect("room");
                assert_eq!(there, self.trees.remove(&name).is_some());
            }
            16 => {
                let Some(pairs) = self.trees.get_mut(&name) else { return };
                let cleared = db.tree(&name).expect("there").clear().expect("room");
                assert_eq!(cleared, std::mem::take(pairs).len() as u64);
            }
            17 => {
                self.renamed += 1;
                let to = format!("{}-r{}", self.prefix, self.renamed);
                let there = db.rename_tree(&name, &to).expect("room");
                let pairs = self.trees.remove(&name);
                assert_eq!(there, pairs.is_some());
                self.trees.extend(pairs.map(|pairs| (to, pairs)));
            }
            _ => {
                let mut batch = db.batch();
                for name in [name, self.name()] {
                    let tree = db.tree(&name).expect("room");
                    let pairs = self.trees.entry(name).or_default();
                    for i in 0..40_u64 {
                        batch.put(&tree, i.to_be_bytes(), [1; 90]).expect("memory");
                        pairs.insert(i.to_be_bytes().to_vec(), vec![1; 90]);
                    }
                }
                batch.commit().expect("room");
            }
        }
    }
}

fn holds(db: &Db, owners: &[Owner]) {
    let model: BTreeMap<_, _> = owners.iter().flat_map(|owner| &owner.trees).collect();
    assert!(db.tree_names().expect("sound").iter().eq(model.keys().copied()));
    for (name, pairs) in model {
        let tree = db.open_tree(name).expect("sound").expect("there");
        assert!(tree.iter().map(|pair| vecs(pair.expect("sound"))).eq(pairs.clone()), "{name}");
        assert_eq!(tree.len().expect("sound"), pairs.len() as u64, "{name}");
    }
}

#[test]
fn threads_share_many_trees_in_a_tiny_memory() {
    let seed = seed_or(5);
    println!("EVERLEAF_SEED={seed}");
    for memory in [64 << 10, 1 << 20] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("p.ever");
        let options = Options::new().memory(memory);
        let new = |prefix| {
            let rng = Rng(seed + prefix);
            Owner { prefix, rng, trees: BTreeMap::new(), renamed: 0 }
        };
        let mut owners: Vec<_> = (0..3).map(new).collect();
        for round in 0..2 {
            let db = options.open(&path).expect("sound");
            holds(&db, &owners);
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let writers: Vec<_> = owners
                    .iter_mut()
                    .map(|owner| {
                        let db = &db;
                        scope.spawn(move || (0..400).for_each(|_| owner.step(db)))
                    })
                    .collect();
                // Reads trees that others make, change and drop.
                scope.spawn(|| {
                    let mut rng = Rng(seed);
                    while !is_over.load(Ordering::Relaxed) {
                        let name = format!("{}-{}", rng.below(3), rng.below(Owner::TREES));
                        let Some(tree) = db.open_tree(&name).expect("sound") else { continue };
                        for pair in tree.iter() {
                            match pair {
                                Err(Error::NoTree) => break,
                                pair => drop(pair.expect("sound")),
                            }
                        }
                    }
                });
                let done: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
                is_over.store(true, Ordering::Relaxed);
                done.into_iter().for_each(|done| done.expect("a step failed"));
            });
            holds(&db, &owners);
            assert_eq!(db.check().expect("read"), []);
            let evictions = db.stats().expect("open").memory.evictions;
            assert!(evictions > 100 || memory > 64 << 10, "{evictions} evictions");
            match round {
                // As a kill leaves it, but for the end of the epoch.
                0 => drop(db),
                _ => db.close().expect("no fault"),
            }
        }
        holds(&options.open(&path).expect("sound"), &owners);
    }
}

/// Does one of several things to a tree. The model says how many pairs each has.
fn use_one(db: &Db, model: &mut BTreeMap<String, u64>, name: &str, what: u64) -> Result<(), Error> {
    match what {
        0 => {
            let Some(tree) = db.open_tree(name)? else { return Ok(()) };
            assert_eq!(tree.len()?, model[name]);
            tree.get("k").map(drop)
        }
        1 => {
            db.drop_tree(name)?;
            model.remove(name);
            Ok(())
        }
        _ => {
            let tree = db.tree(name)?;
            let pairs = model.entry(name.to_owned()).or_insert(0);
            if what == 2 {
                return Ok(());
            }
            let mut batch = db.batch();
            for key in 0..100_u64 {
                let key = [&name.as_bytes()[5..], &key.to_be_bytes()].concat();
                batch.put(&tree, key, [3; 60])?;
            }
            batch.commit()?;
            *pairs = *pairs % 100 + 100;
            Ok(())
        }
    }
}

/// The anchor names the root, and is read again when it is needed. If it cannot be read, that call fails, and no
/// other; a batch whose trees get new roots finds that out before its first change.
#[test]
fn an_anchor_that_cannot_be_read_is_an_error_of_that_call() {
    const TREES: u64 = 400;
    let (disk, path) = (SimIo::new(1), "/pool/p.ever");
    let options = Options::new().memory(512 << 10).background(false);
    let db = options.open_on(Arc::new(disk.clone()), path).expect("new");
    let mut model = BTreeMap::new();
    for i in 0..TREES {
        db.tree(&name(i)).expect("room").put("k", "v").expect("room");
        model.insert(name(i), 1);
        if i % 16 == 0 {
            db.sync().expect("no fault");
        }
    }
    let mut failed = 0;
    for i in 0..2 * TREES {
        db.sync().expect("no fault");
        if i % 8 == 0 {
            db.checkpoint().expect("no fault");
        }
        let name = name(i.wrapping_mul(7919) % TREES);
        // One of the next calls to the disk fails, if so many are made.
        disk.fail_at(disk.calls() + i % 3, Fault::Io);
        let done = use_one(&db, &mut model, &name, i % 5);
        disk.fail_at(u64::MAX, Fault::Io);
        if let Err(error) = done {
            assert!(matches!(error, Error::Io { .. }), "{i}: {error}");
            failed += 1;
        }
        // The very next call gets what is there, and writes go on.
        let tree = db.open_tree(&name).expect("no fault");
        let pairs =
            tree.map(|tree| tree.keys().map(|key| drop(key.expect("sound"))).count() as u64);
        assert_eq!(pairs, model.get(&name).copied(), "{i}: {name}");
    }
    println!("{failed} calls failed");
    assert!(failed > 100, "{failed} calls failed");
    db.checkpoint().expect("no fault");
    assert_eq!(db.check().expect("read"), []);
    for (name, pairs) in &model {
        let tree = db.open_tree(name).expect("no fault").expect("there");
        assert_eq!(tree.len().expect("sound"), *pairs, "{name}");
    }
    db.close().expect("no fault");
}
