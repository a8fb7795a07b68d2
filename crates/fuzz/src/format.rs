//! The file format as docs/FORMAT.md tells it, as far as checksums and places go. Written from that
//! text and not from the store's code.

use crc32c::{crc32c, crc32c_append};

/// Bytes of a copy of the superblock, and what journal blocks are aligned to.
pub const BLOCK: usize = 4096;
/// Bytes of an extent.
pub const EXTENT: usize = 1 << 20;
/// Bytes before the payload of an image.
pub const IMAGE_HEAD: usize = 48;
/// Bytes of what the page table says of one image.
pub const PLACED: usize = 16;
/// Bytes of a leaf of the page table, which is of 512 pages.
pub const LEAF: usize = 512 * PLACED;
/// Bytes before the payload of a journal block.
pub const BLOCK_HEAD: usize = 64;
/// Bytes before the operands of a journal record.
pub const RECORD_HEAD: usize = 11;

/// The kinds of images: a page, a page's worth of a large value, a leaf of the page table, its root.
pub const KINDS: [u8; 4] = [1, 2, 3, 4];

/// Reads a u32; 0 behind the end.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

/// Reads a u64; 0 behind the end.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Writes bytes, as far as there is room.
pub fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    if let Some(room) = bytes.get_mut(at..at + what.len()) {
        room.copy_from_slice(what);
    }
}

/// Bytes of a page with so many slots.
pub fn page_bytes(slots: usize) -> usize {
    64 + 16 * slots
}

/// Where the value of an entry of a node is in its page, how long the value is, and whether it is the
/// name of a record.
pub fn value_at(page: &[u8], position: usize) -> (usize, usize, bool) {
    let at = u64_at(page, 64 + 8 * position) as usize & 0xffff;
    let code = u32_at(page, at) as usize & 0xff;
    let mut next = at + 1;
    let mut number = |bytes: usize| {
        next += bytes;
        u32_at(page, next - bytes) as usize & ((1 << (8 * bytes)) - 1)
    };
    let suffix = match code & 15 {
        14 => number(1),
        15 => number(2) & 0x7fff,
        short => short,
    };
    let value = match code >> 4 {
        13 => number(1),
        14 => number(2),
        15 => 8,
        short => short,
    };
    (next + suffix.saturating_sub(6), value, code >> 4 == 15)
}

/// Puts the checksum of a superblock copy right.
pub fn seal_super(copy: &mut [u8]) {
    let crc = crc32c(&copy[..4092]);
    put(copy, 4092, &crc.to_le_bytes());
}

/// Makes an image without a gap, for byte `place` of the file, with its zeros behind.
pub fn image(uuid: &[u8], place: usize, kind: u8, number: u32, stamp: u64, raw: &[u8]) -> Vec<u8> {
    let mut image = vec![0; IMAGE_HEAD];
    put(&mut image, 0, b"EVLI");
    put(&mut image, 8, &(place as u64).to_le_bytes());
    put(&mut image, 16, &number.to_le_bytes());
    put(&mut image, 20, &[kind]);
    put(&mut image, 24, &(raw.len() as u32).to_le_bytes());
    put(&mut image, 28, &(raw.len() as u32).to_le_bytes());
    put(&mut image, 40, &stamp.to_le_bytes());
    image.extend_from_slice(raw);
    let crc = crc32c_append(crc32c(uuid), &image[8..]);
    put(&mut image, 4, &crc.to_le_bytes());
    image.resize(image.len().next_multiple_of(16), 0);
    image
}

/// Puts the checksum of the image at the start of `image` right. It covers no more than there is.
pub fn seal_image(image: &mut [u8], uuid: &[u8]) {
    let end = IMAGE_HEAD.saturating_add(u32_at(image, 24) as usize).min(image.len());
    let crc = crc32c_append(crc32c(uuid), &image[8..end]);
    put(image, 4, &crc.to_le_bytes());
}

/// The raw bytes of a sound image: its payload, and the zeros of its gap.
///
/// # Panics
/// If it is not sound.
pub fn raw(image: &[u8]) -> Vec<u8> {
    let (stored, raw) = (u32_at(image, 24) as usize, u32_at(image, 28) as usize);
    let payload = &image[IMAGE_HEAD..IMAGE_HEAD + stored];
    let mut bytes = match u32_at(image, 36) as usize {
        0 => payload.to_vec(),
        plain => lz4_flex::block::decompress(payload, plain).expect("it was packed"),
    };
    let (at, gap) = (u32_at(image, 32) as usize, raw - bytes.len());
    drop(bytes.splice(at..at, std::iter::repeat_n(0, gap)));
    bytes
}

/// The page table's entry for an image at that place, without the zeros behind it.
pub fn placed(place: usize, image: &[u8]) -> [u8; PLACED] {
    let mut placed = [0; PLACED];
    put(&mut placed, 0, &(place as u64).to_le_bytes());
    put(&mut placed, 8, &(IMAGE_HEAD as u32).wrapping_add(u32_at(image, 24)).to_le_bytes());
    put(&mut placed, 12, &image[4..8]);
    placed
}

/// The facts that a block of a journal states about itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts {
    /// Its number in the chain.
    pub number: u64,
    /// Its epoch.
    pub epoch: u64,
    /// Its byte in the file.
    pub place: u64,
    /// Where the chain goes when this extent has no room.
    pub next_extent: u32,
    /// The open that wrote it.
    pub generation: u32,
    /// The checksum of the block before.
    pub link: u32,
}

/// Makes a block that is a whole epoch, with zeros up to the next one.
pub fn block(uuid: &[u8], facts: &Facts, payload: &[u8]) -> Vec<u8> {
    let mut block = vec![0; BLOCK_HEAD];
    put(&mut block, 0, b"EBLK");
    put(&mut block, 8, &facts.number.to_le_bytes());
    put(&mut block, 16, &facts.epoch.to_le_bytes());
    put(&mut block, 24, &(payload.len() as u32).to_le_bytes());
    put(&mut block, 28, &1_u32.to_le_bytes());
    put(&mut block, 32, &facts.place.to_le_bytes());
    put(&mut block, 40, &facts.next_extent.to_le_bytes());
    put(&mut block, 44, &facts.generation.to_le_bytes());
    put(&mut block, 48, &facts.link.to_le_bytes());
    block.extend_from_slice(payload);
    seal_block(&mut block, uuid);
    block.resize(block.len().next_multiple_of(BLOCK), 0);
    block
}

/// Reads the head of a block.
pub fn facts(block: &[u8]) -> Facts {
    Facts {
        number: u64_at(block, 8),
        epoch: u64_at(block, 16),
        place: u64_at(block, 32),
        next_extent: u32_at(block, 40),
        generation: u32_at(block, 44),
        link: u32_at(block, 48),
    }
}

/// The end of a block's payload, from the block's start.
pub fn block_end(block: &[u8]) -> usize {
    BLOCK_HEAD + u32_at(block, 24) as usize
}

/// Puts both checksums of the block at the start of `block` right; says its crc. `None` if it does not
/// end within `block`.
pub fn seal_block(block: &mut [u8], uuid: &[u8]) -> Option<u32> {
    let end = Some(block_end(block)).filter(|end| *end <= block.len())?;
    let seed = crc32c(uuid);
    let crc = crc32c_append(crc32c_append(seed, &block[8..56]), &block[BLOCK_HEAD..end]);
    put(block, 4, &crc.to_le_bytes());
    let head = crc32c_append(crc32c_append(seed, &block[..4]), &block[8..56]);
    put(block, 56, &head.to_le_bytes());
    Some(crc)
}

/// A record of a change.
pub fn record(tag: u8, page: u32, seq: u32, operands: &[u8]) -> Vec<u8> {
    let mut record = vec![tag];
    record.extend((operands.len() as u16).to_le_bytes());
    record.extend(page.to_le_bytes());
    record.extend(seq.to_le_bytes());
    record.extend(operands);
    record
}

/// Page and sequence number of each record in a payload, as far as they are well formed.
pub fn records(payload: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        let n = usize::from(u16::from_le_bytes([*rest.get(1)?, *rest.get(2)?]));
        let (now, next) = rest.split_at_checked(RECORD_HEAD + n)?;
        rest = next;
        Some((u32_at(now, 3), u32_at(now, 7)))
    })
}
