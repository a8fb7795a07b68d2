//! First touches: a page's home image, and the changes that the journal holds for it.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use everleaf_pmem::door::{copy_in, put};
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::medium::Redo;
use everleaf_pmem::page::{LINE_BYTES, Page, SUM_WORD};
use everleaf_pmem::sync::lock_plain as lock;

use crate::format::{self, Verdict, judge, page_offset};
use crate::inner::Inner;
use crate::slots::{DIRTY_MARK, LAST_MARK};

impl Inner {
    /// Puts the page's home image and its changes into memory.
    pub(crate) fn fetch(&self, page: Page<'_>, owned: bool, redo: &mut Redo<'_>) -> Result<()> {
        let no = page.no();
        debug_assert!(no < self.region.limit());
        self.warmth.touch(no, !owned, &self.region);
        let replay = if self.replaying.load(Ordering::Acquire) {
            self.replay.read().unwrap_or_else(PoisonError::into_inner).clone()
        } else {
            None
        };
        // A page that no checkpoint has written is zero; the journal has all that happened to it.
        if u64::from(no) < self.pages_end.load(Ordering::Acquire) || self.images.contains_key(&no) {
            // No home was ever written if the journal begins with the page's first change, or if
            // nobody owns the page and the journal does not know it. The home may then hold part of
            // an extent: a crash took back the group that it was in.
            let needs_home = || match replay.as_ref().and_then(|replay| replay.first_seq(no)) {
                Some(seq) => seq != 1,
                None => owned,
            };
            self.read_home(page, needs_home)?;
        }
        let Some(replay) = replay else { return Ok(()) };
        if replay.apply(page, redo)? {
            let epoch = self.epochs.durable().max(1);
            page.mark(DIRTY_MARK).store(epoch, Ordering::Relaxed);
            page.mark(LAST_MARK).store(epoch, Ordering::Relaxed);
            // Once for each page of the journal, for which there is room since the open.
            lock(&self.recovered).push(no);
        }
        if replay.finish(no) {
            self.replaying.store(false, Ordering::Release);
            *self.replay.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
        Ok(())
    }

    /// Reads the home of a page. One that is no image of the page leaves it zero, or is damage if
    /// the page cannot do without.
    fn read_home(&self, page: Page<'_>, needs_home: impl Fn() -> bool) -> Result<()> {
        let (g, no) = (self.region.geometry(), page.no());
        let mut image = fallible::filled(0_u8, g.page_bytes(), "a page's image")?;
        let offset = page_offset(no, g);
        self.data.read_at(&mut image, offset).map_err(|e| Error::io("reading a page", e))?;
        if let Some(saved) = self.images.get(&no) {
            image.copy_from_slice(saved);
        }
        let image_is = judge(no, &image);
        if image_is != Verdict::Good {
            if needs_home() {
                let what = if image_is == Verdict::Bad { "fails its checksum" } else { "is blank" };
                return Err(Error::corrupt(offset, format!("page {no} {what}")));
            }
            return Ok(());
        }
        let (head, body) = image.split_at(LINE_BYTES);
        for (i, bytes) in head.chunks_exact(8).enumerate() {
            let value = if i == SUM_WORD { 0 } else { format::u64_at(bytes, 0) };
            put(page.head(i), value);
        }
        copy_in(page, LINE_BYTES, body);
        Ok(())
    }
}
