//! A place for one page beside those of a medium: for a caller that looks at a page once, and wants it in memory no longer.
//!
//! The page has its own number there, but another frame. Nobody changes it, and nobody else sees it.

use crate::error::Result;
use crate::page::{Geometry, Page, PageNo};
use crate::region::Region;

/// The memory of one page, and of a frame.
#[derive(Debug)]
pub struct Aside {
    region: Region,
}

impl Aside {
    /// Memory for a page of that shape.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the system has no address space for it.
    pub fn new(geometry: Geometry) -> Result<Self> {
        Ok(Self { region: Region::new(geometry, 1)? })
    }

    /// The page, by the number of the one that it is a copy of.
    pub fn page(&self, no: PageNo) -> Page<'_> {
        self.region.first_page_as(no)
    }

    /// As [`page`](Self::page), with a frame as that of a page that nobody has touched. Anything read of
    /// the previous page is not there any more.
    pub fn new_page(&self, no: PageNo) -> Page<'_> {
        let page = self.page(no);
        debug_assert!(!page.latch().is_held(), "somebody makes a copy");
        page.clear_frame();
        page
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::door::put;

    #[test]
    fn a_page_aside_has_the_number_of_another_one_and_a_frame_of_its_own() {
        let g = Geometry::whole(4096).expect("valid");
        let region = Region::new(g, 10).expect("address space");
        let aside = Aside::new(g).expect("address space");
        for no in [7, 0, u32::MAX] {
            let page = aside.new_page(no);
            assert_eq!((page.no(), page.mark(5).load(Ordering::Relaxed)), (no, 0));
            page.latch().lock().set_ready();
            page.mark(5).store(u64::from(no) + 1, Ordering::Relaxed);
            put(page.word(g.page_words() - 1), u64::from(no) + 2);
            assert_eq!(aside.page(no).word(g.page_words() - 1).load(), u64::from(no) + 2);
            assert!(aside.page(no).latch().is_ready());
        }
        let there = region.page(7).expect("in the region");
        assert!(!there.latch().is_ready() && there.word(g.page_words() - 1).load() == 0);
    }
}
