//! Large values in memory: what was written, and what was read and may be read again.
//!
//! A large value is in the file once, and neither in a page nor in the journal. Here its bytes, with those
//! of a long key before them, stay under the name of the record that leads to them, for as long as the one
//! [memory](crate::FileOptions::memory_bytes) of the pool has room. So a reader who has found the name in a
//! leaf needs no look at the record. Pages and values leave by the same clock: [`evict`](super::evict) moves
//! both hands by the same part of a round, so that neither pushes the other out unless it is used more. A
//! value comes in cold, so that going through all of a tree once does not push out what is used again and
//! again.
//!
//! *Why an entry is never another record's.* A record's place is given to another one only after it was freed,
//! and the step that frees it removes the entry while it has the record's page latched. A reader who has
//! missed draws a [ticket](ValueCache::ticket), and finds after that the record in use and its page unchanged; so it is
//! freed later, and what the reader has read is taken only if nothing was removed since. From a place that is
//! free already it takes nothing along: no removal would come before the next record. A writer puts its value in before a
//! leaf names the record.
//! A reader that is lent a value has its name from a leaf that may have changed, so the answer counts only if the
//! leaf is validated after it, as anything else that was read by its words.
//!
//! *A value is lent, not copied.* Readers hold it together with the cache, so it may leave the cache while they read.
//! Nobody waits for a reader of a long one.

use std::mem;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use everleaf_pmem::fallible::{self, taken};
use everleaf_pmem::locks::Mutex;
use everleaf_pmem::page::{LINE_BYTES, prefetch};
use everleaf_pmem::shared::{PAIRS_AHEAD, SharedPair};
use everleaf_pmem::sync::lock_plain as lock;

/// In parts, so that threads seldom meet at a lock.
const SHARDS: usize = 16;
/// Slots of a shard when its first value comes.
const SLOTS_FIRST: usize = 8;
/// Longer values are read from the disk each time: a copy to stay would cost as much again.
const LONGEST: u64 = 4 << 20;
/// No value takes a greater part of the memory than this.
const PART_MOST: u64 = 16;
/// The processor is asked for so many lines of a value ahead: it goes on by itself.
const LINES_AHEAD: usize = 8;
/// Names this memory in errors.
const WHAT: &str = "large values in memory";

/// A value in memory, behind its key if that is long; none if `name` is 0, which no record has.
#[derive(Debug, Default)]
struct Slot {
    pair: Option<SharedPair>,
    name: u64,
    /// Whether somebody has read it since the hand was here.
    is_hot: bool,
}

impl Slot {
    fn memory(&self) -> u64 {
        self.pair.as_ref().map_or(0, |pair| memory_of(pair.len()))
    }
}

/// The lines of a pair that the processor is asked for.
fn lines_of(pair: &SharedPair) -> usize {
    pair.memory().div_ceil(LINE_BYTES).min(LINES_AHEAD)
}

/// Bytes of memory that so many bytes of a key and a value take.
pub(crate) fn memory_of(bytes: usize) -> u64 {
    taken(size_of::<usize>() + bytes)
}

/// A table with open addressing: as many slots as a power of two, at most three quarters of them taken.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    slots: Vec<Slot>,
    used: usize,
    hand: usize,
    /// How often a record was freed.
    removals: u64,
}

fn hash(name: u64) -> usize {
    (name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

impl Table {
    /// Where a value is, or the free slot in which its search ends.
    fn find(&self, name: u64) -> Result<usize, usize> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = hash(name) & mask;
        while let Some(slot) = self.slots.get(at) {
            match slot.name {
                found if found == name => return Ok(at),
                0 => return Err(at),
                _ => at = (at + 1) & mask,
            }
        }
        Err(0)
    }

    /// Has room for one more. Says how many bytes that took, or none if there is no memory.
    fn make_room(&mut self) -> Option<u64> {
        if 4 * (self.used + 1) <= 3 * self.slots.len() {
            return Some(0);
        }
        let n = (2 * self.slots.len()).max(SLOTS_FIRST);
        let mut wider: Vec<Slot> = fallible::list(n, WHAT).ok()?;
        wider.resize_with(n, Slot::default);
        let before = mem::replace(&mut self.slots, wider);
        let more = taken(n * size_of::<Slot>()) - taken(before.len() * size_of::<Slot>());
        for slot in before.into_iter().filter(|slot| slot.name != 0) {
            if let Err(at) = self.find(slot.name) {
                self.slots[at] = slot;
            }
        }
        Some(more)
    }

    /// Empties a slot, and moves those behind it that would not be found any more.
    fn remove_at(&mut self, at: usize) -> Slot {
        let mask = self.slots.len() - 1;
        let gone = mem::take(&mut self.slots[at]);
        self.used -= 1;
        let (mut hole, mut next) = (at, (at + 1) & mask);
        while self.slots[next].name != 0 {
            let home = hash(self.slots[next].name) & mask;
            // As far from its home as from the hole, or farther: it may stand in the hole.
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.slots.swap(hole, next);
                hole = next;
            }
            next = (next + 1) & mask;
        }
        gone
    }
}

/// The large values of a pool that are in memory.
#[derive(Debug)]
pub(crate) struct ValueCache {
    shards: [Shard; SHARDS],
    /// The longest value that is kept.
    longest: u64,
    /// Bytes that all values may take where no page can leave.
    most: u64,
    /// Bytes that all of it takes.
    bytes: AtomicU64,
    /// The shard that the hand is in.
    hand: AtomicUsize,
    pub misses: AtomicU64,
    pub evictions: AtomicU64,
}

impl ValueCache {
    /// For a pool whose pages and values may take so many bytes. If its pages cannot leave, values may take
    /// half of that.
    pub fn new(memory_bytes: u64, alone: bool) -> Self {
        let most = if alone && memory_bytes != u64::MAX { memory_bytes / 2 } else { u64::MAX };
        Self {
            shards: Default::default(),
            most,
            longest: (memory_bytes / PART_MOST).min(LONGEST),
            bytes: AtomicU64::new(0),
            hand: AtomicUsize::new(0),
            misses: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
        }
    }

    /// Bytes that values and their tables take.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Bytes that values have to give up where no page can leave, so that there is room for more.
    pub fn over(&self, more: u64) -> u64 {
        (self.bytes() + more).saturating_sub(self.most)
    }

    /// Whether a value of so many bytes may be kept at all.
    pub fn takes(&self, bytes: u64) -> bool {
        bytes <= self.longest
    }

    fn shard(&self, name: u64) -> &Mutex<Table> {
        // Other bits than those that choose a slot.
        &self.shards[hash(name) >> 24 & (SHARDS - 1)].0
    }

    /// A long key and the value of a record, if they are here. The caller may keep them for as long as it likes,
    /// whatever becomes of the record.
    #[inline]
    pub fn lend(&self, name: u64) -> Option<SharedPair> {
        let mut table = lock(self.shard(name));
        let at = table.find(name).ok()?;
        let slot = &mut table.slots[at];
        slot.is_hot = true;
        slot.pair.clone()
    }

    /// Asks the processor for where the search for the values of some records begins, for somebody who will ask for the
    /// [values](Self::prefetch) next, and be [lent](Self::lend) them then.
    pub fn prefetch_slots(&self, names: &[u64; PAIRS_AHEAD]) {
        for name in names {
            let table = lock(self.shard(*name));
            let home = hash(*name) & table.slots.len().wrapping_sub(1);
            prefetch(table.slots.as_ptr().wrapping_add(home).cast());
        }
    }

    /// Asks the processor for the first bytes of the values of some records, of those that are here.
    ///
    /// All at once, when no lock is in between: each is in another page of the system, whose place the processor has to
    /// look up, and it looks up several at a time.
    pub fn prefetch(&self, names: &[u64; PAIRS_AHEAD]) {
        let places = names.map(|name| {
            let table = lock(self.shard(name));
            let pair = table.slots.get(table.find(name).ok()?)?.pair.as_ref()?;
            Some((pair.place(), lines_of(pair)))
        });
        for line in 0..LINES_AHEAD {
            for (place, _) in places.iter().flatten().filter(|(_, lines)| line < *lines) {
                prefetch(place.wrapping_add(line * LINE_BYTES));
            }
        }
    }

    /// The ticket that [`keep`](Self::keep) asks a reader for.
    pub fn ticket(&self, name: u64) -> u64 {
        self.misses.fetch_add(1, Relaxed);
        lock(self.shard(name)).removals
    }

    /// Keeps what belongs to a record: a long key, and the value. A reader's is kept only if
    /// no record may have been freed since its ticket was drawn.
    pub fn keep(&self, name: u64, ticket: Option<u64>, pair: SharedPair) {
        debug_assert!(name != 0, "no record has this name");
        let slot = Slot { pair: Some(pair), name, is_hot: false };
        let mut table = lock(self.shard(name));
        if ticket.is_some_and(|ticket| ticket != table.removals) {
            return;
        }
        let more = slot.memory();
        let less = match table.find(name) {
            Ok(at) => mem::replace(&mut table.slots[at], slot).memory(),
            Err(_) => {
                let Some(wider) = table.make_room() else { return };
                self.bytes.fetch_add(wider, Relaxed);
                if let Err(at) = table.find(name) {
                    table.slots[at] = slot;
                    table.used += 1;
                }
                0
            }
        };
        // With the shard locked: a thread that takes it out again finds it counted.
        self.bytes.fetch_add(more.wrapping_sub(less), Relaxed);
    }

    /// A record is freed: its name will be another one's.
    pub fn remove(&self, name: u64) {
        let mut table = lock(self.shard(name));
        table.removals += 1;
        let gone = table.find(name).ok().map(|at| table.remove_at(at));
        drop(table);
        if let Some(slot) = gone {
            self.bytes.fetch_sub(slot.memory(), Relaxed);
        }
    }

    /// Moves the hand over slots of about so many bytes of values, a round at most, or until enough have left:
    /// those that nobody has read since it was there. Readers wait while it is in their shard.
    pub fn sweep(&self, bytes: u64, is_done: &dyn Fn() -> bool) {
        if bytes == 0 {
            // Of a pool without values each page that the hand looks at asks for that: no shard is locked.
            return;
        }
        let mut left = bytes;
        for _ in 0..SHARDS {
            let at = self.hand.load(Relaxed);
            if self.sweep_shard(&mut lock(&self.shards[at].0), &mut left, is_done) {
                return;
            }
            self.hand.store((at + 1) % SHARDS, Relaxed);
        }
    }

    /// Says whether the hand stays in this shard.
    fn sweep_shard(&self, table: &mut Table, left: &mut u64, is_done: &dyn Fn() -> bool) -> bool {
        while table.hand < table.slots.len() {
            if *left == 0 {
                return true;
            }
            let at = table.hand;
            let slot = &mut table.slots[at];
            // A slot without a value is a step, too.
            let seen = slot.memory() + size_of::<Slot>() as u64;
            *left = left.saturating_sub(seen);
            if slot.name == 0 || mem::take(&mut slot.is_hot) {
                table.hand += 1;
                continue;
            }
            // Another one may stand there now, and the hand has not been at it.
            let gone = table.remove_at(at).memory();
            self.bytes.fetch_sub(gone, Relaxed);
            self.evictions.fetch_add(1, Relaxed);
            if is_done() {
                return true;
            }
        }
        table.hand = 0;
        false
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn cache() -> ValueCache {
        ValueCache::new(u64::MAX, false)
    }

    fn keep(cache: &ValueCache, name: u64, ticket: Option<u64>, [key, value]: [&[u8]; 2]) {
        cache.keep(name, ticket, SharedPair::copy(key, value).expect("memory"));
    }

    fn found(cache: &ValueCache, name: u64) -> Option<[Vec<u8>; 2]> {
        cache.lend(name).map(|pair| [pair.key().to_vec(), pair.value().to_vec()])
    }

    fn pair(key: &[u8], value: &[u8]) -> Option<[Vec<u8>; 2]> {
        Some([key.to_vec(), value.to_vec()])
    }

    #[test]
    fn what_was_kept_is_lent_until_its_record_is_freed() {
        let cache = cache();
        keep(&cache, 7, None, [b"key", b"value"]);
        assert_eq!((found(&cache, 7), found(&cache, 8)), (pair(b"key", b"value"), None));
        keep(&cache, 7, None, [b"", b""]);
        assert_eq!(found(&cache, 7), pair(b"", b""), "what is empty is there, too");
        cache.remove(7);
        assert_eq!(found(&cache, 7), None);
        keep(&cache, u64::MAX, None, [b"", b"x"]);
        assert_eq!(found(&cache, u64::MAX), pair(b"", b"x"));
    }

    #[test]
    fn a_reader_whose_record_was_freed_meanwhile_keeps_nothing() {
        let cache = cache();
        let ticket = cache.ticket(7);
        cache.remove(7);
        keep(&cache, 7, Some(ticket), [b"old", b""]);
        assert_eq!(found(&cache, 7), None);
        keep(&cache, 7, Some(cache.ticket(7)), [b"new", b""]);
        assert_eq!(found(&cache, 7), pair(b"new", b""));
        assert_eq!(cache.misses.load(Relaxed), 2);
    }

    #[test]
    fn any_order_of_keeping_removing_and_sweeping_is_a_map_that_forgets() {
        let (cache, mut model) = (cache(), HashMap::new());
        let mut random = 1_u64;
        for round in 0..60_000_u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Records of one page, and of many.
            let name = 1 + (random >> 33) % 300 * if random >> 20 & 1 == 0 { 1 } else { 1 << 16 };
            let value = vec![round as u8; (random >> 25) as usize % 200];
            match random >> 60 {
                0..8 => {
                    keep(&cache, name, None, [b"x", &value]);
                    model.insert(name, value);
                }
                8..12 => {
                    cache.remove(name);
                    model.remove(&name);
                }
                12..15 => {
                    let found = found(&cache, name);
                    let expected = model.get(&name).and_then(|value| pair(b"x", value));
                    assert!(found.is_none() || found == expected);
                }
                // A little at a time, so that tables are full enough for searches that go on behind a slot.
                _ => cache.sweep(random >> 40 & 0x1ff, &|| false),
            }
        }
        let lent = |name: &u64| {
            found(&cache, *name).map_or(0, |[key, value]| memory_of(key.len() + value.len()))
        };
        let values: u64 = model.keys().map(lent).sum();
        let tables = |shard: &Shard| taken(lock(&shard.0).slots.len() * size_of::<Slot>());
        assert_eq!(cache.bytes(), values + cache.shards.iter().map(tables).sum::<u64>());
        assert!(values > 0 && cache.evictions.load(Relaxed) > 1000);
        // A round takes the heat of those just read, and the next ones take them.
        (0..3).for_each(|_| cache.sweep(u64::MAX, &|| false));
        assert_eq!(model.keys().map(lent).sum::<u64>(), 0);
        assert!(cache.shards.iter().all(|shard| lock(&shard.0).used == 0));
    }

    #[test]
    fn what_is_read_again_stays_and_what_was_kept_and_not_read_leaves() {
        let cache = cache();
        (1..=1000).for_each(|name| keep(&cache, name, None, [&[], &[1; 100]]));
        (1..=100).for_each(|name| assert!(found(&cache, name).is_some()));
        let full = cache.bytes();
        cache.sweep(u64::MAX, &|| false);
        // One that moved from the beginning of a table to its end was seen twice.
        let stayed = (1..=100).filter(|name| found(&cache, *name).is_some()).count();
        assert!(stayed >= 95, "{stayed} of 100");
        assert!((101..=1000).all(|name| found(&cache, name).is_none()));
        assert_eq!(full - cache.bytes(), (1000 - stayed as u64) * memory_of(100));
    }

    #[test]
    fn where_no_page_can_leave_values_take_half_of_the_memory() {
        let cache = ValueCache::new(1 << 20, true);
        assert_eq!((cache.over(1 << 19), cache.over((1 << 19) + 7)), (0, 7));
        assert!(cache.takes(1 << 16) && !cache.takes((1 << 16) + 1));
        assert_eq!(ValueCache::new(u64::MAX, true).over(u64::MAX / 2), 0);
    }
}
