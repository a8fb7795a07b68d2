//! Which of the good blocks are the journal's, where some of it may be missing.
//!
//! Of two blocks with one number the one of the later open counts, and a block of an open before that
//! of a block with a lower number was given up. Of the last epoch all pieces must be there, unless
//! something says that it was durable: else it is what a crash has torn.

use everleaf_pmem::error::Result;
use everleaf_pmem::fallible;

use crate::io::IoFile;
use crate::journal::{BLOCK_HEAD, BLOCK_MAGIC, BlockFacts, BlockKey, Position, next_block};
use crate::store::format::{EXTENT_BYTES, u32_at, u64_at};
use crate::store::superblock::Super;

use super::scan::{Finding, FoundBlock};

const WHAT: &str = "what a journal holds";

/// The journal's payloads, as far as they are there.
#[derive(Debug, Default)]
pub(super) struct FoundJournal {
    /// Back to back.
    pub bytes: Vec<u8>,
    pub pieces: Vec<FoundPiece>,
    /// Whether something that was durable is not there, or may not be.
    pub has_gaps: bool,
}

/// The payload of one block.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundPiece {
    /// Its first byte in [`FoundJournal::bytes`].
    pub start: usize,
    pub len: usize,
    /// Its first byte in the file.
    pub place: u64,
    /// The facts in the head of the block.
    pub facts: BlockFacts,
}

/// Facts about the journal that are known without its blocks.
#[derive(Debug, Default)]
pub(super) struct JournalStart {
    /// Where it begins; nothing, if no superblock says so.
    at: Option<Position>,
    /// Its blocks are of this open or a later one.
    generation: u32,
    /// Blocks with lower numbers were durable; the others are of open `opened` or a later one.
    floor: u64,
    opened: u32,
    durable_epoch: u64,
    /// The copy of the superblock that says that there is no journal.
    closed_by: Option<u64>,
}

impl JournalStart {
    pub fn of(s: &Super) -> Self {
        let is_closed = s.clean && s.journal.place == 0;
        Self {
            at: Some(s.journal),
            generation: if is_closed { s.open_generation as u32 } else { 0 },
            floor: s.journal_floor,
            opened: s.open_generation as u32,
            durable_epoch: s.durable_epoch,
            closed_by: s.clean.then(|| s.copy() * crate::store::format::SUPER_BYTES as u64),
        }
    }

    /// If only the root is known, which an open with that number wrote.
    pub fn behind_root(generation: u32) -> Self {
        Self { generation, ..Self::default() }
    }

    /// Whether a block may be the journal's: it is no earlier one, and no open has told that it is lost.
    fn may_have(&self, facts: &BlockFacts) -> bool {
        let least = if facts.number < self.floor { 0 } else { self.opened };
        let from = self.at.map_or(0, |at| at.number);
        facts.number >= from && facts.generation >= least.max(self.generation)
    }
}

/// The blocks that count, and what is wrong with them.
struct Chooser<'c> {
    start: &'c JournalStart,
    chosen: Vec<FoundBlock>,
    found: Vec<(u64, String)>,
}

impl Chooser<'_> {
    fn choose(&mut self, blocks: &[FoundBlock]) -> Result<()> {
        for same in blocks.chunk_by(|a, b| a.facts.number == b.facts.number) {
            let last = self.chosen.last().copied();
            let least = last.map_or(self.start.generation, |last| last.facts.generation);
            let expected = match (last, self.start.at) {
                (Some(last), _) => Some((last.facts.number + 1, last.crc)),
                (None, Some(at)) => Some((at.number, at.link)),
                (None, None) => None,
            };
            let link = expected.filter(|next| next.0 == same[0].facts.number).map(|next| next.1);
            let is_linked = |block: &&FoundBlock| link.is_none_or(|link| block.facts.link == link);
            // They are sorted by their opens, the last one first.
            let mut good = same.iter().filter(|block| block.facts.generation >= least);
            let Some(block) = good.clone().find(is_linked).or_else(|| good.next()).copied() else {
                continue;
            };
            if link.is_some_and(|link| block.facts.link != link) && !self.breaks(&block, last) {
                continue;
            }
            if let Some(last) = self.chosen.last().map(|last| last.facts)
                && (block.facts.epoch < last.epoch
                    || block.facts.epoch == last.epoch && block.facts.piece <= last.piece)
            {
                let what = format!("epoch {} behind epoch {}", block.facts.epoch, last.epoch);
                self.found.push((block.facts.place, what));
                continue;
            }
            fallible::push(&mut self.chosen, block, WHAT)?;
        }
        Ok(())
    }

    /// Whether a block counts that has the next number and does not follow the block before.
    fn breaks(&mut self, block: &FoundBlock, last: Option<FoundBlock>) -> bool {
        let Some(last) = last else { return false };
        let facts = &block.facts;
        if facts.piece > 0 && facts.generation > last.facts.generation {
            // A later open has begun this epoch earlier: what has its numbers was given up.
            let first = facts.number - u64::from(facts.piece).min(facts.number);
            self.chosen.retain(|block| block.facts.number < first);
        } else if facts.piece > 0 && !self.was_durable(facts) {
            // The block before was written again, and a crash has kept what was written first.
            return false;
        } else {
            let what = format!("block {} does not follow the block before it", facts.number);
            self.found.push((facts.place, what));
        }
        true
    }

    /// Takes what a crash has torn off the end. Says where the blocks stopped that followed each other.
    fn cut_tail(&mut self) -> Option<FoundBlock> {
        let stopped = *self.chosen.last()?;
        let epoch = stopped.facts.epoch;
        let first = self.chosen.partition_point(|block| block.facts.epoch < epoch);
        let mut numbers = self.chosen[first..].iter().zip(0..);
        let is_whole = stopped.facts.ends_epoch && numbers.all(|(b, piece)| b.facts.piece == piece);
        if !is_whole && !self.was_durable(&stopped.facts) {
            self.chosen.truncate(first);
        }
        Some(stopped)
    }

    /// Whether the superblock says that a block was durable.
    fn was_durable(&self, facts: &BlockFacts) -> bool {
        facts.number < self.start.floor || facts.epoch <= self.start.durable_epoch
    }

    /// Says which blocks are missing.
    fn find_gaps(&mut self) {
        let mut next = self.start.at.map(|at| (at.number, at.spot()));
        for block in &self.chosen {
            let number = block.facts.number;
            if let Some((wanted, at)) = next.filter(|next| next.0 < number) {
                let what = format!("no good block {wanted} up to block {number}");
                self.found.push((at, what));
            }
            next = Some((number + 1, next_block(block.facts.place, block.len)));
        }
        if let Some((end, at)) = next.filter(|next| next.0 < self.start.floor) {
            let what =
                format!("no good block {end}; those before {} were durable", self.start.floor);
            self.found.push((at, what));
        }
    }
}

/// Whether what lies at `spot` looks like the block that should be there, damaged or torn by a crash.
/// Other bytes are what an earlier use of the file has left behind.
fn is_broken(data: &dyn IoFile, key: BlockKey, spot: u64, number: u64, generation: u32) -> bool {
    let mut head = [0; BLOCK_HEAD];
    if !data.read_at(&mut head, spot).is_ok_and(|n| n == head.len()) {
        return false;
    }
    if let Some((facts, _)) = key.head(&head) {
        return facts.place == spot && facts.number == number && facts.generation >= generation;
    }
    let signs =
        [u32_at(&head, 0) == BLOCK_MAGIC, u64_at(&head, 8) == number, u64_at(&head, 32) == spot];
    signs.iter().filter(|sign| **sign).count() >= 2
}

/// Where the block behind another one can be.
fn behind(block: &FoundBlock) -> (Position, u32) {
    let facts = &block.facts;
    let place = next_block(facts.place, block.len);
    let (number, link, next_extent) = (facts.number + 1, block.crc, facts.next_extent);
    (Position { place, number, link, next_extent }, facts.generation)
}

/// Chooses among all good blocks of a file, and reads them.
///
/// # Errors
/// NoMemory.
pub(super) fn read(
    data: &dyn IoFile,
    seed: u32,
    start: &JournalStart,
    mut blocks: Vec<FoundBlock>,
    findings: &mut Vec<Finding>,
) -> Result<FoundJournal> {
    let key = BlockKey::of_seed(seed);
    blocks.retain(|block| start.may_have(&block.facts));
    blocks.sort_unstable_by_key(|b| (b.facts.number, std::cmp::Reverse(b.facts.generation)));
    let mut chooser = Chooser { start, chosen: Vec::new(), found: Vec::new() };
    chooser.choose(&blocks)?;
    let stopped = chooser.cut_tail();
    chooser.find_gaps();
    let Chooser { chosen, mut found, .. } = chooser;
    let begin = start.at.filter(|at| at.place != 0).map(|at| (at, start.generation));
    let end = chosen.last().map(behind).or(begin);
    let mut ends: Vec<_> = end.into_iter().chain(stopped.as_ref().map(behind)).collect();
    ends.dedup_by_key(|end| end.0.number);
    for (end, generation) in ends {
        for spot in end.spots().into_iter().flatten() {
            let is_taken = stopped.is_some_and(|block| block.facts.place == spot)
                || blocks.iter().any(|b| b.facts.place == spot && b.facts.link == end.link);
            if !is_taken && is_broken(data, key, spot, end.number, generation) {
                let what = "a block that is damaged, or was torn by a crash, which costs nothing";
                found.push((spot, what.to_owned()));
            }
        }
    }
    let mut journal = FoundJournal { has_gaps: !found.is_empty(), ..FoundJournal::default() };
    findings.extend(found.into_iter().map(|(at, what)| Finding::data(at, what)));
    if let Some(at) = start.closed_by.filter(|_| !chosen.is_empty()) {
        let what = "the superblock says that the pool was closed, yet the journal has blocks";
        findings.push(Finding::data(at + 44, what.into()));
    }
    for block in &chosen {
        journal.take(data, key, block, findings)?;
    }
    Ok(journal)
}

impl FoundJournal {
    fn take(
        &mut self,
        data: &dyn IoFile,
        key: BlockKey,
        block: &FoundBlock,
        findings: &mut Vec<Finding>,
    ) -> Result<()> {
        debug_assert!((BLOCK_HEAD + block.len) as u64 <= EXTENT_BYTES, "it was in one extent");
        let mut bytes = fallible::filled(0_u8, BLOCK_HEAD + block.len, WHAT)?;
        let place = block.facts.place;
        let n = data.read_at(&mut bytes, place);
        let (head, payload) = bytes.split_at(BLOCK_HEAD);
        if !n.is_ok_and(|n| n == bytes.len() && key.is_payload_good(head, payload)) {
            self.has_gaps = true;
            let what = format!("block {} cannot be read again", block.facts.number);
            findings.push(Finding::data(place, what));
            return Ok(());
        }
        let start = self.bytes.len();
        fallible::append(&mut self.bytes, payload, WHAT)?;
        let place = place + BLOCK_HEAD as u64;
        let piece = FoundPiece { start, len: payload.len(), place, facts: block.facts };
        fallible::push(&mut self.pieces, piece, WHAT)
    }

    /// The byte of the file where byte `at` of [`bytes`](Self::bytes) stands.
    pub fn place_of(&self, at: usize) -> u64 {
        let i = self.pieces.partition_point(|piece| piece.start <= at);
        i.checked_sub(1).map_or(0, |i| self.pieces[i].place + (at - self.pieces[i].start) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_open_has_told_to_be_lost_is_not_the_journals() {
        let superblock = Super {
            journal: Position { place: 1 << 20, number: 5, link: 0, next_extent: 1 },
            journal_floor: 7,
            open_generation: 3,
            ..Super::new(0, 4, 0, 0)
        };
        let start = JournalStart::of(&superblock);
        let may_have = |number, generation| {
            let (epoch, place) = (number, number << 12);
            let (ends_epoch, next_extent, link, piece) = (true, 1, 0, 0);
            start.may_have(&BlockFacts {
                number,
                epoch,
                ends_epoch,
                place,
                next_extent,
                generation,
                link,
                piece,
            })
        };
        let found = [(4, 3), (5, 1), (6, 2), (7, 2), (8, 2), (7, 3), (8, 4)];
        let expected = [false, true, true, false, false, true, true];
        assert_eq!(found.map(|(number, generation)| may_have(number, generation)), expected);
    }
}
