//! Cleaning: what is alive in an extent of which little is alive moves elsewhere, so that the extent
//! becomes free.
//!
//! Each image says what it is of. It is alive if the table names it in this place. Its bytes are copied
//! as they are, and the table is told, unless it names another one by then. So cleaning needs no page in
//! memory and no latch, and large values move as pages do: their numbers stay. The extents are free when
//! the next root is durable.

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;

use crate::checkpoint::Run;
use crate::format::{EXTENT_BYTES, SECTOR};
use crate::image::{FIRST_IMAGE, ImageHead, ImageKind, Placed};
use crate::inner::Inner;

/// Extents of which more is alive are left alone.
const SPARSE_BYTES: u32 = EXTENT_BYTES as u32 / 2;
/// A file may have so many extents for each that is alive, in tenths, and some more.
const TENTHS: u64 = 16;
const MORE: u64 = 8;
/// The same for a pool that is closed, which nobody waits to grow.
const CLOSED_TENTHS: u64 = 13;
const CLOSED_MORE: u64 = 2;
/// Bytes that a checkpoint moves at least, if there is so much to do.
const LEAST_BYTES: u64 = 8 << 20;

impl Inner {
    /// Moves what is alive out of sparse extents, while the file is too long for what is alive in it;
    /// about as much as the checkpoint writes, or all that is needed if it is the last.
    pub(crate) fn clean(&self, run: &mut Run, is_last: bool) -> Result<()> {
        let budget = if is_last { u64::MAX } else { run.bytes.max(LEAST_BYTES) };
        let (tenths, more) = if is_last { (CLOSED_TENTHS, CLOSED_MORE) } else { (TENTHS, MORE) };
        let (mut wanted, sparse) = {
            let places = self.places();
            let (live, journal, _) = places.extents.counts();
            let used = u64::from(places.extents.images());
            let most = live.div_ceil(EXTENT_BYTES) * tenths / 10 + more;
            debug_assert!(journal <= u64::from(places.extents.end()));
            (used.saturating_sub(most), places.extents.sparse(SPARSE_BYTES))
        };
        let mut moved = 0;
        for (no, live) in sparse {
            if wanted == 0 || moved >= budget {
                break;
            }
            self.empty(run, no)?;
            moved += u64::from(live);
            wanted -= 1;
        }
        Ok(())
    }

    /// Moves what is alive out of one extent.
    fn empty(&self, run: &mut Run, no: u32) -> Result<()> {
        let start = u64::from(no) * EXTENT_BYTES;
        let mut bytes = fallible::filled(0_u8, EXTENT_BYTES as usize, "an extent")?;
        let n = self.data.read_at(&mut bytes, start);
        let n = n.map_err(|e| Error::io("reading an extent", e))?;
        let bytes = &bytes[..n];
        let mut moved: Vec<(u32, Placed, Placed)> = Vec::new();
        let mut at = if no == 0 { FIRST_IMAGE as usize } else { 0 };
        while at < bytes.len() {
            let Some(head) = self.image_key.read(&bytes[at..], start + at as u64) else {
                at = (at + 1).next_multiple_of(SECTOR as usize);
                continue;
            };
            if self.is_alive(&head)? {
                let image = &bytes[at..at + head.placed.bytes as usize];
                fallible::more(&mut moved, 1, "what is alive in an extent")?;
                if let ImageKind::Table = head.name.kind {
                    // It is written anew by this checkpoint.
                    self.places_mut().soil_leaf(head.name.number);
                } else {
                    let placed = run.stream.push_copy(self, image)?;
                    moved.push((head.name.number, head.placed, placed));
                    run.bytes += u64::from(placed.room());
                }
            }
            at += head.placed.room() as usize;
        }
        run.stream.flush(self)?;
        let mut places = self.places_mut();
        for (no, from, to) in moved {
            places.move_image(no, from, to)?;
        }
        run.stream.settle(&mut places);
        Ok(())
    }

    /// Whether the table names this very image. What it says of it is in memory then.
    fn is_alive(&self, head: &ImageHead) -> Result<bool> {
        let number = head.name.number;
        Ok(match head.name.kind {
            ImageKind::Root => false,
            ImageKind::Table => {
                let is = self.places().leaf(number) == Some(head.placed);
                if is {
                    self.lookup(number.saturating_mul(crate::table::LEAF_PAGES as u32))?;
                }
                is
            }
            ImageKind::Page | ImageKind::Value => self.lookup(number)? == head.placed,
        })
    }
}
