//! The leaf: a log of its pairs.
//!
//! ```text
//! header   w0 entries | w1 the next leaf, 0 for none
//! body     entry 0 | entry 1 | …       each: 1 a pair, 0 a key that is removed | key | value
//! ```
//!
//! The last entry of a key says what it has. Entries from the count on are no entries, whatever they hold. 21, 42, 85
//! and 170 of them lie in leaves of 512 B to 4 KB.

use everleaf_pmem::{Medium, Page, PageNo, Result, Word, fallible};
use everleaf_pool::kind::{self, KIND_WORD};

use crate::parts::persist;

const COUNT_WORD: usize = 0;
const NEXT_WORD: usize = 1;
const ENTRY_WORDS: usize = 3;
const LINE_WORDS: usize = 8;

/// An entry that says that a key is there.
pub const ALIVE: u64 = 1;
/// An entry that says that a key was removed.
pub const REMOVED: u64 = 0;

/// How many entries a leaf has room for.
pub fn capacity(page: Page<'_>) -> usize {
    2 * page.slots() / ENTRY_WORDS
}

/// How many it has.
pub fn count(page: Page<'_>) -> usize {
    (page.head(COUNT_WORD).load() as usize).min(capacity(page))
}

/// The leaf behind it, 0 for none.
pub fn next(page: Page<'_>) -> PageNo {
    page.head(NEXT_WORD).load() as PageNo
}

/// Durable when it returns: one line, one fence.
pub fn set_next<M: Medium>(m: &M, page: Page<'_>, next: PageNo) {
    m.store(page.head(NEXT_WORD), next.into());
    persist(m, page, 0);
}

fn word(page: Page<'_>, entry: usize, i: usize) -> Word<'_> {
    page.body(ENTRY_WORDS * entry + i)
}

/// Whether the last entry of a key is a pair, and its value. From the last entry backwards. O(entries).
pub fn find(page: Page<'_>, key: u64) -> Option<u64> {
    let last = (0..count(page)).rev().find(|entry| word(page, *entry, 1).load() == key)?;
    (word(page, last, 0).load() == ALIVE).then(|| word(page, last, 2).load())
}

/// The pairs of a leaf in order, in place of what is in `pairs`.
///
/// # Errors
/// NoMemory.
pub fn alive(page: Page<'_>, pairs: &mut Vec<(u64, u64)>) -> Result<()> {
    let count = count(page);
    let mut last = Vec::new();
    fallible::more(&mut last, count, "the entries of a leaf")?;
    last.extend((0..count).map(|entry| (word(page, entry, 1).load(), entry)));
    last.sort_unstable();
    pairs.clear();
    fallible::more(pairs, count, "the entries of a leaf")?;
    for of_key in last.chunk_by(|a, b| a.0 == b.0) {
        let &(key, entry) = of_key.last().expect("a chunk is not empty");
        if word(page, entry, 0).load() == ALIVE {
            pairs.push((key, word(page, entry, 2).load()));
        }
    }
    Ok(())
}

/// Stores entries behind the last one, with a fence before the count if `fenced`. False if there is no room: nothing
/// has changed then. Durable when it returns.
pub fn append<M: Medium>(m: &M, page: Page<'_>, entries: &[[u64; 3]], fenced: bool) -> bool {
    let first = count(page);
    let end = first + entries.len();
    if end > capacity(page) {
        return false;
    }
    let mut words = (ENTRY_WORDS * first..).map(|i| page.body(i));
    for (word, value) in words.by_ref().zip(entries.as_flattened()) {
        m.store(word, *value);
    }
    let lines = 1 + ENTRY_WORDS * first / LINE_WORDS..=1 + (ENTRY_WORDS * end - 1) / LINE_WORDS;
    lines.for_each(|line| m.flush(page, line));
    if fenced {
        m.fence();
    }
    m.store(page.head(COUNT_WORD), end as u64);
    persist(m, page, 0);
    true
}

/// Makes a leaf of sorted pairs, unfenced. All its lines are flushed if `flushed`.
pub fn build<M: Medium>(m: &M, page: Page<'_>, pairs: &[(u64, u64)], next: PageNo, flushed: bool) {
    for (entry, (key, value)) in pairs.iter().enumerate() {
        for (i, value) in [ALIVE, *key, *value].into_iter().enumerate() {
            m.store(word(page, entry, i), value);
        }
    }
    m.store(page.head(COUNT_WORD), pairs.len() as u64);
    m.store(page.head(NEXT_WORD), next.into());
    m.store(page.head(KIND_WORD), kind::pack(kind::NODE, 0, 0, 0));
    if flushed {
        (0..=page.slots() / 4).for_each(|line| m.flush(page, line));
    }
}
