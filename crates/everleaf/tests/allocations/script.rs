//! The operations on a pool, the same for a seed in each process, and what it must hold then.

use std::collections::BTreeMap;
use std::path::Path;

use everleaf::{Db, Options, Result};
use everleaf_testing::vecs;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Operations in a script.
pub const OPERATIONS: usize = 200;
/// The seed of a script that is so short that each of its allocations can be refused.
pub const SHORT: u64 = u64::MAX - 1;
/// The trees' names.
pub const TREES: [&str; 3] = ["a", "second", "the third of the trees"];

/// Keys and values of a tree.
pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;
/// The content of a pool: its trees by number.
pub type Model = BTreeMap<usize, Pairs>;

/// A change of one key: a value, or none.
#[derive(Debug, Clone)]
pub struct Change {
    pub tree: usize,
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
}

#[derive(Debug, Clone)]
pub enum Operation {
    Put(Change),
    Batch(Vec<Change>),
    Get(usize, Vec<u8>),
    /// Keys with this prefix, from the back if so.
    Range(usize, Vec<u8>, bool),
    Names,
    Check,
    Sync,
    /// Ends an epoch, and hands it to the system.
    End,
    Checkpoint,
    /// Close and open.
    Reopen,
}

impl Operation {
    /// Its kind, for tables.
    pub fn kind(&self) -> &'static str {
        match self {
            Operation::Put(Change { value: Some(_), .. }) => "insert",
            Operation::Put(_) => "remove",
            Operation::Batch(_) => "batch",
            Operation::Get(..) => "get",
            Operation::Range(..) => "range",
            Operation::Names => "names",
            Operation::Check => "check",
            Operation::Sync => "sync",
            Operation::End => "end",
            Operation::Checkpoint => "checkpoint",
            Operation::Reopen => "reopen",
        }
    }
    /// Whether it ends an epoch.
    pub fn commits(&self) -> bool {
        matches!(self, Operation::Sync | Operation::End | Operation::Reopen)
    }
    /// The changes that it makes.
    pub fn changes(&self) -> &[Change] {
        match self {
            Operation::Put(change) => std::slice::from_ref(change),
            Operation::Batch(changes) => changes,
            _ => &[],
        }
    }
    /// The trees that it needs.
    pub fn trees(&self) -> impl Iterator<Item = usize> + '_ {
        let read = match self {
            Operation::Get(tree, _) | Operation::Range(tree, ..) => Some(*tree),
            _ => None,
        };
        self.changes().iter().map(|change| change.tree).chain(read)
    }
    /// Makes its changes in a model.
    pub fn apply(&self, model: &mut Model) {
        for Change { tree, key, value } in self.changes() {
            let pairs = model.entry(*tree).or_default();
            match value {
                Some(value) => drop(pairs.insert(key.clone(), value.clone())),
                None => drop(pairs.remove(key)),
            }
        }
    }
}

/// A pool without threads, with small nodes or those of the default, by the seed.
pub fn options(seed: u64) -> Options {
    let page_bytes = if seed.is_multiple_of(2) { 512 } else { 4096 };
    Options::new()
        .background(false)
        .page_bytes(page_bytes)
        .max_bytes(128 << 20)
        .journal_bytes(256 << 10)
}

pub fn open(path: &Path, seed: u64) -> Result<Db> {
    options(seed).open(path)
}

struct Writer {
    random: Xoshiro256PlusPlus,
}

impl Writer {
    fn key(&mut self) -> Vec<u8> {
        let n = self.random.random_range(0..70_u32);
        // Some share a long prefix, some are too long for a record of a small page.
        let length = [3, 3, 12, 40, 90, 700, 6000][n as usize % 7];
        let mut key = format!("{:02}", n % 7).into_bytes();
        key.resize(length, b'.');
        key.extend(format!("{n:02}").bytes());
        key
    }
    fn value(&mut self) -> Vec<u8> {
        let length = match self.random.random_range(0..20) {
            0..12 => self.random.random_range(0..60),
            12..16 => self.random.random_range(60..900),
            16..18 => self.random.random_range(2000..5000),
            18 => 20_000,
            _ => 150_000,
        };
        let fill = self.random.random_range(0..=255_u8);
        (0..length).map(|i| fill.wrapping_add(i as u8)).collect()
    }
    fn change(&mut self) -> Change {
        let tree = self.random.random_range(0..TREES.len());
        let value = if self.random.random_bool(0.7) { Some(self.value()) } else { None };
        Change { tree, key: self.key(), value }
    }
    /// A batch that is long enough to split nodes and to merge them again.
    fn fill(&mut self) -> Vec<Change> {
        let (tree, removes) = (self.random.random_range(0..TREES.len()), self.random.random());
        let change = |n: u32| Change {
            tree,
            key: format!("fill {n:05}").into_bytes(),
            value: if removes { None } else { Some(n.to_le_bytes().to_vec()) },
        };
        (0..300).map(change).collect()
    }
}

/// The first large values of a pool, with a checkpoint between them.
fn short_script() -> Vec<Operation> {
    let change = |key: &str, bytes: Option<usize>| {
        let value = bytes.map(|bytes| (0..bytes).map(|i| (i % 251) as u8).collect());
        Operation::Put(Change { tree: 0, key: key.into(), value })
    };
    vec![
        change("a", Some(150_000)),
        change("b", Some(300_000)),
        Operation::Checkpoint,
        Operation::End,
        change("a", None),
        change("c", Some(700_000)),
        Operation::Reopen,
    ]
}

/// The script of a seed.
pub fn script(seed: u64) -> Vec<Operation> {
    if seed == SHORT {
        return short_script();
    }
    let mut w = Writer { random: Xoshiro256PlusPlus::seed_from_u64(seed) };
    let mut operations: Vec<_> = (0..OPERATIONS)
        .map(|_| {
            let tree = w.random.random_range(0..TREES.len());
            match w.random.random_range(0..100) {
                0..58 => Operation::Put(w.change()),
                58..66 => {
                    Operation::Batch((0..w.random.random_range(1..9)).map(|_| w.change()).collect())
                }
                66..69 => Operation::Batch(w.fill()),
                69..77 => Operation::Get(tree, w.key()),
                77..83 => {
                    let prefix = [&b""[..], b"0", b"05", b"fill 001"][w.random.random_range(0..4)];
                    Operation::Range(tree, prefix.to_vec(), w.random.random())
                }
                83..84 => Operation::Names,
                84..85 => Operation::Check,
                85..90 => Operation::Sync,
                90..95 => Operation::End,
                95..98 => Operation::Checkpoint,
                _ => Operation::Reopen,
            }
        })
        .collect();
    operations[OPERATIONS - 1] = Operation::Reopen;
    operations
}

/// All that a pool holds.
pub fn content(db: &Db) -> Result<Model> {
    let mut model = Model::new();
    for (i, name) in TREES.iter().enumerate() {
        if let Some(tree) = db.open_tree(name)? {
            let pairs =
                tree.iter().map(|pair| pair.map(vecs)).collect::<Result<BTreeMap<_, _>>>()?;
            assert_eq!(tree.len()?, pairs.len() as u64, "the count of {name:?}");
            model.insert(i, pairs);
        }
    }
    Ok(model)
}

/// The known state of a pool: what it holds in memory, and what it may hold when it is opened again.
#[derive(Debug, Default)]
pub struct Known {
    pub model: Model,
    /// The state that is durable, and those that a failed commit may have made so after it.
    pub ends: Vec<Model>,
}

/// A message of a worker, a line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A tree is there.
    Made(usize),
    /// An operation returned.
    Did(usize),
    /// An operation failed, and how.
    Failed(usize, &'static str),
    /// All that returned is durable.
    Durable,
    /// All that returned may be durable.
    Maybe,
    /// A pool that was opened again holds this end of an epoch.
    Holds(usize),
    /// Allocations that were counted, and those that were refused.
    Counted(u64, u64),
}

/// How operations may fail.
pub const KINDS: [&str; 2] = ["NoMemory", "Poisoned"];

impl Event {
    pub fn line(&self) -> String {
        match self {
            Event::Made(i) => format!("made {i} 0\n"),
            Event::Did(i) => format!("did {i} 0\n"),
            Event::Failed(i, kind) => {
                format!("failed {i} {}\n", usize::from(*kind == KINDS[1]))
            }
            Event::Durable => "durable 0 0\n".into(),
            Event::Maybe => "maybe 0 0\n".into(),
            Event::Holds(i) => format!("holds {i} 0\n"),
            Event::Counted(all, refused) => format!("counted {all} {refused}\n"),
        }
    }
    pub fn from_line(line: &str) -> Option<Event> {
        let mut words = line.split(' ');
        let (name, a, b) = (words.next()?, words.next()?, words.next()?);
        let (n, m) = (a.parse::<u64>().ok()?, b.parse::<u64>().ok()?);
        let i = n as usize;
        Some(match name {
            "made" => Event::Made(i),
            "did" => Event::Did(i),
            "failed" => Event::Failed(i, KINDS[m as usize]),
            "durable" => Event::Durable,
            "maybe" => Event::Maybe,
            "holds" => Event::Holds(i),
            "counted" => Event::Counted(n, m),
            _ => return None,
        })
    }
}

impl Known {
    /// Of a pool that was never made.
    pub fn nothing() -> Known {
        Known { model: Model::new(), ends: vec![Model::new()] }
    }
    pub fn learn(&mut self, operations: &[Operation], event: &Event) {
        match event {
            Event::Made(tree) => drop(self.model.entry(*tree).or_default()),
            Event::Did(i) => operations[*i].apply(&mut self.model),
            Event::Durable => self.ends = vec![self.model.clone()],
            Event::Maybe => self.ends.push(self.model.clone()),
            Event::Holds(i) => {
                self.model = self.ends.swap_remove(*i);
                self.ends = vec![self.model.clone()];
            }
            Event::Failed(..) | Event::Counted(..) => {}
        }
    }
    /// Which end of an epoch this is, if it is one that may be durable.
    pub fn which(&self, content: &Model) -> Option<usize> {
        self.ends.iter().position(|end| end == content)
    }
}
