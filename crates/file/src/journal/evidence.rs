//! Tells damage from a torn tail: looks for what was written after the end of the chain.
//!
//! An epoch is written only after the one before it is durable. So the head of a block with number `m`
//! that is piece `k` of its epoch proves that all blocks below `m - k` were durable. Neither the block's
//! payload nor its place matters: also a torn or a misdirected write was made. The tail of a torn epoch
//! proves nothing, because its epoch starts where the chain ends or before. A head of a lower
//! generation than the chain's last block has been left by an earlier open, which was not acknowledged.
//!
//! One more thing is no tail. The *start of an extent* is the head of an image or of a block of this pool, or
//! zero: the bytes of values come behind heads. So a whole block of another pool there was put there by somebody
//! else, and what was there before is gone. Elsewhere in an extent it may be a value's bytes.

use everleaf_pmem::error::Result;

use super::reader::{Reader, starts};
use super::{BLOCK_ALIGN, BLOCK_HEAD, BLOCK_MAGIC, BlockKey, EXTENT_BYTES, Position, payload_room};
use crate::store::format::{seed_of, u32_at};

#[derive(PartialEq, Eq)]
enum Says {
    /// The head is none, or an older one.
    Nothing,
    /// The block is in the tail.
    Tail,
    /// The missing blocks were durable.
    Durable,
}

/// A byte of the file that proves that the block `end.number` was durable.
///
/// `stopped` says how far the blocks went on after `end`. Blocks that follow them may be in any part of the
/// same extent or of the next, and in any extent that begins with a piece of the tail.
pub(super) fn find(
    reader: &mut Reader<'_>,
    key: BlockKey,
    end: &Position,
    generation: u32,
    stopped: Position,
) -> Result<Option<u64>> {
    let says = |head: &[u8]| match key.head(head) {
        Some((facts, _)) if facts.generation >= generation => {
            if facts.number.saturating_sub(facts.piece.into()) > end.number {
                Says::Durable
            } else if facts.number >= end.number {
                Says::Tail
            } else {
                Says::Nothing
            }
        }
        _ => Says::Nothing,
    };
    for spot in [*end, stopped].into_iter().flat_map(Position::spots).flatten() {
        if let Some(found) = within(reader, spot, &says)? {
            return Ok(Some(found));
        }
    }
    for start in starts(reader.len) {
        match says(&reader.head(start)?) {
            Says::Durable => return Ok(Some(start)),
            Says::Nothing => {}
            Says::Tail => {
                if let Some(found) = within(reader, start, &says)? {
                    return Ok(Some(found));
                }
            }
        }
    }
    Ok(None)
}

/// The first head at `from` or behind it in the same extent that proves it.
fn within(
    reader: &mut Reader<'_>,
    from: u64,
    says: &impl Fn(&[u8]) -> Says,
) -> Result<Option<u64>> {
    debug_assert!(from.is_multiple_of(BLOCK_ALIGN) && EXTENT_BYTES.is_multiple_of(BLOCK_ALIGN));
    let blocks = reader.rest(from)?.chunks(BLOCK_ALIGN as usize);
    let found = blocks
        .filter_map(|block| block.get(..BLOCK_HEAD))
        .position(|head| says(head) == Says::Durable);
    Ok(found.map(|i| from + i as u64 * BLOCK_ALIGN))
}

/// Whether there is a whole block of another pool at byte `at`. Its seed is not known, but head and payload
/// have a checksum each, which say the same.
pub(super) fn is_foreign(reader: &mut Reader<'_>, key: BlockKey, at: u64) -> Result<bool> {
    let head = reader.head(at)?;
    if u32_at(&head, 0) != BLOCK_MAGIC || key.head(&head).is_some() {
        return Ok(false);
    }
    let seed = seed_of(u32_at(&head, 56), &[&head[..4], &head[8..56]].concat());
    let other = BlockKey::of_seed(seed);
    let Some((_, len)) = other.head(&head) else { return Ok(false) };
    Ok(len <= payload_room(at) && reader.payload(other, at, len)?.is_some())
}
