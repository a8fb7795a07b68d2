//! The file format as docs/FORMAT.md tells it, as far as checksums and places go. Written from that
//! text and not from the store's code.

use crc32c::{crc32c, crc32c_append};

/// Bytes of a copy of the superblock, of a journal header, and what journal blocks are aligned to.
pub const BLOCK: usize = 4096;
/// Where the halves of the double-write area are in the data file.
pub const HALVES: [usize; 2] = [8192, 2_105_344];
/// Bytes of a half of the double-write area.
pub const HALF_BYTES: usize = 2 << 20;
/// Where page 0 is in the data file.
pub const PAGES: usize = 4_202_496;
/// Bytes before the payload of a journal block.
pub const BLOCK_HEAD: usize = 40;
/// Bytes before the operands of a journal record.
pub const RECORD_HEAD: usize = 11;
/// Bytes before the page numbers of a half of the double-write area.
pub const HALF_HEAD: usize = 32;

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

/// The checksum word of a page.
pub fn page_sum(no: u32, page: &[u8]) -> u64 {
    let crc = crc32c_append(crc32c(&no.to_le_bytes()), &page[..56]);
    (1 << 32) + u64::from(crc32c_append(crc, &page[64..]))
}

/// Puts the checksum of a page right, unless the page is all zero.
pub fn seal_page(no: u32, page: &mut [u8]) {
    put(page, 56, &[0; 8]);
    if page.iter().any(|byte| *byte != 0) {
        let sum = page_sum(no, page);
        put(page, 56, &sum.to_le_bytes());
    }
}

/// Puts the checksum of a half of the double-write area right: of as many pages as it says it has,
/// if they are there.
pub fn seal_half(half: &mut [u8], uuid: &[u8]) {
    let (pages, size) = (u32_at(half, 16) as usize, u32_at(half, 20) as usize);
    let Some(end) = size.checked_add(4).and_then(|each| each.checked_mul(pages)) else { return };
    let Some(end) = end.checked_add(HALF_HEAD).filter(|end| *end <= half.len()) else { return };
    let crc = crc32c_append(crc32c_append(crc32c(uuid), &half[..24]), &half[HALF_HEAD..end]);
    put(half, 24, &crc.to_le_bytes());
}

/// Puts the checksum of a journal file's header right.
pub fn seal_journal(header: &mut [u8]) {
    if header.len() >= 52 {
        let crc = crc32c(&header[..48]);
        put(header, 48, &crc.to_le_bytes());
    }
}

/// Makes a block of a journal out of its parts.
pub fn block(uuid: &[u8], generation: u64, epoch: u64, link: u32, payload: &[u8]) -> Vec<u8> {
    let mut block = vec![0; BLOCK_HEAD];
    put(&mut block, 0, b"EBLK");
    put(&mut block, 8, &generation.to_le_bytes());
    put(&mut block, 16, &epoch.to_le_bytes());
    put(&mut block, 24, &(payload.len() as u64).to_le_bytes());
    put(&mut block, 36, &link.to_le_bytes());
    block.extend_from_slice(payload);
    seal_block(&mut block, uuid, generation);
    block.resize(block.len().next_multiple_of(BLOCK), 0);
    block
}

/// Puts both checksums of the block at the start of `block` right; says its crc and where the next
/// block begins. `None` if it does not end within `block`.
pub fn seal_block(block: &mut [u8], uuid: &[u8], generation: u64) -> Option<(u32, usize)> {
    let len = usize::try_from(u64_at(block, 24)).ok()?;
    let end = len.checked_add(BLOCK_HEAD).filter(|end| *end <= block.len())?;
    let seed = crc32c_append(crc32c(uuid), &generation.to_le_bytes());
    let crc = crc32c_append(crc32c_append(seed, &block[8..32]), &block[BLOCK_HEAD..end]);
    put(block, 4, &crc.to_le_bytes());
    let head = crc32c_append(crc32c_append(seed, &block[..4]), &block[8..32]);
    let head = crc32c_append(head, &block[36..40]);
    put(block, 32, &head.to_le_bytes());
    Some((crc, end.next_multiple_of(BLOCK)))
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
