//! First touches: a page's image, and the changes that the journal holds for it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use everleaf_pmem::door::{copy_in, put};
use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::medium::Redo;
use everleaf_pmem::page::{LINE_BYTES, Page, PageNo, SEQ_WORD, SUM_WORD};
use everleaf_pmem::retries::Retries;
use everleaf_pmem::sync::lock_plain as lock;

use crate::epochs::slots::{DIRTY_MARK, LAST_MARK};
use crate::inner::Inner;
use crate::open::replay::Replay;
use crate::store::format::u64_at;
use crate::store::image::{self, IMAGE_HEAD, ImageKind, ImageName, Placed};
use crate::store::table::{KnownPlace, LEAF_BYTES, decode_leaf};

impl Inner {
    /// Where the image of a page is. Reads a leaf of the table if it must.
    ///
    /// # Errors
    /// I/O errors, [`Error::Corrupt`] for a damaged leaf, [`Error::NoMemory`].
    pub(crate) fn lookup(&self, no: PageNo) -> Result<Placed> {
        let mut turns = Retries::default();
        loop {
            let (leaf, placed) = match self.places().get(no) {
                KnownPlace::Is(placed) => return Ok(placed),
                KnownPlace::Ask(leaf, placed) => (leaf, placed),
            };
            let name = ImageName { kind: ImageKind::Table, number: leaf };
            let raw = match self.read_image(placed, name) {
                Ok(raw) => raw,
                // A checkpoint has moved it meanwhile, which takes longer than to look again.
                Err(_) if self.places().leaf(leaf) != Some(placed) => {
                    turns.go_on("reading a leaf of the table")?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let entries = decode_leaf(&raw, placed.place)?;
            let mut places = self.places_mut();
            if places.leaf(leaf) == Some(placed) {
                places.learn(leaf, entries)?;
            }
            drop(places);
            turns.go_on("reading a leaf of the table")?;
        }
    }

    /// The raw bytes of an image, checked.
    ///
    /// # Errors
    /// I/O errors, [`Error::Corrupt`], [`Error::NoMemory`].
    pub(crate) fn read_image(&self, placed: Placed, name: ImageName) -> Result<Vec<u8>> {
        let most = match name.kind {
            ImageKind::Table => LEAF_BYTES,
            _ => self.region.geometry().page_bytes(),
        };
        read_image(&*self.data, self.image_key, placed, name, most)
    }

    /// Puts the page's image and its changes into memory.
    pub(crate) fn fetch(&self, page: Page<'_>, owned: bool, redo: &mut Redo<'_>) -> Result<()> {
        let no = page.no();
        debug_assert!(no < self.region.limit());
        self.residents.misses.fetch_add(1, Ordering::Relaxed);
        self.warmth.touch(no, !owned, &self.region, &self.residents);
        let replay = self.replay();
        self.read_placed(page, self.newest(no)?)?;
        // No root knows of any other page: the journal has all that ever happened to it.
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

    /// The changes that the journal holds, until all of them have been applied.
    fn replay(&self) -> Option<Arc<Replay>> {
        if !self.replaying.load(Ordering::Acquire) {
            return None;
        }
        self.replay.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts the page's image into a page beside those in memory, unless the journal has changes for it. Says whether
    /// it did.
    pub(crate) fn read_aside(&self, no: PageNo, aside: Page<'_>) -> Result<bool> {
        debug_assert!(aside.no() == no && no < self.region.limit());
        if self.replay().is_some_and(|replay| replay.knows(no)) {
            return Ok(false);
        }
        self.residents.misses.fetch_add(1, Ordering::Relaxed);
        let placed = self.newest(no)?;
        if !placed.has_image() {
            // Of the page that was there before.
            (0..aside.geometry().page_words()).for_each(|i| put(aside.word(i), 0));
        }
        self.read_placed(aside, placed)?;
        Ok(true)
    }

    /// Puts the page's image into its memory. If there is none, that is zero already.
    fn read_placed(&self, page: Page<'_>, placed: Placed) -> Result<()> {
        if placed.has_image() {
            self.read_page(page, placed)?;
        } else if placed.crc != 0 {
            // It was free, and its changes are numbered on.
            put(page.head(SEQ_WORD), placed.crc.into());
        }
        Ok(())
    }

    fn read_page(&self, page: Page<'_>, mut placed: Placed) -> Result<()> {
        let (g, no) = (self.region.geometry(), page.no());
        let name = ImageName { kind: ImageKind::Page, number: no };
        let mut turns = Retries::default();
        let raw = loop {
            match self.read_image(placed, name) {
                Ok(raw) => break raw,
                Err(error) => {
                    // A checkpoint has moved it meanwhile, which takes longer than to look again; its old place may
                    // be somebody else's.
                    let now = self.newest(no)?;
                    if now == placed || !now.has_image() {
                        return Err(error);
                    }
                    placed = now;
                    turns.go_on("reading a page")?;
                }
            }
        };
        if raw.len() != g.page_bytes() {
            let what = format!("{name}: {} bytes of {}", raw.len(), g.page_bytes());
            return Err(Error::corrupt(placed.place, what));
        }
        let (head, body) = raw.split_at(LINE_BYTES);
        for (i, bytes) in head.chunks_exact(8).enumerate() {
            let value = if i == SUM_WORD { 0 } else { u64_at(bytes, 0) };
            put(page.head(i), value);
        }
        copy_in(page, LINE_BYTES, body);
        Ok(())
    }
}

/// The raw bytes of an image in a file, checked: `most` of them, or fewer.
///
/// # Errors
/// I/O errors, [`Error::Corrupt`], [`Error::NoMemory`].
pub(crate) fn read_image(
    data: &dyn crate::io::IoFile,
    key: image::ImageKey,
    placed: Placed,
    name: ImageName,
    most: usize,
) -> Result<Vec<u8>> {
    let what = name.kind.name();
    let too_long = |bytes: usize| {
        let what = format!("{name}: {bytes} bytes, of which there can be {most}");
        Err(Error::corrupt(placed.place, what))
    };
    // No image is longer than what it is of.
    if placed.bytes as usize > IMAGE_HEAD + most {
        return too_long(placed.bytes as usize - IMAGE_HEAD);
    }
    let mut bytes = fallible::filled(0_u8, placed.bytes as usize, what)?;
    let n = data.read_at(&mut bytes, placed.place);
    let n = n.map_err(|e| Error::io(format!("reading a {what}"), e))?;
    let head = key.check(&bytes[..n], placed, name)?;
    if head.raw > most {
        return too_long(head.raw);
    }
    let mut raw = Vec::new();
    image::unpack(&bytes, &head, &mut raw)?;
    Ok(raw)
}
