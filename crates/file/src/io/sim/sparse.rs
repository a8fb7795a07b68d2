//! Bytes of a simulated file: chunks of 4 KiB, shared between copies until written, holes zero.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::Arc;

const CHUNK: usize = 4096;
const HOLE: [u8; CHUNK] = [0; CHUNK];

#[derive(Debug, Clone, Default)]
pub(super) struct Sparse {
    /// Each has [`CHUNK`] bytes.
    chunks: BTreeMap<u64, Arc<[u8]>>,
    len: u64,
}

impl Sparse {
    /// Bytes of a chunk.
    pub(super) const CHUNK: u64 = CHUNK as u64;

    /// The number of chunks that hold bytes of the file.
    pub(super) fn chunk_count(&self) -> usize {
        self.chunks.range(..self.len.div_ceil(CHUNK as u64)).count()
    }

    /// Where the `n`th chunk starts, counted round and round, and how many bytes of the file are in
    /// it.
    pub(super) fn chunk(&self, n: u64) -> Option<(u64, u64)> {
        let n = n.checked_rem(self.chunk_count() as u64)?;
        let start = self.chunks.keys().nth(n as usize)? * CHUNK as u64;
        Some((start, (self.len - start).min(CHUNK as u64)))
    }

    /// Where the chunks start, in order.
    pub(super) fn chunk_starts(&self) -> impl Iterator<Item = u64> {
        self.chunks.range(..self.len.div_ceil(CHUNK as u64)).map(|(no, _)| no * CHUNK as u64)
    }

    /// How many bytes from `offset` on, at most `len`, lie in chunks that have been written.
    pub(super) fn written(&self, offset: u64, len: usize) -> usize {
        let end = offset + len as u64;
        let hole = (offset / CHUNK as u64..end.div_ceil(CHUNK as u64))
            .find(|no| !self.chunks.contains_key(no));
        hole.map_or(len, |no| (no * CHUNK as u64).saturating_sub(offset) as usize)
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let n = self.len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (first, last) = (offset / CHUNK as u64, (offset + n as u64).div_ceil(CHUNK as u64));
        // How far the bytes are those of the file; only holes are zeroed.
        let mut filled = 0;
        for (&no, chunk) in self.chunks.range(first..last.max(first)) {
            let start = no * CHUNK as u64;
            let from = offset.max(start);
            let to = (offset + n as u64).min(start + CHUNK as u64);
            let source = &chunk[(from - start) as usize..(to - start) as usize];
            let (begin, end) = ((from - offset) as usize, (to - offset) as usize);
            buf[filled..begin].fill(0);
            buf[begin..end].copy_from_slice(source);
            filled = end;
        }
        buf[filled..n].fill(0);
        n
    }

    /// All bytes. None of them is written twice: a test that looks at every disk of many takes most of the time for this.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len as usize);
        for start in self.chunk_starts() {
            bytes.resize(start as usize, 0);
            let n = (self.len - start).min(CHUNK as u64) as usize;
            bytes.extend_from_slice(&self.chunks[&(start / CHUNK as u64)][..n]);
        }
        bytes.resize(self.len as usize, 0);
        bytes
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        self.write_like(bytes, offset, None);
    }

    /// As [`write`](Self::write), and shares the chunks in which another file has the same bytes.
    pub(super) fn write_as_in(&mut self, other: &Sparse, bytes: &[u8], offset: u64) {
        self.write_like(bytes, offset, Some(other));
    }

    fn write_like(&mut self, mut bytes: &[u8], mut offset: u64, other: Option<&Sparse>) {
        self.len = self.len.max(offset + bytes.len() as u64);
        while !bytes.is_empty() {
            let (no, at) = (offset / CHUNK as u64, (offset % CHUNK as u64) as usize);
            let (part, rest) = bytes.split_at(bytes.len().min(CHUNK - at));
            if part.len() == CHUNK {
                let same = other.and_then(|other| other.chunks.get(&no)).filter(|c| ***c == *part);
                self.set_chunk(no, part, same);
            } else {
                let chunk = self.chunks.entry(no).or_insert_with(|| Arc::from(&HOLE[..]));
                Arc::make_mut(chunk)[at..at + part.len()].copy_from_slice(part);
            }
            (bytes, offset) = (rest, offset + part.len() as u64);
        }
    }

    /// Writes a whole chunk: over its bytes if nobody else has them, else to new memory, and each byte once.
    fn set_chunk(&mut self, no: u64, bytes: &[u8], same: Option<&Arc<[u8]>>) {
        let new = || same.cloned().unwrap_or_else(|| Arc::from(bytes));
        match self.chunks.entry(no) {
            Entry::Vacant(entry) => drop(entry.insert(new())),
            Entry::Occupied(mut entry) => match Arc::get_mut(entry.get_mut()) {
                Some(own) if same.is_none() => own.copy_from_slice(bytes),
                _ => drop(entry.insert(new())),
            },
        }
    }

    /// These bytes alone, to whole chunks, the rest a hole.
    pub(super) fn part(&self, range: &Range<u64>) -> Sparse {
        let chunks = self.chunks.range(numbers(range)).map(|(no, chunk)| (*no, chunk.clone()));
        Sparse { chunks: chunks.collect(), len: self.len }
    }

    /// Writes those of the bytes that belong to a [part](Self::part); the file grows by all of them.
    pub(super) fn write_part(&mut self, bytes: &[u8], offset: u64, range: &Range<u64>) {
        let end = offset + bytes.len() as u64;
        let part = numbers(range);
        let from = offset.max(part.start * CHUNK as u64);
        let to = end.min(part.end.saturating_mul(CHUNK as u64));
        if from < to {
            self.write(&bytes[(from - offset) as usize..(to - offset) as usize], from);
        }
        self.len = self.len.max(end);
    }

    /// Takes these bytes, to whole chunks, from another file, and keeps the length.
    pub(super) fn replace(&mut self, range: Range<u64>, by: &Sparse) {
        let part = numbers(&range);
        let old: Vec<u64> = self.chunks.range(part.clone()).map(|(no, _)| *no).collect();
        for no in old {
            self.chunks.remove(&no);
        }
        let new = by.chunks.range(part).map(|(no, chunk)| (*no, chunk.clone()));
        self.chunks.extend(new);
        self.trim();
    }

    /// Makes the file at least so long.
    pub(super) fn grow(&mut self, len: u64) {
        self.len = self.len.max(len);
    }

    pub(super) fn set_len(&mut self, len: u64) {
        let shrinks = len < self.len;
        self.len = len;
        if shrinks {
            self.trim();
        }
    }

    /// Makes holes of some of the chunks from a byte on; the length stays.
    pub(super) fn punch(&mut self, from: u64, mut punches: impl FnMut() -> bool) {
        let first = from / CHUNK as u64;
        if let Some(chunk) = self.chunks.get_mut(&first)
            && punches()
        {
            Arc::make_mut(chunk)[(from % CHUNK as u64) as usize..].fill(0);
        }
        self.chunks.retain(|no, _| *no <= first || !punches());
    }

    /// Drops what is beyond the end, so that the file has zeros there when it grows.
    fn trim(&mut self) {
        let len = self.len;
        let end = len.div_ceil(CHUNK as u64);
        if self.chunks.last_key_value().is_some_and(|(no, _)| *no >= end) {
            self.chunks.split_off(&end);
        }
        if let Some(chunk) = self.chunks.get_mut(&(len / CHUNK as u64)) {
            Arc::make_mut(chunk)[(len % CHUNK as u64) as usize..].fill(0);
        }
    }
}

/// The chunks that hold some of these bytes.
fn numbers(range: &Range<u64>) -> Range<u64> {
    let first = range.start / CHUNK as u64;
    first..range.end.div_ceil(CHUNK as u64).max(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_read_as_zeros_and_a_cut_tail_comes_back_as_zeros() {
        let mut file = Sparse::default();
        file.write(&[7; 10], 4090);
        let mut buf = [1; 20];
        assert_eq!(file.read(&mut buf, 4085), 15);
        assert_eq!(buf[..15], [0, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]);
        file.set_len(4095);
        file.set_len(8192);
        assert_eq!(file.read(&mut buf, 4090), 20);
        assert_eq!(buf[..7], [7, 7, 7, 7, 7, 0, 0]);
        let (mut other, page) = (Sparse::default(), [3; CHUNK]);
        other.write(&page, 4096);
        file.write_as_in(&other, &page, 4096);
        assert!(Arc::ptr_eq(&file.chunks[&1], &other.chunks[&1]), "the bytes are the same");
        file.write(&[9; CHUNK], 4096);
        file.write(&[4], 4100);
        assert_eq!((&other.chunks[&1][..], file.chunks[&1][4]), (&page[..], 4));
        file.write_as_in(&other, &[5; CHUNK], 4096);
        assert_eq!((&other.chunks[&1][..], file.chunks[&1][4]), (&page[..], 5));
        file.set_len(20_000);
        file.write(&[8; 3], 12_288);
        let mut all = vec![1; 20_000];
        assert_eq!(file.read(&mut all, 0), all.len());
        assert!(file.to_vec() == all && all[12_288..12_292] == [8, 8, 8, 0]);
        file.set_len(12_289);
        assert_eq!(file.to_vec(), all[..12_289]);
    }
}
