//! Images: all that the file holds besides superblocks and journal.
//!
//! ```text
//! image   0 magic u32          4 crc32c u32 of bytes 8 … 48 + stored, seeded with that of the uuid
//!         8 place u64          its own byte in the file
//!        16 number u32         20 kind u8   21 packing u8   22 u16 0
//!        24 stored bytes u32   28 raw bytes u32   32 gap at u32
//!        36 u32 bytes of the payload before it was compressed; 0: it was not
//!        40 stamp u64          rises with each run of checkpoints
//!        48 payload, then zeros up to a multiple of 16
//! ```
//!
//! An image says what it is of, where it belongs and when it was written, and whoever names it knows
//! its checksum. So rot, a write that was lost and one that went elsewhere are told apart from what
//! should be there.

use std::ops::Range;

use everleaf_pmem::error::{Error, Result};
use everleaf_pmem::fallible;
use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};

use crate::store::format::{EXTENT_BYTES, u32_at, u64_at};

/// Bytes of an image's head.
pub(crate) const IMAGE_HEAD: usize = 48;
/// Images begin at multiples of this.
pub(crate) const IMAGE_ALIGN: usize = 16;

/// Makes an LZ4 block of bytes; says how many it has, if it fits.
pub(crate) type Compress = fn(&[u8], &mut [u8]) -> Option<usize>;

/// By what repeats anywhere. Takes 8 KiB of memory, without which the process ends.
pub(crate) fn by_lz4(bytes: &[u8], block: &mut [u8]) -> Option<usize> {
    compress_into(bytes, block).ok()
}

/// By what repeats in the next entry of a list of entries of [`Placed::BYTES`], and without memory of its own.
pub(crate) fn by_entries(bytes: &[u8], block: &mut [u8]) -> Option<usize> {
    // LZ4's rules for the end of a block: its last bytes are no match, and no match begins in the last few.
    const LITERALS_AT_END: usize = 5;
    const NO_MATCH_AT_END: usize = 12;
    const LEAST_MATCH: usize = 4;
    let mut block = Block { bytes: block, len: 0 };
    let (mut from, mut pos) = (0, Placed::BYTES);
    while pos + NO_MATCH_AT_END <= bytes.len() {
        let most = bytes.len() - LITERALS_AT_END - pos;
        let repeats = |i: &usize| bytes[pos + i] == bytes[pos + i - Placed::BYTES];
        let n = (0..most).take_while(repeats).count();
        if n < LEAST_MATCH {
            pos += 1;
            continue;
        }
        block.sequence(&bytes[from..pos], Some(n - LEAST_MATCH))?;
        pos += n;
        from = pos;
    }
    block.sequence(&bytes[from..], None)?;
    Some(block.len)
}

/// An LZ4 block in the making.
struct Block<'b> {
    bytes: &'b mut [u8],
    len: usize,
}

impl Block<'_> {
    /// Lengths from here on are in bytes of their own.
    const NIBBLE: usize = 15;

    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len.checked_add(bytes.len())?;
        self.bytes.get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }

    /// Adds the part of a length that is not in its half of the token.
    fn push_rest(&mut self, length: usize) -> Option<()> {
        let Some(mut rest) = length.checked_sub(Self::NIBBLE) else { return Some(()) };
        while rest >= 255 {
            self.push(&[255])?;
            rest -= 255;
        }
        self.push(&[rest as u8])
    }

    /// Bytes as they are, and then so many more than the fewest that repeat those of one entry before, if any.
    fn sequence(&mut self, literals: &[u8], more: Option<usize>) -> Option<()> {
        let nibble = |length: usize| length.min(Self::NIBBLE) as u8;
        self.push(&[nibble(literals.len()) << 4 | more.map_or(0, nibble)])?;
        self.push_rest(literals.len())?;
        self.push(literals)?;
        let Some(more) = more else { return Some(()) };
        self.push(&(Placed::BYTES as u16).to_le_bytes())?;
        self.push_rest(more)
    }
}

const MAGIC: u32 = u32::from_le_bytes(*b"EVLI");
/// Bit: the payload leaves out a gap, which is zero.
const GAP: u8 = 1;
/// Bit: the payload is compressed, as an LZ4 block.
const LZ4: u8 = 2;
/// Payloads that are shorter are not compressed.
const COMPRESS_BYTES: usize = 256;

const _: () = {
    assert!(IMAGE_HEAD.is_multiple_of(IMAGE_ALIGN));
    assert!((EXTENT_BYTES as usize).is_multiple_of(IMAGE_ALIGN));
};

/// The kinds of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ImageKind {
    /// A page.
    Page = 1,
    /// Bytes of a large value.
    Value = 2,
    /// A leaf of the page table.
    Table = 3,
    /// The root of the page table.
    Root = 4,
}

impl ImageKind {
    fn of(byte: u8) -> Option<Self> {
        [Self::Page, Self::Value, Self::Table, Self::Root].into_iter().find(|k| *k as u8 == byte)
    }
    /// Its name in errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Value => "large value's page",
            Self::Table => "leaf of the page table",
            Self::Root => "root of the page table",
        }
    }
}

/// Which image is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageName {
    pub kind: ImageKind,
    pub number: u32,
}

impl std::fmt::Display for ImageName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.number)
    }
}

/// Where an image is, and its checksum; or, with no place, the sequence number that a page without
/// an image had last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    pub place: u64,
    pub bytes: u32,
    pub crc: u32,
}

impl Placed {
    /// Bytes of one in a table.
    pub(crate) const BYTES: usize = 16;

    /// A page that needs no image, whose changes are numbered on from `seq`.
    pub(crate) fn blank(seq: u32) -> Self {
        Self { place: 0, bytes: 0, crc: seq }
    }
    pub(crate) fn has_image(self) -> bool {
        self.place != 0
    }
    pub(crate) fn end(self) -> u64 {
        self.place + u64::from(self.bytes)
    }
    /// Bytes that the image takes of its extent.
    pub(crate) fn room(self) -> u32 {
        self.bytes.next_multiple_of(IMAGE_ALIGN as u32)
    }
    /// The extent in which it begins.
    pub(crate) fn extent(self) -> u32 {
        (self.place / EXTENT_BYTES) as u32
    }
    /// All extents in which it lies.
    pub(crate) fn extents(self) -> Range<u32> {
        self.extent()..self.end().div_ceil(EXTENT_BYTES) as u32
    }
    #[inline]
    pub(crate) fn encode(self) -> [u8; Self::BYTES] {
        let mut b = [0; Self::BYTES];
        b[..8].copy_from_slice(&self.place.to_le_bytes());
        b[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        b[12..].copy_from_slice(&self.crc.to_le_bytes());
        b
    }
    #[inline]
    pub(crate) fn decode(b: &[u8]) -> Self {
        Self { place: u64_at(b, 0), bytes: u32_at(b, 8), crc: u32_at(b, 12) }
    }
    /// Whether it can be the place of an image within one extent, or of none.
    pub(crate) fn is_possible(self) -> bool {
        if !self.has_image() {
            return self.bytes == 0;
        }
        let at = self.place % EXTENT_BYTES;
        self.place.is_multiple_of(IMAGE_ALIGN as u64)
            && self.place >= FIRST_IMAGE
            && self.bytes as usize >= IMAGE_HEAD
            && u64::from(self.bytes) <= EXTENT_BYTES - at
            && self.place < 1 << 52
    }
}

/// Superblocks come before the first image.
pub(crate) const FIRST_IMAGE: u64 = 2 * crate::store::format::SUPER_BYTES as u64;

/// The head of what may be an image, and the bytes after it. If they are too short for a head, all of them are head.
fn apart(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.len().min(IMAGE_HEAD))
}

/// Makes and checks images of one pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImageKey(u32);

/// The facts in the head of a good image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageHead {
    pub name: ImageName,
    pub placed: Placed,
    pub stamp: u64,
    pub raw: usize,
}

impl ImageHead {
    /// The head of the image at the start of `bytes`, if the image can belong at byte `place` and all
    /// of it is there. Its checksum is not looked at.
    pub(crate) fn claim(bytes: &[u8], place: u64) -> Option<Self> {
        Self::claim_apart(apart(bytes), place)
    }

    /// As [`claim`](Self::claim), for a head and the bytes after it.
    fn claim_apart((head, body): (&[u8], &[u8]), place: u64) -> Option<Self> {
        if head.len() < IMAGE_HEAD || u32_at(head, 0) != MAGIC || u64_at(head, 8) != place {
            return None;
        }
        let kind = ImageKind::of(head[20])?;
        let (stored, raw) = (u32_at(head, 24) as usize, u32_at(head, 28) as usize);
        let gap_at = u32_at(head, 32) as usize;
        let plain = match (head[21] & LZ4 != 0, u32_at(head, 36) as usize) {
            (false, 0) => stored,
            (true, plain) if plain > stored => plain,
            _ => return None,
        };
        let is_packed = match head[21] & !LZ4 {
            0 => plain == raw,
            GAP => plain < raw && gap_at <= plain,
            _ => false,
        };
        if body.len() < stored {
            return None;
        }
        let name = ImageName { kind, number: u32_at(head, 16) };
        let bytes = (IMAGE_HEAD + stored) as u32;
        let placed = Placed { place, bytes, crc: u32_at(head, 4) };
        is_packed.then(|| Self { name, placed, stamp: u64_at(head, 40), raw })
    }
}

impl ImageKey {
    /// That of a pool whose uuid has this checksum.
    pub(crate) fn of_seed(seed: u32) -> Self {
        Self(seed)
    }

    pub(crate) fn new(uuid: &[u8; 16]) -> Self {
        Self(crc32c::crc32c(uuid))
    }

    fn crc(self, image: &[u8]) -> u32 {
        crc32c::crc32c_append(self.0, &image[8..])
    }

    /// Bytes of an image of `raw` bytes without its `gap`, up to the next one.
    pub(crate) fn room(raw: usize, gap: &Range<usize>) -> usize {
        (IMAGE_HEAD + raw - gap.len()).next_multiple_of(IMAGE_ALIGN)
    }

    /// Adds an image to `out`, whose end is byte `place` of the file. `gap` of `raw` is left out and
    /// comes back as zeros. The caller has made room for [`room`](Self::room) bytes.
    pub(crate) fn append(
        self,
        out: &mut Vec<u8>,
        name: (ImageName, u64),
        place: u64,
        raw: &[u8],
        gap: Range<usize>,
    ) -> Placed {
        debug_assert!(gap.start <= gap.end && gap.end <= raw.len(), "a gap outside the page");
        let parts = [&raw[..gap.start], &raw[gap.end..]];
        self.append_parts(out, name, place, (raw.len(), &gap), parts, None)
    }

    /// As [`append`](Self::append), compressed if that saves an eighth.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn append_compressed(
        self,
        out: &mut Vec<u8>,
        name: (ImageName, u64),
        place: u64,
        (raw, gap): (&[u8], Range<usize>),
        (compress, scratch): (Compress, &mut [Vec<u8>; 2]),
    ) -> Result<Placed> {
        let [payload, packed] = scratch;
        let bytes = raw.len() - gap.len();
        if bytes < COMPRESS_BYTES {
            return Ok(self.append(out, name, place, raw, gap));
        }
        payload.clear();
        fallible::more(payload, bytes, "an image")?;
        payload.extend_from_slice(&raw[..gap.start]);
        payload.extend_from_slice(&raw[gap.end..]);
        let most = get_maximum_output_size(bytes);
        packed.clear();
        fallible::more(packed, most, "an image")?;
        packed.resize(most, 0);
        Ok(match compress(payload, packed) {
            Some(n) if n < bytes / 8 * 7 => {
                let parts = [&packed[..n], &[]];
                self.append_parts(out, name, place, (raw.len(), &gap), parts, Some(bytes))
            }
            _ => self.append(out, name, place, raw, gap),
        })
    }

    fn append_parts(
        self,
        out: &mut Vec<u8>,
        (name, stamp): (ImageName, u64),
        place: u64,
        (raw, gap): (usize, &Range<usize>),
        parts: [&[u8]; 2],
        compressed: Option<usize>,
    ) -> Placed {
        debug_assert!(place.is_multiple_of(IMAGE_ALIGN as u64) && place >= FIRST_IMAGE);
        let start = out.len();
        let stored = parts[0].len() + parts[1].len();
        let mut head = [0; IMAGE_HEAD];
        head[..4].copy_from_slice(&MAGIC.to_le_bytes());
        head[8..16].copy_from_slice(&place.to_le_bytes());
        head[16..20].copy_from_slice(&name.number.to_le_bytes());
        head[20] = name.kind as u8;
        head[21] =
            if gap.is_empty() { 0 } else { GAP } | if compressed.is_some() { LZ4 } else { 0 };
        head[24..28].copy_from_slice(&(stored as u32).to_le_bytes());
        head[28..32].copy_from_slice(&(raw as u32).to_le_bytes());
        let gap_at = if gap.is_empty() { 0 } else { gap.start as u32 };
        head[32..36].copy_from_slice(&gap_at.to_le_bytes());
        head[36..40].copy_from_slice(&(compressed.unwrap_or(0) as u32).to_le_bytes());
        head[40..48].copy_from_slice(&stamp.to_le_bytes());
        out.extend_from_slice(&head);
        parts.iter().for_each(|part| out.extend_from_slice(part));
        let crc = self.crc(&out[start..]);
        out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
        let bytes = out.len() - start;
        out.resize(start + bytes.next_multiple_of(IMAGE_ALIGN), 0);
        Placed { place, bytes: bytes as u32, crc }
    }

    /// Adds a copy of a good image to `out`, whose end is byte `place` of the file.
    pub(crate) fn append_copy(self, out: &mut Vec<u8>, image: &[u8], place: u64) -> Placed {
        let start = out.len();
        out.extend_from_slice(image);
        out[start + 8..start + 16].copy_from_slice(&place.to_le_bytes());
        let crc = self.crc(&out[start..]);
        out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
        out.resize(start + image.len().next_multiple_of(IMAGE_ALIGN), 0);
        Placed { place, bytes: image.len() as u32, crc }
    }

    /// The head of the image at the start of `bytes`, if the image is good and belongs at byte `place`.
    pub(crate) fn read(self, bytes: &[u8], place: u64) -> Option<ImageHead> {
        self.read_apart(apart(bytes), place)
    }

    fn read_apart(self, (head, body): (&[u8], &[u8]), place: u64) -> Option<ImageHead> {
        let said = ImageHead::claim_apart((head, body), place)?;
        let stored = &body[..said.placed.bytes as usize - IMAGE_HEAD];
        (said.placed.crc == crc32c::crc32c_append(self.crc(head), stored)).then_some(said)
    }

    /// Checks that `bytes`, read from where `placed` says, are that image.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn check(self, bytes: &[u8], placed: Placed, name: ImageName) -> Result<ImageHead> {
        self.check_apart(apart(bytes), placed, name)
    }

    /// As [`check`](Self::check), for a head and the bytes after it.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn check_apart(
        self,
        image: (&[u8], &[u8]),
        placed: Placed,
        name: ImageName,
    ) -> Result<ImageHead> {
        let damaged = |what: &str| Error::corrupt(placed.place, format!("{name}: {what}"));
        if image.0.len() + image.1.len() < placed.bytes as usize {
            return Err(damaged("the file ends within it"));
        }
        match self.read_apart(image, placed.place) {
            Some(head) if head.placed == placed && head.name == name => Ok(head),
            Some(head) if head.name == name => {
                Err(damaged("here is one that was written at another time"))
            }
            Some(head) => Err(damaged(&format!("here is {}", head.name))),
            None => Err(damaged("fails its checksum")),
        }
    }
}

/// The raw bytes of a good image, if they are there as they are.
pub(crate) fn plain<'a>(image: &'a [u8], head: &ImageHead) -> Option<&'a [u8]> {
    let payload = &image[IMAGE_HEAD..head.placed.bytes as usize];
    is_plain(image, head).then_some(payload)
}

/// Whether what comes after the head of a good image are its raw bytes.
pub(crate) fn is_plain(image: &[u8], head: &ImageHead) -> bool {
    head.placed.bytes as usize - IMAGE_HEAD == head.raw && image[21] == 0
}

/// Adds the raw bytes of a good image to `out`.
///
/// # Errors
/// [`Error::Corrupt`] if they cannot be what was packed; [`Error::NoMemory`].
pub(crate) fn unpack(image: &[u8], head: &ImageHead, out: &mut Vec<u8>) -> Result<()> {
    let payload = &image[IMAGE_HEAD..head.placed.bytes as usize];
    let is_packed = image[21] & LZ4 != 0;
    let plain = if is_packed { u32_at(image, 36) as usize } else { payload.len() };
    let damaged = || Error::corrupt(head.placed.place, format!("{}: does not unpack", head.name));
    if head.raw > EXTENT_BYTES as usize && is_packed || plain > head.raw {
        return Err(damaged());
    }
    let start = out.len();
    let gap_at = (u32_at(image, 32) as usize).min(plain);
    let gap = if image[21] & GAP != 0 { head.raw - plain } else { 0 };
    fallible::more(out, head.raw, "the bytes of an image")?;
    out.resize(start + plain, 0);
    if !is_packed {
        out[start..].copy_from_slice(payload);
    } else if !matches!(decompress_into(payload, &mut out[start..]), Ok(n) if n == plain) {
        return Err(damaged());
    }
    if gap > 0 {
        out.resize(start + head.raw, 0);
        out.copy_within(start + gap_at..start + plain, start + gap_at + gap);
        out[start + gap_at..start + gap_at + gap].fill(0);
    }
    debug_assert!(out.len() - start == head.raw);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: ImageName = ImageName { kind: ImageKind::Page, number: 7 };

    fn made(gap: Range<usize>) -> (Vec<u8>, Placed, Vec<u8>) {
        let key = ImageKey::new(&[1; 16]);
        let mut raw: Vec<u8> = (0..200).map(|i| i as u8 | 1).collect();
        raw[gap.clone()].fill(0);
        let mut out = Vec::new();
        let placed = key.append(&mut out, (NAME, 9), 4 * EXTENT_BYTES, &raw, gap.clone());
        assert_eq!(out.len(), ImageKey::room(200, &gap));
        (out, placed, raw)
    }

    #[test]
    fn an_image_comes_back_with_its_gap() {
        let key = ImageKey::new(&[1; 16]);
        for gap in [0..0, 64..64, 64..100, 64..200, 0..200, 1..2] {
            let (image, placed, raw) = made(gap);
            let head = key.check(&image, placed, NAME).expect("good");
            let mut out = vec![5];
            unpack(&image, &head, &mut out).expect("memory");
            assert_eq!((&out[1..], head.stamp), (&raw[..], 9));
            let mut moved = Vec::new();
            let there = key.append_copy(&mut moved, &image[..placed.bytes as usize], 4096 * 3);
            let head = key.check(&moved, there, NAME).expect("good");
            out.clear();
            unpack(&moved, &head, &mut out).expect("memory");
            assert_eq!(out, raw);
        }
    }

    #[test]
    fn a_compressed_image_comes_back() {
        let key = ImageKey::new(&[1; 16]);
        let mut rng = 1_u32;
        let noise = std::iter::repeat_with(|| {
            rng = rng.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (rng >> 24) as u8
        });
        let mut raw: Vec<u8> = noise.take(500).chain(std::iter::repeat_n(7, 3000)).collect();
        raw[1000..1100].fill(0);
        for gap in [0..0, 1000..1100, 1050..1051] {
            let mut out = Vec::new();
            let scratch = (by_lz4 as Compress, &mut [Vec::new(), Vec::new()]);
            let place = 4 * EXTENT_BYTES;
            let placed = key.append_compressed(&mut out, (NAME, 9), place, (&raw, gap), scratch);
            let placed = placed.expect("memory");
            assert!(placed.bytes < 700 && out.len() == placed.room() as usize);
            let head = key.check(&out, placed, NAME).expect("good");
            assert!(plain(&out, &head).is_none());
            let mut found = vec![1];
            unpack(&out, &head, &mut found).expect("good");
            assert!(found[1..] == raw);
        }
        let noise = &raw[..400];
        let (mut out, scratch) = (Vec::new(), &mut [Vec::new(), Vec::new()]);
        let scratch = (by_lz4 as Compress, scratch);
        let placed = key.append_compressed(&mut out, (NAME, 9), 1 << 20, (noise, 0..0), scratch);
        let placed = placed.expect("memory");
        let head = key.check(&out, placed, NAME).expect("good");
        assert!(plain(&out, &head) == Some(noise), "it would save nothing");
    }

    #[test]
    fn every_bit_of_an_image_counts() {
        let key = ImageKey::new(&[1; 16]);
        let (image, placed, _) = made(64..100);
        for bit in 0..8 * placed.bytes as usize {
            let mut bad = image.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let found = key.check(&bad, placed, NAME);
            assert!(matches!(found, Err(Error::Corrupt { .. })), "bit {bit}: {found:?}");
        }
        let other = ImageName { number: 8, ..NAME };
        assert!(key.check(&image, placed, other).is_err(), "another page");
        assert!(key.check(&image, Placed { crc: 1, ..placed }, NAME).is_err(), "another time");
        assert!(ImageKey::new(&[2; 16]).check(&image, placed, NAME).is_err(), "another pool");
        assert!(key.read(&image, placed.place + 16).is_none(), "another place");
        (0..placed.bytes as usize).for_each(|n| {
            assert!(key.check(&image[..n], placed, NAME).is_err(), "cut to {n} bytes");
        });
    }

    #[test]
    fn impossible_places_are_known() {
        let good = Placed { place: 3 * EXTENT_BYTES, bytes: 100, crc: 1 };
        assert!(good.is_possible() && Placed::blank(9).is_possible());
        assert_eq!(Placed::decode(&good.encode()), good);
        for bad in [
            Placed { place: 8, ..good },
            Placed { place: good.place + 8, ..good },
            Placed { bytes: 47, ..good },
            Placed { place: good.place - 16, ..good },
            Placed { bytes: u32::MAX, ..good },
            Placed { place: u64::MAX - 15, ..good },
            Placed { place: 0, ..good },
        ] {
            assert!(!bad.is_possible(), "{bad:?}");
        }
    }

    #[test]
    fn a_list_of_entries_is_a_block_that_unpacks() {
        let mut rng = everleaf_testing::Rng(1);
        for len in (0..60).chain([512, 8000, 8192, 8192]) {
            for differ in [1, 2, 9, 100, 5000] {
                let mut bytes = vec![0; len];
                for byte in &mut bytes {
                    *byte = if rng.below(differ) == 0 { rng.below(4) as u8 } else { 0 };
                }
                let mut block = vec![0; get_maximum_output_size(len)];
                let n = by_entries(&bytes, &mut block).expect("there is room");
                let mut found = vec![1; len];
                assert_eq!(decompress_into(&block[..n], &mut found).expect("a block"), len);
                assert!(found == bytes, "{len} bytes, one of {differ} is another");
                assert!(by_entries(&bytes, &mut block[..n - 1]).is_none());
            }
        }
        let mut block = [0; 200];
        assert!(by_entries(&[7; 8192], &mut block).is_some_and(|n| n < 80));
    }
}
