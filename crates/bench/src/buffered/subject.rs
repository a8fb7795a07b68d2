//! The trees under test by their names: strict ones, and the buffered one.

use std::hint::black_box;
use std::ops::Bound::Unbounded;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use everleaf_pmem::{Buffered, BufferedOptions, Dram, Geometry, Medium};
use everleaf_pool::Stats;
use everleaf_tree::blink::Reading;
use everleaf_tree::hybrid::Keeper;
use everleaf_tree::kinds::{Named, create};
use everleaf_tree::{BdTree, INDEX_ANCHOR, Index};

use crate::workload::{Kind, Op, Workload};

/// Which trees to run.
#[derive(clap::Args)]
pub struct Trees {
    /// Trees; the first is compared with each of the others
    #[arg(long, value_delimiter = ',', default_value = "BdTree,CircTree,FastFair")]
    pub trees: Vec<String>,
    /// Slots of BdTree's leaves (16 bytes each)
    #[arg(long, default_value_t = 32)]
    pub slots: u32,
    /// Slots of the other trees' nodes
    #[arg(long, default_value_t = 32)]
    pub strict_slots: u32,
}

impl Trees {
    /// Memory for a tree of up to so many keys.
    pub fn memory(&self, name: &str, keys: u64) -> anyhow::Result<Dram> {
        memory(if name == BUFFERED { self.slots } else { self.strict_slots }, keys)
    }
}

/// The tree whose leaves are written back at the ends of epochs.
pub const BUFFERED: &str = "BdTree";

/// How often empty leaves are freed (§4.1.3).
const RECLAIM: Duration = Duration::from_millis(50);

/// Memory for a tree of up to so many keys, with three versions of each.
pub fn memory(slots: u32, keys: u64) -> anyhow::Result<Dram> {
    let geometry = Geometry::new(slots).context("slots must be a power of two in 4..=1024")?;
    Ok(Dram::new(geometry, (keys * 6 / u64::from(slots) + 1024) as u32)?)
}

/// A tree in a pool of its own.
pub enum Subject<M: Medium> {
    /// Durable by the end of each operation.
    Strict(Named<M>),
    /// Durable by the end of the epoch; with the thread that frees empty leaves.
    Buffered { tree: Arc<BdTree<M>>, _keeper: Option<Keeper> },
}

/// What the ends of epochs have written back.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ended {
    /// Lines of leaves.
    pub lines: u64,
    /// Times that the clock was made durable, one line each.
    pub commits: u64,
}

impl<M: Medium> Subject<M> {
    /// An empty tree of that name. A buffered one ends its epochs by itself at this interval, and
    /// frees empty leaves; without an interval epochs end in [`tick`](Self::tick) only.
    pub fn make(name: &str, medium: M, interval: Option<Duration>) -> anyhow::Result<Self> {
        if name != BUFFERED {
            return Ok(Self::Strict(create(name, Reading::Optimistic, medium)?));
        }
        let options =
            interval.map_or_else(Default::default, |interval| BufferedOptions { interval });
        let pool = BdTree::format_pool(Buffered::new(medium, &options)?)?;
        let tree = Arc::new(BdTree::create(Arc::new(pool), INDEX_ANCHOR)?);
        let mut _keeper = None;
        if interval.is_some() {
            tree.medium().start()?;
            _keeper = Some(Keeper::start(&tree, RECLAIM)?);
        }
        Ok(Self::Buffered { tree, _keeper })
    }

    /// The tree.
    pub fn index(&self) -> &dyn Index {
        match self {
            Self::Strict(tree) => &*tree.index,
            Self::Buffered { tree, .. } => &**tree,
        }
    }

    /// The strict medium.
    pub fn medium(&self) -> &M {
        match self {
            Self::Strict(tree) => tree.pool.medium(),
            Self::Buffered { tree, .. } => tree.medium().inner(),
        }
    }

    /// The tree, if it is the buffered one.
    pub fn buffered(&self) -> Option<&BdTree<M>> {
        match self {
            Self::Strict(_) => None,
            Self::Buffered { tree, .. } => Some(tree),
        }
    }

    /// The pages of its pool.
    pub fn pages(&self) -> anyhow::Result<Stats> {
        Ok(match self {
            Self::Strict(tree) => tree.pool.stats()?,
            Self::Buffered { tree, .. } => tree.pool().stats()?,
        })
    }

    /// The number of its keys. O(keys).
    pub fn keys(&self) -> anyhow::Result<u64> {
        Ok(self.index().range(Unbounded, Unbounded, usize::MAX)?.len() as u64)
    }

    /// Ends the running epoch, if there are any, and writes back what was deferred in it.
    pub fn tick(&self) -> anyhow::Result<()> {
        match self {
            Self::Strict(_) => Ok(()),
            Self::Buffered { tree, .. } => Ok(tree.medium().tick()?),
        }
    }

    /// What the ends of epochs have written back so far.
    pub fn ended(&self) -> Ended {
        match self {
            Self::Strict(_) => Ended::default(),
            Self::Buffered { tree, .. } => {
                let stats = tree.medium().stats();
                Ended { lines: stats.lines_deferred, commits: stats.commits }
            }
        }
    }

    /// Writes back all that was deferred.
    pub fn sync(&self) -> anyhow::Result<()> {
        match self {
            Self::Strict(_) => Ok(()),
            Self::Buffered { tree, .. } => Ok(tree.sync()?),
        }
    }

    /// Puts the workload's first keys.
    pub fn prefill(&self, workload: &Workload) -> anyhow::Result<()> {
        for key in workload.prefill() {
            self.index().insert(key, !key)?;
        }
        self.sync()
    }
}

/// Runs one operation.
pub fn apply(index: &dyn Index, op: Op) {
    let key = op.key();
    let found = match op.kind {
        Kind::Get => index.get(key),
        Kind::Put => index.insert(key, !key),
        Kind::Remove => index.remove(key),
    };
    black_box(found.expect("space and no fault"));
}
