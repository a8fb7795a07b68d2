//! With what the checksums of a pool begin whose superblocks are gone.
//!
//! All checksums of images and blocks begin with that of the pool's uuid. CRC-32C is linear: what it
//! makes of bytes behind a seed is what it makes of them behind zero, combined by XOR with what it makes
//! of as many zero bytes behind the seed. The latter can be undone, bit by bit. So each good image and
//! each good head of a block says what the seed is, and damaged ones say something else. What two say is
//! right.

use std::collections::HashMap;

use everleaf_pmem::error::Result;

use crate::format::{u32_at, u64_at};
use crate::image::{IMAGE_ALIGN, ImageHead};
use crate::io::IoFile;
use crate::journal::{BLOCK_ALIGN, BLOCK_HEAD, BLOCK_MAGIC};

use super::scan::extents;

/// CRC-32C's polynomial, bits reversed, as the register has it.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// So many must say the same.
const ENOUGH: u32 = 8;
/// So many are asked at most.
const MOST: u32 = 4096;
/// The longest image that is asked.
const LONGEST: u32 = 64 << 10;

/// The seed from which `bytes` have this checksum.
fn seed_of(crc: u32, bytes: &[u8]) -> u32 {
    let mut register = crc ^ crc32c::crc32c_append(0, bytes);
    for _ in 0..8 * bytes.len() {
        register = match register >> 31 {
            0 => register << 1,
            _ => (register ^ POLYNOMIAL) << 1 | 1,
        };
    }
    register
}

/// What a block's head at `place` says the seed is.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_says_with_what_it_began() {
        let bytes: Vec<u8> = (0..300_u32).map(|i| (i * 7) as u8).collect();
        for seed in [0, 1, 0x8000_0000, 0xdead_beef, u32::MAX] {
            for n in [0, 1, 44, 300] {
                let crc = crc32c::crc32c_append(seed, &bytes[..n]);
                assert_eq!(seed_of(crc, &bytes[..n]), seed, "{n} bytes");
            }
        }
    }
}
