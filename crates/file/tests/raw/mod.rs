//! The bytes of a pool's file as docs/FORMAT.md has them, read by other code than the pool's own.

#![allow(dead_code, reason = "not every test uses everything")]

use std::ops::Range;

use everleaf_file::io::SimIo;

use super::toy::path;

pub const EXTENT: u64 = 1 << 20;
pub const SUPER: u64 = 4096;

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes(b.try_into().expect("four bytes")))
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().expect("eight bytes")))
}

/// Where an image is, and its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    pub place: u64,
    pub bytes: u32,
    pub crc: u32,
}

impl Placed {
    fn at(bytes: &[u8], at: usize) -> Option<Placed> {
        let placed = Placed {
            place: u64_at(bytes, at),
            bytes: u32_at(bytes, at + 8),
            crc: u32_at(bytes, at + 12),
        };
        (placed.place != 0).then_some(placed)
    }

    pub fn range(self) -> Range<u64> {
        self.place..self.place + u64::from(self.bytes)
    }
}

/// A good copy of the superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Super {
    pub clean: bool,
    pub generation: u64,
    pub counter: u64,
    pub durable_epoch: u64,
    pub root: Option<Placed>,
    /// Place and number of the first block, the crc of the one before it, and the extent after its own.
    pub journal: (u64, u64, u32, u32),
    pub floor: u64,
    seed: u32,
}

/// An image that a root needs, by its place under the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Live {
    Root,
    Leaf(u32),
    /// A page or a page of a large value.
    Page(u32),
}

/// A block of the journal.
#[derive(Debug, Clone)]
pub struct Block {
    pub number: u64,
    pub epoch: u64,
    pub piece: u32,
    pub ends_epoch: bool,
    /// Head and payload.
    pub bytes: Range<u64>,
    pub head: Vec<u8>,
}

/// All bytes of a pool.
pub struct Raw(pub Vec<u8>);

impl Raw {
    pub fn of(io: &SimIo) -> Raw {
        Raw(io.peek(&path()).unwrap_or_default())
    }

    /// The copies of the superblock, if they are good.
    pub fn supers(&self) -> [Option<Super>; 2] {
        [0, 1].map(|copy| {
            let b = self.0.get(copy * 4096..(copy + 1) * 4096)?;
            let is_good = b[..8] == *b"EVERLEAF" && u32_at(b, 4092) == crc32c::crc32c(&b[..4092]);
            is_good.then(|| Super {
                clean: u32_at(b, 44) & 1 != 0,
                generation: u64_at(b, 56),
                counter: u64_at(b, 64),
                durable_epoch: u64_at(b, 72),
                root: Placed::at(b, 80),
                journal: (u64_at(b, 96), u64_at(b, 104), u32_at(b, 112), u32_at(b, 116)),
                floor: u64_at(b, 120),
                seed: crc32c::crc32c(&b[24..40]),
            })
        })
    }

    /// The newer good copy.
    pub fn newest(&self) -> Super {
        let good = self.supers().into_iter().flatten();
        good.max_by_key(|copy| copy.counter).expect("one copy is good")
    }

    /// The payload of an image, if it is good.
    pub fn payload(&self, of: Super, placed: Placed) -> Option<&[u8]> {
        let range = placed.range();
        let image = self.0.get(range.start as usize..range.end as usize)?;
        let crc = crc32c::crc32c_append(of.seed, &image[8..]);
        let is_good = image[..4] == *b"EVLI" && u32_at(image, 4) == crc && crc == placed.crc;
        (is_good && u64_at(image, 8) == placed.place).then_some(&image[48..])
    }

    /// The images that a superblock's root needs, itself among them.
    pub fn images(&self, of: Super) -> Vec<(Live, Placed)> {
        let Some(root) = of.root else { return Vec::new() };
        let mut all = vec![(Live::Root, root)];
        let Some(bytes) = self.payload(of, root) else { return all };
        for leaf in 0..u32_at(bytes, 0) {
            let Some(placed) = Placed::at(bytes, 24 + 16 * leaf as usize) else { continue };
            all.push((Live::Leaf(leaf), placed));
            if self.payload(of, placed).is_none() {
                continue;
            }
            let range = placed.range();
            let image = &self.0[range.start as usize..range.end as usize];
            let entries = everleaf_testing::images::entries(image);
            let pages = (0..512).filter_map(|i| Some((i, Placed::at(&entries, 16 * i as usize)?)));
            all.extend(pages.map(|(i, placed)| (Live::Page(512 * leaf + i), placed)));
        }
        all
    }

    /// Where the image of a page is.
    pub fn page(&self, no: u32) -> Placed {
        let images = self.images(self.newest());
        images.iter().find(|(live, _)| *live == Live::Page(no)).expect("it has an image").1
    }

    fn block_at(&self, of: Super, place: u64) -> Option<(Block, u32, u32, u32)> {
        let at = place as usize;
        let head = self.0.get(at..at + 64)?;
        let end = at + 64 + u32_at(head, 24) as usize;
        let crc = crc32c::crc32c_append(of.seed, &head[8..56]);
        let crc = crc32c::crc32c_append(crc, self.0.get(at + 64..end)?);
        let is_good = head[..4] == *b"EBLK"
            && u32_at(head, 4) == crc
            && u64_at(head, 32) == place
            && place / EXTENT == (end as u64 - 1) / EXTENT;
        let block = Block {
            number: u64_at(head, 8),
            epoch: u64_at(head, 16),
            piece: u32_at(head, 52),
            ends_epoch: u32_at(head, 28) & 1 != 0,
            bytes: place..end as u64,
            head: head.to_vec(),
        };
        is_good.then(|| (block, u32_at(head, 48), crc, u32_at(head, 40)))
    }

    /// Where the bytes of large values are, by page, as the blocks of a chain say: of those that are alive
    /// at its end.
    pub fn values(&self, of: Super) -> Vec<(u32, Placed)> {
        self.values_of(&self.blocks(of))
    }

    fn values_of(&self, blocks: &[Block]) -> Vec<(u32, Placed)> {
        let (mut alive, mut freed) = (Vec::new(), Vec::new());
        let mut epoch = 0;
        let free = |alive: &mut Vec<(u32, Placed)>, freed: &mut Vec<Range<u32>>| {
            alive.retain(|(page, _)| !freed.iter().any(|run| run.contains(page)));
            freed.clear();
        };
        for block in blocks {
            if block.epoch != epoch {
                epoch = block.epoch;
                free(&mut alive, &mut freed);
            }
            let payload = &self.0[block.bytes.start as usize + 64..block.bytes.end as usize];
            let mut at = 0;
            while at < payload.len() {
                let len = usize::from(u16::from_le_bytes([payload[at + 1], payload[at + 2]]));
                let (page, pages) = (u32_at(payload, at + 3), u32_at(payload, at + 7));
                if payload[at] == 254 {
                    let list = &payload[at + 11..at + 11 + len];
                    let places = (0..pages).filter_map(|i| Placed::at(list, 16 * i as usize));
                    alive.retain(|(known, _)| !(page..page + pages).contains(known));
                    alive.extend((page..).zip(places));
                } else if payload[at] == 255 {
                    freed.push(page..page + pages);
                }
                at += 11 + len;
            }
        }
        free(&mut alive, &mut freed);
        alive
    }

    /// All good blocks of a pool, also those that nobody needs any more.
    pub fn all_blocks(&self, of: Super) -> Vec<Block> {
        let places = (2 * SUPER..self.0.len() as u64).step_by(4096);
        places.filter_map(|place| Some(self.block_at(of, place)?.0)).collect()
    }

    /// The blocks of the chain that a superblock names, up to the end of its last whole epoch.
    pub fn blocks(&self, of: Super) -> Vec<Block> {
        let mut blocks = self.chain(of);
        let whole = blocks.iter().rposition(|block| block.ends_epoch).map_or(0, |last| last + 1);
        blocks.truncate(whole);
        // A power cut may have taken the values that it adopts, and then it takes the epoch.
        let last = blocks.last().map_or(0, |block| block.epoch);
        let start = blocks.iter().position(|block| block.epoch == last).unwrap_or(0);
        let values = self.values_of(&blocks[start..]);
        if values.into_iter().any(|(_, placed)| self.payload(of, placed).is_none()) {
            blocks.truncate(start);
        }
        blocks
    }

    /// Where the next block of that chain would begin, and the sectors behind it in which a short one lies: a
    /// block may have been there that was damaged since.
    pub fn behind_chain(&self, of: Super) -> Vec<Range<u64>> {
        let (place, next) = self.walk(of).1;
        let here = (place != 0 && !place.is_multiple_of(EXTENT)).then_some(place);
        let there = (next != 0).then_some(u64::from(next) * EXTENT);
        here.into_iter().chain(there).map(|at| at..at + 4096).collect()
    }

    fn chain(&self, of: Super) -> Vec<Block> {
        self.walk(of).0
    }

    /// The blocks of a chain, and where it goes on: in this place, or in that extent.
    fn walk(&self, of: Super) -> (Vec<Block>, (u64, u32)) {
        let (mut place, mut number, mut link, mut next) = of.journal;
        let mut all = Vec::new();
        while place != 0 {
            let here = (!place.is_multiple_of(EXTENT)).then_some(place);
            let there = (next != 0).then_some(u64::from(next) * EXTENT);
            let good = [here, there].into_iter().flatten().filter_map(|at| self.block_at(of, at));
            let mut good =
                good.filter(|(block, before, ..)| (block.number, *before) == (number, link));
            let Some((block, _, crc, after)) = good.next() else { break };
            place = block.bytes.end.next_multiple_of(4096);
            (number, link, next) = (number + 1, crc, after);
            all.push(block);
        }
        (all, (place, next))
    }
}
