//! Memory that keeps what is noted, so that a test can do it again elsewhere.

use std::sync::Mutex;

use everleaf_pmem::{Change, Dram, Geometry, Medium, Page, PageNo, Redo, Result, Word};
use everleaf_tree::slotted;

/// A note: the page, the tag and the operands.
pub type Note = (PageNo, u8, Vec<u8>);

/// Plain memory with a journal that is never written.
pub struct Noted {
    inner: Dram,
    notes: Mutex<Vec<Note>>,
}

impl Noted {
    pub fn new(page_bytes: usize, pages: PageNo) -> Self {
        let geometry = Geometry::whole(page_bytes as u32).expect("a power of two");
        let inner = Dram::new(geometry, pages).expect("memory");
        Self { inner, notes: Mutex::default() }
    }

    /// Takes the notes made since the last call.
    pub fn take_notes(&self) -> Vec<Note> {
        std::mem::take(&mut self.notes.lock().expect("no panic while noting"))
    }
}

impl Medium for Noted {
    type Op<'m> = ();
    const ORDERED: bool = false;
    const JOURNALED: bool = true;

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn limit(&self) -> PageNo {
        self.inner.limit()
    }
    fn page(&self, no: PageNo) -> Result<Page<'_>> {
        self.inner.page(no)
    }
    fn fetch(&self, _: Page<'_>, _: &mut Redo<'_>) -> Result<()> {
        Ok(())
    }
    fn store(&self, word: Word<'_>, value: u64) {
        self.inner.store(word, value);
    }
    fn copy_in(&self, page: Page<'_>, at: usize, bytes: &[u8]) {
        self.inner.copy_in(page, at, bytes);
    }
    fn move_words(&self, page: Page<'_>, from: usize, to: usize, n: usize) {
        self.inner.move_words(page, from, to, n);
    }
    fn flush(&self, _: Page<'_>, _: usize) {}
    fn fence(&self) {}
    fn enter(&self) -> Result<()> {
        Ok(())
    }
    fn note(&self, (): &mut (), page: Page<'_>, change: Change<'_>) {
        let note = (page.no(), change.tag, change.bytes.to_vec());
        self.notes.lock().expect("no panic while noting").push(note);
    }
    fn epoch(&self, (): &()) -> u64 {
        0
    }
}

/// The words of a page that are the node's.
pub fn words(page: Page<'_>) -> Vec<u64> {
    let own = (0..page.geometry().page_words()).filter(|word| ![6, 7].contains(word));
    own.map(|word| page.word(word).load()).collect()
}

/// All bytes of a page.
pub fn bytes(page: Page<'_>) -> Vec<u8> {
    (0..page.geometry().page_words())
        .flat_map(|word| page.word(word).load().to_le_bytes())
        .collect()
}

/// Sets all bytes of a page but the medium's.
pub fn set_bytes<M: Medium>(m: &M, page: Page<'_>, bytes: &[u8]) {
    for (word, bytes) in bytes.chunks(8).enumerate().filter(|(word, _)| ![6, 7].contains(word)) {
        m.store(page.word(word), u64::from_le_bytes(bytes.try_into().expect("8 bytes")));
    }
}

/// Does a note again.
pub fn redo<M: Medium>(m: &M, (no, tag, bytes): &Note) -> Result<()> {
    let page = m.page(*no)?;
    let _held = page.latch().lock();
    slotted::redo(m, page, Change { tag: *tag, bytes })
}
