//! Named trees in a pool on any medium.
//!
//! The catalog is itself a tree, at the anchor that every pool has: name → page of the tree's
//! anchor (u32, little-endian). Names have at least one byte, so the empty key is free for the
//! engine's own use.
//!
//! A tree is dropped in this order, so that no crash leaves anything of it but the tree itself, with
//! some of its pairs:
//!
//! ```text
//! its handles refuse             writers are waited for; readers look at the end of each read
//! its pairs are removed          one by one, in as many epochs as it takes
//! its name, its pages            in one epoch on a file; on persistent memory a crash between them
//!                                is a leak, which the next open gives back
//! ```

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf_pmem::epoch::epoch_is_pinned;
use everleaf_pmem::{Medium, PageNo, fallible};
use everleaf_pool::{PageDamage, Pool};
use everleaf_tree::blink::{Condition, Cursor};
use everleaf_tree::{INDEX_ANCHOR, TreeReport, after_undo, compare};

use super::gate::Gate;
use super::medium::{DbMedium, DbTree};
use super::sync::{Mutex, MutexGuard, lock};
use super::versions::{Cut, Images, Keeper, Versions};
use crate::{Error, Options, Result};

type OpenTrees<M> = HashMap<PageNo, Arc<OpenTree<M>>>;

/// A pool, its catalog, and the trees that are open.
pub(crate) struct NamedTrees<M: DbMedium> {
    pub pool: Arc<Pool<M>>,
    /// `None` in a pool that is open read-only and was never written to.
    pub catalog: Option<DbTree<M>>,
    trees: Mutex<OpenTrees<M>>,
    pub read_only: bool,
    /// What is written to trees passes it, but what holds the catalog only.
    pub gate: Gate,
    /// Of who takes a name from a tree. Before the gate, and before `trees`.
    names: Mutex<()>,
    /// What snapshots see.
    pub versions: Arc<Versions>,
}

/// A tree that is open. Handles may outlive it in the pool.
pub(crate) struct OpenTree<M: DbMedium> {
    tree: DbTree<M>,
    dropped: AtomicBool,
    versions: Arc<Versions>,
    /// What its keys had at cuts.
    pub images: Arc<Images>,
}

impl<M: DbMedium> OpenTree<M> {
    fn new(tree: DbTree<M>, versions: &Arc<Versions>) -> Arc<Self> {
        let (dropped, images) = (AtomicBool::new(false), Arc::default());
        Arc::new(Self { tree, dropped, versions: Arc::clone(versions), images })
    }

    /// Refuses if the tree is being dropped, or was. For writers, inside of the gate.
    pub fn writable(&self) -> Result<&DbTree<M>> {
        if self.dropped.load(Ordering::Acquire) { Err(Error::Dropped) } else { Ok(&self.tree) }
    }

    /// Runs a write; the caller is inside of the gate, and holds no latch. It has someone who keeps what it
    /// replaces if there is a cut that may need it.
    #[inline(always)]
    pub fn write<T>(
        &self,
        plain: impl FnOnce(&DbTree<M>) -> Result<T>,
        keeping: impl FnOnce(&DbTree<M>, &Keeper<'_>) -> Result<T>,
    ) -> Result<T> {
        let tree = self.writable()?;
        if !self.versions.is_watched() {
            return plain(tree);
        }
        let keeper = Keeper { versions: &self.versions, images: &self.images };
        let answer = keeping(tree, &keeper);
        self.versions.settle();
        answer
    }

    /// Sets a value.
    #[inline(always)]
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(
            |tree| tree.set(key, value, Condition::Always).map(drop),
            |tree, keeper| tree.set_keeping(keeper, key, value, Condition::Always).map(drop),
        )
    }

    /// What a read has found, unless the tree was dropped meanwhile: its pages may be another's. Who
    /// has seen anything of their new life sees that, too, by the latch that came with it.
    pub fn read<T>(&self, read: impl FnOnce(&DbTree<M>) -> Result<T>) -> Result<T> {
        let found = read(&self.tree);
        self.writable().and(found)
    }

    /// Whether a step of a cursor was but one in memory of its own, in a tree that was not dropped.
    #[inline(always)]
    pub fn slides(&self, cursor: &mut Cursor, up: bool) -> bool {
        self.tree.cursor_slides(cursor, up) && !self.dropped.load(Ordering::Acquire)
    }

    pub fn anchor(&self) -> PageNo {
        self.tree.anchor()
    }
}

/// A tree that nobody uses any more. Unless it is forgotten it can be used again afterwards.
pub(crate) struct Retired<'s, M: DbMedium> {
    store: &'s NamedTrees<M>,
    name: &'s str,
    tree: Arc<OpenTree<M>>,
    forgotten: Cell<bool>,
    _names: MutexGuard<'s, ()>,
}

/// What memory is asked for.
const OPEN_TREES: &str = "the list of open trees";

/// Whether what follows is in one epoch, if the medium has epochs.
fn epoch_is_held<M: Medium>() -> bool {
    !M::JOURNALED || epoch_is_pinned()
}

impl<M: DbMedium> NamedTrees<M> {
    /// Opens the catalog; a new pool gets one. A `blank` pool has none and cannot get one.
    pub fn open(pool: Arc<Pool<M>>, blank: bool, options: &Options) -> Result<Self> {
        let read_only = options.read_only;
        if let Some(bytes) = options.limit_bytes(pool.geometry(), pool.medium().limit()) {
            pool.say_limit(bytes);
        }
        debug_assert!(read_only || epoch_is_held::<M>(), "a catalog could be half made");
        let open = || DbTree::<M>::open(Arc::clone(&pool), INDEX_ANCHOR);
        let catalog = if blank { None } else { Some(open()?) };
        let (trees, names) = (Mutex::default(), Mutex::default());
        let versions = Versions::new(pool.medium().identity(), options.snapshot_memory_bytes());
        Ok(Self { pool, catalog, trees, read_only, gate: Gate::new(), names, versions })
    }

    pub fn medium(&self) -> &M {
        self.pool.medium()
    }

    /// A moment of all trees: no writer is inside of the gate, so no batch is half in.
    pub fn cut(&self) -> Arc<Cut> {
        let _closed = self.gate.close();
        self.versions.cut()
    }

    pub fn pool(&self) -> &Pool<M> {
        &self.pool
    }

    /// The tree of an anchor.
    pub fn tree_at(&self, anchor: PageNo) -> Result<Arc<OpenTree<M>>> {
        self.tree_in(&mut lock(&self.trees), anchor)
    }

    fn tree_in(&self, trees: &mut OpenTrees<M>, anchor: PageNo) -> Result<Arc<OpenTree<M>>> {
        fallible::more_keys(trees, 1, OPEN_TREES)?;
        match trees.entry(anchor) {
            Entry::Occupied(tree) => Ok(Arc::clone(tree.get())),
            Entry::Vacant(place) => {
                let tree = DbTree::<M>::open(Arc::clone(&self.pool), anchor)?;
                Ok(Arc::clone(place.insert(OpenTree::new(tree, &self.versions))))
            }
        }
    }

    /// Makes a tree, unless another thread was faster. On a file the caller holds the epoch, so that
    /// the tree and its entry are one, and poisons it after Poisoned; on persistent memory a crash
    /// between them is a leak.
    pub fn make_tree(&self, name: &str) -> Result<Arc<OpenTree<M>>> {
        let Some(catalog) = &self.catalog else { return Err(Error::ReadOnly) };
        debug_assert!(epoch_is_held::<M>(), "a tree and its entry must be one");
        let mut trees = lock(&self.trees);
        fallible::more_keys(&mut trees, 1, OPEN_TREES)?;
        if let Some(anchor) = self.anchor_of(name)? {
            return self.tree_in(&mut trees, anchor);
        }
        let tree = DbTree::<M>::create_new(Arc::clone(&self.pool))?;
        let anchor = tree.anchor();
        if let Err(error) = catalog.put(name.as_bytes(), &anchor.to_le_bytes(), Condition::Always) {
            let undone = tree.check_empty().and_then(|report| tree.discard(&report));
            return Err(after_undo(error, undone));
        }
        let tree = OpenTree::new(tree, &self.versions);
        trees.insert(anchor, Arc::clone(&tree));
        Ok(tree)
    }

    fn anchor_of(&self, name: &str) -> Result<Option<PageNo>> {
        let Some(catalog) = &self.catalog else { return Ok(None) };
        let Some(value) = catalog.get(name.as_bytes())? else { return Ok(None) };
        anchor_from(name.as_bytes(), &value).map(Some)
    }

    pub fn find_tree(&self, name: &str) -> Result<Option<Arc<OpenTree<M>>>> {
        // From the name to the handle nobody drops the tree and gives its anchor to another.
        let mut trees = lock(&self.trees);
        self.anchor_of(name)?.map(|anchor| self.tree_in(&mut trees, anchor)).transpose()
    }

    pub fn names(&self) -> MutexGuard<'_, ()> {
        lock(&self.names)
    }

    pub fn writable_catalog(&self) -> Result<&DbTree<M>> {
        self.catalog.as_ref().filter(|_| !self.read_only).ok_or(Error::ReadOnly)
    }

    /// Takes a tree out of use: its handles refuse from now on, and no writer is in it.
    pub fn retire<'s>(&'s self, name: &'s str) -> Result<Option<Retired<'s, M>>> {
        self.writable_catalog()?;
        let _names = self.names();
        let Some(tree) = self.find_tree(name)? else { return Ok(None) };
        tree.dropped.store(true, Ordering::Release);
        drop(self.gate.close());
        Ok(Some(Retired { store: self, name, tree, forgotten: Cell::new(false), _names }))
    }

    /// The anchor of the tree called `from`, if there is one, and none called `to`.
    pub fn anchor_to_rename(&self, from: &str, to: &str) -> Result<Option<PageNo>> {
        let Some(anchor) = self.anchor_of(from)? else { return Ok(None) };
        match self.anchor_of(to)? {
            None => Ok(Some(anchor)),
            Some(_) => Err(Error::TreeExists { name: to.to_owned() }),
        }
    }

    /// Enters the tree of `anchor` under another name; on a file, where the caller holds the epoch.
    ///
    /// # Errors
    /// As a write. Poisoned if it has two names now.
    pub fn rename(&self, anchor: PageNo, from: &str, to: &str) -> Result<()> {
        debug_assert!(epoch_is_held::<M>(), "a crash could leave both names, or none");
        let catalog = self.writable_catalog()?;
        // Nobody sees it under both names.
        let _trees = lock(&self.trees);
        catalog.put(to.as_bytes(), &anchor.to_le_bytes(), Condition::Always)?;
        let removed = catalog.remove(from.as_bytes());
        removed
            .map(drop)
            .map_err(|error| after_undo(error, catalog.remove(to.as_bytes()).map(drop)))
    }

    /// Sets what the catalog has under a name, or removes it; for media without epochs.
    pub fn set_name(&self, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        debug_assert!(!M::JOURNALED, "with epochs a tree is renamed in one");
        let catalog = self.writable_catalog()?;
        let _trees = lock(&self.trees);
        match value {
            Some(value) => catalog.put(name, value, Condition::Always).map(drop),
            None => catalog.remove(name).map(drop),
        }
    }

    /// Names and anchors of all trees, by name.
    pub fn entries(&self) -> Result<Vec<(String, PageNo)>> {
        self.entries_held(&lock(&self.trees))
    }

    /// The same, while nobody makes, drops or renames a tree.
    fn entries_held(&self, _trees: &OpenTrees<M>) -> Result<Vec<(String, PageNo)>> {
        let mut entries = Vec::new();
        // The empty name is not a tree's.
        let first = Bound::Excluded(Vec::new());
        let mut next = self.catalog.as_ref().map(|catalog| (catalog, first));
        while let Some((catalog, from)) = next {
            let chunk = catalog.chunk_up(from.as_ref().map(|k: &Vec<u8>| &k[..]), 1024)?;
            for (name, value) in chunk.entries {
                let anchor = anchor_from(&name, &value)?;
                let name = String::from_utf8_lossy(&name).into_owned();
                fallible::push(&mut entries, (name, anchor), "the names of all trees")?;
            }
            next = chunk.next.map(|bound| (catalog, bound));
        }
        Ok(entries)
    }

    /// All damage that can be named, and the one that kept the walk over the trees from going on. With
    /// `and_lost` what no tree names is damage.
    pub fn check(&self, and_lost: bool) -> Result<(Vec<PageDamage>, Option<Error>)> {
        let (mut damages, look) = self.pool.look()?;
        // Trees that somebody is making, or taking away, are there or not there after this.
        drop(lock(&self.trees));
        let reports = match self.reports(true) {
            Ok(reports) => reports,
            Err(error @ Error::Corrupt { .. }) => return Ok((damages, Some(error))),
            Err(error) => return Err(error),
        };
        drop(lock(&self.trees));
        let mut alone = fallible::list(reports.len(), "the reports of all trees")?;
        alone.extend(reports.into_iter().map(|(_, report): (String, TreeReport)| report));
        damages.extend(alone.iter().flat_map(|report: &TreeReport| report.damages.iter().cloned()));
        if damages.is_empty() && !alone.is_empty() {
            damages = compare(&self.pool, &look, &alone, |no| self.has_node(no), and_lost)?;
        }
        Ok((damages, None))
    }

    /// Whether one of the trees, or the catalog, has this node.
    fn has_node(&self, no: PageNo) -> Result<bool> {
        if let Some(catalog) = &self.catalog
            && catalog.has_node(no)?
        {
            return Ok(true);
        }
        for (name, anchor) in self.entries()? {
            let Some(tree) = self.still_at(&name, anchor)? else { continue };
            if tree.tree.has_node(no)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The reports of all trees by name, the catalog first with an empty name. With `dropping` also of
    /// trees that somebody is dropping, as long as their pages are theirs.
    pub fn reports(&self, dropping: bool) -> Result<Vec<(String, TreeReport)>> {
        let Some(catalog) = &self.catalog else { return Ok(Vec::new()) };
        let entries = self.entries()?;
        let mut reports = fallible::list(entries.len() + 1, "the reports of all trees")?;
        // Once, or a pool of many small trees takes the square of its size.
        let owners = self.pool.map_bytes()?;
        reports.push((String::new(), catalog.check_in(&owners)?));
        for (name, anchor) in entries {
            // One that is dropped meanwhile is left out.
            let Some(tree) = self.still_at(&name, anchor)? else { continue };
            match tree.read(|tree| tree.check_in(&owners)) {
                Err(Error::Dropped) if dropping => {
                    let report = tree.tree.check_in(&owners);
                    if self.still_at(&name, anchor)?.is_some_and(|now| Arc::ptr_eq(&now, &tree)) {
                        reports.push((name, report?));
                    }
                }
                Err(Error::Dropped) => {}
                report => reports.push((name, report?)),
            }
        }
        Ok(reports)
    }

    /// The tree that a list of all trees had, maybe under another name now, unless it was dropped.
    fn still_at(&self, name: &str, anchor: PageNo) -> Result<Option<Arc<OpenTree<M>>>> {
        let mut trees = lock(&self.trees);
        let is_there = self.anchor_of(name)? == Some(anchor)
            || self.entries_held(&trees)?.iter().any(|(_, no)| *no == anchor);
        if is_there { self.tree_in(&mut trees, anchor).map(Some) } else { Ok(None) }
    }
}

impl<M: DbMedium> Retired<'_, M> {
    fn is_refusing(&self) -> bool {
        self.tree.dropped.load(Ordering::Acquire) && !self.forgotten.get()
    }

    /// Removes all pairs; `write` runs the removal of each. Looks at no large value: one may be damaged.
    pub fn empty(&self, write: impl Fn(&dyn Fn() -> Result<()>) -> Result<()>) -> Result<()> {
        debug_assert!(self.is_refusing(), "a writer could still add pairs");
        let tree = &self.tree.tree;
        let mut next = Some(Bound::Unbounded);
        while let Some(from) = next {
            let (keys, behind) = tree.keys_up(from.as_ref().map(|k: &Vec<u8>| &k[..]), 1024)?;
            for key in &keys {
                write(&|| tree.delete(key).map(drop))?;
            }
            next = behind;
        }
        Ok(())
    }

    /// Takes the name away and gives back the pages of a tree that holds no pair any more. On a file
    /// the caller holds the epoch.
    ///
    /// # Errors
    /// As a write; the tree is as before then. Poisoned if only a part is gone, after which the epoch
    /// must not become durable.
    pub fn forget(&self) -> Result<()> {
        debug_assert!(self.is_refusing(), "somebody could still use the tree");
        debug_assert!(epoch_is_held::<M>(), "a name and its pages go together");
        let catalog = self.store.writable_catalog()?;
        let report = self.tree.tree.check_empty()?;
        let mut trees = lock(&self.store.trees);
        catalog.remove(self.name.as_bytes())?;
        trees.remove(&self.tree.anchor());
        self.forgotten.set(true);
        let discarded = self.tree.tree.discard(&report);
        discarded.map_err(|error| Error::Poisoned { cause: Arc::new(error) })
    }
}

impl<M: DbMedium> Drop for Retired<'_, M> {
    fn drop(&mut self) {
        self.tree.dropped.store(self.forgotten.get(), Ordering::Release);
    }
}

fn anchor_from(name: &[u8], value: &[u8]) -> Result<PageNo> {
    let anchor = value.try_into().ok().map(PageNo::from_le_bytes);
    // The catalog itself has no name: two handles of one anchor would not know of each other.
    anchor.filter(|anchor| *anchor != INDEX_ANCHOR).ok_or_else(|| {
        let name = String::from_utf8_lossy(name);
        Error::corrupt(0, format!("the catalog's entry for {name:?} is no tree's page"))
    })
}
