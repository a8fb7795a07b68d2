//! The methods that schedules need of a medium and of a tree, and media that are wrong in one way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use everleaf_file::{File, FileOp};
use everleaf_pmem::{Change, Geometry, Medium, Page, PageNo, Redo, Result, Word};
use everleaf_pool::Pool;
use everleaf_tree::blink::{Blink, Condition, Put};
use everleaf_tree::slots::Words;
use everleaf_tree::slots::{Circular, Sentinel};
use everleaf_tree::{CircTree, INDEX_ANCHOR, Index, Kind, TreeReport};

use crate::texts::{TextKind, Texts};

/// A file, or a medium around one.
pub trait Door: Medium {
    fn around(file: File) -> Self;
    fn file(&self) -> &File;
    /// A step makes a large value part of the pool.
    fn adopt(&self, op: &mut Self::Op<'_>, first: PageNo, pages: u32);
    /// A step frees one.
    fn forget(&self, op: &mut Self::Op<'_>, first: PageNo, pages: u32);
}

impl Door for File {
    fn around(file: File) -> Self {
        file
    }
    fn file(&self) -> &File {
        self
    }
    fn adopt(&self, op: &mut FileOp<'_>, first: PageNo, pages: u32) {
        self.extent_adopt(op, first, pages);
    }
    fn forget(&self, op: &mut FileOp<'_>, first: PageNo, pages: u32) {
        self.extent_forget(op, first, pages);
    }
}

/// A tree of small numbers, whatever it keeps.
pub trait Map<M: Door>: Index + Sized + 'static {
    /// Slots of a page.
    const SLOTS: u32;
    type Kind: Kind;
    fn open(pool: &Arc<Pool<M>>) -> Result<Self>;
    fn put(&self, key: u64, value: u64, condition: Condition) -> Result<Put<u64>>;
    fn take(&self, key: u64) -> Result<Put<u64>>;
    fn check(&self) -> Result<TreeReport>;
    fn has_node(&self, no: PageNo) -> Result<bool>;
}

impl<M: Door> Map<M> for CircTree<M> {
    const SLOTS: u32 = 8;
    type Kind = (Circular, Sentinel, Words);
    fn open(pool: &Arc<Pool<M>>) -> Result<Self> {
        CircTree::open(Arc::clone(pool), INDEX_ANCHOR)
    }
    fn put(&self, key: u64, value: u64, condition: Condition) -> Result<Put<u64>> {
        Blink::put(self, &key, &value, condition)
    }
    fn take(&self, key: u64) -> Result<Put<u64>> {
        Blink::remove(self, &key)
    }
    fn check(&self) -> Result<TreeReport> {
        Blink::check(self)
    }
    fn has_node(&self, no: PageNo) -> Result<bool> {
        Blink::has_node(self, no)
    }
}

impl<M: Door, K: TextKind> Map<M> for Texts<M, K> {
    const SLOTS: u32 = K::SLOTS;
    type Kind = K;
    fn open(pool: &Arc<Pool<M>>) -> Result<Self> {
        Blink::open(Arc::clone(pool), INDEX_ANCHOR).map(Texts)
    }
    fn put(&self, key: u64, value: u64, condition: Condition) -> Result<Put<u64>> {
        Texts::put(self, key, value, condition)
    }
    fn take(&self, key: u64) -> Result<Put<u64>> {
        Texts::take(self, key)
    }
    fn check(&self) -> Result<TreeReport> {
        Texts::check(self)
    }
    fn has_node(&self, no: PageNo) -> Result<bool> {
        Blink::has_node(&self.0, no)
    }
}

type Noted = (PageNo, u8, Vec<u8>);

/// Notes a step's changes when the same thread's next step begins: long after the pages were
/// unlatched.
pub struct LateNotes {
    file: File,
    late: Mutex<HashMap<ThreadId, Vec<Noted>>>,
}

impl Door for LateNotes {
    fn around(file: File) -> Self {
        Self { file, late: Mutex::default() }
    }
    fn file(&self) -> &File {
        &self.file
    }
    fn adopt(&self, op: &mut FileOp<'_>, first: PageNo, pages: u32) {
        self.file.extent_adopt(op, first, pages);
    }
    fn forget(&self, op: &mut FileOp<'_>, first: PageNo, pages: u32) {
        self.file.extent_forget(op, first, pages);
    }
}

/// The items that a medium around a file passes on.
macro_rules! around_a_file {
    () => {
        const ORDERED: bool = File::ORDERED;
        const JOURNALED: bool = File::JOURNALED;
        fn geometry(&self) -> Geometry {
            self.file.geometry()
        }
        fn limit(&self) -> PageNo {
            self.file.limit()
        }
        fn page(&self, no: PageNo) -> Result<Page<'_>> {
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
    };
}

impl Medium for LateNotes {
    around_a_file!();
    type Op<'m> = FileOp<'m>;

    fn enter(&self) -> Result<FileOp<'_>> {
        let mut op = self.file.enter()?;
        let me = std::thread::current().id();
        let late = self.late.lock().expect("no panic inside").remove(&me);
        for (no, tag, bytes) in late.unwrap_or_default() {
            self.file.note(&mut op, self.file.page(no)?, Change { tag, bytes: &bytes });
        }
        Ok(op)
    }
    fn note(&self, _: &mut FileOp<'_>, page: Page<'_>, change: Change<'_>) {
        let noted = (page.no(), change.tag, change.bytes.to_vec());
        let me = std::thread::current().id();
        self.late.lock().expect("no panic inside").entry(me).or_default().push(noted);
    }
    fn epoch(&self, op: &FileOp<'_>) -> u64 {
        self.file.epoch(op)
    }
}

/// Asks for the epoch when a step begins, and registers it only when it ends: the epoch may have
/// ended meanwhile.
pub struct LateSteps {
    file: File,
}

impl Door for LateSteps {
    fn around(file: File) -> Self {
        Self { file }
    }
    fn file(&self) -> &File {
        &self.file
    }
    fn adopt(&self, op: &mut LateStep<'_>, first: PageNo, pages: u32) {
        op.adopted.push((first, pages));
    }
    fn forget(&self, op: &mut LateStep<'_>, first: PageNo, pages: u32) {
        op.forgotten.push((first, pages));
    }
}

/// A step that nobody waits for.
pub struct LateStep<'m> {
    file: &'m File,
    epoch: u64,
    noted: Vec<Noted>,
    adopted: Vec<(PageNo, u32)>,
    forgotten: Vec<(PageNo, u32)>,
}

impl Drop for LateStep<'_> {
    fn drop(&mut self) {
        let Ok(mut op) = self.file.enter() else { return };
        for (no, tag, bytes) in self.noted.drain(..) {
            let page = self.file.page(no).expect("it was there");
            self.file.note(&mut op, page, Change { tag, bytes: &bytes });
        }
        let (adopted, forgotten) = (self.adopted.drain(..), self.forgotten.drain(..));
        adopted.for_each(|(first, pages)| self.file.extent_adopt(&mut op, first, pages));
        forgotten.for_each(|(first, pages)| self.file.extent_forget(&mut op, first, pages));
    }
}

impl Medium for LateSteps {
    around_a_file!();
    type Op<'m> = LateStep<'m>;

    fn enter(&self) -> Result<LateStep<'_>> {
        let epoch = self.file.epoch(&self.file.enter()?);
        let (noted, adopted, forgotten) = (Vec::new(), Vec::new(), Vec::new());
        Ok(LateStep { file: &self.file, epoch, noted, adopted, forgotten })
    }
    fn note(&self, op: &mut LateStep<'_>, page: Page<'_>, change: Change<'_>) {
        op.noted.push((page.no(), change.tag, change.bytes.to_vec()));
    }
    fn epoch(&self, op: &LateStep<'_>) -> u64 {
        op.epoch
    }
}
