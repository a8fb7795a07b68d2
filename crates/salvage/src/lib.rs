//! Copies what can still be trusted of a damaged pool into a new pool.
//!
//! [`salvage`] is for a pool on an ordinary file that does not open any more, or in which
//! [`Db::check`](everleaf::Db::check) finds damage. It only reads the old pool, writes a new one, and
//! reports each [`Loss`] with its place, its cause and the keys that may be missing.
//!
//! # How it works
//!
//! ```text
//! survey.rs      which page is what, by the map and by its own header
//! fragments.rs   trees from their roots, and parts from nodes that no root reaches
//! marks.rs       which records nodes name
//! trees.rs       the names of trees, and which part belongs to which tree
//! copy.rs        leaves, then records that nobody names, into the new pool (new_pool.rs)
//! report.rs      what was copied, and what was lost
//! look.rs        a pool as a person looks at it: a page, the journal, a tree
//! ```
//!
//! Most pairs are in their leaf; those of long keys or values are in records, which a leaf names. A pair is
//! copied if it is in a leaf whose checksum is right and whose bounds include the key, or in a record that
//! such a leaf names, is in use, and has right checksums of its page and extents. A record that no leaf
//! names goes to a tree only if it can belong to no other one: its key falls into exactly one gap, and
//! every tree is known. All other pairs go to trees whose names begin with `lost+found/`; those of a page whose
//! image is damaged and of which an older one is left, to `lost+found/older/TREE`.
//!
//! How many pairs a tree lacks is what the pool says that it had, less what it has in the new pool.

#![forbid(unsafe_code)]

mod copy;
mod fragments;
pub mod look;
mod marks;
mod new_pool;
mod report;
mod survey;
mod trees;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use everleaf::io::{Io, RealIo};
use everleaf::{Compression, Options, Result};

pub use report::{KeyRange, Loss, Origin, Salvaged, SalvagedTree};

use copy::Copier;
use marks::Marks;
use new_pool::NewPool;
use survey::Survey;
use trees::OldTrees;

type ProgressFn = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// Settings of a [`salvage`].
#[derive(Clone, Default)]
pub struct SalvageOptions {
    progress: Option<ProgressFn>,
    memory: Option<u64>,
    compression: Compression,
}

impl SalvageOptions {
    /// Settings without reports of progress; the new pool is opened as by [`everleaf::Options::new`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls `progress` now and then with how much of the work is done, and how much work there is.
    #[must_use]
    pub fn progress(mut self, progress: impl Fn(u64, u64) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(progress));
        self
    }

    /// Sets how many bytes of memory the new pool's pages may take, as [`everleaf::Options::memory`] does. The memory
    /// for what is known of the old pool comes on top.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Sets how the new pool is compressed; not at all unless this says so, however the old one was.
    #[must_use]
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// How the new pool is opened, with pages of `page_bytes`.
    fn new_pool(&self, page_bytes: u32) -> Options {
        let options = Options::new().page_bytes(page_bytes).compression(self.compression);
        match self.memory {
            Some(bytes) => options.memory(bytes),
            None => options,
        }
    }
}

impl fmt::Debug for SalvageOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SalvageOptions").finish_non_exhaustive()
    }
}

/// Copies every pair of the pool at `old` that can still be trusted into a new pool at `new`, and
/// reports what could not be copied.
///
/// The old pool may be damaged in any way, or sound; it is only read. When this returns, the new pool is
/// durable and closed. Until then its file is called `NEW-salvage`; an error removes it. A crash leaves it,
/// and it must be removed before the next salvage to `new`. The old file is read twice. Memory use grows
/// with the number of pages and the size of the journal, not with the pairs.
///
/// Pairs keep the names of their trees. Pairs whose tree is unknown go to trees whose names begin with
/// `lost+found/`; see [`Origin`]. If the journal or the page table is damaged, some values may be older
/// than the last ones that were set; [`Salvaged::losses`] says so.
///
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let (old, new) = (dir.path().join("old.ever"), dir.path().join("new.ever"));
/// use everleaf::Db;
/// use everleaf_salvage::{SalvageOptions, salvage};
/// let db = Db::open(&old)?;
/// db.tree("days")?.insert("05-30", "rain")?;
/// db.close()?;
///
/// let salvaged = salvage(&old, &new, &SalvageOptions::new())?;
/// for loss in &salvaged.losses {
///     println!("{loss}");
/// }
/// assert!(salvaged.is_complete() && salvaged.pairs() == 1);
/// assert_eq!(Db::open(&new)?.tree("days")?.get("05-30")?, Some("rain".into()));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// - [`Foreign`](everleaf::Error::Foreign) if there is no pool at `old`, or one on persistent memory.
/// - [`Locked`](everleaf::Error::Locked) if another process has the old pool open for writing, or salvages
///   to `new`.
/// - [`FileExists`](everleaf::Error::FileExists) if a file has the name `new` or the name above,
///   or if `new` is the old pool's file.
/// - [`Io`](everleaf::Error::Io) and the other errors of writing a pool.
///
/// Damage is not an error.
pub fn salvage(
    old: impl AsRef<Path>,
    new: impl AsRef<Path>,
    options: &SalvageOptions,
) -> Result<Salvaged> {
    salvage_on(Arc::new(RealIo), old, new, options)
}

/// Like [`salvage`], on a file system that the caller provides.
///
/// # Errors
///
/// Those of [`salvage`].
pub fn salvage_on(
    io: Arc<dyn Io>,
    old: impl AsRef<Path>,
    new: impl AsRef<Path>,
    options: &SalvageOptions,
) -> Result<Salvaged> {
    let (old, new) = (old.as_ref(), new.as_ref());
    let tell = |done, all| {
        if let Some(progress) = &options.progress {
            progress(done, all);
        }
    };
    let pool = everleaf_tree::salvage::open(&*io, old)?;
    let made = options.new_pool(pool.geometry().page_bytes() as u32);
    let mut new_pool = NewPool::new(Arc::clone(&io), old, new, made)?;
    let salvaged = match copy_all(pool, &mut new_pool, &tell) {
        Ok(salvaged) => new_pool.finish().map(|()| salvaged),
        Err(error) => {
            drop(new_pool);
            Err(error)
        }
    };
    if salvaged.is_err() {
        new_pool::remove(&*io, new);
    }
    salvaged
}

fn copy_all(
    pool: everleaf_pool::Pool<everleaf_file::DamagedFile>,
    new_pool: &mut NewPool,
    tell: &dyn Fn(u64, u64),
) -> Result<Salvaged> {
    let mut report = Salvaged::default();
    // Looking is about half of the work.
    let mut survey = Survey::new(pool, &mut |done, all| tell(done, 2 * all))?;
    let mut old = OldTrees::new(&mut survey)?;
    let marks = Marks::new(&mut survey)?;
    old.name_by_records(&mut survey, &marks)?;
    let all = (survey.nodes.len() + survey.records.len()) as u64;
    let mut tell_rest = |done| tell(all + done, 2 * all);
    Copier::new(&mut survey, &old, &marks, new_pool, &mut report, &mut tell_rest).run()?;
    report.losses = survey.losses;
    report.pages_lost = survey.pages_lost;
    Ok(report)
}

/// Keeps the code of the README true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
