//! How large values are read.
//!
//! The images of a value are mostly neighbours on the disk. One call reads many of them, their heads into
//! one list and the bytes between the heads to where the caller wants them, so that no byte is copied
//! after the system has brought it. Where that does not fit (a part of a page, a compressed image, one
//! that still waits to be written), images are read whole and their bytes copied.

use std::io::IoSliceMut;

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use everleaf_pmem::page::PageNo;
use everleaf_pmem::retries::Retries;
use everleaf_pmem::sync::lock_plain as lock;

use crate::inner::Inner;
use crate::open::data::expect_inside;
use crate::store::image::{self, IMAGE_ALIGN, IMAGE_HEAD, Placed};
use crate::values::segments::value;

/// Bytes of neighbours that are read at once, at most.
const READ_BYTES: u64 = 256 << 10;

/// Memory that is used again for each read of one value.
#[derive(Default)]
struct Scratch {
    /// Where the images of the next pages are, which are neighbours on the disk.
    run: Vec<Placed>,
    /// Images, or only their heads.
    images: Vec<u8>,
}

/// How many pages and bytes of a value a read has brought.
type Brought = (u32, usize);

impl Inner {
    pub(crate) fn extent_read(&self, first: PageNo, offset: u64, buf: &mut [u8]) -> Result<()> {
        let g = self.region.geometry();
        expect_inside(g, self.region.limit(), first, offset, buf.len())?;
        let page_bytes = g.page_bytes() as u64;
        let mut no = first + (offset / page_bytes) as PageNo;
        let (mut skip, mut done) = ((offset % page_bytes) as usize, 0);
        let mut scratch = Scratch::default();
        while done < buf.len() {
            let read = self.read_values(no, skip, &mut buf[done..], &mut scratch);
            // After a close somebody else may write there.
            self.life.check()?;
            let (pages, bytes) = read?;
            if bytes == 0 {
                let at = self.lookup_value(no)?.place;
                return Err(Error::corrupt(at, format!("{}: it ends before the value", value(no))));
            }
            (no, skip, done) = (no + pages, 0, done + bytes);
        }
        Ok(())
    }

    /// Reads from byte `skip` of a page's value on into `buf`, as far as the next pages' images are its
    /// neighbours on the disk.
    fn read_values(
        &self,
        first: PageNo,
        skip: usize,
        buf: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<Brought> {
        let page_bytes = self.region.geometry().page_bytes();
        let wanted = (skip + buf.len()).div_ceil(page_bytes) as u32;
        let mut turns = Retries::default();
        loop {
            self.find_run(first, wanted, &mut scratch.run)?;
            let begin = scratch.run[0];
            if skip == 0 {
                let brought = self.read_in_place(first, buf, scratch)?;
                if brought.0 > 0 {
                    return Ok(brought);
                }
            }
            match self.read_images(first, skip, buf, scratch) {
                // A checkpoint has moved it meanwhile, which takes longer than to look again; its old place may be
                // somebody else's.
                Err(_) if self.lookup_value(first)? != begin => turns.go_on("reading a value")?,
                brought => return brought,
            }
        }
    }

    /// Where the images of a page's value and of those after it are, as far as they are neighbours.
    fn find_run(&self, first: PageNo, wanted: u32, run: &mut Vec<Placed>) -> Result<()> {
        run.clear();
        let begin = self.lookup_value(first)?;
        if !begin.has_image() {
            return Err(Error::corrupt(0, format!("{}: the table has no image", value(first))));
        }
        let mut next = begin;
        for no in first + 1.. {
            fallible::push(run, next, "the places of a large value")?;
            let end = next.end();
            if no - first >= wanted || end - begin.place >= READ_BYTES {
                break;
            }
            next = self.lookup_value(no)?;
            if next.place != end.next_multiple_of(IMAGE_ALIGN as u64) {
                break;
            }
        }
        Ok(())
    }

    /// Reads the bytes of plain images to where they belong. Brings nothing where that does not fit, or an
    /// image is not what it should be.
    fn read_in_place(
        &self,
        first: PageNo,
        buf: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<Brought> {
        let page_bytes = self.region.geometry().page_bytes();
        let Scratch { run, images: heads } = scratch;
        let begin = run[0].place;
        let (mut n, mut bytes, mut end) = (0, 0, begin);
        for placed in &*run {
            let body = (placed.bytes as usize).saturating_sub(IMAGE_HEAD);
            let left = buf.len() - bytes;
            // A shorter one is compressed, or the last of its value.
            if body > left || body == 0 || body < page_bytes && body < left {
                break;
            }
            (n, bytes, end) = (n + 1, bytes + body, placed.end());
        }
        // One image costs less to copy than to read in two parts.
        if n < 2 || lock(&self.values).unwritten_from(begin, end) < end {
            return Ok((0, 0));
        }
        heads.clear();
        fallible::more(heads, n * IMAGE_HEAD, "the heads of images")?;
        heads.resize(n * IMAGE_HEAD, 0);
        let mut parts = fallible::list(2 * n, "the parts of a large value")?;
        let pieces = buf[..bytes].chunks_mut(page_bytes);
        for (head, body) in heads.chunks_exact_mut(IMAGE_HEAD).zip(pieces) {
            parts.extend([IoSliceMut::new(head), IoSliceMut::new(body)]);
        }
        let read = self.data.read_parts_at(&mut parts, begin);
        if read.map_err(|e| Error::io("reading a large value", e))? < (end - begin) as usize {
            return Ok((0, 0));
        }
        let bodies = buf[..bytes].chunks(page_bytes);
        let images = heads.chunks_exact(IMAGE_HEAD).zip(bodies);
        let (mut good, mut done) = (0, 0);
        for ((no, &placed), image) in (first..).zip(&*run).zip(images) {
            match self.image_key.check_apart(image, placed, value(no)) {
                Ok(head) if image::is_plain(image.0, &head) => {
                    (good, done) = (good + 1, done + image.1.len());
                }
                _ => break,
            }
        }
        Ok((good, done))
    }

    /// Reads images, and copies their bytes from byte `skip` of the first on.
    fn read_images(
        &self,
        first: PageNo,
        skip: usize,
        buf: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<Brought> {
        let Scratch { run, images } = scratch;
        let (begin, end) = (run[0].place, run[run.len() - 1].end());
        self.read_range(begin, end, images)?;
        let (mut skip, mut done) = (skip, 0);
        for (no, &placed) in (first..).zip(&*run) {
            let image = images.get((placed.place - begin) as usize..).unwrap_or_default();
            let head = match self.image_key.check(image, placed, value(no)) {
                Ok(head) => head,
                // The next read begins with it.
                Err(_) if no > first => return Ok((no - first, done)),
                Err(error) => return Err(error),
            };
            let mut unpacked = Vec::new();
            let raw = match image::plain(image, &head) {
                Some(raw) => raw,
                None => {
                    image::unpack(image, &head, &mut unpacked)?;
                    &unpacked
                }
            };
            let there = raw.get(skip..).unwrap_or_default();
            let some = there.len().min(buf.len() - done);
            buf[done..done + some].copy_from_slice(&there[..some]);
            (skip, done) = (0, done + some);
        }
        Ok((run.len() as u32, done))
    }

    /// The bytes `at .. end` of the file, in which images of values are, into `out`; fewer if the file
    /// ends before.
    fn read_range(&self, at: u64, end: u64, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        fallible::more(out, (end - at) as usize, "the images of a large value")?;
        let mut at = at;
        while at < end {
            let split = lock(&self.values).unwritten_from(at, end);
            if split == at {
                if lock(&self.values).copy_unwritten(at, end, out) {
                    break;
                }
                // It has been written meanwhile.
                continue;
            }
            let (start, bytes) = (out.len(), (split - at) as usize);
            out.resize(start + bytes, 0);
            let read = self.data.read_at(&mut out[start..], at);
            let read = read.map_err(|e| Error::io("reading a large value", e))?;
            if read < bytes {
                out.truncate(start + read);
                break;
            }
            at = split;
        }
        Ok(())
    }
}
