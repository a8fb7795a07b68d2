//! The file of a pool on a simulated disk, taken apart and put together again.
//!
//! Superblocks, pages and journal blocks can be changed. [`Parts::disk`] writes changed pages as images
//! behind all that is there, with a table and a root that lead to them; what has not been changed stays
//! where it was.

use std::ops::Range;
use std::path::Path;

use everleaf_file::io::SimIo;

use crate::format::{self, BLOCK, EXTENT, IMAGE_HEAD, LEAF, PLACED};

/// Where the pool is on its simulated disk.
pub const POOL: &str = "/pool/p.ever";
/// At most so many bytes of pages are taken.
const PAGES_MAX: usize = 4 << 20;

/// Bytes of a root before its lists.
const ROOT_HEAD: usize = 24;
/// Extents behind this one are nowhere, whatever the table says.
const EXTENTS_MAX: usize = 1 << 10;

/// A block of the journal.
#[derive(Debug, Clone, Default)]
pub struct Block {
    /// Its byte in the file.
    pub place: usize,
    /// Its head, its payload and the zeros behind.
    pub bytes: Vec<u8>,
}

/// The bytes of a pool.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    /// Both copies of the superblock.
    pub supers: Vec<u8>,
    /// All pages, from page 0 on, as they were at the last checkpoint; zeros for those without an image.
    pub pages: Vec<u8>,
    /// The blocks of the journal.
    pub blocks: Vec<Block>,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// The file as it was taken.
    pub file: Vec<u8>,
    /// How many bytes are cut off its end.
    pub cut: usize,
    /// The table's entries, one for each page.
    pub table: Vec<u8>,
    /// Pages and table as they were taken.
    before: (Vec<u8>, Vec<u8>),
    /// The root as it was taken.
    root_before: Vec<u8>,
    /// Pages whose images are to fail their checksums.
    torn: Vec<u32>,
    /// Bytes to be written over those of the root, and where.
    pub root_edits: Vec<(usize, Vec<u8>)>,
    /// Bytes to be written over the head of an image: its kind and number, where, and the bytes.
    pub head_edits: Vec<(u8, u32, usize, Vec<u8>)>,
}

/// Place and bytes of an image that the table, the root or the superblock names; `None` without one.
fn place(placed: &[u8]) -> Option<Range<usize>> {
    let at = format::u64_at(placed, 0) as usize;
    (at != 0).then(|| at..at + format::u32_at(placed, 8) as usize)
}

impl Parts {
    /// The pool on `disk`, which is sound.
    ///
    /// # Panics
    /// If there is none.
    pub fn take(disk: &SimIo) -> Self {
        let file = disk.peek(Path::new(POOL)).expect("a pool");
        let supers = file[..2 * BLOCK].to_vec();
        let page_bytes = format::page_bytes(format::u32_at(&supers, 40) as usize);
        let mut parts = Self { supers, page_bytes, file, ..Self::default() };
        parts.root_before = parts.root();
        for leaf in parts.leaves() {
            let bytes =
                place(&leaf).map_or_else(|| vec![0; LEAF], |at| format::raw(&parts.file[at]));
            parts.table.extend(bytes);
        }
        let entries = parts.table.chunks_exact(PLACED);
        let images = entries.map(|entry| place(entry).map(|at| &parts.file[at]));
        let is_page = |image: &Option<&[u8]>| image.is_some_and(|image| image[20] == 1);
        let images: Vec<_> = images.map(|image| Some(image).filter(is_page).flatten()).collect();
        let n = images.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let mut pages = Vec::new();
        for image in images.iter().take(n.min(PAGES_MAX / page_bytes)) {
            pages.extend(image.map_or_else(|| vec![0; page_bytes], format::raw));
        }
        parts.before = (pages.clone(), parts.table.clone());
        parts.pages = pages;
        parts.blocks = parts.chain();
        parts
    }

    fn super_at(&self, at: usize) -> &[u8] {
        &self.supers[self.newest() * BLOCK + at..]
    }

    fn root(&self) -> Vec<u8> {
        place(self.super_at(80)).map_or_else(Vec::new, |at| format::raw(&self.file[at]))
    }

    /// The root's entries for the table's leaves.
    fn leaves(&self) -> Vec<[u8; PLACED]> {
        let root = self.root();
        let n = format::u32_at(&root, 0) as usize;
        let list = root.get(ROOT_HEAD..).unwrap_or_default().chunks_exact(PLACED).take(n);
        list.map(|placed| placed.try_into().expect("of that length")).collect()
    }

    /// The blocks that follow the superblock's place, one after the other.
    fn chain(&self) -> Vec<Block> {
        let (mut at, number) =
            (format::u64_at(self.super_at(0), 96) as usize, format::u64_at(self.super_at(0), 104));
        let mut next = format::u32_at(self.super_at(0), 116) as usize * EXTENT;
        let mut blocks = Vec::new();
        if at == 0 {
            return blocks;
        }
        loop {
            let is_next = |at: &usize| {
                self.file.get(*at..).is_some_and(|rest| {
                    rest.starts_with(b"EBLK")
                        && format::u64_at(rest, 8) == number + blocks.len() as u64
                })
            };
            let Some(place) = [at, next].into_iter().find(is_next) else { return blocks };
            let rest = &self.file[place..];
            let end = format::block_end(rest).next_multiple_of(BLOCK).min(rest.len());
            next = format::facts(rest).next_extent as usize * EXTENT;
            at = place + end;
            blocks.push(Block { place, bytes: rest[..end].to_vec() });
        }
    }

    /// Where all bytes are that something refers to: superblocks, images, blocks.
    pub fn used(&self) -> Vec<Range<usize>> {
        let mut used = self.images();
        used.push(0..2 * BLOCK);
        used.extend(self.blocks.iter().map(|b| b.place..b.place + format::block_end(&b.bytes)));
        used
    }

    /// Where the images are that the superblock, the root and the table name.
    pub fn images(&self) -> Vec<Range<usize>> {
        let mut images: Vec<_> = place(self.super_at(80)).into_iter().collect();
        images.extend(self.leaves().iter().filter_map(|placed| place(placed)));
        images.extend(self.table.chunks_exact(PLACED).filter_map(place));
        images
    }

    /// A disk with this pool.
    pub fn disk(&self) -> SimIo {
        let disk = SimIo::new(1);
        let pool = Path::new(POOL);
        let mut supers = self.supers.clone();
        let mut file = self.file[..self.file.len() - self.cut.min(self.file.len())].to_vec();
        let (pages, table) = &self.before;
        let is_edited = !self.root_edits.is_empty() || !self.head_edits.is_empty();
        if *pages != self.pages || *table != self.table || !self.torn.is_empty() || is_edited {
            self.append(&mut file, &mut supers);
        }
        disk.poke(pool, 0, &file);
        disk.poke(pool, 0, &supers[..supers.len().min(file.len())]);
        for block in self.blocks.iter().filter(|block| self.cut == 0 || block.place < file.len()) {
            disk.poke(pool, block.place as u64, &block.bytes);
        }
        disk
    }

    /// Adds images of the changed pages, leaves for them and a root.
    fn append(&self, file: &mut Vec<u8>, supers: &mut [u8]) {
        let uuid = self.uuid();
        let mut table = self.table.clone();
        file.resize(self.file.len().max(file.len()).next_multiple_of(EXTENT), 0);
        let mut add = |kind: u8, number: u32, raw: &[u8], is_torn: bool| {
            let room = (IMAGE_HEAD + raw.len()).next_multiple_of(16);
            if file.len() % EXTENT + room > EXTENT {
                file.resize(file.len().next_multiple_of(EXTENT), 0);
            }
            let at = file.len();
            let mut image = format::image(&uuid, at, kind, number, u64::MAX, raw);
            for (_, _, at, bytes) in self.edits_of(kind, number) {
                format::put(&mut image, *at, bytes);
                format::seal_image(&mut image, &uuid);
            }
            let placed = format::placed(at, &image);
            image[IMAGE_HEAD] ^= u8::from(is_torn);
            file.extend(image);
            placed
        };
        let pages = self.pages.chunks(self.page_bytes).zip(self.before.0.chunks(self.page_bytes));
        for (no, (new, old)) in (0..).zip(pages) {
            let is_torn = self.torn.contains(&no);
            if new != old || is_torn || self.edits_of(1, no).next().is_some() {
                let placed = add(1, no, new, is_torn);
                format::put(&mut table, no as usize * PLACED, &placed);
            }
        }
        // Epoch and counts of pairs stay.
        let old = &self.root_before;
        let counts = (ROOT_HEAD + format::u32_at(old, 0) as usize * PLACED)
            .saturating_add(format::u32_at(old, 4) as usize * 4);
        let mut root = old.get(..ROOT_HEAD).map_or_else(|| vec![0; ROOT_HEAD], <[u8]>::to_vec);
        format::put(&mut root, 0, &((table.len() / LEAF) as u32).to_le_bytes());
        for (no, leaf) in (0..).zip(table.chunks_exact(LEAF)) {
            root.extend(add(3, no, leaf, false));
        }
        let named = root[ROOT_HEAD..].chunks_exact(PLACED).chain(table.chunks_exact(PLACED));
        let mut live: Vec<u32> = Vec::new();
        for at in named.filter_map(place) {
            let no = at.start / EXTENT;
            if no > EXTENTS_MAX {
                continue;
            }
            live.resize(live.len().max(no + 1), 0);
            live[no] = live[no].wrapping_add(at.len() as u32).next_multiple_of(16) & 0x1f_ffff;
        }
        format::put(&mut root, 4, &(live.len() as u32).to_le_bytes());
        root.extend(live.iter().flat_map(|n| n.to_le_bytes()));
        root.extend(old.get(counts..).unwrap_or_default());
        for (at, bytes) in &self.root_edits {
            format::put(&mut root, *at, bytes);
        }
        let placed = add(4, 0, &root, false);
        for copy in supers.chunks_exact_mut(BLOCK) {
            if copy[80..96] == self.file[self.newest() * BLOCK..][80..96] {
                format::put(copy, 80, &placed);
                format::seal_super(copy);
            }
        }
    }

    fn edits_of(
        &self,
        kind: u8,
        number: u32,
    ) -> impl Iterator<Item = &(u8, u32, usize, Vec<u8>)> + Clone {
        self.head_edits.iter().filter(move |edit| (edit.0, edit.1) == (kind, number))
    }

    /// Bytes of the file that something refers to.
    pub fn bytes(&self) -> usize {
        self.used().iter().map(Range::len).sum()
    }

    /// How many pages there are.
    pub fn page_count(&self) -> usize {
        self.pages.len() / self.page_bytes
    }

    /// The bytes of a page.
    pub fn page_mut(&mut self, no: usize) -> &mut [u8] {
        &mut self.pages[no * self.page_bytes..][..self.page_bytes]
    }

    /// The copy of the superblock that counts if both are good.
    pub fn newest(&self) -> usize {
        let counter = |copy: usize| format::u64_at(&self.supers, copy * BLOCK + 64);
        usize::from(counter(1) >= counter(0))
    }

    /// The uuid that the newest copy of the superblock has.
    pub fn uuid(&self) -> [u8; 16] {
        let mut uuid = [0; 16];
        let at = self.newest() * BLOCK + 24;
        format::put(&mut uuid, 0, self.supers.get(at..at + 16).unwrap_or(&[0; 16]));
        uuid
    }

    /// Puts every checksum right, and each block's link, so that what is behind the checksums meets
    /// what the parts say. The images of pages in `torn` are to fail theirs.
    pub fn seal(&mut self, torn: &[u32]) {
        self.supers.chunks_exact_mut(BLOCK).for_each(format::seal_super);
        let uuid = self.uuid();
        self.torn = torn.to_vec();
        let mut link = None;
        for block in &mut self.blocks {
            if let Some(link) = link {
                format::put(&mut block.bytes, 48, &u32::to_le_bytes(link));
            }
            let Some(crc) = format::seal_block(&mut block.bytes, &uuid) else { break };
            link = Some(crc);
        }
    }
}
