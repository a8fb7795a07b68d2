//! The seed that the checksums of a pool begin with, if its superblocks are gone.
//!
//! All checksums of images and blocks begin with that of the pool's uuid. So each good image and
//! each good head of a block says [what the seed is](seed_of), and damaged ones say something else. A seed
//! that many say is right, or else the one that most say.

use std::collections::HashMap;

use everleaf_pmem::error::Result;

use crate::io::IoFile;
use crate::journal::{BLOCK_ALIGN, BLOCK_HEAD, BLOCK_MAGIC};
use crate::store::format::{seed_of, u32_at, u64_at};
use crate::store::image::{IMAGE_ALIGN, ImageHead};

use super::scan::extents;

/// So many must say the same.
const ENOUGH: u32 = 8;
/// So many are asked at most.
const MOST: u32 = 4096;
/// The longest image that is asked.
const LONGEST: u32 = 64 << 10;

/// The seed that a block's head at `place` says.
fn of_block(bytes: &[u8], place: u64) -> Option<u32> {
    let head = bytes.get(..BLOCK_HEAD)?;
    if u32_at(head, 0) != BLOCK_MAGIC || u64_at(head, 32) != place {
        return None;
    }
    let covered = [&head[..4], &head[8..56]].concat();
    Some(seed_of(u32_at(head, 56), &covered))
}

/// The seed that most images and blocks of a file say, if there are any.
///
/// # Errors
/// NoMemory.
pub(super) fn find(data: &dyn IoFile, len: u64) -> Result<Option<u32>> {
    let (mut votes, mut asked) = (HashMap::<u32, u32>::new(), 0);
    for start in extents(len) {
        let mut bytes = Vec::new();
        let Ok(n) = super::scan::read_extent(data, start, len, &mut bytes)? else { continue };
        let first = super::scan::first_of(start);
        for at in (first..n).step_by(IMAGE_ALIGN) {
            let place = start + at as u64;
            let image = ImageHead::claim(&bytes[at..], place);
            let is_block = place.is_multiple_of(BLOCK_ALIGN);
            let seed = match image.filter(|head| head.placed.bytes <= LONGEST) {
                Some(ImageHead { placed, .. }) => {
                    Some(seed_of(placed.crc, &bytes[at + 8..at + placed.bytes as usize]))
                }
                None => is_block.then(|| of_block(&bytes[at..], place)).flatten(),
            };
            let Some(seed) = seed else { continue };
            asked += 1;
            let votes = votes.entry(seed).or_default();
            *votes += 1;
            if *votes == ENOUGH {
                return Ok(Some(seed));
            }
        }
        if asked > MOST {
            break;
        }
    }
    let best = votes.into_iter().max_by_key(|(seed, votes)| (*votes, *seed));
    Ok(best.map(|(seed, _)| seed))
}
