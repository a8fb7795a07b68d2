//! A file that counts what is noted in its journal, and lets a test act whenever a page is asked for.

use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use everleaf_file::io::SimIo;
use everleaf_file::{File, FileOp, FileOptions, PageUse};
use everleaf_pmem::{Change, Geometry, Medium, Page, PageNo, Redo, Result, Word};
use everleaf_pool::{ExtentIo, Hooks, KeptExtents, Pool, kind};
use everleaf_tree::node::NodeChecks;
use everleaf_tree::slotted::Slotted;
use everleaf_tree::{INDEX_ANCHOR, SlottedTree, page_use};

const PATH: &str = "/pool/p.ever";

/// A function that runs when a page is asked for.
type Act = Box<dyn FnMut(&Watched, PageNo)>;

thread_local! {
    static AT_PAGE: RefCell<Option<Act>> = const { RefCell::new(None) };
}

/// Runs a read, before each page of which `act` is run.
pub fn with_each_page<T>(act: Act, read: impl FnOnce() -> T) -> T {
    AT_PAGE.set(Some(act));
    let answer = read();
    AT_PAGE.set(None);
    answer
}

pub struct Watched {
    file: File,
    notes: [AtomicU64; 16],
    /// The records of which the processor was asked for the value.
    ahead: Mutex<Vec<u64>>,
}

impl Watched {
    /// The records of which the processor was asked for the value since this was last called.
    pub fn take_ahead(&self) -> Vec<u64> {
        std::mem::take(&mut *self.ahead.lock().expect("no panic"))
    }

    /// How often each change of a node was noted, by its tag.
    pub fn notes(&self) -> [u64; 16] {
        std::array::from_fn(|tag| self.notes[tag].load(Ordering::Relaxed))
    }

    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Medium for Watched {
    type Op<'m> = FileOp<'m>;
    const ORDERED: bool = File::ORDERED;
    const JOURNALED: bool = File::JOURNALED;

    fn geometry(&self) -> Geometry {
        self.file.geometry()
    }
    fn limit(&self) -> PageNo {
        self.file.limit()
    }
    fn page(&self, no: PageNo) -> Result<Page<'_>> {
        if let Some(mut act) = AT_PAGE.take() {
            // The function asks for pages, too.
            act(self, no);
            AT_PAGE.set(Some(act));
        }
        self.file.page(no)
    }
    fn fetch(&self, page: Page<'_>, redo: &mut Redo<'_>) -> Result<()> {
        self.file.fetch(page, redo)
    }
    fn fetch_unowned(&self, page: Page<'_>, redo: &mut Redo<'_>) -> Result<()> {
        self.file.fetch_unowned(page, redo)
    }
    fn pending(&self) -> Option<PageNo> {
        self.file.pending()
    }
    fn store(&self, word: Word<'_>, value: u64) {
        self.file.store(word, value);
    }
    fn flush(&self, _: Page<'_>, _: usize) {}
    fn fence(&self) {}
    fn enter(&self) -> Result<FileOp<'_>> {
        self.file.enter()
    }
    fn enter_for(&self, changes: usize) -> Result<FileOp<'_>> {
        self.file.enter_for(changes)
    }
    fn note(&self, op: &mut FileOp<'_>, page: Page<'_>, change: Change<'_>) {
        if let Some(count) = self.notes.get(usize::from(change.tag)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.file.note(op, page, change);
    }
    fn epoch(&self, op: &FileOp<'_>) -> u64 {
        self.file.epoch(op)
    }
}

pub type Tree = SlottedTree<Watched>;

/// Opens the tree of a disk, which is made if it is new.
pub fn open(io: &SimIo, page_bytes: u32) -> Tree {
    let options = FileOptions {
        slots: (page_bytes - 64) / 16,
        layout_hash: Slotted::HASH,
        max_pages: 8000,
        journal_bytes: 256 << 10,
        create: true,
        background: false,
        gap: page_use::<Slotted>,
        ..FileOptions::default()
    };
    let file = File::open(Arc::new(io.clone()), Path::new(PATH), &options).expect("it opens");
    let hooks = Hooks {
        durable: |m: &Watched| m.file.durable_epoch(),
        extents: Some(ExtentIo {
            write: |m: &Watched, first, offset, bytes| m.file.extent_write(first, offset, bytes),
            read: |m: &Watched, first, offset, buf| m.file.extent_read(first, offset, buf),
            adopt: |m: &Watched, op, first, pages| m.file.extent_adopt(op, first, pages),
            forget: |m: &Watched, op, first, pages| m.file.extent_forget(op, first, pages),
            kept: Some(KeptExtents {
                lend: |m: &Watched, name| m.file.value_lend(name),
                prefetch: |m: &Watched, names, are_next| {
                    if are_next {
                        m.ahead.lock().expect("no panic").extend(names);
                    }
                    m.file.value_prefetch(names, are_next);
                },
                ticket: |m: &Watched, name| m.file.value_ticket(name),
                copy: |m: &Watched, parts| m.file.value_copy(parts),
                keep: |m: &Watched, name, ticket, pair| m.file.value_keep(name, ticket, pair),
                forget: |m: &Watched, name| m.file.value_forget(name),
            }),
            most: everleaf_tree::most_in_record,
            release: |m: &Watched, first, pages| m.file.extent_release(first, pages),
            discard: |m: &Watched, first, pages| m.file.extent_discard(first, pages),
        }),
        ..Tree::hooks()
    };
    let (fresh, notes) = (file.is_fresh(), std::array::from_fn(|_| AtomicU64::new(0)));
    let medium = Watched { file, notes, ahead: Mutex::default() };
    let pool = if fresh { Pool::format(medium, hooks) } else { Pool::open(medium, hooks) };
    Tree::open(Arc::new(pool.expect("a pool")), INDEX_ANCHOR).expect("room")
}

/// Makes all durable and ends the process; what the disk then has.
pub fn kill(tree: Tree, io: &SimIo) -> SimIo {
    let file = tree.pool().medium().file();
    file.sync().expect("a disk");
    file.abandon();
    io.power_cut(1)
}

/// Puts zeros in all bytes that a file need not keep, as if each page had been written without its gap and
/// read again; says how many pages are free.
pub fn pack(tree: &Tree) -> usize {
    let (pool, mut free) = (tree.pool(), 0);
    for (no, owner) in (0..).zip(pool.map_bytes().expect("a disk")) {
        // A page that was not fetched may be an extent.
        if !pool.page(no).expect("inside").latch().is_ready() {
            continue;
        }
        let (page, _held) = pool.latch(no).expect("a disk");
        let words = || (0..page.geometry().page_words()).map(|word| page.word(word).load());
        let bytes: Vec<u8> = words().flat_map(u64::to_le_bytes).collect();
        let gap = match page_use::<Slotted>(&bytes) {
            PageUse::But(gap) => gap,
            PageUse::Unused => {
                assert_eq!(owner, kind::FREE, "page {no} is in use");
                free += 1;
                0..bytes.len()
            }
        };
        let _op = pool.medium().enter().expect("a disk");
        for at in gap.filter(|at| !(48..64).contains(at) && bytes[*at] != 0) {
            pool.medium().copy_in(page, at, &[0]);
        }
    }
    free
}

/// Writes home what the journal has, before it is full, and frees what waits for that.
pub fn tidy(tree: &Tree) {
    let pool = tree.pool();
    pool.drain(|| true).expect("a disk");
    pool.medium().file().checkpoint().expect("a disk");
}
