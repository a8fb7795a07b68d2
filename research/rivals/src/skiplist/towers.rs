//! The upper levels, in DRAM: towers of every second node, every fourth, and so on.
//!
//! ```text
//! tower   words of one array: key | node | link of level 1 | … | link of its highest level
//! link    index of the next tower's first word, 0 for none; the head is the tower at 0, of all levels
//! ```
//!
//! Searches take no lock. A change takes one: a tower is linked from the bottom up, when it has all its own links,
//! and unlinked from the top down, and keeps its words until nobody can be on it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use everleaf_pmem::{Result, fallible};

use crate::cells::Cell;
use crate::list::link::Link;

/// Upper levels.
pub const LEVELS: usize = 20;
/// Words before the links.
const FIRST_LINK: usize = 2;
/// Words of the first chunk; each further one has twice as many.
const CHUNK: usize = 1 << 10;
const CHUNKS: usize = 40;

/// A tower that has been unlinked.
#[derive(Debug)]
pub struct Tower {
    at: usize,
    height: usize,
}

/// All towers of a list.
pub struct Towers {
    chunks: [OnceLock<Box<[AtomicU64]>>; CHUNKS],
    change: Mutex<Room>,
}

/// Which words are free.
struct Room {
    next: usize,
    /// Towers that can be used again, by their height.
    free: [Vec<usize>; LEVELS + 1],
}

/// The chunk of a word, its index there, and the length of the chunk.
#[inline(always)]
const fn place(at: usize) -> (usize, usize, usize) {
    let chunk = (at / CHUNK + 1).ilog2() as usize;
    let len = CHUNK << chunk;
    (chunk, at + CHUNK - len, len)
}

/// How many upper levels a key has: p = ½.
pub fn height_of(key: u64) -> usize {
    let mut z = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)).trailing_ones() as usize).min(LEVELS)
}

impl Towers {
    /// The head alone.
    ///
    /// # Errors
    /// NoMemory.
    pub fn new() -> Result<Self> {
        let room = Room { next: FIRST_LINK + LEVELS, free: Default::default() };
        let towers =
            Self { chunks: std::array::from_fn(|_| OnceLock::new()), change: Mutex::new(room) };
        towers.grow(0)?;
        Ok(towers)
    }

    fn grow(&self, at: usize) -> Result<()> {
        let (chunk, _, len) = place(at);
        if self.chunks[chunk].get().is_none() {
            let mut words = fallible::list(len, "the towers of a skip list")?;
            words.extend((0..len).map(|_| AtomicU64::new(0)));
            // The first one that is set stays; all are zero.
            let _ = self.chunks[chunk].set(words.into_boxed_slice());
        }
        Ok(())
    }

    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU64 {
        let (chunk, at, _) = place(at);
        &self.chunks[chunk].get().expect("a chunk is there before an index into it")[at]
    }

    #[inline(always)]
    fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    fn store(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Release);
    }

    /// The next tower on a level, from 1 on.
    #[inline(always)]
    fn next(&self, tower: usize, level: usize) -> usize {
        self.load(tower + FIRST_LINK + level - 1) as usize
    }

    fn node(&self, tower: usize) -> Option<Cell> {
        Link(self.load(tower + 1)).node()
    }

    /// Key and node of the last tower before a key; `None` if that is the head. O(log n), no lock.
    #[inline]
    pub fn below(&self, key: u64) -> Option<(u64, Cell)> {
        let mut at = 0;
        for level in (1..=LEVELS).rev() {
            at = self.last(at, level, |other, _| other < key);
        }
        let node = if at == 0 { None } else { self.node(at) };
        node.map(|node| (self.load(at), node))
    }

    /// The last tower of a level, from one on, before the first that is not `before`.
    #[inline(always)]
    fn last(&self, from: usize, level: usize, before: impl Fn(u64, usize) -> bool) -> usize {
        let mut at = from;
        loop {
            let next = self.next(at, level);
            if next == 0 || !before(self.load(next), next) {
                return at;
            }
            at = next;
        }
    }

    fn changing(&self) -> MutexGuard<'_, Room> {
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a tower of `height` levels, at least 1, for a node. Without memory there is none, and searches of what
    /// is behind it take longer.
    pub fn add(&self, key: u64, node: Cell, height: usize) {
        let mut room = self.changing();
        let Some(at) = self.take(&mut room, height) else { return };
        self.store(at, key);
        self.store(at + 1, Link::to(node).0);
        let (mut before, mut from) = ([0; LEVELS], 0);
        for level in (1..=LEVELS).rev() {
            from = self.last(from, level, |other, _| other < key);
            before[level - 1] = from;
        }
        for (level, before) in (1..=height).zip(before) {
            self.store(at + FIRST_LINK + level - 1, self.next(before, level) as u64);
        }
        for (level, before) in (1..=height).zip(before) {
            self.store(before + FIRST_LINK + level - 1, at as u64);
        }
    }

    fn take(&self, room: &mut Room, height: usize) -> Option<usize> {
        if let Some(at) = room.free[height].pop() {
            return Some(at);
        }
        let words = FIRST_LINK + height;
        let (_, at, len) = place(room.next);
        // A tower does not cross into another chunk.
        let at = if at + words > len { room.next + len - at } else { room.next };
        self.grow(at).ok()?;
        room.next = at + words;
        Some(at)
    }

    /// Unlinks the tower of a node, if there is one.
    pub fn remove(&self, key: u64, node: Cell) -> Option<Tower> {
        let _room = self.changing();
        let is_it = |tower: usize| self.load(tower) == key && self.node(tower) == Some(node);
        let (mut from, mut found) = (0, None);
        for level in (1..=LEVELS).rev() {
            // Another node of this key may have one, too, before or behind it.
            let low = self.last(from, level, |other, _| other < key);
            let before = self.last(low, level, |other, tower| other <= key && !is_it(tower));
            let tower = self.next(before, level);
            if tower != 0 && is_it(tower) {
                let behind = self.next(tower, level);
                self.store(before + FIRST_LINK + level - 1, behind as u64);
                found = found.or(Some(Tower { at: tower, height: level }));
            }
            from = low;
        }
        found
    }

    /// Gives back the words of a tower that nobody can be on any more.
    pub fn put_back(&self, tower: Tower) {
        // Without memory for the list its words are lost.
        let free = &mut self.changing().free[tower.height];
        let _ = fallible::push(free, tower.at, "the free towers");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lie_in_chunks_that_double() {
        let ends =
            [(0, (0, 0)), (1023, (0, 1023)), (1024, (1, 0)), (3071, (1, 2047)), (3072, (2, 0))];
        for (at, (chunk, index)) in ends {
            assert_eq!(place(at), (chunk, index, CHUNK << chunk));
        }
    }

    #[test]
    fn towers_come_and_go() {
        let towers = Towers::new().expect("memory");
        let node = |key: u64| Cell { page: 1 + key as u32, at: key as u16 };
        for key in (0..4000).rev() {
            towers.add(key, node(key), height_of(key).max(1));
        }
        assert_eq!(towers.below(0), None);
        for key in 1..4000 {
            assert_eq!(towers.below(key), Some((key - 1, node(key - 1))));
        }
        assert!(towers.remove(7, node(8)).is_none());
        towers.add(7, node(9000), 2);
        for key in (0..4000).filter(|key| key % 4 != 0) {
            let tower = towers.remove(key, node(key)).expect("it is there");
            assert_eq!(tower.height, height_of(key).max(1));
            towers.put_back(tower);
        }
        assert_eq!(towers.below(8), Some((7, node(9000))));
        assert!(towers.remove(7, node(9000)).is_some());
        for key in 1..4000 {
            assert_eq!(towers.below(key).map(|(key, _)| key), Some((key - 1) / 4 * 4));
        }
        let next = towers.changing().next;
        towers.add(5, node(5), height_of(5).max(1));
        assert_eq!((towers.changing().next, towers.below(6)), (next, Some((5, node(5)))));
    }
}
