//! The files of a pool on a simulated disk, taken apart and put together again: only what is in use,
//! so that the double-write area, which is mostly empty, costs nothing.

use std::path::Path;

use everleaf_file::io::{Access, Io, IoFile, SimIo};

use crate::format::{self, BLOCK, HALF_BYTES, HALF_HEAD, HALVES, PAGES};

/// Where the pool is on its simulated disk.
pub const POOL: &str = "/pool/p.ever";
/// Its journal files.
pub const JOURNALS: [&str; 2] = ["/pool/p.ever-j0", "/pool/p.ever-j1"];
/// At most so many bytes of pages are taken.
const PAGES_MAX: usize = 4 << 20;

/// The bytes of a pool.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    /// Both copies of the superblock.
    pub supers: Vec<u8>,
    /// What is in use of the halves of the double-write area.
    pub halves: [Vec<u8>; 2],
    /// All pages, from page 0 on.
    pub pages: Vec<u8>,
    /// The journal files, if they are there.
    pub journals: [Option<Vec<u8>>; 2],
    /// Bytes of a page.
    pub page_bytes: usize,
}

fn read(file: &dyn IoFile, offset: usize, most: usize) -> Vec<u8> {
    let len = file.len().expect("no fault") as usize;
    let mut bytes = vec![0; len.saturating_sub(offset).min(most)];
    let n = file.read_at(&mut bytes, offset as u64).expect("no fault");
    bytes.truncate(n);
    bytes
}

impl Parts {
    /// The pool on `disk`.
    ///
    /// # Panics
    /// If there is none.
    pub fn take(disk: &SimIo) -> Self {
        let data = disk.open(Path::new(POOL), Access::Read).expect("a pool");
        let supers = read(&*data, 0, 2 * BLOCK);
        let page_bytes = format::page_bytes(format::u32_at(&supers, 40) as usize);
        let halves = HALVES.map(|at| {
            let head = read(&*data, at, HALF_HEAD);
            let pages = format::u32_at(&head, 16) as usize;
            let bytes = pages.saturating_mul(4 + page_bytes).min(HALF_BYTES - HALF_HEAD);
            read(&*data, at, if pages == 0 { 0 } else { HALF_HEAD + bytes })
        });
        let journals = JOURNALS.map(|path| {
            let file = disk.open(Path::new(path), Access::Read).ok()?;
            Some(read(&*file, 0, PAGES_MAX))
        });
        Self { supers, halves, pages: read(&*data, PAGES, PAGES_MAX), journals, page_bytes }
    }

    /// A disk with these files.
    pub fn disk(&self) -> SimIo {
        let disk = SimIo::new(1);
        let pool = Path::new(POOL);
        disk.poke(pool, 0, &self.supers);
        for (half, at) in self.halves.iter().zip(HALVES) {
            if !half.is_empty() {
                disk.poke(pool, at as u64, half);
            }
        }
        disk.poke(pool, PAGES as u64, &self.pages);
        for (journal, path) in self.journals.iter().zip(JOURNALS) {
            if let Some(bytes) = journal {
                disk.poke(Path::new(path), 0, bytes);
            }
        }
        disk
    }

    /// Bytes in all parts.
    pub fn bytes(&self) -> usize {
        let halves: usize = self.halves.iter().map(Vec::len).sum();
        let journals: usize = self.journals.iter().flatten().map(Vec::len).sum();
        self.supers.len() + halves + self.pages.len() + journals
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
    /// what the parts say. Pages in `torn` keep the sums that they have.
    pub fn seal(&mut self, torn: &[u32]) {
        self.supers.chunks_exact_mut(BLOCK).for_each(format::seal_super);
        let uuid = self.uuid();
        for (no, page) in self.pages.chunks_exact_mut(self.page_bytes).enumerate() {
            if !torn.contains(&(no as u32)) {
                format::seal_page(no as u32, page);
            }
        }
        for half in &mut self.halves {
            seal_images(half);
            format::seal_half(half, &uuid);
        }
        let mut link = 0;
        let mut order = [0, 1];
        order.sort_by_key(|&i| self.journals[i].as_ref().map(|bytes| format::u64_at(bytes, 32)));
        for i in order {
            let Some(bytes) = &mut self.journals[i] else { continue };
            format::seal_journal(bytes);
            let generation = format::u64_at(bytes, 32);
            let mut at = BLOCK;
            while bytes.get(at..at + 4) == Some(b"EBLK") {
                format::put(bytes, at + 36, &u32::to_le_bytes(link));
                let Some((crc, next)) = format::seal_block(&mut bytes[at..], &uuid, generation)
                else {
                    break;
                };
                (at, link) = (at + next, crc);
            }
        }
    }
}

/// Puts the sums of the images in a half right.
fn seal_images(half: &mut [u8]) {
    let (pages, size) = (format::u32_at(half, 16) as usize, format::u32_at(half, 20) as usize);
    let end = pages.checked_mul(4).and_then(|n| n.checked_add(HALF_HEAD));
    let Some((head, images)) = end.and_then(|end| half.split_at_mut_checked(end)) else { return };
    if size < 64 {
        return;
    }
    for (i, image) in images.chunks_exact_mut(size).take(pages).enumerate() {
        format::seal_page(format::u32_at(head, HALF_HEAD + 4 * i), image);
    }
}
