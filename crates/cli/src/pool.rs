//! How the commands open pools and find trees.

use std::path::Path;

use everleaf::{Db, Options, TREE_NAME_BYTES_MAX, Tree};

use crate::failure::{Failure, Result};

/// Opens the pool to read it. It must exist, and nothing of it changes on disk.
pub fn open_to_read(path: &Path) -> Result<Db> {
    open(path, &Options::new().create(false).read_only(true))
}

/// Opens the pool as `options` say; names it in the failure.
pub fn open(path: &Path, options: &Options) -> Result<Db> {
    options.open(path).map_err(|error| Failure::from(error).context(path.display()))
}

/// The tree called `name`, which must exist.
pub fn find(db: &Db, name: &str) -> Result<Tree> {
    let missing = || Failure::NotFound(format!("no tree is called {name:?}"));
    db.find_tree(name)?.ok_or_else(missing)
}

/// The parser of TREE arguments: a name that a tree can have.
pub fn tree_name(text: &str) -> std::result::Result<String, String> {
    match text.len() {
        1..=TREE_NAME_BYTES_MAX => Ok(text.to_owned()),
        bytes => Err(format!("a name has 1 to {TREE_NAME_BYTES_MAX} bytes, this one has {bytes}")),
    }
}
