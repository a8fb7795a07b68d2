//! The new pool, under a name of its own until it is complete.
//!
//! ```text
//! NEW-salvage, -j0, -j1    filled like any pool, closed          a failure removes all three
//! NEW-j0, NEW-j1, NEW      renamed, the data file last           then the salvage is done
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use everleaf_pmem::io::{Access, Io};

use crate::{Db, Error, Options, Result, Tree};

/// Bytes that are written before the pool is closed and opened again, because an open pool keeps
/// in memory what it has touched.
const REOPEN_BYTES: u64 = 256 << 20;

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The names that a pool's files have, the data file last.
fn files(path: &Path) -> [PathBuf; 3] {
    [beside(path, "-j0"), beside(path, "-j1"), path.to_owned()]
}

pub(super) struct Writer {
    io: Arc<dyn Io>,
    new: PathBuf,
    options: Options,
    db: Option<Db>,
    tree: Option<Tree>,
    /// The last key of `tree` that was put since it was chosen, if all before it were lower.
    last: Option<Vec<u8>>,
    written: u64,
}

impl Writer {
    /// Makes the new pool under its first name.
    ///
    /// # Errors
    /// Invalid, if something has one of its names; Locked, if another salvage is making it.
    pub fn new(io: Arc<dyn Io>, old: &Path, new: &Path, options: Options) -> Result<Self> {
        let failed = |e| Error::io(format!("making {}", new.display()), e);
        // Not a file of the old pool either, whose journal may be missing.
        let is_olds = ["", "-j0", "-j1", "-new"]
            .iter()
            .any(|s| beside(old, s).file_name() == new.file_name());
        for path in files(new) {
            if is_olds || io.exists(&path).map_err(failed)? {
                let what = format!("{} is there already, or is the old pool's", path.display());
                return Err(Error::Invalid { what });
            }
        }
        let unfinished = beside(new, "-salvage");
        match io.open(&unfinished, Access::Read) {
            Ok(file) => {
                if !file.lock(false).map_err(failed)? {
                    return Err(Error::Locked { path: unfinished });
                }
                // What an earlier salvage has left, which did not get to its end.
                remove(&*io, new);
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(failed(e)),
        }
        let new = new.to_owned();
        let mut writer = Self { io, new, options, db: None, tree: None, last: None, written: 0 };
        if let Err(error) = writer.db().map(drop) {
            remove(&*writer.io, &writer.new);
            return Err(error);
        }
        Ok(writer)
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
        self.tree.as_ref().map_or(Ok(None), |tree| tree.get(key))
    }

    /// Sets the value of a key that has none in the chosen tree; else changes nothing and says so.
    pub fn put(&mut self, key: Vec<u8>, value: &[u8]) -> Result<bool> {
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
        let failed = |e| Error::io(format!("making {}", self.new.display()), e);
        if self.io.exists(&self.new).map_err(failed)? {
            let what = format!("{} has come into being meanwhile", self.new.display());
            return Err(Error::Invalid { what });
        }
        self.rename().map_err(|e| {
            for path in files(&self.new) {
                let _ = self.io.remove(&path);
            }
            failed(e)
        })
    }

    fn rename(&self) -> std::io::Result<()> {
        let unfinished = files(&beside(&self.new, "-salvage"));
        for (from, to) in unfinished.iter().zip(files(&self.new)) {
            self.io.rename(from, &to)?;
        }
        self.io.sync_dir(&self.new)
    }
}

/// Removes what a salvage to `new` did not finish. Best effort: what is left has a name that says
/// what it is, and the next salvage removes it.
pub(super) fn remove(io: &dyn Io, new: &Path) {
    for path in files(&beside(new, "-salvage")) {
        let _ = io.remove(&path);
    }
    let _ = io.remove(&beside(new, "-salvage-new"));
    let _ = io.sync_dir(new);
}
