//! How the files of a pool come into being, and what is done about files that are there already.
//!
//! A file is made under another name, `NAME-new` or, if something has that, `NAME-new1` and so on. It
//! gets its own name when it is complete and durable, if nothing has it. So what has the name of one
//! of the pool's files is that file, whole, or somebody else's; and somebody else's is not opened for
//! writing, cut, renamed or removed, whatever it holds.
//!
//! What a killed maker leaves says so: a superblock that is [unborn](Super::unborn), or a journal that
//! nobody needs. The next maker removes it if nobody has it locked, and makes it anew.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use everleaf_pmem::error::{Error, Result};

use crate::format::{SUPER_BYTES, Super};
use crate::io::{Access, Io, IoFile};
use crate::journal::{self, IDLE_BYTES, Says};
use crate::names::{refused, sibling, take_lock};

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

/// What has a name that a new file could be made under.
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
    if matches!(journal::says(file, None)?, Says::Journal { is_idle: true, .. }) {
        return Ok(true);
    }
    let mut copies = [0; 2 * SUPER_BYTES];
    let n = file.read_at(&mut copies, 0)?;
    let (a, b) = copies[..n].split_at(n.min(SUPER_BYTES));
    Ok(Super::choose(a, b).is_ok_and(|(superblock, _)| superblock.unborn))
}

/// Looks at what has a name that was to be free.
///
/// # Errors
/// [`Error::Locked`] while another maker is at work; I/O errors.
fn look(io: &dyn Io, name: &Path) -> Result<Taken> {
    // Whatever cannot be read is not ours to remove.
    let Ok(file) = io.open(name, Access::Read) else { return Ok(Taken::Foreign) };
    let is_free = file.lock(false).map_err(making(name))?;
    let is_empty = file.is_empty().map_err(making(name))?;
    let is_ours = is_empty || is_useless(&*file).map_err(making(name))?;
    match (is_ours, is_free) {
        (false, _) => Ok(Taken::Foreign),
        (true, false) => Err(Error::Locked { path: name.to_owned() }),
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
    /// What the system says.
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

    /// As [`give_name`](Self::give_name), in place of a journal that nobody needs.
    fn replace(self, io: &dyn Io, name: &Path) -> Result<Box<dyn IoFile>> {
        match io.rename(&self.path, name) {
            Ok(()) => Ok(self.file),
            Err(e) => {
                self.remove(io);
                Err(making(name)(e))
            }
        }
    }
}

/// Makes the journal file called `name`, of the pool with that uuid, durable but for its name. A
/// journal that nobody needs makes room for it. The caller keeps other makers of this pool out.
///
/// # Errors
/// [`Error::InTheWay`] if something else has the name; [`Error::Locked`] if that is a journal in use,
/// or being made; I/O errors.
pub(crate) fn journal(io: &dyn Io, name: &Path, uuid: &[u8; 16]) -> Result<Box<dyn IoFile>> {
    // Held until the end: nobody begins to use it meanwhile.
    let old = useless_journal(io, name)?;
    let unborn = Unborn::new(io, name)?;
    let write = |file: &dyn IoFile| {
        file.write_at(&journal::birth(uuid)[..IDLE_BYTES as usize], 0)?;
        file.sync_data()
    };
    if let Err(e) = write(&*unborn.file) {
        unborn.remove(io);
        return Err(making(name)(e));
    }
    if old.is_some() {
        return unborn.replace(io, name);
    }
    let made = unborn.give_name(io, name)?;
    made.ok_or_else(|| in_the_way(name, "it has come into being meanwhile"))
}

/// Looks whether a journal file can be [made](journal) under this name, and changes nothing.
///
/// # Errors
/// As [`journal`].
pub(crate) fn expect_room(io: &dyn Io, name: &Path) -> Result<()> {
    useless_journal(io, name).map(drop)
}

/// The journal that nobody needs and that has this name, locked.
fn useless_journal(io: &dyn Io, name: &Path) -> Result<Option<Box<dyn IoFile>>> {
    let file = match io.open(name, Access::Read) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) if e.kind() == ErrorKind::Unsupported => {
            return Err(in_the_way(name, format!("it is {e}")));
        }
        Err(e) => return Err(refused(name, e)),
    };
    match journal::says(&*file, None).map_err(making(name))? {
        Says::Journal { is_idle: true, .. } => {}
        said => return Err(in_the_way(name, alien(&*file, said))),
    }
    take_lock(&*file, name, false)?;
    // Again, for it may have been in use until now.
    match journal::says(&*file, None).map_err(making(name))? {
        Says::Journal { is_idle: true, .. } => Ok(Some(file)),
        said => Err(in_the_way(name, alien(&*file, said))),
    }
}

pub(crate) fn in_the_way(path: &Path, what: impl Into<String>) -> Error {
    Error::InTheWay { path: path.to_owned(), what: what.into() }
}

/// What a file is that is no journal of this pool, and what can be done about it.
pub(crate) fn alien(file: &dyn IoFile, said: Says) -> &'static str {
    let mut copies = [0; 2 * SUPER_BYTES];
    let n = file.read_at(&mut copies, 0).unwrap_or(0);
    let (a, b) = copies[..n].split_at(n.min(SUPER_BYTES));
    match said {
        Says::Journal { .. } => {
            "it is the journal of another pool, which was not closed, and may hold its last changes: \
             move it to that pool"
        }
        _ if Super::choose(a, b).is_ok() => {
            "it is a pool itself, and this one needs the name for its journal: call one of them \
             something else"
        }
        _ => "it is none of this pool's files, and the pool needs its name: move it away",
    }
}
