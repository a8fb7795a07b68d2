//! The images that a power cut may leave (Px86): for each line a prefix of the stores to it, no
//! shorter than its *floor*; lines are independent of each other.
//!
//! ```text
//! stores to a line   s0 s1 s2 | s3 s4 s5        floor 3: six images of this line are not legal
//!                             floor             any more, four are (none, s3, s3 s4, s3 s4 s5)
//! ```
//!
//! A flush (clwb) remembers how many stores its line has had, for the thread that asked. The floor
//! rises to that at *that thread's* next fence: stores after the flush are not covered, and another
//! thread's fence raises nothing. With [`Persistency::Eadr`] caches survive: one image per prefix of the
//! global order of stores, whatever was flushed and fenced.
//!
//! # Processors that reorder stores
//!
//! On ARM, two plain stores to one line may become visible, and so reach memory, in either order;
//! an image could then hold any of the words stored since the floor. There is no mode for that,
//! because nothing that passes a [`Medium`](everleaf_pmem::Medium) is a plain store: the door stores
//! with Release. A release store becomes visible after all that its thread stored before, to all
//! observers at once (ARMv8 is multi-copy atomic), and stores of different threads to one line come
//! one after the other under the page's latch, which is released and acquired. So the stores to a
//! line become visible in the order of the record. A write-back takes the line as it is at some moment,
//! a prefix of that order: the images of [`Persistency::X86`]. `dc cvap` comes after earlier stores to
//! its line as `clwb` does, and `dsb` completes it as `sfence` does. Two things are taken on trust on
//! either processor: a line in flight is torn at 8 bytes at worst and in the order of its stores,
//! and memory has what the processor says it has.

use std::collections::{BTreeMap, HashMap};

use everleaf_pmem::sim::Event;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::failure::{Choice, Crash};
use crate::trace::{LINE_WORDS, Recording};

/// The stores that survive a power cut besides those that were flushed and fenced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Persistency {
    /// Caches are lost: x86 with ADR.
    #[default]
    X86,
    /// Caches survive: x86 with eADR.
    Eadr,
}

/// One of the contents that a line may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineContent {
    pub kept: u32,
    pub words: [u64; LINE_WORDS],
    /// The part that this content adds to the image's hash, relative to the line at its floor.
    pub delta: u128,
}

/// A line that is not settled, with its different contents, the floor's first.
#[derive(Debug, Clone)]
pub(crate) struct Unsettled {
    pub line: u32,
    pub floor: u32,
    pub stores: u32,
    pub contents: Vec<LineContent>,
}

impl Unsettled {
    pub fn choice(&self, which: usize) -> Choice {
        let kept = self.contents[which].kept;
        Choice { line: self.line, kept, floor: self.floor, stores: self.stores }
    }
}

/// A line with stores above its floor.
#[derive(Debug, Default)]
struct LineTail {
    stores: Vec<(u32, u64)>,
}

/// Walks through a record and knows, at each event, which images are legal.
#[derive(Debug)]
pub(crate) struct ImageWalk {
    mode: Persistency,
    /// All words with each line at its floor.
    base: Vec<u64>,
    base_hash: u128,
    /// Stores per line that are settled.
    floors: Vec<u32>,
    tails: BTreeMap<u32, LineTail>,
    /// For each thread: lines flushed since its last fence, and their store counts then.
    flushed: HashMap<u32, Vec<(u32, u32)>>,
    /// Lines whose floor has risen, for a caller that follows the base.
    risen: Vec<u32>,
}

impl ImageWalk {
    pub fn new(mode: Persistency, initial: Vec<u64>) -> Self {
        let base_hash = initial
            .chunks(LINE_WORDS)
            .zip(0..)
            .fold(0u128, |sum, (words, line)| sum.wrapping_add(line_hash(line, words)));
        Self::with_hash(mode, initial, base_hash)
    }

    /// As `new`, for an image whose hash is known.
    pub fn with_hash(mode: Persistency, initial: Vec<u64>, base_hash: u128) -> Self {
        debug_assert!(initial.len().is_multiple_of(LINE_WORDS), "an image is whole lines");
        let lines = initial.len() / LINE_WORDS;
        Self {
            mode,
            base: initial,
            base_hash,
            floors: vec![0; lines],
            tails: BTreeMap::new(),
            flushed: HashMap::new(),
            risen: Vec::new(),
        }
    }

    pub fn step(&mut self, event: Event) {
        match event {
            Event::Store { word, value } => {
                debug_assert!((word as usize) < self.base.len(), "a store outside the medium");
                let line = word / LINE_WORDS as u32;
                self.tails.entry(line).or_default().stores.push((word, value));
                if self.mode == Persistency::Eadr {
                    self.settle(line, self.count(line));
                }
            }
            Event::Flush { line, thread } => {
                let count = self.count(line);
                self.flushed.entry(thread).or_default().push((line, count));
            }
            Event::Fence { thread } => {
                for (line, count) in self.flushed.remove(&thread).unwrap_or_default() {
                    self.settle(line, count);
                }
            }
            Event::Mark { .. } => {}
        }
    }

    /// All stores to a line so far.
    fn count(&self, line: u32) -> u32 {
        let above = self.tails.get(&line).map_or(0, |tail| tail.stores.len());
        self.floors[line as usize] + above as u32
    }

    /// Raises a line's floor to `count` stores.
    fn settle(&mut self, line: u32, count: u32) {
        let floor = self.floors[line as usize];
        if count <= floor {
            return;
        }
        let before = self.line_base_hash(line);
        let tail = self.tails.get_mut(&line).expect("more stores than the floor");
        debug_assert!(
            count <= floor + tail.stores.len() as u32,
            "a floor is at most what was stored"
        );
        for (word, value) in tail.stores.drain(..(count - floor) as usize) {
            self.base[word as usize] = value;
        }
        if tail.stores.is_empty() {
            self.tails.remove(&line);
        }
        self.floors[line as usize] = count;
        let after = self.line_base_hash(line);
        self.base_hash = self.base_hash.wrapping_sub(before).wrapping_add(after);
        self.risen.push(line);
    }

    fn line_base_hash(&self, line: u32) -> u128 {
        line_hash(line, self.line_base(line))
    }

    /// The image of one power cut in a record that this walk is at the start of.
    ///
    /// Panics if the record has no such crash.
    pub fn image_of(mut self, events: &[Event], crash: &Crash) -> Vec<u64> {
        events[..crash.event].iter().for_each(|&event| self.step(event));
        let mut image = self.base.clone();
        for choice in &crash.choices {
            let tail = &self.tails[&choice.line];
            assert_eq!(
                choice.floor, self.floors[choice.line as usize],
                "a crash of another record"
            );
            let above = (choice.kept - self.floors[choice.line as usize]) as usize;
            for &(word, value) in &tail.stores[..above] {
                image[word as usize] = value;
            }
        }
        image
    }

    /// All words with each line at its floor, at the end of a walk.
    pub fn into_base(self) -> Vec<u64> {
        self.base
    }

    pub fn mode(&self) -> Persistency {
        self.mode
    }

    /// A line's words at its floor.
    pub fn line_base(&self, line: u32) -> &[u64] {
        let at = line as usize * LINE_WORDS;
        &self.base[at..at + LINE_WORDS]
    }

    /// Hash of the image with every line at its floor.
    pub fn base_hash(&self) -> u128 {
        self.base_hash
    }

    /// Lines whose floor has risen since the last call.
    pub fn take_risen(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.risen)
    }

    /// The lines that have more than one legal content now. Prefixes that give a content twice are
    /// named once.
    pub fn unsettled(&self) -> Vec<Unsettled> {
        let lines = self.tails.iter().map(|(&line, tail)| self.contents(line, tail));
        lines.filter(|line| line.contents.len() > 1).collect()
    }

    fn contents(&self, line: u32, tail: &LineTail) -> Unsettled {
        let floor = self.floors[line as usize];
        let mut words: [u64; LINE_WORDS] =
            self.line_base(line).try_into().expect("a line of words");
        let floor_hash = line_hash(line, &words);
        let mut contents = vec![LineContent { kept: floor, words, delta: 0 }];
        for (&(word, value), kept) in tail.stores.iter().zip(floor + 1..) {
            words[word as usize % LINE_WORDS] = value;
            if contents.iter().all(|old| old.words != words) {
                let delta = line_hash(line, &words).wrapping_sub(floor_hash);
                contents.push(LineContent { kept, words, delta });
            }
        }
        Unsettled { line, floor, stores: floor + tail.stores.len() as u32, contents }
    }
}

/// A line's part in an image's hash, which is the sum over all lines: so an image that differs in a
/// few lines is hashed by adding a few numbers.
fn line_hash(line: u32, words: &[u64]) -> u128 {
    const K: u64 = 0x9E37_79B9_7F4A_7C15;
    let fold = |a: u64, b: u64| {
        let wide = u128::from(a) * u128::from(b);
        (wide as u64) ^ (wide >> 64) as u64
    };
    let (mut low, mut high) = (u64::from(line) ^ K, u64::from(line).wrapping_mul(K) ^ 0x5851_F42D);
    for &word in words {
        low = fold(low ^ word, K).wrapping_add(high);
        high = fold(high.rotate_left(29) ^ word ^ 0xD6E8_FEB8_6659_FD93, K | 1 << 63) ^ low;
    }
    u128::from(low) << 64 | u128::from(high)
}

/// The legal images right after the first `at` events of a record, one after the other; for small
/// records, and for readers of this crate: [`Explorer`](crate::Explorer) is the fast way.
///
/// ```
/// use everleaf_crash_check::{Persistency, images, Trace};
/// use everleaf_pmem::{Geometry, Medium, Sim};
/// let sim = std::sync::Arc::new(Sim::new(Geometry::new(4).unwrap(), 1)?);
/// let trace = Trace::new(&sim);
/// let page = sim.page(0)?;
/// sim.store(page.body(0), 1); // one line: prefixes only
/// sim.store(page.body(1), 2);
/// sim.store(page.head(0), 3); // another line
/// assert_eq!(images(&trace.finish(), 3, Persistency::X86).len(), 3 * 2);
/// # Ok::<(), everleaf_pmem::Error>(())
/// ```
pub fn images(record: &Recording, at: usize, mode: Persistency) -> Vec<Vec<u64>> {
    let mut walk = ImageWalk::new(mode, record.initial.clone());
    record.events[..at].iter().for_each(|&event| walk.step(event));
    let mut all = vec![walk.base.clone()];
    for line in walk.unsettled() {
        let at = line.line as usize * LINE_WORDS;
        all = all
            .iter()
            .flat_map(|image| {
                line.contents.iter().map(move |content| {
                    let mut image = image.clone();
                    image[at..at + LINE_WORDS].copy_from_slice(&content.words);
                    image
                })
            })
            .collect();
    }
    all
}

/// One legal image right after the first `at` events of a record, picked by `seed`: for records of
/// any size, and for tests that go on after a power cut.
///
/// ```
/// use everleaf_crash_check::{Persistency, Trace, images, sample};
/// use everleaf_pmem::{Geometry, Medium, Sim};
/// let sim = std::sync::Arc::new(Sim::new(Geometry::new(4).unwrap(), 1)?);
/// let trace = Trace::new(&sim);
/// let page = sim.page(0)?;
/// sim.store(page.body(0), 1);
/// sim.store(page.head(0), 3);
/// let record = trace.finish();
/// let all = images(&record, 2, Persistency::X86);
/// assert!((0..99).all(|seed| all.contains(&sample(&record, 2, Persistency::X86, seed))));
/// # Ok::<(), everleaf_pmem::Error>(())
/// ```
pub fn sample(record: &Recording, at: usize, mode: Persistency, seed: u64) -> Vec<u64> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut walk = ImageWalk::new(mode, record.initial.clone());
    record.events[..at].iter().for_each(|&event| walk.step(event));
    let unsettled = walk.unsettled();
    let mut image = walk.into_base();
    for line in unsettled {
        let content = &line.contents[rng.random_range(0..line.contents.len())];
        let at = line.line as usize * LINE_WORDS;
        image[at..at + LINE_WORDS].copy_from_slice(&content.words);
    }
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(events: &[Event]) -> ImageWalk {
        let mut walk = ImageWalk::new(Persistency::X86, vec![0; 4 * LINE_WORDS]);
        events.iter().for_each(|&event| walk.step(event));
        walk
    }
    fn store(word: u32, value: u64) -> Event {
        Event::Store { word, value }
    }

    #[test]
    fn a_flush_covers_what_came_before_it_once_its_own_thread_fences() {
        let mut events = vec![store(0, 1), Event::Flush { line: 0, thread: 1 }, store(1, 2)];
        assert_eq!(walk(&events).unsettled()[0].contents.len(), 3);
        events.push(Event::Fence { thread: 2 });
        assert_eq!(walk(&events).unsettled()[0].contents.len(), 3, "another thread's fence");
        events.push(Event::Fence { thread: 1 });
        let now = walk(&events);
        let line = &now.unsettled()[0];
        assert_eq!((line.floor, line.stores, line.contents.len()), (1, 2, 2));
        assert_eq!(now.line_base(0)[..2], [1, 0]);
        events.push(Event::Fence { thread: 1 });
        assert_eq!(walk(&events).unsettled().len(), 1, "a fence without a flush");
    }

    #[test]
    fn contents_that_come_twice_are_named_once() {
        let line = &walk(&[store(0, 1), store(0, 0), store(0, 1), store(1, 1)]).unsettled()[0];
        assert_eq!(line.contents.iter().map(|c| c.kept).collect::<Vec<_>>(), [0, 1, 4]);
        assert!(walk(&[store(5, 0)]).unsettled().is_empty());
    }

    #[test]
    fn hashes_of_images_follow_their_contents() {
        let flushed =
            [store(0, 1), Event::Flush { line: 0, thread: 0 }, Event::Fence { thread: 0 }];
        let settled = walk(&flushed);
        assert_eq!(
            settled.base_hash(),
            ImageWalk::new(Persistency::X86, settled.base.clone()).base_hash()
        );
        let open = walk(&flushed[..1]);
        let delta = open.unsettled()[0].contents[1].delta;
        assert_eq!(open.base_hash().wrapping_add(delta), settled.base_hash());
        assert_ne!(line_hash(0, &[1; 8]), line_hash(1, &[1; 8]));
    }

    #[test]
    fn caches_that_survive_leave_one_image() {
        let mut walk = ImageWalk::new(Persistency::Eadr, vec![0; LINE_WORDS]);
        walk.step(store(3, 7));
        assert!(walk.unsettled().is_empty());
        assert_eq!(walk.line_base(0)[3], 7);
        // A flush and a fence have nothing to add, so an image says as much of a program without them.
        let before = walk.base_hash();
        walk.step(Event::Flush { line: 0, thread: 0 });
        walk.step(Event::Fence { thread: 0 });
        assert_eq!((walk.base_hash(), walk.unsettled().len()), (before, 0));
    }
}
