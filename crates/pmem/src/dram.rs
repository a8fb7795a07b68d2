//! Plain memory: nothing is durable. The control group of every experiment, and caches.

use crate::error::{Error, Result};
use crate::medium::{Change, Medium, Redo};
use crate::page::{Geometry, Page, PageNo, Word};
use crate::region::Region;

/// Plain memory as a medium; flushes and fences cost nothing.
///
/// ```
/// use everleaf_pmem::{Dram, Geometry, Medium};
/// let m = Dram::new(Geometry::new(256).unwrap(), 1 << 10)?;
/// let page = m.page(7)?;
/// m.store(page.body(0), 42);
/// assert_eq!(page.body(0).load(), 42);
/// # Ok::<(), everleaf_pmem::Error>(())
/// ```
#[derive(Debug)]
pub struct Dram {
    region: Region,
}

impl Dram {
    /// Memory for `limit` pages, taken from the system when touched.
    ///
    /// # Errors
    /// [`Error::Io`] if the address space cannot be reserved.
    pub fn new(geometry: Geometry, limit: PageNo) -> Result<Self> {
        Ok(Self { region: Region::new(geometry, limit)? })
    }
}

/// The error for a page number outside a medium.
pub fn outside(no: PageNo, limit: PageNo, g: Geometry, file: &'static str) -> Error {
    debug_assert!(no >= limit, "page {no} lies inside the pool of {limit} pages");
    Error::Corrupt {
        file,
        offset: u64::from(no) * g.page_bytes() as u64,
        what: format!("page {no} lies outside the pool of {limit} pages"),
    }
}

impl Medium for Dram {
    type Op<'m> = ();
    const ORDERED: bool = false;
    const JOURNALED: bool = false;

    fn geometry(&self) -> Geometry {
        self.region.geometry()
    }
    fn limit(&self) -> PageNo {
        self.region.limit()
    }
    #[inline(always)]
    fn page(&self, no: PageNo) -> Result<Page<'_>> {
        match self.region.page(no) {
            Some(page) => Ok(page),
            None => Err(outside(no, self.limit(), self.geometry(), "memory")),
        }
    }
    #[inline(always)]
    fn page_if_any(&self, no: PageNo) -> Option<Page<'_>> {
        self.region.page(no)
    }
    fn fetch(&self, _: Page<'_>, _: &mut Redo<'_>) -> Result<()> {
        Ok(())
    }
    #[inline(always)]
    fn store(&self, word: Word<'_>, value: u64) {
        word.put(value);
    }
    #[inline(always)]
    fn move_slots(&self, page: Page<'_>, from: usize, n: usize, right: bool) {
        page.move_slots(from, n, right);
    }
    #[inline(always)]
    fn copy_in(&self, page: Page<'_>, at: usize, bytes: &[u8]) {
        page.copy_in(at, bytes);
    }
    #[inline(always)]
    fn move_words(&self, page: Page<'_>, from: usize, to: usize, n: usize) {
        page.move_words(from, to, n);
    }
    #[inline(always)]
    fn flush(&self, _: Page<'_>, _: usize) {}
    #[inline(always)]
    fn fence(&self) {}
    #[inline(always)]
    fn enter(&self) -> Result<()> {
        Ok(())
    }
    #[inline(always)]
    fn note(&self, (): &mut (), _: Page<'_>, _: Change<'_>) {}
    fn epoch(&self, (): &()) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counted;

    #[test]
    fn slots_move_at_once_as_they_do_one_by_one() {
        for slots in [4u32, 8, 32] {
            let geometry = Geometry::new(slots).expect("valid");
            for (from, n, right) in (0..slots as usize)
                .flat_map(|from| (0..slots as usize).map(move |n| (from, n)))
                .flat_map(|(from, n)| [(from, n, false), (from, n, true)])
            {
                let fast = Dram::new(geometry, 1).expect("memory");
                let slow = Counted::new(Dram::new(geometry, 1).expect("memory"));
                let (a, b) = (fast.page(0).expect("there"), slow.page(0).expect("there"));
                for j in 0..2 * slots as usize {
                    fast.store(a.body(j), 100 + j as u64);
                    slow.store(b.body(j), 100 + j as u64);
                }
                fast.move_slots(a, from, n, right);
                slow.move_slots(b, from, n, right);
                for i in 0..geometry.page_words() {
                    let at = format!("{slots} slots, {n} from {from}, right {right}, word {i}");
                    assert_eq!(a.word(i).load(), b.word(i).load(), "{at}");
                }
            }
        }
    }
}
