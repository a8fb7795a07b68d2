//! The pool's file as [`File`](crate::File) and [`Dax`](crate::Dax) both use it: how it is made,
//! opened, locked, and what its superblock must say.

use std::io::ErrorKind;
use std::path::Path;

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::page::{Geometry, PageNo};

use crate::io::{Access, Io, IoFile, refused, take_lock};
use crate::open::born::Unborn;
use crate::store::format::{SUPER_BYTES, page_offset};
use crate::store::superblock::{DAX, Super};

/// Makes the pool's file; `None` if somebody else was faster.
pub(crate) type Make<'a> = &'a dyn Fn() -> Result<Option<Box<dyn IoFile>>>;

/// The pool's file, locked: shared if `read_only`. If it is missing, `make` is asked for it, when
/// there is one.
pub(crate) fn open_or_make(
    io: &dyn Io,
    path: &Path,
    read_only: bool,
    make: Option<Make<'_>>,
) -> Result<Box<dyn IoFile>> {
    for _ in 0..2 {
        match (open_pool(io, path, read_only), make) {
            (Ok(file), _) => {
                take_lock(&*file, path, read_only)?;
                return Ok(file);
            }
            (Err(Error::Io { source, .. }), Some(make))
                if source.kind() == ErrorKind::NotFound && !read_only =>
            {
                if let Some(file) = make()? {
                    return Ok(file);
                }
            }
            (Err(e), _) => return Err(e),
        }
    }
    Err(Error::io(format!("opening {}", path.display()), ErrorKind::NotFound.into()))
}

/// Opens the pool's file, for writing only if it is a pool's.
fn open_pool(io: &dyn Io, path: &Path, read_only: bool) -> Result<Box<dyn IoFile>> {
    let file = io.open(path, Access::Read).map_err(|e| refused(path, e))?;
    if read_only {
        return Ok(file);
    }
    let mut copies = [0; 2 * SUPER_BYTES];
    let n = file.read_at(&mut copies, 0).map_err(|e| Error::io("reading the superblock", e))?;
    let (a, b) = copies[..n].split_at(n.min(SUPER_BYTES));
    if n == 0 {
        return Err(Error::foreign("the file is empty").of(path));
    }
    Super::choose(a, b).map_err(|e| e.of(path))?;
    io.open(path, Access::Write).map_err(|e| refused(path, e))
}

/// The condition for the slots of a pool with a journal, as errors say it.
pub(crate) const SLOTS_WANTED: &str =
    "a power of two in 4..=1024 is wanted, or four less than one in 32..=2048";

/// The shape of the pages of a pool with those features. Nodes on persistent memory go round in their
/// bodies, so that there are no whole pages.
fn geometry(features: u64, slots: u32) -> Option<Geometry> {
    if features & DAX != 0 { Geometry::new(slots) } else { Geometry::from_slots(slots) }
}

/// Refuses `len` bytes that start `offset` bytes behind page `first`, if they are not all in the pool.
pub(crate) fn expect_inside(
    g: Geometry,
    limit: PageNo,
    first: PageNo,
    offset: u64,
    len: usize,
) -> Result<()> {
    let page_bytes = g.page_bytes() as u64;
    let end = offset.checked_add(len as u64);
    match end.map(|end| u64::from(first) + end.div_ceil(page_bytes)) {
        Some(end) if end <= u64::from(limit) => Ok(()),
        _ => {
            let what = format!("outside the pool: {len} bytes at {offset} behind page {first}");
            Err(Error::Invalid { what })
        }
    }
}

/// Prepares the file of a pool that is being made.
pub(crate) type Prepare<'a> = &'a dyn Fn(&dyn IoFile) -> Result<()>;

/// Makes a pool under another name, and gives it its name when it is durable: superblock, then what
/// `prepare` does with the file, then sync and rename. `None` if somebody else was
/// faster. The lock on the unfinished file keeps a second maker out; after an error it is removed.
pub(crate) fn make(
    io: &dyn Io,
    path: &Path,
    superblock: Super,
    prepare: Prepare<'_>,
) -> Result<Option<Box<dyn IoFile>>> {
    let failed = |e| Error::io(format!("making {}", path.display()), e);
    if geometry(superblock.features, superblock.slots).is_none() {
        let what = format!("{} slots; {SLOTS_WANTED}", superblock.slots);
        return Err(Error::InvalidOption { option: "slots", what });
    }
    let unborn = Unborn::new(io, path)?;
    let mut superblock = Super { unborn: true, ..superblock };
    let mut fill = || -> Result<bool> {
        superblock.uuid = io.entropy().map_err(failed)?;
        let file = &*unborn.file;
        for counter in [1, 2] {
            superblock.counter = counter;
            let bytes = superblock.encode();
            file.write_at(&bytes, superblock.copy() * SUPER_BYTES as u64).map_err(failed)?;
        }
        // From here on it says what it is, also after a power cut.
        file.sync_data().map_err(failed)?;
        if io.exists(path).map_err(failed)? {
            return Ok(false);
        }
        prepare(file)?;
        file.sync_data().map_err(failed)?;
        io.sync_dir(path).map_err(failed)?;
        Ok(true)
    };
    match fill() {
        Ok(true) => {}
        other => {
            unborn.remove(io);
            return other.map(|_| None);
        }
    }
    debug_assert!(superblock.unborn && superblock.counter == 2, "both copies are written");
    let Some(file) = unborn.give_name(io, path)? else { return Ok(None) };
    // It need not be durable: a pool that is still called unborn holds nothing.
    superblock.unborn = false;
    superblock.counter += 1;
    let bytes = superblock.encode();
    file.write_at(&bytes, superblock.copy() * SUPER_BYTES as u64).map_err(failed)?;
    io.sync_dir(path).map_err(failed)?;
    Ok(Some(file))
}

/// How a pool with those features is opened.
fn kind(features: u64) -> &'static str {
    if features & DAX != 0 {
        "a DAX pool, whose pages are updated in place: open it as one (`Dax`, `Storage::Dax`, `--dax`), \
         in a build with the feature `dax`"
    } else {
        "a pool with a journal: open it as a file"
    }
}

/// Reads the superblock and holds it against the file, the features that the medium has and the
/// layout that the layer above wants. Says how long the file is, too.
pub(crate) fn read_super(
    data: &dyn IoFile,
    features: u64,
    layout_hash: u64,
) -> Result<(Super, Geometry, u64)> {
    let failed = |e| Error::io("reading the superblock", e);
    let len = data.len().map_err(failed)?;
    if len == 0 {
        return Err(Error::foreign("the file is empty"));
    }
    data.drop_cached(0..2 * SUPER_BYTES as u64).map_err(failed)?;
    let mut copies = [0; 2 * SUPER_BYTES];
    let n = data.read_at(&mut copies, 0).map_err(failed)?;
    let (a, b) = copies[..n].split_at(n.min(SUPER_BYTES));
    let superblock = Super::choose(a, b)?;
    if superblock.features != features {
        return Err(Error::foreign(format!("it is {}", kind(superblock.features))));
    }
    let Some(g) = geometry(superblock.features, superblock.slots) else {
        return Err(Error::corrupt(40, format!("{} slots a page", superblock.slots)));
    };
    if superblock.layout_hash != layout_hash {
        let is = superblock.layout_hash;
        return Err(Error::foreign(format!("layout {is:#x}, not {layout_hash:#x}")));
    }
    let Ok(pages_end) = PageNo::try_from(superblock.pages_end) else {
        return Err(Error::corrupt(128, format!("{} pages", superblock.pages_end)));
    };
    if pages_end > 0 && len < page_offset(pages_end, g) {
        let what = format!("the file ends here, within its {pages_end} pages");
        return Err(Error::corrupt(len, what));
    }
    // Both only count up, by one at a time.
    if superblock.open_generation > u64::MAX / 2 || superblock.counter > u64::MAX / 2 {
        return Err(Error::corrupt(56, "impossible open generation or counter"));
    }
    Ok((superblock, g, len))
}
