//! Trees and stores as one: pairs of words, by the number of an item and the version of its value.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::keys::key;
use crate::medium::{Delays, MediumName};
use crate::store::{self, How, KvStore};
use crate::system::{Readers, Subject, SystemSpec};

/// Trees on persistent memory that can be opened again. All else is a store.
pub const TREES: [&str; 6] = ["CircTree", "FastFair", "BdTree", "FpTree", "LbTree", "Montage"];

/// Length of an epoch, as in a store of Everleaf's.
const EPOCH: Duration = Duration::from_millis(10);

/// Pairs of a batch.
const BATCH: u64 = 1000;

/// Whether this is the name of a tree.
pub fn is_tree(name: &str) -> bool {
    TREES.contains(&name)
}

/// The tree or store that has the pairs.
enum Map {
    Tree(Box<dyn Subject>),
    Store(Box<dyn KvStore>),
}

/// An open tree or store.
pub struct Pairs(Map);

/// The parameters that a tree is opened with.
pub struct Sizes<'a> {
    /// Slots of a node; of trees.
    pub slots: u32,
    /// Pairs.
    pub keys: u64,
    /// Threads that open it, if it can be opened by several.
    pub threads: usize,
    /// A folder on persistent memory; emulated without one.
    pub dax: Option<&'a Path>,
}

impl Pairs {
    /// Opens what is in a folder, or makes it.
    ///
    /// # Errors
    /// There is no such tree or store, or no room; what is there is damaged.
    pub fn open(name: &str, dir: &Path, sizes: &Sizes<'_>) -> Result<Self> {
        if !is_tree(name) {
            let how = How { dir: dir.into(), ..How::default() };
            return Ok(Self(Map::Store(store::open(name, &how)?)));
        }
        let spec = SystemSpec {
            name,
            medium: MediumName::Dax(None, Delays::default()),
            slots: sizes.slots,
            keys: sizes.keys,
            readers: Readers::default(),
            epoch: Some(EPOCH),
            epoch_ops: None,
            scratch: dir,
            dax: sizes.dax,
        };
        Ok(Self(Map::Tree(spec.open_at(&dir.join("pool"), sizes.threads)?)))
    }

    /// The version of an item; `None` if it is not there.
    pub fn version(&self, item: u64) -> Result<Option<u64>> {
        let k = key(item);
        let value = match &self.0 {
            Map::Tree(tree) => tree.index().get(k)?,
            Map::Store(store) => {
                let mut found = None;
                store.get(&k.to_be_bytes(), &mut |bytes| {
                    found = Some(<[u8; 8]>::try_from(bytes).map(u64::from_be_bytes));
                })?;
                found.transpose().context("a value is not of 8 bytes")?
            }
        };
        Ok(value.map(|value| value.wrapping_sub(k)))
    }

    /// Sets an item to a version.
    pub fn put(&self, item: u64, version: u64) -> Result<()> {
        let k = key(item);
        let value = k.wrapping_add(version);
        match &self.0 {
            Map::Tree(tree) => {
                tree.index().insert(k, value)?;
                Ok(())
            }
            Map::Store(store) => store.put(&k.to_be_bytes(), &value.to_be_bytes()),
        }
    }

    /// Sets items to version 0, and makes that durable.
    pub fn fill(&self, items: Range<u64>) -> Result<()> {
        match &self.0 {
            Map::Tree(tree) => {
                items.into_iter().try_for_each(|item| self.put(item, 0))?;
                tree.sync()
            }
            Map::Store(store) => {
                for from in items.clone().step_by(BATCH as usize) {
                    let batch = from..items.end.min(from + BATCH);
                    let bytes = |item| key(item).to_be_bytes().to_vec();
                    let pairs: Vec<_> = batch.map(|item| (bytes(item), bytes(item))).collect();
                    store.put_all(&pairs)?;
                }
                store.sync()
            }
        }
    }

    /// Closes it as a program does that ends well.
    pub fn close(self) -> Result<()> {
        match self.0 {
            Map::Tree(tree) => tree.sync(),
            Map::Store(store) => store.close(),
        }
    }
}

/// Whether a tree or a store can be opened so.
///
/// # Errors
/// It cannot, or there is none of this name.
pub fn check(name: &str, keys: u64, slots: Option<u32>, threads: u64) -> Result<()> {
    ensure!(threads == 1 || name == "BdTree", "{name} is opened by one thread");
    if !is_tree(name) {
        ensure!(slots.is_none(), "{name} has no slots");
        return store::check_pairs(name, keys, 8);
    }
    let slots = slots.context("slots of a tree's node")?;
    ensure!(slots.is_power_of_two() && (4..=64).contains(&slots), "slots: a power of two, 4 to 64");
    Ok(())
}
