//! Memory that refuses steps, when the test says so.

use everleaf_pmem::{Change, Dram, Geometry, Medium, Page, PageNo, Redo, Result, Word};

pub struct Refusing {
    pub inner: Dram,
    /// Whether a step may begin.
    enter: Box<dyn Fn() -> Result<()> + Send + Sync>,
}

impl Refusing {
    pub fn new(inner: Dram, enter: impl Fn() -> Result<()> + Send + Sync + 'static) -> Self {
        Self { inner, enter: Box::new(enter) }
    }
}

impl Medium for Refusing {
    type Op<'m> = ();
    const JOURNALED: bool = false;
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn limit(&self) -> PageNo {
        self.inner.limit()
    }
    fn page(&self, no: PageNo) -> Result<Page<'_>> {
        self.inner.page(no)
    }
    fn fetch(&self, page: Page<'_>, redo: &mut Redo<'_>) -> Result<()> {
        self.inner.fetch(page, redo)
    }
    fn store(&self, word: Word<'_>, value: u64) {
        self.inner.store(word, value);
    }
    fn flush(&self, page: Page<'_>, line: usize) {
        self.inner.flush(page, line);
    }
    fn fence(&self) {
        self.inner.fence();
    }
    fn enter(&self) -> Result<()> {
        (self.enter)()
    }
    fn note(&self, (): &mut (), _: Page<'_>, _: Change<'_>) {}
    fn epoch(&self, (): &()) -> u64 {
        0
    }
}
