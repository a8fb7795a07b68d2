//! A simulated disk that is full from any call of a script on: puts, deletes, large values, batches, trees,
//! ends of epochs, checkpoints, backups. A call that fails says so and changes nothing; what was durable stays, also
//! through a crash; deletes are taken, and make room where a checkpoint finds some; and once there is room
//! everything goes on in the same open, with all that was accepted.
//!
//! `EVERLEAF_SCALE` says at how many calls of a script (default 30).

use std::collections::BTreeMap;
use std::sync::Arc;

use everleaf::{Db, Error, Options, Result, Tree};
use everleaf_file::io::{Fault, SimIo};
use everleaf_testing::{Rng, times, vecs};

const PATH: &str = "/pool/p.ever";
const STEPS: u64 = 1200;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Epochs that are spilled, values in leaves.
    Small,
    /// Most bytes are in large values.
    Large,
}

fn open(io: &SimIo) -> Db {
    let options = Options::new().background(false).pending_bytes(32 << 10).journal_bytes(64 << 10);
    options.max_bytes(64 << 20).open_on(Arc::new(io.clone()), PATH).expect("it opens")
}

struct World {
    io: SimIo,
    db: Db,
    tree: Tree,
    kind: Kind,
    rng: Rng,
    model: Model,
    /// The content of the last epoch that is known to be durable.
    durable: Model,
    /// Ends of epochs since then that had no room: a later write may have made them durable.
    cut: Vec<Model>,
    /// Errors for want of room: of writes, ends of epochs, checkpoints, backups.
    refused: [u64; 4],
    what: String,
}

impl World {
    fn new(kind: Kind) -> Self {
        let io = SimIo::new(1);
        let db = open(&io);
        let tree = db.tree("t").expect("room");
        db.sync().expect("room");
        let (model, durable) = (Model::new(), Model::new());
        let what = format!("{kind:?}");
        Self {
            io,
            db,
            tree,
            kind,
            rng: Rng(3),
            model,
            durable,
            cut: Vec::new(),
            refused: [0; 4],
            what,
        }
    }

    fn pair(&mut self) -> (Vec<u8>, Vec<u8>) {
        let key = self.rng.below(3000).to_be_bytes().to_vec();
        let is_large = self.rng.below(10) < if matches!(self.kind, Kind::Large) { 3 } else { 0 };
        let len = if is_large { 2000 + self.rng.below(60_000) } else { self.rng.below(250) };
        (key, vec![self.rng.below(256) as u8; len as usize])
    }

    fn is_durable(&mut self) {
        self.durable = self.model.clone();
        self.cut.clear();
    }

    fn delete(&mut self) -> Result<()> {
        let from = self.rng.below(3000).to_be_bytes().to_vec();
        if let Some(key) = self.model.range(from..).next().map(|(key, _)| key.clone()) {
            self.tree.delete(&key)?;
            self.model.remove(&key);
        }
        Ok(())
    }

    fn batch(&mut self) -> Result<()> {
        let (mut batch, mut model) = (self.db.batch(), self.model.clone());
        for _ in 0..8 {
            // In their leaf: a large value that has no room stops writes within a batch.
            let (key, mut value) = self.pair();
            value.truncate(250);
            batch.put(&self.tree, &key, &value)?;
            model.insert(key, value);
        }
        batch.commit()?;
        self.model = model;
        Ok(())
    }

    /// One thing of the script. False if writes have stopped.
    fn step(&mut self, n: u64) -> bool {
        let (kind, result) = match n % 60 {
            20 => (1, self.db.sync()),
            40 => (1, self.db.end_epoch().and_then(|epoch| self.db.wait_durable(epoch))),
            // Within an epoch, and at the end of one.
            10 | 59 if n % 60 == 10 || n % 4 == 3 => (2, self.db.checkpoint()),
            59 => (2, self.db.sync().and_then(|()| self.db.checkpoint())),
            50 if n % 4 == 2 => (3, self.db.backup(format!("/pool/copy{n}")).map(drop)),
            7 | 27 => (0, self.batch()),
            n if n % 6 == 5 => (0, self.delete()),
            _ => {
                let (key, value) = self.pair();
                let put = self.tree.put(&key, &value);
                (0, put.map(|()| drop(self.model.insert(key, value))))
            }
        };
        let Err(error) = result else {
            if kind == 1 || n % 60 == 59 && n % 4 != 3 {
                self.is_durable();
            }
            return true;
        };
        if kind > 0 {
            self.cut.push(self.model.clone());
        }
        let what = format!("{}, step {n}: {error}", self.what);
        self.refused[kind] += 1;
        if let Error::Poisoned { cause } = &error {
            // Its place is there since the pool was made.
            assert!(cause.to_string().starts_with("writing the superblock"), "{what}");
            return false;
        }
        let full = |source: &std::io::Error| source.kind() == std::io::ErrorKind::StorageFull;
        assert!(matches!(&error, Error::Io { source, .. } if full(source)), "{what}");
        true
    }

    fn holds(&self, db: &Db, model: &Model) -> bool {
        let tree = db.tree("t").expect("there");
        assert!(db.check().expect("it can be read").is_empty(), "{}", self.what);
        tree.iter().map(|pair| vecs(pair.expect("sound"))).eq(model.clone())
    }

    fn expect_holds(&self, db: &Db, model: &Model) {
        assert!(self.holds(db, model), "{}", self.what);
    }

    /// Nothing that was durable is lost in a crash. An epoch that a failed end has cut off may be there.
    fn crash(&self) {
        for disk in [self.io.power_cut(1), self.io.kill()] {
            disk.fail_at(u64::MAX, Fault::Full);
            disk.heal();
            let db = open(&disk);
            let states = std::iter::once(&self.durable).chain(&self.cut);
            assert!(states.into_iter().any(|state| self.holds(&db, state)), "{}", self.what);
            db.abandon().expect("open");
        }
    }

    /// Deletes pairs while the disk is full, and says whether that has made room.
    fn make_room(&mut self) -> bool {
        for _ in 0..10 {
            for _ in 0..self.model.len() / 4 {
                self.delete().expect("a delete adds nothing");
            }
            // The first one frees what steps have deleted, the second one what the first could not reuse.
            self.cut.push(self.model.clone());
            let ended = self.db.sync().and_then(|()| self.db.checkpoint());
            if ended.and_then(|()| self.db.checkpoint()).is_ok() {
                self.is_durable();
                self.crash();
                let (key, value) = self.pair();
                if self.tree.put(&key, &value).and_then(|()| self.db.sync()).is_ok() {
                    self.model.insert(key, value);
                    self.is_durable();
                    return true;
                }
                self.model = self.tree.iter().map(|pair| vecs(pair.expect("sound"))).collect();
                self.cut.push(self.model.clone());
            }
        }
        false
    }

    /// There is room: everything goes on, and an open finds all of it.
    fn go_on(mut self) {
        self.io.fail_at(u64::MAX, Fault::Full);
        self.io.heal();
        self.expect_holds(&self.db, &self.model);
        let before = self.refused;
        for n in STEPS..STEPS + 120 {
            assert!(self.step(n), "{}", self.what);
        }
        assert_eq!(self.refused, before, "{}: there is room", self.what);
        self.db.sync().expect("room");
        self.is_durable();
        self.crash();
        let World { io, db, tree, model, what, .. } = self;
        drop(tree);
        db.close().expect("room");
        let db = open(&io);
        let tree = db.tree("t").expect("there");
        assert!(tree.iter().map(|pair| vecs(pair.expect("sound"))).eq(model), "{what}");
    }
}

fn fill_disks(kind: Kind) {
    let mut world = World::new(kind);
    let before = world.io.calls();
    (0..STEPS).for_each(|n| assert!(world.step(n), "nothing fails by itself"));
    let calls = world.io.calls() - before;
    assert_eq!(world.refused, [0; 4]);
    assert!(!world.model.is_empty() && calls > 200, "{calls} calls");
    let disks = times(30).min(calls);
    let (mut refused, mut made, mut tried, mut stopped) = ([0; 4], 0, 0, 0);
    for i in 0..disks {
        let call = calls * i / disks;
        let mut world = World::new(kind);
        world.what = format!("{kind:?}, full at call {call} of {calls}");
        world.io.fail_at(world.io.calls() + call, Fault::Full);
        let goes_on = (0..STEPS).all(|n| {
            let before = world.refused;
            let goes_on = world.step(n);
            if world.refused[1..] != before[1..] && i % 3 == 0 {
                world.crash();
            }
            goes_on
        });
        refused.iter_mut().zip(world.refused).for_each(|(all, n)| *all += n);
        if !goes_on {
            world.crash();
            stopped += 1;
            continue;
        }
        if i % 2 == 0 {
            tried += 1;
            made += u64::from(world.make_room());
        }
        world.go_on();
    }
    println!(
        "{kind:?}: {refused:?} refused, {stopped} stopped; deletes made room {made} of {tried} times"
    );
    assert!(refused.iter().all(|n| *n > 0), "{refused:?}");
    assert!(stopped <= disks / 10);
}

#[test]
fn small_values_on_a_full_disk() {
    fill_disks(Kind::Small);
}

#[test]
fn large_values_on_a_full_disk() {
    fill_disks(Kind::Large);
}
