//! Steps of a transaction that look at the tree: what each must be told, and what they come to.

use std::collections::BTreeMap;

use everleaf::{Result, Transaction, Tree};

use super::act::Change;
use super::{Bytes, Content, Model, Mood, Name, Rng, random_key, random_value};

/// One step on the tree of a transaction.
#[derive(Debug, Clone)]
pub enum Step {
    Insert(Bytes, Bytes),
    /// Reverses what is there; from nothing and from little it makes the value, and from the value nothing.
    Update(Bytes, Bytes),
    PopFirst,
    PopLast,
    RemoveRange(Bytes, Bytes),
    Clear,
}

/// The answer to a step.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    Value(Option<Bytes>),
    Pair(Option<(Bytes, Bytes)>),
    Count(u64),
}

impl Step {
    pub fn random(rng: &mut Rng, mood: Mood, model: &Model, tree: &Name) -> Self {
        let some = |rng: &mut Rng| {
            let known = model.some_key(rng, tree).filter(|_| rng.one_in(2));
            known.unwrap_or_else(|| random_key(rng, 0))
        };
        match rng.below(40) {
            0 => Self::Clear,
            1..8 => Self::PopFirst,
            8..15 => Self::PopLast,
            15..19 => {
                let (low, mut high) = (some(rng), some(rng));
                // Mostly few: those that have the same beginning.
                if !rng.one_in(4) {
                    high = [&low[..], &[rng.pick(&[0, b'b'])]].concat().into();
                }
                Self::RemoveRange(low, high)
            }
            19..31 => Self::Update(some(rng), random_value(rng, mood)),
            _ => Self::Insert(some(rng), random_value(rng, mood)),
        }
    }

    /// Makes it in a transaction.
    pub fn make(&self, tx: &Transaction, tree: &Tree) -> Result<Told> {
        let pair = |pair: Option<everleaf::Pair>| pair.map(|(k, v)| (k[..].into(), v[..].into()));
        Ok(match self {
            Self::Insert(key, value) => {
                Told::Value(tx.insert(tree, key, value)?.map(|v| v[..].into()))
            }
            Self::Update(key, value) => {
                let new =
                    tx.update(tree, key, |old| updated(old, value).map(|new| new.to_vec()))?;
                Told::Value(new.map(Bytes::from))
            }
            Self::PopFirst => Told::Pair(pair(tx.pop_first(tree)?)),
            Self::PopLast => Told::Pair(pair(tx.pop_last(tree)?)),
            Self::RemoveRange(low, high) => {
                Told::Count(tx.remove_range(tree, &low[..]..&high[..])?)
            }
            Self::Clear => Told::Count(tx.clear(tree)?),
        })
    }
}

fn updated(old: Option<&[u8]>, value: &Bytes) -> Option<Bytes> {
    match old {
        Some(old) if old == &value[..] => None,
        Some(old) if old.len() > 8 => Some(old.iter().rev().copied().collect()),
        _ => Some(value.clone()),
    }
}

/// The content of a tree when a transaction began, and what the transaction has made of it.
pub struct Draft<'m> {
    before: &'m Content,
    own: BTreeMap<Bytes, Option<Bytes>>,
}

impl<'m> Draft<'m> {
    pub fn new(before: &'m Content) -> Self {
        Self { before, own: BTreeMap::new() }
    }

    fn get(&self, key: &Bytes) -> Option<Bytes> {
        let own = self.own.get(key).map(Option::as_ref);
        own.unwrap_or_else(|| self.before.get(key)).cloned()
    }

    /// Writes to a key, and says what it had.
    fn set(&mut self, key: &Bytes, value: Option<Bytes>) -> Option<Bytes> {
        let old = self.get(key);
        self.own.insert(key.clone(), value);
        old
    }

    /// The keys from `low` on, below `high` if there is one.
    fn keys(&self, low: &Bytes, high: Option<&Bytes>) -> Vec<Bytes> {
        let is_within = |key: &&Bytes| high.is_none_or(|high| *key < high);
        let before = self.before.range(low.clone()..).map(|(key, _)| key).take_while(is_within);
        let own = self.own.range(low.clone()..).map(|(key, _)| key).take_while(is_within);
        let mut keys: Vec<_> = before.chain(own).filter(|key| self.get(key).is_some()).collect();
        keys.sort();
        keys.dedup();
        keys.into_iter().cloned().collect()
    }

    fn pop(&mut self, key: Option<Bytes>) -> Told {
        let pair = key.map(|key| {
            let value = self.set(&key, None);
            (key, value.expect("it is one of those that are there"))
        });
        Told::Pair(pair)
    }

    fn remove_all(&mut self, keys: &[Bytes]) -> Told {
        keys.iter().for_each(|key| drop(self.set(key, None)));
        Told::Count(keys.len() as u64)
    }

    /// Makes a step, and says what it must be told.
    pub fn make(&mut self, step: &Step) -> Told {
        let least = Bytes::from([]);
        match step {
            Step::Insert(key, value) => Told::Value(self.set(key, Some(value.clone()))),
            Step::Update(key, value) => {
                let new = updated(self.get(key).as_deref(), value);
                self.set(key, new.clone());
                Told::Value(new)
            }
            Step::PopFirst => self.pop(self.keys(&least, None).into_iter().next()),
            Step::PopLast => self.pop(self.keys(&least, None).pop()),
            Step::RemoveRange(low, high) => self.remove_all(&self.keys(low, Some(high))),
            Step::Clear => self.remove_all(&self.keys(&least, None)),
        }
    }

    /// The changes that all steps so far come to: each key once, by rising keys, as a commit writes them.
    pub fn changes(self, tree: &Name) -> Vec<Change> {
        let change = |(key, value)| Change { tree: tree.clone(), key, value };
        self.own.into_iter().map(change).collect()
    }
}
