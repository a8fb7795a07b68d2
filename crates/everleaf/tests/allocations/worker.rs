//! The process that runs out of memory: it does what the script says, goes on after errors, and says
//! what returned.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use everleaf::{Db, Error, Result, Tree};
use everleaf_testing::vecs;

use crate::failing::{Fail, armed, counts, fail};
use crate::script::{
    Change, Event, KINDS, Known, Model, Operation, Pairs, TREES, content, open, script,
};

/// Which of the two things a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// The whole script, on a new pool.
    Script,
    /// Open a pool that holds the script's last state, read it, checkpoint, close.
    Open,
}

/// The orders of a worker, which its environment carries.
#[derive(Debug, Clone)]
pub struct Job {
    pub task: Task,
    pub seed: u64,
    pub fail: Fail,
    pub pool: PathBuf,
    pub log: PathBuf,
}

const VARIABLES: [&str; 3] = ["EVERLEAF_WORKER_JOB", "EVERLEAF_WORKER_POOL", "EVERLEAF_WORKER_LOG"];

impl Job {
    pub fn environment(&self) -> [(&'static str, std::ffi::OsString); 3] {
        let task = if self.task == Task::Script { "script" } else { "open" };
        let (how, n) = match self.fail {
            Fail::None => ("none", 0),
            Fail::Only(n) => ("only", n),
            Fail::Two(n) => ("two", n),
            Fail::From(n) => ("from", n),
            Fail::Above(bytes) => ("above", bytes as u64),
        };
        let job = format!("{task} {} {how} {n}", self.seed);
        let [a, b, c] = VARIABLES;
        [(a, job.into()), (b, self.pool.clone().into()), (c, self.log.clone().into())]
    }
    pub fn from_environment() -> Option<Job> {
        let [job, pool, log] = VARIABLES.map(std::env::var_os);
        let job = job?.into_string().ok()?;
        let mut words = job.split(' ');
        let task = if words.next()? == "script" { Task::Script } else { Task::Open };
        let seed = words.next()?.parse().ok()?;
        let (how, n) = (words.next()?, words.next()?.parse::<u64>().ok()?);
        let fail = match how {
            "only" => Fail::Only(n),
            "two" => Fail::Two(n),
            "from" => Fail::From(n),
            "above" => Fail::Above(n as usize),
            _ => Fail::None,
        };
        Some(Job { task, seed, fail, pool: pool?.into(), log: log?.into() })
    }
}

/// Why no more operations are run.
struct Stopped;

struct Worker<'j> {
    job: &'j Job,
    operations: Vec<Operation>,
    db: Option<Db>,
    trees: [Option<Tree>; TREES.len()],
    known: Known,
    /// Changes that an operation that failed may have made in memory.
    uncertain: Vec<Change>,
    log: File,
}

/// Runs a job to its end, or to the process's.
pub fn run(job: &Job) {
    let mut worker = Worker {
        job,
        operations: script(job.seed),
        db: None,
        trees: Default::default(),
        known: Known::nothing(),
        uncertain: Vec::new(),
        log: File::options().append(true).create(true).open(&job.log).expect("a log"),
    };
    fail(job.fail);
    match job.task {
        Task::Script => worker.script(),
        Task::Open => worker.open_only(),
    }
    let (all, refused) = counts();
    worker.tell(Event::Counted(all, refused));
}

/// The kind of an error that a lack of memory may cause.
fn kind(error: &Error) -> &'static str {
    match error {
        Error::NoMemory { .. } => KINDS[0],
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::OutOfMemory => KINDS[0],
        Error::Poisoned { cause } if kind(cause) == KINDS[0] => KINDS[1],
        other => panic!("an error that no lack of memory causes: {other:?}"),
    }
}

/// The pairs of a range, one by one.
fn pairs(tree: &Tree, prefix: &[u8], back: bool) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut range = armed(|| tree.prefix(prefix));
    let mut found = Vec::new();
    while let Some(pair) = armed(|| if back { range.next_back() } else { range.next() }) {
        found.push(vecs(pair?));
    }
    Ok(found)
}

impl Worker<'_> {
    fn tell(&mut self, event: Event) {
        self.known.learn(&self.operations, &event);
        self.log.write_all(event.line().as_bytes()).expect("a log");
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open between operations")
    }

    fn script(&mut self) {
        self.open_again();
        for i in 0..self.operations.len() {
            if let Err(Stopped) = self.operation(i) {
                return;
            }
        }
        assert!(content(self.db()).expect("there is memory") == self.known.model);
        assert_eq!(self.db().check().expect("there is memory"), []);
        self.tell(Event::Maybe);
        self.db.take().expect("open").close().expect("there is memory");
        self.tell(Event::Durable);
    }

    fn operation(&mut self, i: usize) -> Result<(), Stopped> {
        let operation = self.operations[i].clone();
        let result = self.perform(&operation);
        let Err(error) = result else {
            self.tell(Event::Did(i));
            if operation.commits() {
                self.tell(Event::Durable);
            }
            if let Operation::Reopen = operation {
                self.open_again();
            }
            return Ok(());
        };
        let kind = kind(&error);
        self.tell(Event::Failed(i, kind));
        if operation.commits() && kind == KINDS[0] {
            self.tell(Event::Maybe);
        }
        self.uncertain.extend(operation.changes().iter().cloned());
        if let Operation::Reopen = operation {
            self.open_again();
            return Ok(());
        }
        if kind == KINDS[1] {
            self.read_poisoned();
            return Err(Stopped);
        }
        if let Operation::Batch(_) = operation {
            // If a part of it was done, this handle is poisoned; else nothing happened.
            match self.db().sync() {
                Ok(()) => self.tell(Event::Durable),
                Err(error) => {
                    assert_eq!(self::kind(&error), KINDS[1]);
                    self.read_poisoned();
                    return Err(Stopped);
                }
            }
        }
        self.uncertain.clear();
        self.compare_keys(operation.changes());
        Ok(())
    }

    /// Opens the pool, if need be with all memory, and sees what it holds.
    fn open_again(&mut self) {
        let (pool, seed) = (self.job.pool.as_path(), self.job.seed);
        self.trees = Default::default();
        self.uncertain.clear();
        let db = armed(|| open(pool, seed)).or_else(|error| {
            self.tell(Event::Failed(usize::MAX, kind(&error)));
            open(pool, seed)
        });
        let db = db.expect("there is memory again");
        let held = content(&db).expect("there is memory");
        let which = self.known.which(&held);
        self.db = Some(db);
        self.tell(Event::Holds(which.expect("the end of an epoch that was not lost")));
    }

    fn tree(&mut self, i: usize) -> Result<Tree> {
        if let Some(tree) = &self.trees[i] {
            return Ok(tree.clone());
        }
        let tree = armed(|| self.db().tree(TREES[i]))?;
        self.trees[i] = Some(tree.clone());
        self.tell(Event::Made(i));
        Ok(tree)
    }

    fn pairs(&self, tree: usize) -> &Pairs {
        &self.known.model[&tree]
    }

    fn value(&self, tree: usize, key: &[u8]) -> Option<&[u8]> {
        self.pairs(tree).get(key).map(Vec::as_slice)
    }

    /// Makes changes by a transaction, which looks at what it changes.
    fn transact(&self, changes: &[Change]) -> Result<()> {
        let tree = |i: usize| self.trees[i].as_ref().expect("just made");
        let tx = self.db().begin();
        // The first read makes a handle, and so does the first use of a tree.
        changes.iter().try_for_each(|change| tx.contains(tree(change.tree), "").map(drop))?;
        let mut own = BTreeMap::new();
        for Change { tree: i, key, value } in changes {
            let old = armed(|| match value {
                Some(value) => tx.insert(tree(*i), key, value),
                None => tx.remove(tree(*i), key),
            })?;
            let before = own.insert((i, key), value.as_ref());
            let before = before.unwrap_or_else(|| self.pairs(*i).get(key));
            assert_eq!(old.as_deref(), before.map(Vec::as_slice), "it had");
        }
        armed(|| tx.commit())
    }

    fn perform(&mut self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Put(Change { tree: i, key, value }) => {
                let tree = self.tree(*i)?;
                if let Some(value) =
                    value.as_ref().filter(|value| value.first().is_some_and(|b| b % 3 == 1))
                {
                    return armed(|| tree.put_from(key, &value[..], value.len() as u64));
                }
                let old = armed(|| match value {
                    Some(value) => tree.insert(key, value),
                    None => tree.remove(key),
                })?;
                assert_eq!(old.as_deref(), self.value(*i, key), "the old value");
            }
            Operation::Batch(changes) => {
                for change in changes {
                    self.tree(change.tree)?;
                }
                if changes.len().is_multiple_of(2) {
                    return self.transact(changes);
                }
                // The first one of a thread makes a handle.
                let (mut batch, trees) = (self.db().batch(), &self.trees);
                for Change { tree, key, value } in changes {
                    let tree = trees[*tree].as_ref().expect("just made");
                    armed(|| match value {
                        Some(value) => batch.put(tree, key, value),
                        None => batch.delete(tree, key),
                    })?;
                }
                armed(|| batch.commit())?;
            }
            Operation::Get(i, key) => {
                let tree = self.tree(*i)?;
                let value = armed(|| tree.get(key))?;
                assert_eq!(value.as_deref(), self.value(*i, key), "a value");
                let mut part = [0; 100];
                let n = armed(|| tree.read_at(key, 10, &mut part))?;
                let behind = value.map(|value| value.len().saturating_sub(10).min(100));
                assert_eq!(n, behind, "bytes of a part");
            }
            Operation::Range(i, prefix, back) => {
                let tree = self.tree(*i)?;
                let found = pairs(&tree, prefix, *back)?;
                let all = self.pairs(*i).iter().filter(|(key, _)| key.starts_with(prefix));
                let mut all: Vec<_> = all.map(|(k, v)| (k.clone(), v.clone())).collect();
                if *back {
                    all.reverse();
                }
                assert!(found == all, "a range");
            }
            Operation::Names => {
                let names = armed(|| self.db().tree_names())?;
                let mut all: Vec<_> = self.known.model.keys().map(|i| TREES[*i]).collect();
                all.sort_unstable();
                assert_eq!(names, all);
            }
            Operation::Check => assert_eq!(armed(|| self.db().check())?, []),
            Operation::Sync => armed(|| self.db().sync())?,
            Operation::End => armed(|| self.db().end_epoch().map(drop))?,
            Operation::Checkpoint => armed(|| self.db().checkpoint())?,
            Operation::Reopen => {
                self.trees = Default::default();
                let db = self.db.take().expect("open");
                armed(|| db.close())?;
            }
        }
        Ok(())
    }

    /// Compares keys that a failed operation should have left as they were.
    fn compare_keys(&self, changes: &[Change]) {
        for Change { tree, key, .. } in changes {
            let Some(handle) = &self.trees[*tree] else { continue };
            let value = handle.get(key).expect("there is memory");
            assert_eq!(value.as_deref(), self.value(*tree, key), "after a failure");
        }
    }

    /// Reads go on after writes have stopped.
    fn read_poisoned(&mut self) {
        let (mut found, mut wanted) =
            (content(self.db()).expect("reads go on"), self.known.model.clone());
        for Change { tree, key, .. } in &self.uncertain {
            for model in [&mut found, &mut wanted] {
                model.get_mut(tree).map(|pairs| pairs.remove(key));
            }
        }
        // A tree whose making failed may be there until the pool is opened again.
        found.retain(|tree, pairs| wanted.contains_key(tree) || !pairs.is_empty());
        assert!(found == wanted, "reads of a poisoned pool");
        let refused = self.db().tree(TREES[0]).and_then(|tree| tree.insert("k", "v"));
        assert_eq!(kind(&refused.expect_err("writes have stopped")), KINDS[1]);
    }

    fn open_only(&mut self) {
        let (path, seed) = (self.job.pool.as_path(), self.job.seed);
        let model = last_state(&self.operations);
        self.known = Known { model: model.clone(), ends: vec![model.clone()] };
        self.open_again();
        for (i, pairs) in &model {
            let read = || -> Result<()> {
                let Some(tree) = armed(|| self.db().open_tree(TREES[*i]))? else {
                    panic!("tree {i} is gone");
                };
                for (key, value) in pairs {
                    assert_eq!(armed(|| tree.get(key))?.as_deref(), Some(&value[..]));
                }
                Ok(())
            };
            if let Err(error) = read() {
                self.tell(Event::Failed(0, kind(&error)));
            }
        }
        let ended = armed(|| self.db().checkpoint());
        let db = self.db.take().expect("open");
        if let Err(error) = ended.and(armed(|| db.close())) {
            self.tell(Event::Failed(0, kind(&error)));
        }
        let db = open(path, seed).expect("there is memory again");
        assert!(content(&db).expect("there is memory") == model);
    }
}

/// The state that a script ends with.
pub fn last_state(operations: &[Operation]) -> Model {
    let mut model: Model = (0..TREES.len()).map(|i| (i, Pairs::new())).collect();
    operations.iter().for_each(|operation| operation.apply(&mut model));
    model
}
