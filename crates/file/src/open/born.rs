//! How a pool's file comes into being, and what is done about files that are there already.
//!
//! The file is made under another name, `NAME-new` or, if something has that, `NAME-new1` and so on. It
//! gets its own name when it is complete and durable, if nothing has it. So what has the pool's name
//! is the pool, whole, or somebody else's file; and somebody else's is not opened for writing, cut,
//! renamed or removed, whatever it holds.
//!
//! A file that a killed maker leaves says so by a superblock that is [unborn](Super::unborn). The next maker
//! removes it if nobody has it locked, and makes it anew.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use everleaf_pmem::error::{Error, Result};

use crate::io::{Access, Io, IoFile, locked, refused, sibling, take_lock};
use crate::store::format::SUPER_BYTES;
use crate::store::superblock::Super;

/// Names that are tried for a file that is being made.
const NAMES: usize = 10;

/// A file that is being made, locked.
pub(crate) struct Unborn {
    path: PathBuf,
    pub file: Box<dyn IoFile>,
    /// Empty files of names before this one. Their makers may live: as long as these are locked, no
    /// other file for the same name gets further.
    _passed: Vec<Box<dyn IoFile>>,
}

/// The file that has a name under which a new one could be made.
enum Taken {
    /// A killed maker left it; it has been removed.
    Removed,
    /// A maker that may live.
    Empty(Box<dyn IoFile>),
    /// Somebody else's.
    Foreign,
}

fn making(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |e| Error::io(format!("making {}", path.display()), e)
}

/// Whether a file holds nothing that anybody needs, and says so.
fn is_useless(file: &dyn IoFile) -> std::io::Result<bool> {
    let mut copies = [0; 2 * SUPER_BYTES];
    let n = file.read_at(&mut copies, 0)?;
    let (a, b) = copies[..n].split_at(n.min(SUPER_BYTES));
    Ok(Super::choose(a, b).is_ok_and(|superblock| superblock.unborn))
}

/// Looks at what has a name that was to be free.
///
/// # Errors
/// [`Error::Locked`] while another maker is at work; I/O errors.
fn look(io: &dyn Io, name: &Path) -> Result<Taken> {
    // A file that cannot be read is not ours to remove.
    let Ok(file) = io.open(name, Access::Read) else { return Ok(Taken::Foreign) };
    let is_free = file.lock(false).map_err(making(name))?;
    let is_empty = file.is_empty().map_err(making(name))?;
    let is_ours = is_empty || is_useless(&*file).map_err(making(name))?;
    match (is_ours, is_free) {
        (false, _) => Ok(Taken::Foreign),
        (true, false) => Err(locked(&*file, name)),
        (true, true) if is_empty => Ok(Taken::Empty(file)),
        (true, true) => {
            io.remove(name).map_err(making(name))?;
            Ok(Taken::Removed)
        }
    }
}

impl Unborn {
    /// Makes an empty file that is to be called `path`.
    ///
    /// # Errors
    /// [`Error::Locked`] while another maker is at work; [`Error::InTheWay`] if all names are taken;
    /// I/O errors.
    pub(crate) fn new(io: &dyn Io, path: &Path) -> Result<Self> {
        let mut passed = Vec::new();
        for n in 0..NAMES {
            let suffix = if n == 0 { "-new".to_owned() } else { format!("-new{n}") };
            let name = sibling(path, &suffix);
            // Twice: what is there may be removed.
            for _ in 0..2 {
                match io.open(&name, Access::New) {
                    Ok(file) => return Self::lock(io, name, file, passed),
                    Err(e) if e.kind() != ErrorKind::AlreadyExists => {
                        return Err(refused(&name, e));
                    }
                    Err(_) => {}
                }
                match look(io, &name)? {
                    Taken::Removed => {}
                    Taken::Empty(file) => {
                        passed.push(file);
                        break;
                    }
                    Taken::Foreign => break,
                }
            }
        }
        let what = format!(
            "{} is made under such a name first, and {NAMES} of them are taken: move these files away",
            path.display()
        );
        Err(Error::InTheWay { path: sibling(path, "-new"), what })
    }

    fn lock(
        io: &dyn Io,
        path: PathBuf,
        file: Box<dyn IoFile>,
        passed: Vec<Box<dyn IoFile>>,
    ) -> Result<Self> {
        let unborn = Self { path, file, _passed: passed };
        match take_lock(&*unborn.file, &unborn.path, false) {
            Ok(()) => Ok(unborn),
            Err(error) => {
                unborn.remove(io);
                Err(error)
            }
        }
    }

    /// Removes the file that was not finished. Best effort: what is left says what it is.
    pub(crate) fn remove(self, io: &dyn Io) {
        let _ = io.remove(&self.path);
    }

    /// Gives the file, which is durable, its name. `None`, and the file is removed, if something has
    /// the name.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn give_name(self, io: &dyn Io, name: &Path) -> Result<Option<Box<dyn IoFile>>> {
        match io.rename_new(&self.path, name) {
            Ok(()) => Ok(Some(self.file)),
            Err(e) => {
                self.remove(io);
                match e.kind() {
                    ErrorKind::AlreadyExists => Ok(None),
                    _ => Err(making(name)(e)),
                }
            }
        }
    }
}
