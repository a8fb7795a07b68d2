//! Streams of images: each fills one extent after the other.
//!
//! Images gather in memory until there is enough of them for a write. A write begins and ends at a
//! multiple of 4096 bytes, so what is written later shares no sector with it.

use everleaf_pmem::error::Result;
use everleaf_pmem::fallible;

use crate::inner::{Inner, Stream};
use crate::limits::reserve::Taker;
use crate::options::Compression;
use crate::store::format::{EXTENT_BYTES, SECTOR};
use crate::store::image::{
    Compress, FIRST_IMAGE, IMAGE_ALIGN, ImageKey, ImageName, Placed, by_lz4,
};
use crate::store::table::Places;

/// Bytes that gather at most before they are written.
pub(crate) const GATHER_BYTES: usize = 256 << 10;

const BUFFER: &str = "images on their way to the disk";

impl Stream {
    fn at(&self) -> u64 {
        self.from + self.buffer.len() as u64
    }

    /// Whether it fills that extent now.
    pub(crate) fn fills(&self, no: u32) -> bool {
        self.extent == Some(no)
    }

    /// Has room for an image of `room` bytes in one extent.
    fn make_room(&mut self, inner: &Inner, room: usize) -> Result<()> {
        debug_assert!(room as u64 <= EXTENT_BYTES, "an image that fits no extent");
        let fits = |extent| self.at() + room as u64 <= (u64::from(extent) + 1) * EXTENT_BYTES;
        if !self.extent.is_some_and(fits) {
            self.flush(inner)?;
            fallible::more(&mut self.left, 1, BUFFER)?;
            // A large one does not fit behind the superblocks, and there is one extent 0.
            let no = loop {
                let no = inner.take_extent(Taker::Images)?;
                if no > 0 || FIRST_IMAGE + room as u64 <= EXTENT_BYTES {
                    break no;
                }
                self.left.push(no);
                fallible::more(&mut self.left, 1, BUFFER)?;
            };
            self.left.extend(self.extent.replace(no));
            self.from = if no == 0 { FIRST_IMAGE } else { u64::from(no) * EXTENT_BYTES };
        }
        fallible::more(&mut self.buffer, room + SECTOR as usize, BUFFER)
    }

    /// Adds an image of `raw` bytes but for its `gap`, and says where it will be. Written with the
    /// next [`flush`](Self::flush) at the latest.
    ///
    /// # Errors
    /// [`NoMemory`](everleaf_pmem::error::Error::NoMemory); those of writing. The image is not there then.
    pub(crate) fn push(
        &mut self,
        inner: &Inner,
        name: (ImageName, u64),
        raw: &[u8],
        gap: std::ops::Range<usize>,
    ) -> Result<Placed> {
        let compress = match inner.compression {
            Compression::None => None,
            Compression::Lz4 => Some(by_lz4 as Compress),
        };
        self.push_as(inner, compress, name, (raw, gap))
    }

    /// As [`push`](Self::push), compressed like this or not at all.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub(crate) fn push_as(
        &mut self,
        inner: &Inner,
        compress: Option<Compress>,
        name: (ImageName, u64),
        (raw, gap): (&[u8], std::ops::Range<usize>),
    ) -> Result<Placed> {
        self.make_room(inner, ImageKey::room(raw.len(), &gap))?;
        let at = self.at();
        let key = inner.image_key;
        let placed = match compress {
            None => key.append(&mut self.buffer, name, at, raw, gap),
            Some(compress) => {
                let (buffer, scratch) = (&mut self.buffer, &mut self.scratch);
                key.append_compressed(buffer, name, at, (raw, gap), (compress, scratch))?
            }
        };
        self.flush_if_long(inner, placed)
    }

    /// As [`push`](Self::push), of a good image from elsewhere.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub(crate) fn push_copy(&mut self, inner: &Inner, image: &[u8]) -> Result<Placed> {
        self.make_room(inner, image.len().next_multiple_of(IMAGE_ALIGN))?;
        let at = self.at();
        let placed = inner.image_key.append_copy(&mut self.buffer, image, at);
        self.flush_if_long(inner, placed)
    }

    /// Forgets an image, unless it has been written or another one is behind it.
    pub(crate) fn take_back(&mut self, placed: Placed) {
        let is_last = self.extent == Some(placed.extent())
            && placed.place >= self.from
            && placed.place + u64::from(placed.room()) == self.at();
        if is_last {
            self.buffer.truncate((placed.place - self.from) as usize);
        }
    }

    fn flush_if_long(&mut self, inner: &Inner, placed: Placed) -> Result<Placed> {
        if self.buffer.len() < GATHER_BYTES {
            return Ok(placed);
        }
        // Up to the last whole sector, so that the rest goes on gathering in its own.
        let whole = self.buffer.len() / SECTOR as usize * SECTOR as usize;
        if let Err(error) = self.write(inner, whole) {
            self.buffer.truncate((placed.place - self.from) as usize);
            return Err(error);
        }
        self.buffer.drain(..whole);
        self.from += whole as u64;
        Ok(placed)
    }

    fn write(&mut self, inner: &Inner, bytes: usize) -> Result<()> {
        inner.write_images(&self.buffer[..bytes], self.from)
    }

    /// Writes what has gathered. The next image begins at a fresh sector.
    ///
    /// # Errors
    /// Those of writing: what has gathered stays, for the next try.
    pub(crate) fn flush(&mut self, inner: &Inner) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let len = self.buffer.len();
        // There is room since the last image.
        self.buffer.resize(len.next_multiple_of(SECTOR as usize), 0);
        if let Err(error) = self.write(inner, self.buffer.len()) {
            self.buffer.truncate(len);
            return Err(error);
        }
        self.from += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Where those of the bytes `at .. end` of the file begin that have not been written yet: everything
    /// before is on the disk.
    pub(crate) fn unwritten_from(&self, at: u64, end: u64) -> u64 {
        let from = at.max(self.from);
        if self.extent.is_none() || end <= from || end > self.at() { end } else { from }
    }

    /// Adds the bytes `at .. end` of the file to `out`, which has room, if they have not been written yet.
    pub(crate) fn copy_unwritten(&self, at: u64, end: u64, out: &mut Vec<u8>) -> bool {
        let is_here = self.extent.is_some() && at >= self.from && end <= self.at();
        if is_here {
            let bytes = &self.buffer[(at - self.from) as usize..(end - self.from) as usize];
            out.extend_from_slice(bytes);
        }
        is_here
    }

    /// All images so far are named by the table, or never will be.
    pub(crate) fn settle(&mut self, places: &mut Places) {
        self.left.drain(..).for_each(|no| places.extents.let_go(no));
    }

    /// Nothing more comes. Images that have gathered are forgotten.
    pub(crate) fn end(&mut self, places: &mut Places) {
        self.settle(places);
        self.extent.take().into_iter().for_each(|no| places.extents.let_go(no));
        self.buffer = Vec::new();
    }
}

impl Inner {
    /// Writes images to where nothing is that anybody needs. A full disk is an error of this call
    /// only; another failure poisons.
    ///
    /// # Errors
    /// Those of [`write_free`](Self::write_free).
    pub(crate) fn write_images(&self, bytes: &[u8], at: u64) -> Result<()> {
        debug_assert!(at.is_multiple_of(SECTOR) && at >= FIRST_IMAGE, "images at byte {at}");
        debug_assert!(at % EXTENT_BYTES + bytes.len() as u64 <= EXTENT_BYTES, "two extents");
        // Before the write, so that nobody cuts it off again.
        let end = at % EXTENT_BYTES + bytes.len() as u64;
        self.places_mut().extents.fill((at / EXTENT_BYTES) as u32, end as u32);
        self.write_free(bytes, at, "writing images")
    }
}
