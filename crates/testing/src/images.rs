//! Where the images of pages and of large values are in the bytes of a pool's file, for tests that damage
//! one of them. See docs/FORMAT.md.

use std::ops::Range;

/// Bytes before an image's payload.
const HEAD: usize = 48;

/// An image in a pool's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// 1: a page; 2: a page's worth of a large value; 3: a leaf of the page table; 4: its root.
    pub kind: u8,
    /// The page's number, or the leaf's.
    pub number: u32,
    /// Rises with each run of checkpoints.
    pub stamp: u64,
    /// Head and payload.
    pub bytes: Range<usize>,
}

impl Image {
    /// Where its payload is.
    pub fn payload(&self) -> Range<usize> {
        self.bytes.start + HEAD..self.bytes.end
    }
}

/// All images in a file, in the order of their places: also those that newer ones have replaced.
pub fn all(file: &[u8]) -> Vec<Image> {
    let at = (0..file.len()).step_by(16);
    at.filter_map(|at| image_at(file, at)).collect()
}

/// The newest image of each page and of each page's worth of a large value.
pub fn newest(file: &[u8]) -> Vec<Image> {
    let mut images: Vec<Image> = all(file).into_iter().filter(|image| image.kind <= 2).collect();
    images.sort_by_key(|image| (image.number, std::cmp::Reverse(image.stamp)));
    images.dedup_by_key(|image| image.number);
    images
}

/// The images that the page table of a closed pool names: each that somebody may need, the table's root first. The
/// superblocks and the table are taken as they are, so they must be sound.
pub fn live(file: &[u8]) -> Vec<Range<usize>> {
    let u32_at = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let u64_at = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let root = u64_at(80)..u64_at(80) + u32_at(88);
    let leaves = root.start + HEAD + 24;
    let count = u32_at(root.start + HEAD);
    let leaves = named(&file[leaves..leaves + count * 16]);
    let pages = leaves.iter().flat_map(|leaf| named(&entries(&file[leaf.clone()])));
    let pages: Vec<_> = pages.collect();
    [root].into_iter().chain(leaves).chain(pages).collect()
}

/// The entries in the image of a leaf of the page table, which is sound: of leaves some are compressed, and none has a
/// gap.
pub fn entries(image: &[u8]) -> Vec<u8> {
    let (head, payload) = image.split_at(HEAD);
    match u32::from_le_bytes([head[36], head[37], head[38], head[39]]) {
        0 => payload.to_vec(),
        plain => lz4_flex::block::decompress(payload, plain as usize).expect("it was packed"),
    }
}

/// The images that entries of the table name.
fn named(entries: &[u8]) -> Vec<Range<usize>> {
    let u32_at = |e: &[u8], at: usize| u32::from_le_bytes(e[at..at + 4].try_into().unwrap());
    let placed = |e: &[u8]| {
        let start = (u64::from(u32_at(e, 4)) << 32 | u64::from(u32_at(e, 0))) as usize;
        start..start + u32_at(e, 8) as usize
    };
    entries.chunks_exact(16).map(placed).filter(|it| it.start != 0).collect()
}

/// Where `bytes` are in a payload of the newest images: the first such place.
pub fn find(file: &[u8], bytes: &[u8]) -> Option<usize> {
    newest(file).into_iter().find_map(|image| {
        let payload = image.payload();
        let at = file[payload.clone()].windows(bytes.len()).position(|found| found == bytes)?;
        Some(payload.start + at)
    })
}

fn image_at(file: &[u8], at: usize) -> Option<Image> {
    let head = file.get(at..at + HEAD)?;
    let u32_at = |i: usize| u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]);
    let u64_at = |i: usize| u64::from(u32_at(i)) | u64::from(u32_at(i + 4)) << 32;
    let end = at + HEAD + u32_at(24) as usize;
    let is_image = head.starts_with(b"EVLI") && u64_at(8) == at as u64 && end <= file.len();
    let (kind, number, stamp) = (head[20], u32_at(16), u64_at(40));
    is_image.then_some(Image { kind, number, stamp, bytes: at..end })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(file: &mut [u8], at: usize, (number, stamp): (u32, u64), payload: &[u8]) {
        let head = &mut file[at..at + HEAD];
        head[..4].copy_from_slice(b"EVLI");
        head[8..16].copy_from_slice(&(at as u64).to_le_bytes());
        head[16..20].copy_from_slice(&number.to_le_bytes());
        head[20] = 1;
        head[24..28].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        head[40..48].copy_from_slice(&stamp.to_le_bytes());
        file[at + HEAD..at + HEAD + payload.len()].copy_from_slice(payload);
    }

    #[test]
    fn the_newest_image_of_a_page_is_found_and_no_older_one() {
        let mut file = vec![0; 4096];
        put(&mut file, 32, (7, 2), b"new");
        put(&mut file, 160, (7, 1), b"old");
        put(&mut file, 320, (8, 1), b"other");
        assert_eq!(all(&file).len(), 3);
        assert_eq!(newest(&file).len(), 2);
        assert_eq!(find(&file, b"new"), Some(80));
        assert_eq!(find(&file, b"the"), Some(320 + HEAD + 1));
        assert_eq!(find(&file, b"old"), None);
        file[8 + 32] ^= 1;
        assert_eq!(find(&file, b"old"), Some(208), "an image says where it is");
    }
}
