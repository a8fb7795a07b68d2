//! Named trees in a pool on any medium.
//!
//! The catalog is itself a tree, at the anchor that every pool has: name → page of the tree's
//! anchor (u32, little-endian). Names have at least one byte, so the empty key is free for the
//! engine's own use.
//!
//! A tree that is dropped, and what a tree had when it was cleared, stays in the catalog without a name until its
//! pages are free: see [`dropped`](super::dropped).
//!
//! Names are kept for snapshots as pairs are: a cut sees the catalog as it was, and so the trees that there were.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use everleaf_pmem::epoch::epoch_is_pinned;
use everleaf_pmem::{Medium, PageNo, fallible};
use everleaf_pool::{Glance, PageDamage, Pool};
use everleaf_tree::blink::{Before, Condition};
use everleaf_tree::{INDEX_ANCHOR, NamedPages, Shares, TreeReport, after_undo, compare};

use super::admission::RightOfWay;
use super::buffers::Buffers;
use super::dropped::{DroppedTrees, NAMELESS, nameless_key};
use super::locks::Locks;
use super::medium::{DbMedium, DbTree};
use super::open_tree::OpenTree;
use super::sync::{Mutex, MutexGuard, lock};
use super::tree_list::{NAMES, TreeList};
use super::versions::{Cut, Gate, Images, Versions};
use crate::{Error, Options, Result};

/// So many trees that nobody uses are not worth a look.
const FEW_TREES: usize = 256;

/// The trees that are open, by their anchors. Those that nobody uses any more stay until they have become as many
/// as the others, so that a tree that is opened again and again is there.
struct OpenTrees<M: DbMedium> {
    by_anchor: HashMap<PageNo, Arc<OpenTree<M>>>,
    /// How many make a look for those due.
    due: usize,
}

impl<M: DbMedium> Default for OpenTrees<M> {
    fn default() -> Self {
        Self { by_anchor: HashMap::new(), due: 2 * FEW_TREES }
    }
}

impl<M: DbMedium> OpenTrees<M> {
    /// Sees to it that there is a place for one more. O(1) as a rule.
    ///
    /// # Errors
    /// NoMemory.
    fn make_room(&mut self) -> Result<()> {
        // On persistent memory what an open completes, and counts, is done once.
        if M::JOURNALED && self.by_anchor.len() >= self.due {
            // A holder of a tree has taken it from here, or from another holder.
            self.by_anchor.retain(|_, tree| Arc::strong_count(tree) > 1 || tree.is_remembered());
            self.due = 2 * self.by_anchor.len().max(FEW_TREES);
        }
        fallible::more_keys(&mut self.by_anchor, 1, OPEN_TREES)
    }
}

/// A pool, its catalog, and the trees that are open.
pub(crate) struct NamedTrees<M: DbMedium> {
    pub pool: Arc<Pool<M>>,
    /// `None` in a pool that is open read-only and was never written to.
    pub catalog: Option<DbTree<M>>,
    /// The anchors that names had at cuts.
    names_before: Arc<Images>,
    trees: Mutex<OpenTrees<M>>,
    pub dropped: DroppedTrees<M>,
    pub read_only: bool,
    /// Writes to trees, and to names, pass it.
    pub gate: Gate,
    /// Of what writers give way to before they pass the gate.
    pub way: RightOfWay,
    /// The locks of transactions, which writers wait for, too, before the gate.
    pub locks: Locks,
    /// Of who takes a name from a tree. Before the gate, and before `trees`.
    names: Mutex<()>,
    /// The versions that snapshots see.
    pub versions: Arc<Versions>,
    pub buffers: Buffers,
}

/// Names this memory in errors.
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
        let way = RightOfWay::default();
        let share = pool.medium().share_memory(options);
        let versions =
            Versions::new(pool.medium().identity(), options.snapshot_memory_bytes(), share);
        Ok(Self {
            pool,
            catalog,
            names_before: Arc::default(),
            trees: Mutex::default(),
            dropped: DroppedTrees::default(),
            read_only,
            gate: Gate::new(),
            locks: Locks::new(Arc::clone(&way.in_the_way)),
            way,
            names: Mutex::default(),
            versions,
            buffers: Buffers::new(options.transaction_memory_bytes()),
        })
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
    #[cfg(feature = "dax")]
    pub fn tree_at(&self, anchor: PageNo) -> Result<Arc<OpenTree<M>>> {
        self.tree_in(&mut lock(&self.trees), anchor, None)
    }

    /// The same. With a `glance` an anchor that is not in memory does not come there for that.
    fn tree_in(
        &self,
        trees: &mut OpenTrees<M>,
        anchor: PageNo,
        glance: Option<&Glance<'_, M>>,
    ) -> Result<Arc<OpenTree<M>>> {
        if let Some(tree) = trees.by_anchor.get(&anchor) {
            return Ok(Arc::clone(tree));
        }
        trees.make_room()?;
        let pool = Arc::clone(&self.pool);
        let tree = match glance {
            Some(glance) => DbTree::<M>::open_at_glance(pool, anchor, glance)?,
            None => DbTree::<M>::open(pool, anchor)?,
        };
        M::begin_count(&self.pool, anchor, false)?;
        let tree = OpenTree::new(tree, &self.versions);
        trees.by_anchor.insert(anchor, Arc::clone(&tree));
        Ok(tree)
    }

    /// Makes a tree, unless another thread was faster. The caller has passed the gate. On a file it holds the epoch,
    /// so that the tree and its entry are one, and poisons it after Poisoned; on persistent memory a crash
    /// between them is a leak.
    pub fn make_tree(&self, name: &str) -> Result<Arc<OpenTree<M>>> {
        if self.catalog.is_none() {
            return Err(Error::ReadOnly);
        }
        debug_assert!(epoch_is_held::<M>(), "a tree and its entry must be one");
        let mut trees = lock(&self.trees);
        trees.make_room()?;
        if let Some(anchor) = self.anchor_of(name)? {
            return self.tree_in(&mut trees, anchor, None);
        }
        let tree = self.new_tree()?;
        let anchor = tree.anchor();
        if let Err(error) = self.enter_name(name.as_bytes(), Some(anchor)) {
            return Err(after_undo(error, discard(&tree)));
        }
        let tree = OpenTree::new(tree, &self.versions);
        trees.by_anchor.insert(anchor, Arc::clone(&tree));
        Ok(tree)
    }

    /// An empty tree that nothing leads to.
    fn new_tree(&self) -> Result<DbTree<M>> {
        let tree = DbTree::<M>::create_new(Arc::clone(&self.pool))?;
        // If that is refused its pairs are counted when somebody asks.
        let _ = M::begin_count(&self.pool, tree.anchor(), true);
        Ok(tree)
    }

    /// Sets what the catalog has under a key, or removes it. The caller has passed the gate, or closed it.
    fn enter_name(&self, key: &[u8], anchor: Option<PageNo>) -> Result<()> {
        let catalog = self.catalog.as_ref().ok_or(Error::ReadOnly)?;
        let anchor = anchor.map(PageNo::to_le_bytes);
        self.versions.write(
            &self.names_before,
            || match &anchor {
                Some(anchor) => catalog.put(key, anchor, Condition::Always).map(drop),
                None => catalog.remove(key).map(drop),
            },
            |keeper| match &anchor {
                Some(anchor) => {
                    catalog.put_keeping(keeper, key, anchor, Condition::Always).map(drop)
                }
                None => catalog.remove_keeping(keeper, key).map(drop),
            },
        )
    }

    fn anchor_of(&self, name: &str) -> Result<Option<PageNo>> {
        let Some(catalog) = &self.catalog else { return Ok(None) };
        let Some(value) = catalog.get(name.as_bytes())? else { return Ok(None) };
        anchor_from(name.as_bytes(), &value).map(Some)
    }

    pub fn find_tree(&self, name: &str) -> Result<Option<Arc<OpenTree<M>>>> {
        // From the name to the handle nobody drops the tree and gives its anchor to another.
        let mut trees = lock(&self.trees);
        self.anchor_of(name)?.map(|anchor| self.tree_in(&mut trees, anchor, None)).transpose()
    }

    /// The tree that had a name at a cut.
    pub fn find_tree_at(&self, cut: &Cut, name: &str) -> Result<Option<Arc<OpenTree<M>>>> {
        // Nobody changes the catalog meanwhile.
        let mut trees = lock(&self.trees);
        let now = self.anchor_of(name)?;
        let anchor = match self.names_before.find(cut, u64::MAX, name.as_bytes())? {
            None => now,
            Some(Before::Absent) => None,
            Some(Before::Value(value)) => Some(anchor_from(name.as_bytes(), &value)?),
            Some(Before::TooLarge) => return Err(cut.too_old()),
            Some(Before::Lost(error)) => return Err(error),
        };
        cut.alive()?;
        let Some(anchor) = anchor else { return Ok(None) };
        match self.dropped.find(anchor, cut) {
            None => self.tree_in(&mut trees, anchor, None).map(Some),
            dropped => Ok(dropped),
        }
    }

    /// The anchors of the trees that are open.
    #[cfg(feature = "dax")]
    pub fn open_anchors(&self) -> Vec<PageNo> {
        lock(&self.trees).by_anchor.keys().copied().collect()
    }

    pub fn names(&self) -> MutexGuard<'_, ()> {
        lock(&self.names)
    }

    pub fn writable_catalog(&self) -> Result<&DbTree<M>> {
        self.catalog.as_ref().filter(|_| !self.read_only).ok_or(Error::ReadOnly)
    }

    /// The anchor of the tree called `from`, if there is one, and none called `to`.
    pub fn anchor_to_rename(&self, from: &str, to: &str) -> Result<Option<PageNo>> {
        let Some(anchor) = self.anchor_of(from)? else { return Ok(None) };
        match self.anchor_of(to)? {
            None => Ok(Some(anchor)),
            Some(_) => Err(Error::TreeExists { name: to.to_owned() }),
        }
    }

    /// Enters a tree under another name, if it is there; on a file, where the caller holds the epoch.
    ///
    /// # Errors
    /// As a write; TreeExists. Poisoned if it has two names now.
    pub fn rename(&self, from: &str, to: &str) -> Result<bool> {
        debug_assert!(epoch_is_held::<M>(), "a crash could leave both names, or none");
        // Nobody sees it under both names, and nobody makes another one of that name.
        let _trees = lock(&self.trees);
        let Some(anchor) = self.anchor_to_rename(from, to)? else { return Ok(false) };
        self.enter_name(to.as_bytes(), Some(anchor))?;
        self.enter_name(from.as_bytes(), None)
            .map_err(|error| after_undo(error, self.enter_name(to.as_bytes(), None)))?;
        Ok(true)
    }

    /// Gives the catalog's entry of a tree another key, and the name to another tree if there is one; on a file,
    /// where the caller holds the epoch.
    ///
    /// # Errors
    /// As a write; nothing has changed then. Poisoned if a part has.
    pub fn take_name(&self, name: &str, key: &[u8], next: Option<PageNo>) -> Result<()> {
        debug_assert!(epoch_is_held::<M>(), "a crash could leave one of the two");
        let _trees = lock(&self.trees);
        let Some(anchor) = self.anchor_of(name)? else { return Err(Error::NoTree) };
        self.enter_name(key, Some(anchor))?;
        self.enter_name(name.as_bytes(), next)
            .map_err(|error| after_undo(error, self.enter_name(key, None)))
    }

    /// Makes an empty tree, which is what `open` will be, and is found as.
    pub fn new_tree_for(&self, open: &Arc<OpenTree<M>>) -> Result<DbTree<M>> {
        let mut trees = lock(&self.trees);
        trees.make_room()?;
        let tree = self.new_tree()?;
        trees.by_anchor.insert(tree.anchor(), Arc::clone(open));
        Ok(tree)
    }

    /// Takes back [`new_tree_for`](Self::new_tree_for).
    pub fn discard_new(&self, tree: &DbTree<M>) -> Result<()> {
        lock(&self.trees).by_anchor.remove(&tree.anchor());
        discard(tree)
    }

    /// A tree that is open is not found any more as what begins at `anchor`. Until that is so nobody finds a tree;
    /// then it is another one, or none, by `leave`.
    pub fn unlist(&self, anchor: PageNo, leave: impl FnOnce()) {
        let mut trees = lock(&self.trees);
        trees.by_anchor.remove(&anchor);
        leave();
    }

    /// The name that a tree has now; `likely` is one that it had.
    pub fn name_of(&self, anchor: PageNo, likely: &str) -> Result<Option<String>> {
        let trees = lock(&self.trees);
        if self.anchor_of(likely)? == Some(anchor) {
            return Ok(Some(likely.to_owned()));
        }
        let entries = self.entries_held(&trees)?;
        Ok(entries.iter().find(|(_, no)| *no == anchor).map(|(name, _)| name.into_owned()))
    }

    /// Sets what the catalog has under a key, or removes it; for media without epochs. The gate is closed.
    #[cfg(feature = "dax")]
    pub fn set_name(&self, key: &[u8], anchor: Option<PageNo>) -> Result<()> {
        debug_assert!(!M::JOURNALED, "with epochs a tree is renamed in one");
        let _trees = lock(&self.trees);
        self.enter_name(key, anchor)
    }

    /// Takes the key of a tree that holds no pair any more, and gives its pages back. On a file the caller holds
    /// the epoch.
    ///
    /// # Errors
    /// As a write; the tree is as before then. Poisoned if only a part is gone, after which the epoch
    /// must not become durable.
    pub fn forget(&self, tree: &OpenTree<M>, key: &[u8]) -> Result<()> {
        debug_assert!(tree.writable().is_err(), "somebody could still use the tree");
        debug_assert!(epoch_is_held::<M>(), "a key and its pages go together");
        let report = tree.tree().check_empty()?;
        let mut trees = lock(&self.trees);
        self.enter_name(key, None)?;
        if trees.by_anchor.get(&tree.anchor()).is_some_and(|open| std::ptr::eq(&**open, tree)) {
            trees.by_anchor.remove(&tree.anchor());
        }
        let discarded = tree.tree().discard(&report);
        discarded.map_err(|error| Error::Poisoned { cause: Arc::new(error) })
    }

    /// How many pairs a tree has, while no writer is inside of the gate.
    pub fn len(&self, tree: &OpenTree<M>) -> Result<u64> {
        let _closed = self.gate.close();
        let open = tree.writable()?;
        if let Some(pairs) = self.medium().counted(open.anchor())? {
            return Ok(pairs);
        }
        let (mut pairs, mut next) = (0, Some(Bound::Unbounded));
        while let Some(from) = next {
            let (keys, behind) = open.keys_up(from.as_ref().map(|k: &Vec<u8>| &k[..]), 1024)?;
            pairs += keys.len() as u64;
            next = behind;
        }
        self.medium().know_count(open.anchor(), pairs)?;
        Ok(pairs)
    }

    /// Names and anchors of all trees, by name.
    pub fn entries(&self) -> Result<TreeList> {
        self.entries_held(&lock(&self.trees))
    }

    /// The same, while nobody makes, drops or renames a tree.
    fn entries_held(&self, _trees: &OpenTrees<M>) -> Result<TreeList> {
        let mut entries = TreeList::default();
        // The empty name is not a tree's.
        self.walk_catalog(Bound::Excluded(Vec::new()), |key, anchor| {
            if key.first() == Some(&NAMELESS) {
                return Ok(());
            }
            entries.push(key, anchor)
        })?;
        Ok(entries)
    }

    /// The names that trees had at a cut, in order: those of now that are not later, and those that were taken away
    /// since. O(trees now + names that changed since).
    pub fn names_at(&self, cut: &Cut) -> Result<Vec<String>> {
        // Nobody changes the catalog meanwhile.
        let trees = lock(&self.trees);
        let now = self.entries_held(&trees)?;
        let mut names = fallible::list(now.len(), NAMES)?;
        for (name, _) in now.iter() {
            let before = self.names_before.find(cut, u64::MAX, name.as_bytes())?;
            if !matches!(before, Some(Before::Absent)) {
                names.push(name.into_owned());
            }
        }
        // The empty name is not a tree's.
        let mut from = Bound::Excluded(Vec::new());
        let end = Bound::Excluded(&[NAMELESS][..]);
        let next = |from: &Bound<Vec<u8>>| {
            let from = from.as_ref().map(|key| &key[..]);
            self.names_before.next((cut, u64::MAX), (from, end), true, None)
        };
        while let Some((key, before)) = next(&from)? {
            match before {
                Before::Absent | Before::Value(_) => {}
                Before::TooLarge => return Err(cut.too_old()),
                Before::Lost(error) => return Err(error),
            }
            fallible::push(&mut names, String::from_utf8_lossy(&key).into_owned(), NAMES)?;
            from = Bound::Excluded(key);
        }
        cut.alive()?;
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// The anchors of trees without a name. A tree with a name, too, or with another key than its own, is none of them:
    /// no crash leaves that.
    pub fn nameless(&self) -> Result<Vec<PageNo>> {
        let mut anchors = Vec::new();
        self.walk_catalog(Bound::Included(vec![NAMELESS]), |key, anchor| {
            if key != nameless_key(anchor) {
                return Ok(());
            }
            fallible::push(&mut anchors, anchor, "the list of dropped trees")
        })?;
        if !anchors.is_empty() {
            let named = self.entries()?;
            let mut with_name = fallible::list(named.len(), "the anchors of trees with a name")?;
            with_name.extend(named.iter().map(|(_, anchor)| anchor));
            with_name.sort_unstable();
            anchors.retain(|anchor| with_name.binary_search(anchor).is_err());
        }
        Ok(anchors)
    }

    fn walk_catalog(
        &self,
        from: Bound<Vec<u8>>,
        mut see: impl FnMut(&[u8], PageNo) -> Result<()>,
    ) -> Result<()> {
        let mut next = self.catalog.as_ref().map(|catalog| (catalog, from));
        while let Some((catalog, from)) = next {
            let chunk = catalog.chunk_up(from.as_ref().map(|k: &Vec<u8>| &k[..]), 1024)?;
            for (key, value) in &chunk.entries {
                see(key, anchor_from(key, value)?)?;
            }
            next = chunk.next.map(|bound| (catalog, bound));
        }
        Ok(())
    }

    /// All damage that can be named, and the one that kept the walk over the trees from going on. With
    /// `and_lost` what no tree names is damage.
    pub fn check(&self, and_lost: bool) -> Result<(Vec<PageDamage>, Option<Error>)> {
        // As long as they are looked at, dropped trees stay.
        let _held = self.dropped.hold();
        let (mut damages, look) = self.pool.look()?;
        // Trees that somebody is making, or taking away, are there or not there after this.
        drop(lock(&self.trees));
        let (mut named, mut of_trees) = (NamedPages::default(), Vec::new());
        let seen = self.reports(true, |_, report| {
            named.add(&report)?;
            fallible::more(&mut of_trees, report.damages.len(), "the damages of a pool")?;
            of_trees.extend(report.damages);
            Ok(())
        });
        if !matches!(seen, Err(Error::NoMemory { .. })) {
            damages.extend(look.anchors(|no| named.has_anchor(no))?);
        }
        match seen {
            Err(error @ Error::Corrupt { .. }) => return Ok((damages, Some(error))),
            seen => seen?,
        }
        drop(lock(&self.trees));
        damages.extend(of_trees);
        if damages.is_empty() && self.catalog.is_some() {
            damages = compare(&look, &named, |no| self.has_node(no), and_lost)?;
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
        let glance = Glance::new(&self.pool);
        for (name, anchor) in self.entries()?.iter() {
            let Some(tree) = self.still_at(&name, anchor, &glance)? else { continue };
            if tree.tree().has_node(no)? {
                return Ok(true);
            }
        }
        for dropped in self.dropped.all()? {
            if dropped.tree.tree().has_node(no)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Has `see` see the reports of all trees by name, the catalog first with an empty name. With `dropped` also of
    /// trees that were dropped, by the name of none: the caller [holds](DroppedTrees::hold) them.
    ///
    /// # Errors
    /// Those of `see`, and of reads.
    pub fn reports(
        &self,
        dropped: bool,
        mut see: impl FnMut(&str, TreeReport) -> Result<()>,
    ) -> Result<()> {
        let Some(catalog) = &self.catalog else { return Ok(()) };
        let entries = self.entries()?;
        // Once, or a pool of many small trees takes the square of its size.
        let owners = self.pool.map_bytes()?;
        let glance = Glance::new(&self.pool);
        let check = |tree: &DbTree<M>| tree.check_in(&owners, Some(&glance), Shares::of_machine());
        see("", check(catalog)?)?;
        for (name, anchor) in entries.iter() {
            // One that is dropped meanwhile is looked at below.
            let Some(tree) = self.still_at(&name, anchor, &glance)? else { continue };
            match tree.read(check) {
                // Dropped slowly, and its pages are its own as long as it has its name.
                Err(Error::NoTree) if dropped => {
                    let report = check(tree.tree());
                    if self
                        .still_at(&name, anchor, &glance)?
                        .is_some_and(|now| Arc::ptr_eq(&now, &tree))
                    {
                        see(&name, report?)?;
                    }
                }
                Err(Error::NoTree) => {}
                report => see(&name, report?)?,
            }
        }
        // After the others: nothing that goes from there to here is missed.
        for one in if dropped { self.dropped.all()? } else { Vec::new() } {
            see("", check(one.tree.tree())?)?;
        }
        Ok(())
    }

    /// The tree that a list of all trees had, maybe under another name now, unless it was dropped.
    fn still_at(
        &self,
        name: &str,
        anchor: PageNo,
        glance: &Glance<'_, M>,
    ) -> Result<Option<Arc<OpenTree<M>>>> {
        let mut trees = lock(&self.trees);
        let is_there = self.anchor_of(name)? == Some(anchor)
            || self.entries_held(&trees)?.iter().any(|(_, no)| no == anchor);
        if is_there { self.tree_in(&mut trees, anchor, Some(glance)).map(Some) } else { Ok(None) }
    }
}

/// Gives back the pages of a tree that nothing leads to.
fn discard<M: DbMedium>(tree: &DbTree<M>) -> Result<()> {
    tree.check_empty().and_then(|report| tree.discard(&report))
}

fn anchor_from(name: &[u8], value: &[u8]) -> Result<PageNo> {
    let anchor = value.try_into().ok().map(PageNo::from_le_bytes);
    // The catalog itself has no name: two handles of one anchor would not know of each other.
    anchor.filter(|anchor| *anchor != INDEX_ANCHOR).ok_or_else(|| {
        let name = String::from_utf8_lossy(name);
        Error::corrupt(0, format!("the catalog's entry for {name:?} is no tree's page"))
    })
}
