//! The acts of a process on a Db, and the answers that it must get.

use std::collections::BTreeMap;
use std::sync::Arc;

use everleaf::{Db, Durability, Error, Options, Result, SnapshotTree, Tree};

use super::disk::Disk;
use super::draft::{Draft, Step};
use super::{
    Bytes, Model, Mood, Name, PATH, Rng, Short, again, random_key, random_name, random_value,
};

/// A key of a tree and its new value, or none.
#[derive(Debug, Clone)]
pub struct Change {
    pub tree: Name,
    pub key: Bytes,
    pub value: Option<Bytes>,
}

/// One thing that a process does.
#[derive(Debug, Clone)]
pub enum Act {
    Change(Change, Durability),
    Batch(Vec<Change>, Durability),
    /// A transaction on one tree, whose steps look at what is there.
    Transaction(Name, Vec<Step>, Durability),
    /// Loads pairs by rising keys.
    Load(Name, Vec<(Bytes, Bytes)>),
    Make(Name),
    Drop(Name),
    Rename(Name, Name),
    Clear(Name),
    /// Looks a key up, and what is around it.
    Look(Name, Bytes),
    Sync,
    /// Ends an epoch, and does not wait for the disk.
    End,
    Checkpoint,
    Compact,
}

impl Act {
    /// The trees that must be there for it.
    pub fn trees(&self) -> impl Iterator<Item = &Name> {
        let (changes, looked) = match self {
            Act::Change(change, _) => (std::slice::from_ref(change), None),
            Act::Batch(changes, _) => (&changes[..], None),
            Act::Look(tree, _)
            | Act::Load(tree, _)
            | Act::Transaction(tree, ..)
            | Act::Drop(tree)
            | Act::Rename(tree, _)
            | Act::Clear(tree) => (&[][..], Some(tree)),
            Act::Make(_) | Act::Sync | Act::End | Act::Checkpoint | Act::Compact => (&[][..], None),
        };
        changes.iter().map(|change| &change.tree).chain(looked)
    }

    /// Whether it is on the disk when it returns.
    pub fn is_commit(&self) -> bool {
        self.is_synced() || matches!(self, Act::Sync)
    }

    fn is_synced(&self) -> bool {
        matches!(
            self,
            Act::Change(_, Durability::Sync)
                | Act::Batch(_, Durability::Sync)
                | Act::Transaction(.., Durability::Sync)
        )
    }

    /// Whether it is several changes of which none is there without the others.
    pub fn is_whole(&self) -> bool {
        matches!(self, Act::Batch(..) | Act::Transaction(..))
    }

    /// The changes that it comes to, in their order.
    fn changes(&self, model: &Model) -> Vec<Change> {
        match self {
            Act::Change(change, _) => vec![change.clone()],
            Act::Batch(changes, _) => changes.clone(),
            Act::Transaction(tree, steps, _) => {
                let mut draft = Draft::new(&model.now[tree]);
                steps.iter().for_each(|step| drop(draft.make(step)));
                draft.changes(tree)
            }
            _ => Vec::new(),
        }
    }
}

/// How an act ended.
#[derive(Debug)]
pub enum Done {
    Well,
    /// There was no room; nothing has changed.
    Full,
    /// Something could not be read; nothing has changed, and the next act may do better.
    Failed(Error),
    /// Writes have stopped.
    Stopped(Error),
}

/// One open of the pool.
pub struct Life {
    pub db: Db,
    trees: BTreeMap<Name, Tree>,
    /// The epoch that runs can never be committed: a part of something whole is in it.
    pub doomed: bool,
    /// A tree at a moment, and what it held.
    then: Option<(Name, SnapshotTree, BTreeMap<Bytes, Bytes>)>,
}

fn random_change(rng: &mut Rng, mood: Mood, model: &Model) -> Change {
    let tree = model.some_tree(rng).expect("there is a tree");
    let known = if rng.one_in(3) { model.some_key(rng, &tree) } else { None };
    let grows = rng.below(100) < mood.growth;
    let key = known.or_else(|| if grows { None } else { model.some_key(rng, &tree) });
    let key = key.unwrap_or_else(|| random_key(rng, mood.longest));
    Change { tree, key, value: grows.then(|| random_value(rng, mood)) }
}

/// Whether changes are made by a transaction, if they are of one tree and their keys rise; else by a batch.
fn is_transaction(changes: &[Change]) -> bool {
    changes.len().is_multiple_of(2)
}

pub fn random_act(rng: &mut Rng, mood: Mood, model: &Model) -> Act {
    if model.now.is_empty() {
        return Act::Make(random_name(rng));
    }
    let durability =
        if rng.below(100) < mood.syncs / 2 { Durability::Sync } else { Durability::Buffered };
    match rng.below(100) {
        0 => match rng.below(8) {
            0 => Act::Drop(model.some_tree(rng).expect("there is a tree")),
            1 => Act::Rename(model.some_tree(rng).expect("there is a tree"), random_name(rng)),
            2 => Act::Clear(model.some_tree(rng).expect("there is a tree")),
            _ => Act::Make(random_name(rng)),
        },
        1..8 => {
            let most = rng.pick(&[4, 7, 7, 60]);
            let changes = (0..1 + rng.below(most)).map(|_| random_change(rng, mood, model));
            let mut changes: Vec<_> = changes.collect();
            if is_transaction(&changes) {
                // A transaction makes each change once, by rising keys: so does the list.
                let tree = changes.first().map(|change| change.tree.clone());
                changes.retain(|change| Some(&change.tree) == tree.as_ref());
                changes.sort_by(|a, b| a.key.cmp(&b.key));
                changes.dedup_by(|a, b| a.key == b.key);
            }
            Act::Batch(changes, durability)
        }
        8..10 => {
            let tree = model.some_tree(rng).expect("there is a tree");
            let n = 1 + rng.below(5);
            let steps = (0..n).map(|_| Step::random(rng, mood, model, &tree)).collect();
            Act::Transaction(tree, steps, durability)
        }
        10..13 => {
            let tree = model.some_tree(rng).expect("there is a tree");
            let key = model.some_key(rng, &tree).filter(|_| rng.one_in(2));
            Act::Look(tree, key.unwrap_or_else(|| random_key(rng, 0)))
        }
        13 if rng.below(100) < mood.growth => random_load(rng, mood, model),
        n if n < 14 + mood.syncs / 4 => Act::Sync,
        n if n < 14 + mood.syncs / 2 => Act::End,
        _ => Act::Change(random_change(rng, mood, model), durability),
    }
}

/// Pairs that fill leaves, most of them, behind a key that the tree may have or anywhere.
fn random_load(rng: &mut Rng, mood: Mood, model: &Model) -> Act {
    let tree = model.some_tree(rng).expect("there is a tree");
    let stem = model.some_key(rng, &tree).filter(|key| key.len() < 60 && rng.one_in(3));
    let count = rng.pick(&[2, 20, 100, 200]);
    let key = |rng: &mut Rng| match &stem {
        Some(stem) => [&stem[..], &rng.below(1 << 16).to_be_bytes()].concat().into(),
        None => random_key(rng, 0),
    };
    let mut pairs: Vec<(Bytes, Bytes)> = (0..count)
        .map(|_| {
            let len = rng.pick(&[0, 8, 8, 30]);
            let value = if rng.one_in(80) { random_value(rng, mood) } else { rng.bytes(len) };
            (key(rng), value)
        })
        .collect();
    pairs.sort();
    pairs.dedup_by(|a, b| a.0 == b.0);
    Act::Load(tree, pairs)
}

/// The failure that has stopped writes, or else the error itself.
pub fn cause_of(error: &Error) -> &Error {
    match error {
        Error::Poisoned { cause } => cause,
        error => error,
    }
}

/// The disk had no room.
pub fn is_full_disk(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull)
}

/// The error is that of a call to the disk and says what was being done.
pub fn names_call(error: &Error, what: &str) {
    match cause_of(error) {
        Error::Io { what: doing, source } => {
            assert!(!doing.is_empty() && !source.to_string().is_empty(), "{what}: {error}");
        }
        _ => panic!("{what}: {error}"),
    }
}

/// Makes a change by an operation that looks at what is there.
fn single(
    tree: &Tree,
    model: &Model,
    change: &Change,
    durability: Durability,
    what: &str,
) -> Result<()> {
    let (content, key) = (&model.now[&change.tree], &change.key);
    let (old, new) = (content.get(key), change.value.as_ref());
    let is_first = content.first_key_value().is_some_and(|(first, _)| first == key);
    if is_first && new.is_none() && durability == Durability::Buffered {
        let popped = tree.pop_first()?.map(|(key, value)| (key[..].into(), value[..].into()));
        let first = content.first_key_value().map(|(key, value)| (key.clone(), value.clone()));
        assert_eq!(popped, first, "{what}: the first pair");
        return Ok(());
    }
    let tree = tree.with(durability);
    match (old, new) {
        (None, Some(new)) if new.len() % 2 == 0 => {
            assert!(tree.insert_new(key, new)?, "{what}: there was none");
        }
        // The same value would not be written, and the model counts on a write.
        (Some(old), Some(new)) if new.len() % 4 == 0 && old != new => {
            let updated = tree.update(key, |_| Some(new.to_vec()))?;
            assert_eq!(updated.as_deref(), Some(&new[..]), "{what}: it was the last word");
        }
        _ => {
            let swap = tree.compare_and_swap(key, old, new)?;
            assert!(swap.is_done(), "{what}: another value than {old:?}");
        }
    }
    Ok(())
}

/// The changes of a batch or a transaction, as it makes them: tree by tree, as they were named first, by their keys, and
/// of each key the last one.
fn in_order(changes: &[Change]) -> Vec<Change> {
    let mut trees = Vec::new();
    let mut made = BTreeMap::new();
    for change in changes {
        if !trees.contains(&&change.tree) {
            trees.push(&change.tree);
        }
        let tree = trees.iter().position(|tree| **tree == change.tree);
        made.insert((tree, &change.key), change.clone());
    }
    made.into_values().collect()
}

impl Life {
    pub fn open(disk: &Disk, options: &Options) -> Result<Life> {
        let db = options.open_on(Arc::new(disk.clone()), PATH)?;
        Ok(Life { db, trees: BTreeMap::new(), doomed: false, then: None })
    }

    fn tree(&mut self, name: &Name) -> Result<Tree> {
        if let Some(tree) = self.trees.get(name) {
            return Ok(tree.clone());
        }
        let tree = self.db.open_tree(name)?.expect("the model knows it");
        self.trees.insert(name.clone(), tree.clone());
        Ok(tree)
    }

    /// Does one thing, holds the answer against the model, and brings that up to date, also with
    /// what an act that failed has left in memory.
    pub fn act(&mut self, model: &mut Model, act: &Act, what: &str) -> Done {
        let epoch = self.db.epoch();
        let changes = act.changes(model);
        // A batch that changes a key twice changes it once.
        let changes = &if act.is_whole() { in_order(&changes) } else { changes }[..];
        let error = match self.do_act(model, act, what) {
            Ok(()) => {
                for change in changes {
                    model.set(epoch, &change.tree, &change.key, change.value.as_ref());
                }
                return Done::Well;
            }
            Err(error) => error,
        };
        // A batch that fails behind its first change stops writes and says why; a commit tells.
        let poisoned = matches!(error, Error::Poisoned { .. });
        let asks = act.is_whole() && !poisoned;
        let told = if asks { self.db.sync().err() } else { None };
        let same = |told: &Error| cause_of(told).to_string() == cause_of(&error).to_string();
        if let Some(told) = &told
            && !same(told)
        {
            // The commit itself has failed.
            self.changes_done(model, changes, false, what);
            // For want of room: the next one tries again.
            if is_full_disk(told) {
                return Done::Failed(told.clone());
            }
            return Done::Stopped(told.clone());
        }
        let stopped = poisoned || told.is_some();
        // A change that is there and was to be synced is as if nobody had asked for the sync.
        if !stopped
            && act.is_synced()
            && is_full_disk(&error)
            && self.changes_done(model, changes, true, what) == changes.len()
        {
            for change in changes {
                model.set(epoch, &change.tree, &change.key, change.value.as_ref());
            }
            return Done::Failed(error);
        }
        let done = self.changes_done(model, changes, stopped, what);
        if stopped {
            if done < changes.len() {
                assert_eq!(self.db.epoch(), epoch, "{what}: its epoch has ended");
                self.doomed = true;
            }
            for change in &changes[..done] {
                model.set(epoch, &change.tree, &change.key, change.value.as_ref());
            }
            return Done::Stopped(error);
        }
        match error {
            Error::Full { .. } => Done::Full,
            Error::Io { .. } => Done::Failed(error),
            error => panic!("{what}: {error}"),
        }
    }

    fn do_act(&mut self, model: &mut Model, act: &Act, what: &str) -> Result<()> {
        match act {
            Act::Change(change, durability) => self.change(model, change, *durability, what),
            Act::Batch(changes, durability) => self.batch(model, changes, *durability, what),
            Act::Transaction(tree, steps, durability) => {
                self.steps(model, tree, steps, *durability, what)
            }
            Act::Load(tree, pairs) => self.load(model, tree, pairs, what),
            Act::Make(name) => self.make(model, name, what),
            Act::Drop(name) => self.drop_tree(model, name, what),
            Act::Rename(from, to) => self.rename(model, from, to, what),
            Act::Clear(name) => self.clear(model, name, what),
            Act::Look(tree, key) => self.look(model, tree, key, what),
            Act::Sync => self.db.sync(),
            Act::End => self.db.end_epoch().map(drop),
            Act::Checkpoint => self.db.checkpoint(),
            Act::Compact => self.db.compact().map(drop),
        }
    }

    fn change(
        &mut self,
        model: &Model,
        change: &Change,
        durability: Durability,
        what: &str,
    ) -> Result<()> {
        let tree = self.tree(&change.tree)?;
        let wanted = model.get(&change.tree, &change.key).map(|value| &value[..]);
        if change.key.len() % 3 == 2 {
            return single(&tree, model, change, durability, what);
        }
        let tree = tree.with(durability);
        let found = match &change.value {
            Some(value) if value.len() > 200 && value.len() % 4 == 1 => {
                // Neither is the old value read then, nor is it told.
                let (reader, len) = (Short(value), value.len() as u64);
                return tree.put_from(&change.key, reader, len);
            }
            Some(value) => tree.insert(&change.key, value)?,
            None => tree.remove(&change.key)?,
        };
        assert_eq!(found.as_deref(), wanted, "{what}: the old value");
        Ok(())
    }

    fn batch(
        &mut self,
        model: &Model,
        changes: &[Change],
        durability: Durability,
        what: &str,
    ) -> Result<()> {
        let rises = |two: &[Change]| two[0].tree == two[1].tree && two[0].key < two[1].key;
        if is_transaction(changes) && changes.windows(2).all(rises) {
            return self.transaction(model, changes, durability, what);
        }
        let mut batch = self.db.with(durability).batch();
        for change in changes {
            let tree = self.tree(&change.tree)?;
            match &change.value {
                Some(value) => batch.put(&tree, &change.key, value)?,
                None => batch.delete(&tree, &change.key)?,
            }
        }
        batch.commit()
    }

    /// The same as a transaction, which looks at what it changes.
    fn transaction(
        &mut self,
        model: &Model,
        changes: &[Change],
        durability: Durability,
        what: &str,
    ) -> Result<()> {
        let tx = self.db.with(durability).begin();
        let mut own = BTreeMap::new();
        for Change { tree: name, key, value } in changes {
            let tree = self.tree(name)?;
            let found = match value {
                Some(value) => tx.insert(&tree, key, value)?,
                None => tx.remove(&tree, key)?,
            };
            let before = own.insert((name, key), value.as_ref());
            let wanted = before.unwrap_or_else(|| model.get(name, key));
            assert_eq!(found.as_deref(), wanted.map(|v| &v[..]), "{what}: what {key:?} had");
        }
        tx.commit()
    }

    /// A transaction whose steps look at what is there.
    fn steps(
        &mut self,
        model: &Model,
        name: &Name,
        steps: &[Step],
        durability: Durability,
        what: &str,
    ) -> Result<()> {
        let tree = self.tree(name)?;
        let tx = self.db.with(durability).begin();
        let mut draft = Draft::new(&model.now[name]);
        for step in steps {
            let told = step.make(&tx, &tree)?;
            assert_eq!(told, draft.make(step), "{what}: {step:?} of {steps:?}");
        }
        tx.commit()
    }

    /// A failure leaves the first pairs.
    fn load(
        &mut self,
        model: &mut Model,
        name: &Name,
        pairs: &[(Bytes, Bytes)],
        what: &str,
    ) -> Result<()> {
        let (epoch, tree) = (self.db.epoch(), self.tree(name)?);
        let loaded = tree.load_sorted(pairs.iter().map(|(key, value)| (key, value)));
        let is_there = |(key, value): &(Bytes, Bytes)| {
            let found = again(|| tree.get(key)).unwrap_or_else(|e| panic!("{what}: {e}"));
            found.as_deref() == Some(&value[..])
        };
        let done = match &loaded {
            Ok(count) => *count as usize,
            Err(_) => pairs.iter().take_while(|pair| is_there(pair)).count(),
        };
        assert!(loaded.is_err() || done == pairs.len(), "{what}: {done} of {}", pairs.len());
        for (key, value) in &pairs[..done] {
            model.set(epoch, name, key, Some(value));
        }
        for (key, _) in &pairs[done..] {
            let found = again(|| tree.get(key)).unwrap_or_else(|e| panic!("{what}: {e}"));
            let known = model.get(name, key).map(|value| &value[..]);
            assert_eq!(found.as_deref(), known, "{what}: behind the pairs that were loaded");
        }
        loaded.map(drop)
    }

    fn make(&mut self, model: &mut Model, name: &Name, what: &str) -> Result<()> {
        let epoch = self.db.epoch();
        match self.db.tree(name) {
            Ok(tree) => {
                model.make(epoch, name);
                self.trees.insert(name.clone(), tree);
                Ok(())
            }
            Err(error) => {
                if !model.now.contains_key(name) {
                    let found = again(|| self.db.open_tree(name));
                    let found = found.unwrap_or_else(|e| panic!("{what}: {e}"));
                    assert!(found.is_none(), "{what}: {name:?} was not made, and is there");
                }
                Err(error)
            }
        }
    }

    /// It is dropped or it is there, with all that it holds.
    fn drop_tree(&mut self, model: &mut Model, name: &Name, what: &str) -> Result<()> {
        let (epoch, old) = (self.db.epoch(), self.tree(name)?);
        let dropped = self.db.drop_tree(name);
        let found = again(|| self.db.open_tree(name)).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(self.db.epoch(), epoch, "{what}: its epoch has ended");
        if let Some(tree) = found {
            assert!(dropped.is_err(), "{what}: {name:?} was dropped, and is there");
            let left = again(|| tree.len()).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(left, model.now[name].len() as u64, "{what}: {name:?} lost some");
        } else {
            model.drop_tree(epoch, name);
            self.trees.remove(name);
            self.doomed |= dropped.is_err();
            assert!(matches!(old.get("k"), Err(Error::NoTree)), "{what}: an old handle reads");
            assert!(matches!(old.first(), Err(Error::NoTree)), "{what}: an old handle scans");
            // Taking the tree to pieces may have stopped all writes by now.
            let refused =
                matches!(old.insert("k", "v"), Err(Error::NoTree | Error::Poisoned { .. }));
            assert!(dropped.is_err() || refused, "{what}: it writes");
        }
        dropped.map(|there| assert!(there, "{what}: {name:?} was there"))
    }

    /// It is empty or has all that it held, unless there is no room for a moment: then pairs go from the last one on.
    fn clear(&mut self, model: &mut Model, name: &Name, what: &str) -> Result<()> {
        let (epoch, tree) = (self.db.epoch(), self.tree(name)?);
        let before = model.now[name].len() as u64;
        let cleared = tree.clear();
        let left = again(|| tree.len()).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(self.db.epoch(), epoch, "{what}: its epoch has ended");
        model.keep_first(epoch, name, left as usize);
        cleared.map(|pairs| assert_eq!((pairs, left), (before, 0), "{what}: {name:?}"))
    }

    /// Old handles go on.
    fn rename(&mut self, model: &mut Model, from: &Name, to: &Name, what: &str) -> Result<()> {
        let (epoch, old) = (self.db.epoch(), self.tree(from)?);
        match self.db.rename_tree(from, to) {
            Ok(there) => {
                assert!(there && !model.now.contains_key(to), "{what}: {from:?} to {to:?}");
                model.rename(epoch, from, to);
                self.trees.remove(from);
                self.trees.insert(to.clone(), old);
                Ok(())
            }
            Err(Error::TreeExists { .. }) if model.now.contains_key(to) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn look(&mut self, model: &Model, name: &Name, key: &Bytes, what: &str) -> Result<()> {
        let tree = self.tree(name)?;
        let content = &model.now[name];
        let wanted = content.get(key).map(|value| &value[..]);
        assert_eq!(tree.get(key)?.as_deref(), wanted, "{what}: {key:?}");
        assert_eq!(tree.contains(key)?, wanted.is_some(), "{what}: {key:?}");
        let (mut part, offset) = ([0; 900], key.len() as u64);
        let n = tree.read_at(key, offset, &mut part)?;
        let behind = wanted.map(|value| value.get(key.len()..).unwrap_or_default());
        let wanted = behind.map(|value| &value[..value.len().min(part.len())]);
        assert_eq!(n.map(|n| &part[..n]), wanted, "{what}: a part of {key:?}");
        let pair = |pair: Option<(&Bytes, &Bytes)>| pair.map(|(k, v)| (k[..].into(), v[..].into()));
        assert_eq!(tree.len()?, content.len() as u64, "{what}: the count");
        assert_eq!(tree.first()?, pair(content.iter().next()), "{what}: the first");
        assert_eq!(tree.last()?, pair(content.iter().next_back()), "{what}: the last");
        let above = tree.range(&key[..]..).next().transpose()?;
        assert_eq!(above, pair(content.range(key.clone()..).next()), "{what}: above {key:?}");
        let below = tree.range(..&key[..]).next_back().transpose()?;
        assert_eq!(below, pair(content.range(..key.clone()).next_back()), "{what}: below {key:?}");
        let looked = self.look_back(key, what);
        if looked.is_ok() || again(|| self.look_back(key, what)).is_ok() {
            looked?;
        } // Else a fault met the write that was to keep a value for the snapshot: that says so from then on.
        let then = self.db.snapshot()?.of(&tree)?;
        self.then = Some((name.clone(), then, content.clone()));
        Ok(())
    }

    /// A moment stays as it was, whatever has been written since.
    fn look_back(&self, key: &Bytes, what: &str) -> Result<()> {
        let Some((name, then, content)) = &self.then else { return Ok(()) };
        let what = format!("{what}: {name:?} at a moment, {key:?}");
        let wanted = content.get(key).map(|value| &value[..]);
        assert_eq!(then.get(key)?.as_deref(), wanted, "{what}");
        let pair = |(k, v): (&Bytes, &Bytes)| (k[..].into(), v[..].into());
        let above = then.range(&key[..]..).take(20).collect::<Result<Vec<_>>>()?;
        let wanted: Vec<_> = content.range(key.clone()..).map(pair).take(20).collect();
        assert!(above == wanted, "{what}: above");
        let below = then.range(..&key[..]).rev().take(20).collect::<Result<Vec<_>>>()?;
        let wanted: Vec<_> = content.range(..key.clone()).rev().map(pair).take(20).collect();
        assert!(below == wanted, "{what}: below");
        Ok(())
    }

    /// How many of the changes are in memory, after a failure: all, if that cannot be told from
    /// some; none, unless writes have stopped.
    fn changes_done(
        &mut self,
        model: &Model,
        changes: &[Change],
        stopped: bool,
        what: &str,
    ) -> usize {
        let mut seen = BTreeMap::new();
        for change in changes {
            let tree = again(|| self.tree(&change.tree)).unwrap_or_else(|e| panic!("{what}: {e}"));
            let value = again(|| tree.get(&change.key)).unwrap_or_else(|e| panic!("{what}: {e}"));
            seen.insert((change.tree.clone(), change.key.clone()), value);
        }
        let fits = |n: usize| {
            seen.iter().all(|((tree, key), value)| {
                let mut before = changes[..n].iter();
                let last = before.rfind(|c| c.tree == *tree && c.key == *key);
                let wanted = last.map_or_else(|| model.get(tree, key), |c| c.value.as_ref());
                value.as_deref() == wanted.map(|v| &v[..])
            })
        };
        if !stopped {
            assert!(fits(0), "{what}: it failed, and yet a change of {changes:?} is there");
            return 0;
        }
        let done = (0..=changes.len()).rev().find(|n| fits(*n));
        done.unwrap_or_else(|| panic!("{what}: neither some of {changes:?} nor all"))
    }

    /// Writes have stopped: each is refused with the cause, and none gets through to the disk.
    pub fn refuses_writes(&mut self, disk: &Disk, model: &Model, error: &Error, what: &str) {
        let (changes, cause) = (disk.changes(), cause_of(error));
        let told = |result: Result<()>| match result {
            Err(Error::Poisoned { cause: told }) => {
                assert_eq!(told.to_string(), cause.to_string(), "{what}: another cause");
            }
            other => panic!("{what}: {other:?}"),
        };
        told(self.db.sync());
        told(self.db.end_epoch().map(drop));
        told(again(|| self.db.tree("a tree that is not there")).map(drop));
        for (name, content) in &model.now {
            let tree = again(|| self.tree(name)).unwrap_or_else(|e| panic!("{what}: {e}"));
            told(tree.insert("k", [1; 10]).map(drop));
            told(tree.insert("large", [1; 3000]).map(drop));
            let synced = tree.with(Durability::Sync);
            told(synced.insert("k", "v").map(drop));
            told(synced.remove("a key that is not there").map(drop));
            if let Some((key, value)) = content.iter().next() {
                told(tree.insert(key, value).map(drop));
                told(tree.remove(key).map(drop));
            }
            let mut batch = self.db.batch();
            batch.put(&tree, "k", "v").expect("within limits");
            told(batch.commit());
        }
        told(self.db.batch().commit());
        told(self.db.checkpoint());
        assert_eq!(disk.changes(), changes, "{what}: a stopped pool went on to write");
    }

    /// The process is killed: what it does from now on reaches nobody.
    pub fn die(self, disk: &Disk) {
        disk.die();
    }

    pub fn close(self) -> Result<()> {
        let Life { db, trees, then, .. } = self;
        drop(then);
        // Handles of trees keep the pool open, but not what `close` does.
        let closed = db.close();
        drop(trees);
        closed
    }
}
