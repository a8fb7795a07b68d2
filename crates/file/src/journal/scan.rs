//! Reads the chain at an open: its whole epochs, and where it goes on.
//!
//! A good block is the next one if its number is the one after, its link is the crc of the block
//! before, its place is its own, and its generation is not below that of the block before.
//!
//! A crash leaves a torn tail: blocks of one epoch, of which some were lost. The tail is not cut off.
//! The next open writes over it from the same number on, maybe less of it, and maybe at the start of
//! the next extent where the tail was in this one, because its first record is longer. So both places
//! are looked at, and of two blocks that would follow the higher generation wins. A block of the tail
//! does not follow a block of a later open, because its link is the crc of another one.
//!
//! A block of the tail must not become good later, when an open has told that its epoch is lost: the file
//! may have ended within its last zeros, and grow. An open writes its generation and the number of its
//! first block, the *floor*, to the superblock before that block. So from the floor on only blocks of
//! that generation count.

use std::collections::HashSet;

use everleaf_pmem::epoch::NO_EPOCH;
use everleaf_pmem::error::Result;
use everleaf_pmem::fallible;
use everleaf_pmem::page::PageNo;

use super::reader::{Reader, read_error};
use super::{
    BLOCK_ALIGN, BLOCK_HEAD, BlockFacts, BlockKey, EXTENT_BYTES, Position, RECORD_HEAD, TAG_ADOPT,
    TAG_FORGET, corrupt, evidence, next_block, record_bytes,
};
use crate::io::IoFile;
use crate::store::format::u32_at;
use crate::store::image::Placed;

const WHAT: &str = "what a journal holds";

/// The payload of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its first byte in [`JournalScan::bytes`].
    pub start: usize,
    pub len: usize,
    /// Its first byte in the file.
    pub place: u64,
    pub epoch: u64,
}

/// A record of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub tag: u8,
    pub page: PageNo,
    pub seq: u32,
    /// Its first byte in [`JournalScan::bytes`].
    pub at: usize,
    pub bytes: &'a [u8],
    pub epoch: u64,
}

/// The contents of the chain.
#[derive(Debug, Default)]
pub(crate) struct JournalScan {
    /// The payloads of whole epochs, back to back, without heads.
    pub bytes: Vec<u8>,
    pub pieces: Vec<Piece>,
    /// Where the next block goes.
    pub end: Position,
    /// The generation of the last block; 0 = there is none.
    pub generation: u32,
    /// The last whole epoch; 0 = there is none.
    pub last_epoch: u64,
    /// Byte of the file where its first block stands; 0 = there is none.
    pub last_block: u64,
    /// The extents of the chain in order. The one where the next block would go is the last, also if no
    /// block is in it yet. `end.next_extent` belongs to the chain as well; it is the last one here if
    /// `end.place` is the end of an extent.
    pub extents: Vec<u32>,
}

impl JournalScan {
    /// The byte of the file where byte `at` of [`bytes`](Self::bytes) stands.
    pub(crate) fn place_of(&self, at: usize) -> u64 {
        let i = self.pieces.partition_point(|piece| piece.start <= at);
        let Some(piece) = i.checked_sub(1).and_then(|i| self.pieces.get(i)) else {
            return self.end.place;
        };
        piece.place + (at - piece.start) as u64
    }

    /// Calls `f` with the records in order.
    ///
    /// # Errors
    /// [`Corrupt`](everleaf_pmem::error::Error::Corrupt) for a malformed record, and what `f` says.
    pub(crate) fn walk(&self, f: impl FnMut(Record<'_>) -> Result<()>) -> Result<()> {
        self.walk_pieces(&self.pieces, f)
    }

    fn walk_pieces(
        &self,
        pieces: &[Piece],
        mut f: impl FnMut(Record<'_>) -> Result<()>,
    ) -> Result<()> {
        for piece in pieces {
            let (mut at, end) = (piece.start, piece.start + piece.len);
            while at < end {
                let rest = &self.bytes[at..end];
                let len = if rest.len() < RECORD_HEAD { usize::MAX } else { record_bytes(rest) };
                if len > rest.len() || rest[0] == 0 {
                    return Err(corrupt(self.place_of(at), "malformed record"));
                }
                let (page, seq) = (u32_at(rest, 3), u32_at(rest, 7));
                let bytes = &rest[RECORD_HEAD..len];
                f(Record { tag: rest[0], page, seq, at, bytes, epoch: piece.epoch })?;
                at += len;
            }
        }
        Ok(())
    }
}

/// How far a scan has come.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    end: Position,
    bytes: usize,
    pieces: usize,
    extents: usize,
    generation: u32,
    last_epoch: u64,
    last_block: u64,
}

struct Walker<'a> {
    reader: Reader<'a>,
    key: BlockKey,
    after: u64,
    /// Blocks from this number on are of that generation, which is the highest one.
    floor: u64,
    generation: u32,
    /// Where the next block goes.
    at: Position,
    /// The block before.
    last: Option<BlockFacts>,
    scan: JournalScan,
    /// Extents that were ever a next one, or that of a block.
    seen: HashSet<u32>,
    /// At the end of the last whole epoch.
    whole: Mark,
    /// At its start.
    before: Mark,
    /// Where the epoch starts that the walk is in.
    epoch_start: u64,
}

impl<'a> Walker<'a> {
    fn new(
        file: &'a dyn IoFile,
        key: BlockKey,
        from: &Position,
        floor: u64,
        after: u64,
        generation: u32,
    ) -> Result<Self> {
        if !from.place.is_multiple_of(BLOCK_ALIGN) || from.place < 2 * BLOCK_ALIGN {
            return Err(corrupt(0, format!("no journal goes on at byte {}", from.place)));
        }
        if from.next_extent == 0 {
            return Err(corrupt(0, "the journal has no extent to go on in"));
        }
        let mut walker = Self {
            reader: Reader::new(file)?,
            key,
            after,
            floor,
            generation,
            at: *from,
            last: None,
            scan: JournalScan::default(),
            seen: HashSet::new(),
            whole: Mark { end: *from, ..Mark::default() },
            before: Mark { end: *from, ..Mark::default() },
            epoch_start: 0,
        };
        if !from.place.is_multiple_of(EXTENT_BYTES) {
            walker.enter(from.place)?;
        }
        (walker.whole.extents, walker.before.extents) = (walker.scan.extents.len(), 0);
        walker.names(from.next_extent, None, 0)?;
        Ok(walker)
    }

    /// Notes the extent of a block, or of the place where the chain begins.
    fn enter(&mut self, place: u64) -> Result<()> {
        let extent = u32::try_from(place / EXTENT_BYTES)
            .map_err(|_| corrupt(0, format!("no journal goes on at byte {place}")))?;
        if self.scan.extents.last() != Some(&extent) {
            fallible::push(&mut self.scan.extents, extent, WHAT)?;
        }
        fallible::insert(&mut self.seen, extent, WHAT).map(drop)
    }

    /// Notes where the chain goes on when this extent is full, which was not so `before`.
    fn names(&mut self, next: u32, before: Option<u32>, place: u64) -> Result<()> {
        if next == 0 || before == Some(next) {
            return Ok(());
        }
        if !fallible::insert(&mut self.seen, next, WHAT)? {
            return Err(corrupt(place, format!("the journal comes to extent {next} again")));
        }
        Ok(())
    }

    /// Whether the next block is at `spot`, as far as its head says so.
    fn judge(&mut self, spot: u64) -> Result<Option<(BlockFacts, usize)>> {
        let head = self.reader.head(spot)?;
        let Some((facts, len)) = self.key.head(&head) else { return Ok(None) };
        if facts.place != spot || facts.number != self.at.number {
            return Ok(None);
        }
        let is_linked = facts.link == self.at.link;
        // Of an earlier open, and a later one has told that its epoch is lost.
        let is_lost = facts.number >= self.floor && facts.generation < self.generation;
        let Some(last) = self.last else {
            // A block that does not follow was left by an earlier open: its epoch was torn, and later opens
            // have gone on from the block before.
            let is_next = is_linked && !is_lost && facts.epoch > self.after;
            return Ok(is_next.then_some((facts, len)));
        };
        if facts.generation < last.generation {
            return Ok(None);
        }
        // An epoch that begins here says that the block before was durable, so it was another one. A later
        // piece says only that its epoch has begun earlier: in a later open, or before a block that was
        // written again, with more records, after the disk had no room for it.
        if !is_linked && facts.piece == 0 {
            let what = format!("block {} does not follow the block before it", facts.number);
            return Err(corrupt(spot, what));
        }
        Ok((is_linked && !is_lost).then_some((facts, len)))
    }

    /// Takes the next block. `false` if there is none.
    fn step(&mut self) -> Result<bool> {
        let mut found: Option<(BlockFacts, usize)> = None;
        for spot in self.at.spots().into_iter().flatten() {
            let next = self.judge(spot)?;
            if next.is_some_and(|next| found.is_none_or(|f| f.0.generation < next.0.generation)) {
                found = next;
            }
        }
        let Some((facts, len)) = found else { return Ok(false) };
        let Some(payload) = self.reader.payload(self.key, facts.place, len)? else {
            return Ok(false);
        };
        debug_assert!(payload.len() == len);
        let start = self.scan.pieces.last().map_or(0, |piece| piece.start + piece.len);
        let head = self.reader.head(facts.place)?;
        self.check(&facts)?;
        let place = facts.place + BLOCK_HEAD as u64;
        let piece = Piece { start, len, place, epoch: facts.epoch };
        fallible::push(&mut self.scan.pieces, piece, WHAT)?;
        self.enter(facts.place)?;
        self.names(facts.next_extent, Some(self.at.next_extent), facts.place)?;
        if self.at.next_extent == (facts.place / EXTENT_BYTES) as u32
            && facts.next_extent == self.at.next_extent
        {
            return Err(corrupt(facts.place, "the journal goes in a circle"));
        }
        if facts.piece == 0 {
            self.epoch_start = facts.place;
        }
        self.at = Position {
            place: next_block(facts.place, len),
            number: facts.number + 1,
            link: u32_at(&head, 4),
            next_extent: facts.next_extent,
        };
        self.last = Some(facts);
        if facts.ends_epoch {
            self.take_epoch()?;
            self.before = self.whole;
            self.whole = Mark {
                end: self.at,
                bytes: self.scan.bytes.len(),
                pieces: self.scan.pieces.len(),
                extents: self.scan.extents.len(),
                generation: facts.generation,
                last_epoch: facts.epoch,
                last_block: self.epoch_start,
            };
        }
        Ok(true)
    }

    /// Reads what the pieces hold of an epoch that is whole now. Not before: of one that was not to end, a crash may leave
    /// more than there is memory.
    fn take_epoch(&mut self) -> Result<()> {
        for piece in &self.scan.pieces[self.whole.pieces..] {
            let payload =
                self.reader.payload(self.key, piece.place - BLOCK_HEAD as u64, piece.len)?;
            let Some(payload) = payload else {
                return Err(corrupt(
                    piece.place,
                    "a block of the journal changed while it was read",
                ));
            };
            debug_assert!(piece.start == self.scan.bytes.len(), "pieces are back to back");
            fallible::more(&mut self.scan.bytes, piece.len, WHAT)?;
            self.scan.bytes.extend_from_slice(payload);
        }
        Ok(())
    }

    /// Whether a good block that follows the block before says what it must.
    fn check(&self, facts: &BlockFacts) -> Result<()> {
        let wrong = |what: String| Err(corrupt(facts.place, what));
        if facts.generation > self.generation {
            let (own, known) = (facts.generation, self.generation);
            return wrong(format!("open {own} wrote this, yet {known} is the last that is known"));
        }
        if facts.number == u64::MAX || facts.epoch >= NO_EPOCH {
            return wrong(format!("block {} of epoch {:#x}", facts.number, facts.epoch));
        }
        if facts.next_extent == 0 {
            // There the superblock is.
            return wrong(format!("block {} has the journal go on in extent 0", facts.number));
        }
        let fits = match self.last.filter(|last| !last.ends_epoch) {
            Some(last) => {
                facts.epoch == last.epoch
                    && last.piece.checked_add(1) == Some(facts.piece)
                    && facts.generation == last.generation
            }
            None => facts.piece == 0 && facts.epoch > self.whole.last_epoch.max(self.after),
        };
        if fits {
            return Ok(());
        }
        wrong(format!("piece {} of epoch {} does not belong here", facts.piece, facts.epoch))
    }

    /// Whether the disk holds the last whole epoch as memory does. It may be one whose sync failed.
    fn is_on_disk(&mut self) -> Result<bool> {
        self.reader.forget();
        let pieces = &self.scan.pieces[self.before.pieces..self.whole.pieces];
        for piece in pieces {
            let place = piece.place - BLOCK_HEAD as u64;
            let range = place..piece.place + piece.len as u64;
            self.reader.file.drop_cached(range).map_err(read_error)?;
        }
        for (number, piece) in (self.before.end.number..).zip(pieces) {
            let place = piece.place - BLOCK_HEAD as u64;
            let head = self.key.head(&self.reader.head(place)?);
            let is_same = head.is_some_and(|(facts, len)| {
                (facts.number, facts.place, len) == (number, place, piece.len)
            });
            let bytes = &self.scan.bytes[piece.start..piece.start + piece.len];
            let payload = self.reader.payload(self.key, place, piece.len)?;
            if !is_same || payload != Some(bytes) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the images are good that the last whole epoch adopts.
    fn is_adopted_good(
        &self,
        is_good: &mut dyn FnMut(&[u8], PageNo) -> Result<bool>,
    ) -> Result<bool> {
        let pieces = &self.scan.pieces[self.before.pieces..self.whole.pieces];
        // Values that the same epoch frees may be overwritten once the epoch is durable.
        let mut freed: Vec<(PageNo, u64)> = Vec::new();
        self.scan.walk_pieces(pieces, |record| match record.tag {
            TAG_FORGET => {
                let end = u64::from(record.page) + u64::from(record.seq);
                fallible::push(&mut freed, (record.page, end), WHAT)
            }
            _ => Ok(()),
        })?;
        freed.sort_unstable();
        // Each with the end of all up to it: there may be many.
        let mut end = 0;
        for run in &mut freed {
            end = run.1.max(end);
            run.1 = end;
        }
        let is_freed = |page: PageNo| {
            let behind = freed.partition_point(|(first, _)| *first <= page);
            behind > 0 && u64::from(page) < freed[behind - 1].1
        };
        let mut good = true;
        self.scan.walk_pieces(pieces, |record| {
            if record.tag != TAG_ADOPT || !good || is_freed(record.page) {
                return Ok(());
            }
            if record.bytes.len() as u64 != u64::from(record.seq) * Placed::BYTES as u64 {
                return Err(corrupt(self.scan.place_of(record.at), "malformed record"));
            }
            good = is_good(record.bytes, record.page)?;
            Ok(())
        })?;
        Ok(good)
    }

    /// The result, cut to the last epoch that counts.
    fn settle(
        mut self,
        is_good: &mut dyn FnMut(&[u8], PageNo) -> Result<bool>,
    ) -> Result<JournalScan> {
        let floor = self.floor;
        let has_more = self.at.number != self.whole.end.number;
        let mut keep = self.whole;
        // Values that a checkpoint knew of may have been freed by then, and their images overwritten.
        let may_tear = keep.end.number > floor;
        let is_good = keep.pieces == 0
            || self.is_on_disk()? && (!may_tear || self.is_adopted_good(is_good)?);
        if !is_good {
            if has_more {
                let what = format!("epoch {} is damaged, yet a later one follows", keep.last_epoch);
                return Err(corrupt(keep.last_block, what));
            }
            keep = self.before;
        }
        let stopped = self.at;
        let mut scan = self.scan;
        let spot = keep.end.spot();
        let found =
            evidence::find(&mut self.reader, self.key, &keep.end, keep.generation, stopped)?;
        if let Some(found) = found {
            let what = format!("no good epoch here, yet a later one at byte {found}");
            return Err(corrupt(spot, what));
        }
        if keep.end.number < floor {
            let what = format!("block {} is missing, yet it was durable", keep.end.number);
            return Err(corrupt(spot, what));
        }
        // In the extents where the next block may be, the first one of the chain among them.
        let spots = [keep.end, stopped].into_iter().flat_map(Position::spots).flatten();
        for start in spots.map(|spot| spot - spot % EXTENT_BYTES) {
            if evidence::is_foreign(&mut self.reader, self.key, start)? {
                return Err(corrupt(start, "here is a block of another pool's journal"));
            }
        }
        scan.bytes.truncate(keep.bytes);
        scan.pieces.truncate(keep.pieces);
        scan.extents.truncate(keep.extents);
        let next = keep.end.next_extent;
        if keep.end.place.is_multiple_of(EXTENT_BYTES) && next != 0 {
            fallible::push(&mut scan.extents, next, WHAT)?;
        }
        (scan.end, scan.generation) = (keep.end, keep.generation);
        (scan.last_epoch, scan.last_block) = (keep.last_epoch, keep.last_block);
        debug_assert!(scan.pieces.iter().all(|piece| piece.start + piece.len <= scan.bytes.len()));
        Ok(scan)
    }
}

/// Reads the chain that goes on at `from`. Blocks below the number `floor` were durable; the others are of
/// `generation`, and no open had a higher one. No epoch is at or below `after`. `is_adopted_good` is asked
/// with what each ADOPT of the last epoch holds: its list of places, and its first page.
///
/// # Errors
/// I/O errors, what `is_adopted_good` says, and [`Corrupt`](everleaf_pmem::error::Error::Corrupt) if what
/// was durable is not all there or contradicts itself.
pub(crate) fn scan(
    file: &dyn IoFile,
    key: BlockKey,
    from: &Position,
    floor: u64,
    after: u64,
    generation: u32,
    is_adopted_good: &mut dyn FnMut(&[u8], PageNo) -> Result<bool>,
) -> Result<JournalScan> {
    let mut walker = Walker::new(file, key, from, floor, after, generation)?;
    while walker.step()? {}
    walker.settle(is_adopted_good)
}
