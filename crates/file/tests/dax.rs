//! Pools on persistent memory: what an open accepts, what survives, and what is refused.
//!
//! The tests use ordinary files and emulate persistent memory. With `EVERLEAF_DAX` set they take the
//! directory for temporary files to be on a DAX file system, and do not emulate (`ci/dax_qemu.sh`).

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everleaf_file::FIRST_PAGE_OFFSET;
use everleaf_file::io::RealIo;
use everleaf_file::{Dax, DaxOptions, File, FileOptions};
use everleaf_pmem::{Error, Flush, Medium, PageNo, Result};

const PAGES: PageNo = 64;
const PAGE_BYTES: u64 = 64 + 8 * 16;

fn on_dax() -> bool {
    std::env::var_os("EVERLEAF_DAX").is_some()
}

fn options() -> DaxOptions {
    let emulate = !on_dax();
    DaxOptions { slots: 8, pages: PAGES, create: true, emulate, ..DaxOptions::default() }
}

fn read_only() -> DaxOptions {
    DaxOptions { read_only: true, ..options() }
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("p");
    (dir, path)
}

fn open(path: &Path) -> Dax {
    Dax::open(path, &options()).expect("opens")
}

fn error(path: &Path, options: &DaxOptions) -> Error {
    Dax::open(path, options).expect_err("must be refused")
}

/// Stores, flushes and fences.
fn set(dax: &Dax, no: PageNo, word: usize, value: u64) -> Result<()> {
    dax.enter()?;
    let page = dax.page(no)?;
    dax.store(page.body(word), value);
    dax.flush(page, page.line_of(word));
    dax.fence();
    Ok(())
}

fn get(dax: &Dax, no: PageNo, word: usize) -> u64 {
    dax.page(no).expect("inside").body(word).load()
}

/// Changes bytes of a file.
fn poke(path: &Path, at: usize, bytes: &[u8]) {
    let mut all = fs::read(path).expect("file");
    all[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(path, all).expect("written");
}

/// Changes a field in both superblocks and makes their checksums good again.
fn forge(path: &Path, at: usize, bytes: &[u8]) {
    let mut all = fs::read(path).expect("file");
    for copy in all[..8192].chunks_mut(4096) {
        copy[at..at + bytes.len()].copy_from_slice(bytes);
        let crc = crc32c::crc32c(&copy[..4092]);
        copy[4092..].copy_from_slice(&crc.to_le_bytes());
    }
    fs::write(path, all).expect("written");
}

#[test]
fn what_is_not_on_dax_is_refused_unless_emulated() {
    let (dir, path) = place();
    let strict = DaxOptions { emulate: false, ..options() };
    if on_dax() {
        assert!(!Dax::open(&path, &strict).expect("opens").is_emulated());
        return;
    }
    match error(&path, &strict) {
        Error::NotDax { path: named } => assert_eq!(named, path),
        other => panic!("{other}"),
    }
    assert_eq!(fs::read_dir(dir.path()).expect("dir").count(), 0, "nothing is left");
    assert!(open(&path).is_emulated());
    let before = fs::read(&path).expect("file");
    let e = error(&path, &strict);
    assert!(matches!(e, Error::NotDax { .. }) && e.to_string().contains("emulate"), "{e}");
    assert!(before == fs::read(&path).expect("file"), "a refused pool is not changed");
    let reader = Dax::open(&path, &DaxOptions { read_only: true, ..strict }).expect("opens");
    assert!(!reader.is_emulated(), "a reader loses nothing");
}

#[test]
fn a_pool_keeps_its_words_and_its_shape() {
    let (_dir, path) = place();
    {
        let dax = open(&path);
        assert!(dax.is_fresh() && dax.was_clean());
        assert_eq!((dax.open_generation(), dax.limit()), (1, PAGES));
        for no in 0..PAGES {
            set(&dax, no, 3, u64::from(no) + 1).expect("set");
        }
    }
    assert_eq!(fs::metadata(&path).expect("file").permissions().mode() & 0o777, 0o600);
    let other = DaxOptions { slots: 32, pages: 0, ..options() };
    let dax = Dax::open(&path, &other).expect("opens");
    assert!(!dax.is_fresh() && dax.was_clean() && dax.is_emulated() != on_dax());
    assert_eq!((dax.open_generation(), dax.limit(), dax.geometry().slots()), (2, PAGES, 8));
    assert!((0..PAGES).all(|no| get(&dax, no, 3) == u64::from(no) + 1));
    assert!(matches!(dax.page(PAGES), Err(Error::Corrupt { .. })));
    drop(dax);
    let file = fs::read(&path).expect("file");
    let at = |no: u64| (FIRST_PAGE_OFFSET + no * PAGE_BYTES + 64 + 3 * 8) as usize;
    assert_eq!(file[at(7)..at(7) + 8], 8u64.to_le_bytes(), "pages are at their homes");
}

#[test]
fn one_writer_or_several_readers() {
    let (_dir, path) = place();
    let writer = open(&path);
    for options in [options(), read_only()] {
        assert!(matches!(error(&path, &options), Error::Locked { .. }));
    }
    drop(writer);
    let first = Dax::open(&path, &read_only()).expect("reader");
    let second = Dax::open(&path, &read_only()).expect("reader");
    assert!(matches!(error(&path, &options()), Error::Locked { .. }));
    drop((first, second));
    open(&path);
}

#[test]
fn each_medium_names_the_other() {
    let (dir, path) = place();
    drop(open(&path));
    let file = FileOptions { background: false, max_pages: 64, ..FileOptions::default() };
    match File::open(Arc::new(RealIo), &path, &file).expect_err("a DAX pool") {
        Error::Foreign { what, .. } => assert!(what.contains("--dax"), "{what}"),
        other => panic!("{other}"),
    }
    let path = dir.path().join("file");
    let file = FileOptions { create: true, ..file };
    File::open(Arc::new(RealIo), &path, &file).expect("opens").close().expect("closes");
    match error(&path, &options()) {
        Error::Foreign { what, .. } => assert!(what.contains("as a file"), "{what}"),
        other => panic!("{other}"),
    }
}

#[test]
fn a_damaged_superblock_gives_way_to_the_other() {
    for copy in 0..2 {
        let (_dir, path) = place();
        let dax = open(&path);
        set(&dax, 1, 0, 42).expect("set");
        drop(dax);
        poke(&path, copy * 4096 + 200, &[1]);
        let dax = open(&path);
        // The older copy is that of the open before the close: it knows of no clean end.
        assert_eq!((get(&dax, 1, 0), dax.was_clean()), (42, copy == 0));
        drop(dax);
        assert!(open(&path).was_clean(), "both are written in turn");
        poke(&path, 200, &[1]);
        poke(&path, 4096 + 200, &[1]);
        assert!(matches!(error(&path, &options()), Error::Corrupt { .. }));
    }
}

#[test]
fn hostile_superblocks_are_typed_errors() {
    let big = u64::MAX.to_le_bytes();
    let corrupt: [(usize, &[u8]); 7] = [
        (40, &[3, 0, 0, 0]),                          // slots
        (40, &[28, 0, 0, 0]),                         // slots of a whole page
        (40, &[0, 0, 1, 0]),                          // slots
        (56, &big),                                   // open generation
        (64, &big),                                   // counter
        (128, &big),                                  // pages
        (128, &(u64::from(PAGES) + 9).to_le_bytes()), // pages that the file does not have
    ];
    let foreign: [(usize, &[u8]); 5] =
        [(0, b"SOMEFILE"), (8, &[9]), (12, &[1, 2, 3, 4]), (16, &[6]), (48, &[1])];
    for (at, bytes) in corrupt {
        let (_dir, path) = place();
        drop(open(&path));
        forge(&path, at, bytes);
        let e = error(&path, &options());
        assert!(matches!(e, Error::Corrupt { .. }), "byte {at}: {e}");
    }
    for (at, bytes) in foreign {
        let (_dir, path) = place();
        drop(open(&path));
        forge(&path, at, bytes);
        let e = error(&path, &options());
        assert!(matches!(e, Error::Foreign { .. }), "byte {at}: {e}");
    }
    let (_dir, path) = place();
    drop(open(&path));
    forge(&path, 128, &[0; 8]);
    let dax = Dax::open(&path, &DaxOptions { pages: 0, ..options() }).expect("no pages, no harm");
    assert!(dax.limit() == 0 && dax.page(0).is_err() && dax.extent_read(0, 0, &mut [0]).is_err());
}

#[test]
fn short_files_and_other_things_are_typed_errors() {
    let (dir, path) = place();
    drop(open(&path));
    let whole = fs::read(&path).expect("file");
    for len in [whole.len() - 1, FIRST_PAGE_OFFSET as usize, 8192, 5000, 4096] {
        fs::write(&path, &whole[..len]).expect("written");
        for options in [options(), read_only()] {
            match error(&path, &options) {
                Error::Corrupt { offset, .. } => assert_eq!(offset, len as u64),
                other => panic!("{len} bytes: {other}"),
            }
        }
    }
    for bytes in [&[][..], &whole[..7], &[0; 9000]] {
        fs::write(&path, bytes).expect("written");
        assert!(matches!(error(&path, &options()), Error::Foreign { .. }));
    }
    fs::write(&path, &whole).expect("written");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&path, &link).expect("symlink");
    for path in [&link, dir.path()] {
        assert!(matches!(error(path, &options()), Error::Foreign { .. }));
    }
    let missing = dir.path().join("missing");
    let no_create = DaxOptions { create: false, ..options() };
    assert!(matches!(error(&missing, &no_create), Error::Io { .. }));
    assert!(matches!(error(&missing, &read_only()), Error::Io { .. }));
    let (odd, whole) =
        (DaxOptions { slots: 3, ..options() }, DaxOptions { slots: 28, ..options() });
    for wrong in [odd, whole, DaxOptions { pages: 0, ..options() }] {
        assert!(matches!(error(&missing, &wrong), Error::InvalidOption { .. }));
    }
    assert!(!missing.exists());
}

#[test]
fn a_pool_grows_and_never_shrinks_and_has_all_its_blocks() {
    let (dir, path) = place();
    let reserved = |path: &Path| {
        let meta = fs::metadata(path).expect("file");
        meta.blocks() * 512 >= meta.len()
    };
    let dax = open(&path);
    set(&dax, PAGES - 1, 0, 7).expect("set");
    drop(dax);
    assert!(reserved(&path));
    let larger = DaxOptions { pages: 50 * PAGES, ..options() };
    let dax = Dax::open(&path, &larger).expect("grows");
    assert_eq!((dax.limit(), get(&dax, PAGES - 1, 0)), (50 * PAGES, 7));
    assert_eq!(get(&dax, 50 * PAGES - 1, 15), 0);
    set(&dax, 50 * PAGES - 1, 15, 8).expect("set");
    drop(dax);
    assert!(reserved(&path));
    let dax = open(&path);
    assert_eq!((dax.limit(), get(&dax, 50 * PAGES - 1, 15)), (50 * PAGES, 8));
    drop(dax);
    // A copy with holes gets blocks before a page is handed out.
    let sparse = dir.path().join("sparse");
    let (all, len) = (fs::read(&path).expect("file"), fs::metadata(&path).expect("file").len());
    let mut copy = fs::File::create(&sparse).expect("made");
    copy.write_all(&all[..8192]).expect("written");
    copy.set_len(len).expect("set");
    drop(copy);
    let dax = open(&sparse);
    assert!(dax.is_fresh() && reserved(&sparse));
}

#[test]
fn a_reader_changes_no_byte() {
    let (_dir, path) = place();
    drop(open(&path));
    assert!(Dax::open(&path, &read_only()).expect("reader").is_fresh());
    set(&open(&path), 0, 0, 5).expect("set");
    let before = fs::read(&path).expect("file");
    {
        let larger = DaxOptions { pages: 2 * PAGES, ..read_only() };
        let dax = Dax::open(&path, &larger).expect("reader");
        assert_eq!((dax.limit(), dax.open_generation(), dax.is_fresh()), (PAGES, 2, false));
        assert!(matches!(dax.enter(), Err(Error::ReadOnly)));
        assert!(matches!(dax.extent_write(9, 0, &[1]), Err(Error::ReadOnly)));
        // Only this handle sees what recovery stores.
        let page = dax.page(0).expect("inside");
        dax.store(page.body(0), 6);
        dax.flush(page, 1);
        dax.fence();
        assert_eq!(get(&dax, 0, 0), 6);
        dax.close();
    }
    assert!(before == fs::read(&path).expect("file"));
    assert_eq!(get(&open(&path), 0, 0), 5);
}

#[test]
fn extents_are_bytes_at_any_place() {
    let (_dir, path) = place();
    let (first, pages) = (10, 20);
    let mut model = vec![0; (pages * PAGE_BYTES) as usize];
    let dax = open(&path);
    let mut seed = 12_u64;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below
    };
    for round in 0..2000 {
        let from = next(model.len());
        let to = from + next((model.len() - from).min(300) + 1);
        let bytes: Vec<u8> = (from..to).map(|i| (i * 7 + round) as u8).collect();
        model[from..to].copy_from_slice(&bytes);
        // Offsets count from any page before.
        let page = next(from / PAGE_BYTES as usize + 1);
        let offset = (from - page * PAGE_BYTES as usize) as u64;
        dax.extent_write(first + page as PageNo, offset, &bytes).expect("inside");
    }
    drop(dax);
    let dax = open(&path);
    let mut back = vec![1; model.len()];
    dax.extent_read(first, 0, &mut back).expect("inside");
    assert!(back == model);
    dax.extent_read(first, 1001, &mut back[..77]).expect("inside");
    assert_eq!(back[..77], model[1001..1078]);
    let mut beside = [1; 8];
    dax.extent_read(first - 1, PAGE_BYTES - 8, &mut beside).expect("inside");
    assert_eq!(beside, [0; 8]);
    dax.extent_read(first + 20, 0, &mut beside).expect("inside");
    assert_eq!(beside, [0; 8]);
    dax.extent_write(PAGES - 1, 0, &[9; PAGE_BYTES as usize]).expect("the last page");
    for (first, offset, len) in [
        (PAGES - 1, 1, PAGE_BYTES),
        (PAGES - 1, PAGE_BYTES, 1),
        (PAGES, 0, 1),
        (0, u64::MAX, 1),
        (PageNo::MAX, u64::MAX / 2, 1),
    ] {
        let mut buf = vec![0; len as usize];
        for refused in
            [dax.extent_write(first, offset, &buf), dax.extent_read(first, offset, &mut buf)]
        {
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{first} {offset} {len}");
        }
    }
}

#[test]
fn only_an_orderly_end_is_clean() {
    let (_dir, path) = place();
    let dax = open(&path);
    dax.close();
    dax.close();
    assert!(matches!(dax.enter(), Err(Error::Closed)));
    assert!(matches!(dax.extent_write(9, 0, &[1]), Err(Error::Closed)));
    assert!(matches!(dax.extent_read(9, 0, &mut [1]), Err(Error::Closed)));
    drop(dax);
    let dax = open(&path);
    assert!(dax.was_clean());
    let panicked = std::thread::spawn(move || {
        let _dropped_in_a_panic = dax;
        panic!("half-way through a step");
    });
    assert!(panicked.join().is_err());
    assert!(!Dax::open(&path, &read_only()).expect("reader").was_clean());
    assert!(!open(&path).was_clean());
    let dax = open(&path);
    assert_eq!((dax.was_clean(), dax.open_generation()), (true, 4));
}

#[test]
fn every_instruction_of_the_processor_works() {
    let (_dir, path) = place();
    let available = Flush::available();
    assert!(!available.is_empty(), "no way to flush on this processor");
    for (i, &how) in available.iter().enumerate() {
        let dax = Dax::open(&path, &DaxOptions { flush: Some(how), ..options() }).expect("opens");
        assert_eq!(dax.flush_instruction(), how);
        let page = dax.page(5).expect("inside");
        for word in 0..16 {
            dax.store(page.body(word), (i + word) as u64);
        }
        (0..3).for_each(|line| dax.flush(page, line));
        dax.fence();
        dax.extent_write(20, 3, &[i as u8; 500]).expect("inside");
        drop(dax);
        let dax = open(&path);
        assert!((0..16).all(|word| get(&dax, 5, word) == (i + word) as u64), "{how}");
        let mut back = [0; 500];
        dax.extent_read(20, 3, &mut back).expect("inside");
        assert_eq!(back, [i as u8; 500], "{how}");
    }
    let missing = if cfg!(target_arch = "aarch64") { Flush::Clwb } else { Flush::DcCvap };
    let e = error(&path, &DaxOptions { flush: Some(missing), ..options() });
    assert!(matches!(e, Error::Unsupported { .. }), "{e}");
}

#[test]
#[ignore = "fills the file system; ci/dax_qemu.sh runs it on a small one"]
fn a_full_device_is_an_error_and_keeps_what_is_there() {
    let (dir, path) = place();
    let larger = DaxOptions { pages: 8 << 20, ..options() };
    assert!(matches!(error(&path, &larger), Error::Io { .. }));
    assert_eq!(fs::read_dir(dir.path()).expect("dir").count(), 0, "nothing is left");
    set(&open(&path), 1, 0, 3).expect("set");
    let len = fs::metadata(&path).expect("file").len();
    assert!(matches!(error(&path, &larger), Error::Io { .. }));
    assert_eq!(fs::metadata(&path).expect("file").len(), len);
    let dax = open(&path);
    assert_eq!((get(&dax, 1, 0), dax.limit(), dax.was_clean()), (3, PAGES, true));
}

/// The changes of a step that panics may be half done.
#[test]
fn a_step_that_panics_stops_steps_and_leaves_the_pool_unclean() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    let options = DaxOptions { pages: 16, create: true, emulate: true, ..DaxOptions::default() };
    let pool = Dax::open(&path, &options).expect("opens");
    let step = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _op = pool.enter().expect("open for writing");
        panic!("half-way");
    }));
    assert!(step.is_err());
    assert!(matches!(pool.enter().err(), Some(Error::Poisoned { .. })));
    pool.close();
    drop(pool);
    let pool = Dax::open(&path, &options).expect("opens");
    assert!(!pool.was_clean() && pool.enter().is_ok());
    pool.set_recovering(true);
    drop(pool);
    let pool = Dax::open(&path, &options).expect("opens");
    assert!(!pool.was_clean(), "whoever opened it last had not recovered");
    drop(pool);
    assert!(Dax::open(&path, &options).expect("opens").was_clean());
}
