//! A medium that calls a function before each store, flush and fence: to stop a writer anywhere in
//! an operation, or to make it give way there.

use everleaf_pmem::{Medium, Page, Word};

/// A call that is about to pass the door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Store,
    Flush,
    Fence,
}

pub struct Hooked<M> {
    inner: M,
    before: Box<dyn Fn(Call) + Send + Sync>,
}

impl<M> Hooked<M> {
    pub fn new(inner: M, before: impl Fn(Call) + Send + Sync + 'static) -> Self {
        Self { inner, before: Box::new(before) }
    }
}

impl<M: Medium> Medium for Hooked<M> {
    everleaf_pmem::pass_on!(inner: M);
    fn store(&self, word: Word<'_>, value: u64) {
        (self.before)(Call::Store);
        self.inner.store(word, value);
    }
    fn flush(&self, page: Page<'_>, line: usize) {
        (self.before)(Call::Flush);
        self.inner.flush(page, line);
    }
    fn fence(&self) {
        (self.before)(Call::Fence);
        self.inner.fence();
    }
}
