//! The new pool, under a name of its own until it is complete.
//!
//! ```text
//! NEW-salvage    filled like any pool, closed; a failure removes it
//! NEW            renamed: as this is one step, no crash leaves half of a pool
//! ```

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everleaf::io::{Access, Io};
use everleaf::{Bytes, Db, Error, Options, Result, Tree};

/// Bytes that are written before the pool is closed and opened again, because an open pool keeps
/// in memory what it has touched.
const REOPEN_BYTES: u64 = 256 << 20;

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub(crate) struct NewPool {
    io: Arc<dyn Io>,
    new: PathBuf,
    options: Options,
    db: Option<Db>,
    tree: Option<Tree>,
    /// The last key of `tree` that was put since it was chosen, if all before it were lower.
    last: Option<Vec<u8>>,
    written: u64,
}

impl NewPool {
    /// Makes the new pool under its first name.
    ///
    /// # Errors
    /// FileExists, if something has one of its names; Locked, if another salvage is making it.
    pub fn new(io: Arc<dyn Io>, old: &Path, new: &Path, options: Options) -> Result<Self> {
        expect_nothing(&*io, old, new)?;
        let new = new.to_owned();
        let mut writer = Self { io, new, options, db: None, tree: None, last: None, written: 0 };
        match writer.db().map(drop) {
            Ok(()) => Ok(writer),
            // Somebody has been faster: the files are not this salvage's.
            Err(error @ (Error::Locked { .. } | Error::InTheWay { .. })) => Err(error),
            Err(error) => {
                remove(&*writer.io, &writer.new);
                Err(error)
            }
        }
    }

    fn db(&mut self) -> Result<&Db> {
        if self.db.is_none() {
            let io = Arc::clone(&self.io);
            self.db = Some(self.options.open_on(io, beside(&self.new, "-salvage"))?);
        }
        self.db.as_ref().ok_or(Error::ReadOnly)
    }

    /// The pairs that follow go to this tree.
    pub fn choose(&mut self, name: &str) -> Result<()> {
        if self.tree.as_ref().is_none_or(|tree| tree.name() != name) {
            self.tree = Some(self.db()?.tree(name)?);
            self.last = None;
        }
        Ok(())
    }

    /// The value of a key of the chosen tree.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.tree
            .as_ref()
            .map_or(Ok(None), |tree| tree.get(key))
            .map(|value| value.map(Bytes::into_vec))
    }

    /// Sets the value of a key that has none in the chosen tree; else changes nothing and says so.
    pub fn put(&mut self, key: Vec<u8>, value: &[u8]) -> Result<bool> {
        debug_assert!(self.tree.is_some(), "a pair without a tree would be lost in silence");
        let Some(tree) = &self.tree else { return Ok(false) };
        let is_next = self.last.as_ref().is_some_and(|last| *last < key);
        if !is_next && tree.contains(&key)? {
            return Ok(false);
        }
        tree.insert(&key, value)?;
        self.written += (key.len() + value.len()) as u64;
        if is_next || self.last.is_none() && tree.last()?.is_some_and(|(last, _)| last == key) {
            self.last = Some(key);
        }
        if self.written > REOPEN_BYTES {
            self.reopen()?;
        }
        Ok(true)
    }

    fn reopen(&mut self) -> Result<()> {
        let name = self.tree.take().map(|tree| tree.name().to_owned());
        self.close()?;
        match name {
            Some(name) => self.choose(&name),
            None => Ok(()),
        }
    }

    fn close(&mut self) -> Result<()> {
        (self.tree, self.last, self.written) = (None, None, 0);
        self.db.take().map_or(Ok(()), Db::close)
    }

    /// Closes the pool and gives it its name.
    pub fn finish(mut self) -> Result<()> {
        self.close()?;
        debug_assert!(self.db.is_none() && self.tree.is_none(), "an open pool is not complete");
        let failed = |e| Error::io(format!("making {}", self.new.display()), e);
        if self.io.exists(&self.new).map_err(failed)? {
            let what = "has come into being meanwhile";
            return Err(Error::FileExists { path: self.new, what });
        }
        let made = beside(&self.new, "-salvage");
        self.io.rename_new(&made, &self.new).map_err(failed)?;
        self.io.sync_dir(&self.new).map_err(|e| {
            let _ = self.io.remove(&self.new);
            failed(e)
        })
    }
}

/// The directory of a path as the system knows it, if it does, and the name in it.
fn place(path: &Path) -> (PathBuf, Option<&OsStr>) {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    (parent.canonicalize().unwrap_or_else(|_| parent.to_owned()), path.file_name())
}

/// Checks that all names that a salvage uses are free. A file that has one of them may be anybody's.
fn expect_nothing(io: &dyn Io, old: &Path, new: &Path) -> Result<()> {
    let failed = |e| Error::io(format!("making {}", new.display()), e);
    let unfinished = beside(new, "-salvage");
    let is_taken = |path: &Path| io.exists(path).map_err(failed);
    // Not a name of the old pool either, which somebody may be about to make.
    let olds = ["", "-new"].map(|suffix| beside(old, suffix));
    for path in [new, &unfinished] {
        if olds.iter().any(|old| place(old) == place(path)) {
            let what = "is the old pool's own file";
            return Err(Error::FileExists { path: path.to_owned(), what });
        }
    }
    if is_taken(new)? {
        return Err(Error::FileExists { path: new.to_owned(), what: "is there already" });
    }
    for path in [unfinished.clone(), beside(&unfinished, "-new")] {
        if !is_taken(&path)? {
            continue;
        }
        if io.open(&path, Access::Read).is_ok_and(|file| matches!(file.lock(false), Ok(false))) {
            return Err(Error::Locked { path, is_here: None });
        }
        let what = "is there already: remove it, if it is what an earlier salvage left";
        return Err(Error::FileExists { path, what });
    }
    Ok(())
}

/// Removes what this salvage to `new` did not finish. Best effort: what is left has a name that says
/// what it is, and the next salvage names it.
pub(crate) fn remove(io: &dyn Io, new: &Path) {
    let _ = io.remove(&beside(new, "-salvage"));
    let _ = io.remove(&beside(new, "-salvage-new"));
    let _ = io.sync_dir(new);
}
