//! All trees by name: those of [`everleaf_tree::named`], [`BdTree`], and the rivals.
//!
//! All code that opens a tree by a name from a person or a file uses this module. A tree comes as an [`Index`], with what a
//! program asks about it that only its type knows: its pages, its epochs, what a crash has left.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everleaf_file::io::RealIo;
use everleaf_file::{Dax, DaxOptions, File, FileOptions};
use everleaf_pmem::{Buffered, BufferedOptions, Dram, Error, Geometry, Medium, Result};
use everleaf_pool::{PageCounts, Pool};
use everleaf_tree::hybrid::{Keeper, Rebuild, epoch_bitmap};
use everleaf_tree::named::{self as words, OnNodes, Recovers};
use everleaf_tree::slots::{Layout, Probe, Words};
use everleaf_tree::{BdTree, FilePool, INDEX_ANCHOR, Index, Reading, Recovery};

use crate::leaf::Leaf;
use crate::version::{Sound, Version};
use crate::{
    Chained, FpTree, FpTree56, LbTree, Montage, NbTree, NvTree, PacTree, SkipList, UTree, WbTree,
    Wort,
};

/// The tree whose leaves are written back at the ends of epochs.
pub const BUFFERED: &str = "BdTree";

/// A rival as it is made.
struct Rival {
    name: &'static str,
    /// Slots of a page; `None`: as asked for.
    slots: Option<u32>,
    /// Keys that a page has at least, for each 32 slots, in a tree that has grown.
    keys: u32,
    /// Whether keys have older versions for some epochs.
    versions: bool,
}

const fn rival(name: &'static str, slots: u32, keys: u32) -> Rival {
    Rival { name, slots: Some(slots), keys, versions: false }
}

/// All of them. Nodes of WORT, and their cells, are of 8 slots.
const RIVALS: [Rival; 11] = [
    rival("FpTree", 32, 16),
    rival("FpTree56", 64, 14),
    rival("LbTree", 16, 14),
    rival("NbTree", 32, 4),
    Rival { slots: None, ..rival("NvTree", 0, 10) },
    rival("PacTree", 128, 10),
    rival("WbTree", 64, 14),
    rival("Wort", 8, 8),
    rival("SkipList", 32, 16),
    rival("UTree", 32, 16),
    Rival { versions: true, ..rival("Montage", 32, 8) },
];

/// The names of the rivals.
pub fn rivals() -> impl Iterator<Item = &'static str> {
    RIVALS.iter().map(|rival| rival.name)
}

/// The names of all trees.
pub fn names() -> impl Iterator<Item = &'static str> {
    words::NAMES.iter().copied().chain([BUFFERED]).chain(rivals())
}

/// Slots and number of the pages of a tree of this name that is to hold so many keys at once. Of the trees that have
/// pages of any size, `slots` is the size. `None` if no tree has this name.
pub fn shape(name: &str, slots: u32, keys: u64) -> Option<(u32, u64)> {
    let Some(rival) = RIVALS.iter().find(|rival| rival.name == name) else {
        // Up to three versions of a key, in leaves that are half full.
        let versions = if name == BUFFERED { 6 } else { 3 };
        let pages = keys.saturating_mul(versions) / u64::from(slots.max(1)) + 1024;
        return (name == BUFFERED || words::NAMES.contains(&name)).then_some((slots, pages));
    };
    let slots = rival.slots.unwrap_or(slots);
    let per_page = f64::from(rival.keys) * f64::from(slots) / 32.0;
    let versions = if rival.versions { 4.0 } else { 1.25 };
    Some((slots, (keys as f64 * versions / per_page) as u64 + 1024))
}

/// The mark of a tree's pages that a pool on persistent memory keeps. The rivals' are hashes of their names.
fn layout_hash(name: &str) -> u64 {
    let of_name = |name: &str| {
        let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        name.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
    };
    match name {
        BUFFERED => epoch_bitmap::HASH,
        name => words::on_nodes(name, OfLayout).unwrap_or_else(|_| of_name(name)),
    }
}

/// The mark of nodes.
struct OfLayout;

impl OnNodes for OfLayout {
    type Made = u64;
    fn on<L: Layout, P: Probe>(self) -> Result<u64> {
        Ok(L::HASH)
    }
}

/// A file for a tree of words.
struct OnFile<'o> {
    path: &'o Path,
    options: &'o FileOptions,
    reading: Reading,
}

impl OnNodes for OnFile<'_> {
    type Made = (words::Named<File>, FilePool);
    fn on<L: Layout, P: Probe>(self) -> Result<Self::Made> {
        let io = Arc::new(RealIo);
        let pool = FilePool::open_for::<(L, P, Words)>(io, self.path, self.options)?;
        Ok((words::Named::in_pool::<L, P>(Arc::clone(pool.pool()), self.reading)?, pool))
    }
}

/// How a tree is opened.
#[derive(Debug, Clone, Copy)]
pub struct How {
    /// How its readers read, if it is a tree that has a choice.
    pub reading: Reading,
    /// Length of an epoch, for trees that have them; `None`: epochs end by [`Opened::tick`] and [`Opened::sync`] alone.
    pub epoch: Option<Duration>,
    /// The most operations of an epoch, for those trees; `None`: any number.
    pub epoch_ops: Option<u64>,
    /// How often `BdTree` frees empty leaves; `None`: never.
    pub reclaim: Option<Duration>,
    /// Whether `PacTree` has a thread that tells its inner nodes of new leaves. Without it, writers do so.
    pub worker: bool,
    /// Threads that rebuild the inner nodes of `BdTree`.
    pub threads: usize,
}

impl Default for How {
    fn default() -> Self {
        let epoch = Some(BufferedOptions::default().interval);
        Self {
            reading: Reading::default(),
            epoch,
            epoch_ops: None,
            reclaim: None,
            worker: true,
            threads: 1,
        }
    }
}

/// The tree that a name has led to.
enum Tree<M: Medium> {
    Words(Arc<dyn Recovers>),
    Bd(Arc<BdTree<M>>),
    Rival(Arc<dyn Index>),
}

/// The pool that a tree is in, alone.
enum Home<M: Medium> {
    Strict(Arc<Pool<M>>),
    ByEpochs(Arc<Pool<Buffered<M>>>),
}

/// Pages of one size, and what they are used for.
pub type Pages = (Geometry, PageCounts);

/// An open tree.
pub struct Opened<M: Medium> {
    // First to be dropped: it uses the tree.
    _keeper: Option<Keeper>,
    tree: Tree<M>,
    home: Home<M>,
    /// Where its inner nodes are, if they are in DRAM and in pages.
    inner: Option<Arc<Pool<Dram>>>,
}

impl<M: Medium> Opened<M> {
    fn strict(tree: Tree<M>, pool: Arc<Pool<M>>, inner: Option<Arc<Pool<Dram>>>) -> Self {
        Self { _keeper: None, tree, home: Home::Strict(pool), inner }
    }

    fn rival(tree: impl Index + 'static, pool: Arc<Pool<M>>) -> Self {
        Self::strict(Tree::Rival(Arc::new(tree)), pool, None)
    }

    fn chained<L: Leaf>(tree: Chained<M, L>) -> Self {
        let (pool, inner) = (Arc::clone(tree.pool()), Arc::clone(tree.inner_pool()));
        Self::strict(Tree::Rival(Arc::new(tree)), pool, Some(inner))
    }

    fn words(named: words::Named<M>) -> Self {
        Self::strict(Tree::Words(named.index.into()), named.pool, None)
    }

    /// The tree.
    pub fn index(&self) -> Arc<dyn Index> {
        match &self.tree {
            Tree::Words(tree) => Arc::clone(tree) as Arc<dyn Index>,
            Tree::Bd(tree) => Arc::clone(tree) as Arc<dyn Index>,
            Tree::Rival(tree) => Arc::clone(tree),
        }
    }

    /// The tree, borrowed.
    pub fn as_index(&self) -> &dyn Index {
        match &self.tree {
            Tree::Words(tree) => &**tree,
            Tree::Bd(tree) => &**tree,
            Tree::Rival(tree) => &**tree,
        }
    }

    /// The tree, if it is `BdTree`.
    pub fn bd_tree(&self) -> Option<&BdTree<M>> {
        match &self.tree {
            Tree::Bd(tree) => Some(tree),
            _ => None,
        }
    }

    /// The medium; that below the clock, if there is one.
    pub fn medium(&self) -> &M {
        match &self.home {
            Home::Strict(pool) => pool.medium(),
            Home::ByEpochs(pool) => pool.medium().inner(),
        }
    }

    /// The clock, if the tree is durable by epochs.
    pub fn clock(&self) -> Option<&Buffered<M>> {
        match &self.home {
            Home::Strict(_) => None,
            Home::ByEpochs(pool) => Some(pool.medium()),
        }
    }

    /// The pages of its pool.
    ///
    /// # Errors
    /// Those of [`Pool::stats`].
    pub fn pages(&self) -> Result<Pages> {
        Ok(match &self.home {
            Home::Strict(pool) => (pool.geometry(), pool.stats()?),
            Home::ByEpochs(pool) => (pool.geometry(), pool.stats()?),
        })
    }

    /// The pages of its inner nodes that are in DRAM; none if there are none.
    ///
    /// # Errors
    /// Those of [`Pool::stats`].
    pub fn inner_pages(&self) -> Result<Option<Pages>> {
        let pages = |pool: &Arc<Pool<Dram>>| Ok((pool.geometry(), pool.stats()?));
        self.inner.as_ref().map(pages).transpose()
    }

    /// Ends the running epoch, if there are any.
    ///
    /// # Errors
    /// Those of [`Buffered::tick`].
    pub fn tick(&self) -> Result<()> {
        self.clock().map_or(Ok(()), Buffered::tick)
    }

    /// Makes durable all that was done so far.
    ///
    /// # Errors
    /// Those of [`Buffered::sync`].
    pub fn sync(&self) -> Result<()> {
        self.clock().map_or(Ok(()), Buffered::sync)
    }

    /// Completes what a crash has left, and gives back what has leaked. Nobody else may use the tree meanwhile. For
    /// trees of which an open does so already, this does nothing.
    ///
    /// # Errors
    /// Those of [`recover`](everleaf_tree::recover).
    pub fn recover(&self) -> Result<Recovery> {
        match &self.tree {
            Tree::Words(tree) => tree.recover(),
            _ => Ok(Recovery::default()),
        }
    }
}

/// Opens the tree of this name on a medium, and makes it if that is all zero.
///
/// # Errors
/// Unsupported for a name that is not among [`names`], or readers that the tree does not have; no memory or no room;
/// what is there is not such a tree, or is damaged.
pub fn open<M: Medium + 'static>(name: &str, medium: M, how: &How) -> Result<Opened<M>> {
    if name == BUFFERED {
        return open_bd(medium, how);
    }
    if !words::NAMES.contains(&name) {
        return open_version::<M, Sound>(name, medium, how);
    }
    let opened = match Pool::is_unmade(&medium)? {
        true => words::create(name, how.reading, medium),
        false => words::open(name, how.reading, medium),
    };
    opened.map(Opened::words)
}

/// Opens the tree of this name in the file at `path`, on persistent memory, and makes it if `options.create`.
///
/// # Errors
/// Those of [`open`] and of [`Dax::open`].
pub fn open_dax(name: &str, path: &Path, options: &DaxOptions, how: &How) -> Result<Opened<Dax>> {
    let layout_hash = layout_hash(name);
    open(name, Dax::open(path, &DaxOptions { layout_hash, ..options.clone() })?, how)
}

/// Opens the tree of this name on the ordinary file at `path`, with the pool that keeps it, which is to be dropped after
/// the tree. Makes it if `options.create`.
///
/// # Errors
/// Unsupported for trees that are on lines of memory alone; those of [`FilePool::open`].
pub fn open_file(
    name: &str,
    path: &Path,
    options: &FileOptions,
    how: &How,
) -> Result<(Opened<File>, FilePool)> {
    if !words::NAMES.contains(&name) && names().any(|other| other == name) {
        return Err(Error::Unsupported {
            what: format!("{name} is on lines of memory alone: not on a file"),
        });
    }
    let on_file = OnFile { path, options, reading: how.reading };
    let (named, pool) = words::on_nodes(name, on_file)?;
    Ok((Opened::words(named), pool))
}

/// Clock of trees that are durable by epochs.
fn clock<M: Medium>(medium: M, how: &How) -> Result<Buffered<M>> {
    let interval = how.epoch.unwrap_or(BufferedOptions::default().interval);
    let options = BufferedOptions { interval, operations: how.epoch_ops };
    Buffered::new(medium, &options)
}

fn open_bd<M: Medium + 'static>(medium: M, how: &How) -> Result<Opened<M>> {
    let is_unmade = Pool::is_unmade(&medium)?;
    let medium = clock(medium, how)?;
    let pool = match is_unmade {
        true => BdTree::format_pool(medium)?,
        false => BdTree::open_pool(medium)?,
    };
    let rebuild = Rebuild { threads: how.threads, ..Rebuild::default() };
    let (tree, _) = BdTree::open(Arc::new(pool), INDEX_ANCHOR, &rebuild)?;
    let tree = Arc::new(tree);
    if how.epoch.is_some() {
        tree.medium().start()?;
    }
    let keeper = how.reclaim.map(|interval| Keeper::start(&tree, interval)).transpose()?;
    let (pool, inner) = (Arc::clone(tree.pool()), Arc::clone(tree.inner().pool()));
    let home = Home::ByEpochs(pool);
    Ok(Opened { _keeper: keeper, tree: Tree::Bd(tree), home, inner: Some(inner) })
}

/// As [`open`], for a rival in one of its two versions.
///
/// # Errors
/// Those of [`open`].
pub fn open_version<M: Medium + 'static, V: Version>(
    name: &str,
    medium: M,
    how: &How,
) -> Result<Opened<M>> {
    macro_rules! strict {
        ($tree:ty) => {{
            let pool = match Pool::is_unmade(&medium)? {
                true => <$tree>::format_pool(medium)?,
                false => <$tree>::open_pool(medium)?,
            };
            let pool = Arc::new(pool);
            Opened::rival(<$tree>::open(Arc::clone(&pool), INDEX_ANCHOR)?.0, pool)
        }};
    }
    Ok(match name {
        "FpTree" => Opened::chained(FpTree::<M, V>::on(medium)?),
        "FpTree56" => Opened::chained(FpTree56::<M, V>::on(medium)?),
        "LbTree" => Opened::chained(LbTree::<M, V>::on(medium)?),
        "NbTree" => Opened::chained(NbTree::<M, V>::on(medium)?),
        "PacTree" if how.worker => Opened::chained(PacTree::<M, V>::on(medium)?.start()?),
        "PacTree" => Opened::chained(PacTree::<M, V>::on(medium)?),
        "NvTree" => strict!(NvTree<M, V>),
        "WbTree" => strict!(WbTree<M, V>),
        "Wort" => strict!(Wort<M, V>),
        "SkipList" => strict!(SkipList<M, V>),
        "UTree" => strict!(UTree<M, V>),
        "Montage" => {
            type Tree<M, V> = Montage<M, V>;
            let is_unmade = Pool::is_unmade(&medium)?;
            let medium = clock(medium, how)?;
            let pool = match is_unmade {
                true => Tree::<M, V>::format_pool(medium)?,
                false => Tree::<M, V>::open_pool(medium)?,
            };
            let (tree, _) = Tree::<M, V>::open(Arc::new(pool))?;
            if how.epoch.is_some() {
                tree.medium().start()?;
            }
            let (home, inner) =
                (Home::ByEpochs(Arc::clone(tree.pool())), Arc::clone(tree.tree().pool()));
            let tree = self::Tree::Rival(Arc::new(tree));
            Opened { _keeper: None, tree, home, inner: Some(inner) }
        }
        _ => {
            let all: Vec<_> = names().collect();
            let what = format!("no tree is called {name:?}: there are {}", all.join(", "));
            return Err(Error::Unsupported { what });
        }
    })
}
