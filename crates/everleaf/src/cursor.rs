//! A place in a tree, from which one can go in both directions.

use std::cell::Cell;
use std::fmt;
use std::mem;
use std::sync::Arc;

use everleaf_pmem::Retries;
use everleaf_tree::blink;
use everleaf_tree::blink::Stepped;

use crate::bytes::{PART_MAX, SHORT_MAX, SPARE_BYTES, TAKEN_MIN};
use crate::engine::{Cut, Move, PoolTree};
use crate::{AsBytes, Bytes, Result};

/// A key and its value.
pub type Pair = (Bytes, Bytes);

/// These name memory in errors.
const KEY: &str = "a key";
const VALUE: &str = "a value";

/// The tree that cursors go through.
#[derive(Clone)]
pub(crate) struct Source {
    pub tree: PoolTree,
    /// The tree's name, for who prints what goes through it.
    pub name: Arc<str>,
    /// The moment that they see; `None` is now.
    pub cut: Option<Arc<Cut>>,
}

impl Source {
    #[inline(always)]
    pub fn go(&self, at: &mut blink::Cursor, to: Move<'_>) -> Result<Stepped> {
        let step = match &self.cut {
            None => self.tree.go(at, to),
            Some(cut) => self.go_at(cut, at, to),
        };
        self.tree.buffers().note_cursor(at);
        step
    }

    /// Takes a cursor a step up, or down.
    #[inline(always)]
    pub fn step(&self, at: &mut blink::Cursor, up: bool) -> Result<Stepped> {
        if self.slides(at, up) {
            return Ok(Stepped::Pair);
        }
        self.step_on(at, up)
    }

    #[inline(always)]
    fn slides(&self, at: &mut blink::Cursor, up: bool) -> bool {
        self.tree.slides(at, up)
    }

    #[inline(never)]
    fn step_on(&self, at: &mut blink::Cursor, up: bool) -> Result<Stepped> {
        self.go(at, if up { Move::Next } else { Move::Prev })
    }

    /// Reads the value of the pair; says whether the pair is still there.
    #[inline(always)]
    pub fn read_value(&self, at: &mut blink::Cursor) -> Result<bool> {
        if at.has_all() {
            return Ok(true);
        }
        let is_there = match &self.cut {
            Some(cut) => self.read_value_at(cut, at),
            None => self.tree.read_value(at),
        };
        self.tree.buffers().note_cursor(at);
        is_there
    }

    /// The pair that a cursor has, for who is given others, too: long strings share memory.
    #[inline]
    pub fn take_pair(&self, at: &mut blink::Cursor) -> Result<Option<Pair>> {
        let Some((key, value)) = at.pair() else { return Ok(None) };
        match key.len() <= SHORT_MAX && value.len() <= SHORT_MAX {
            true => Ok(Some((Bytes::short(key), Bytes::short(value)))),
            false => self.take_long(at),
        }
    }

    /// The same, of a pair with a long string.
    #[inline(never)]
    fn take_long(&self, at: &mut blink::Cursor) -> Result<Option<Pair>> {
        let Some((key, value, room)) = at.pair_and_room() else { return Ok(None) };
        if value.len() > PART_MAX {
            return self.take_large_pair(at);
        }
        let had_none = room.is_none();
        let pair = (Bytes::part(key, room, KEY)?, Bytes::part(value, room, VALUE)?);
        if had_none {
            self.tree.buffers().note_cursor(at);
        }
        Ok(Some(pair))
    }

    /// The same, of a pair with a value that is too long to be a part of something.
    #[inline(never)]
    fn take_large_pair(&self, at: &mut blink::Cursor) -> Result<Option<Pair>> {
        let Some(key) = self.take_key(at)? else { return Ok(None) };
        Ok(self.take_own(at)?.map(|value| (key, value)))
    }

    /// The key that a cursor has, for who is given others, too.
    #[inline]
    pub fn take_key(&self, at: &mut blink::Cursor) -> Result<Option<Bytes>> {
        let Some((key, room)) = at.key_and_room() else { return Ok(None) };
        if key.len() <= SHORT_MAX {
            return Ok(Some(Bytes::short(key)));
        }
        let had_none = room.is_none();
        let key = Bytes::part(key, room, KEY)?;
        if had_none {
            self.tree.buffers().note_cursor(at);
        }
        Ok(Some(key))
    }

    /// The value that a cursor has, with memory of its own; it is not copied if it is large.
    fn take_own(&self, at: &mut blink::Cursor) -> Result<Option<Bytes>> {
        if let Some(lent) = at.shared().and_then(Bytes::lent) {
            return Ok(Some(lent));
        }
        let Some(value) = at.value() else { return Ok(None) };
        if value.len() < TAKEN_MIN {
            return Bytes::copy(value, VALUE).map(Some);
        }
        let value = at.take_value();
        self.tree.buffers().note_cursor(at);
        Ok(value?.map(Bytes::from))
    }

    /// The pair that a cursor has, for who is given no other: it keeps no other's memory.
    fn only_pair(&self, at: &mut blink::Cursor) -> Result<Option<Pair>> {
        let Some(key) = at.key() else { return Ok(None) };
        let key = Bytes::copy(key, KEY)?;
        Ok(self.take_own(at)?.map(|value| (key, value)))
    }

    /// Nobody uses the cursor any more.
    #[inline]
    pub fn give_back(&self, at: &mut blink::Cursor) {
        self.tree.buffers().forget_cursor(at);
        let mut at = mem::take(at);
        if at.memory() <= SPARE_BYTES {
            at.reset();
            // A thread that ends keeps nothing.
            let _ = SPARE.try_with(|spare| spare.set(Some(at)));
        }
    }

    /// Whether a pair that cannot be read lies before the place of `limit`.
    pub fn is_short_of(&self, at: &blink::Cursor, limit: &blink::Cursor, up: bool) -> Result<bool> {
        self.tree.is_short_of(at, limit, up)
    }

    /// The pair somewhere in the tree.
    pub fn pair(&self, to: Move<'_>) -> Result<Option<Pair>> {
        let mut at = unused();
        let pair = self.pair_by(&mut at, to);
        self.give_back(&mut at);
        pair
    }

    fn pair_by(&self, at: &mut blink::Cursor, to: Move<'_>) -> Result<Option<Pair>> {
        let mut turns = Retries::default();
        loop {
            match self.go(at, to)? {
                Stepped::End => return Ok(None),
                Stepped::Damaged(error) => return Err(error),
                Stepped::Pair if self.read_value(at)? => return self.only_pair(at),
                // The pair was removed before its value was read.
                Stepped::Pair => turns.go_on("reading a pair that others remove")?,
            }
        }
    }
}

thread_local! {
    /// The last cursor that the thread has let go: a short scan takes longer to ask for its memory and to
    /// give it back than to read its pairs.
    static SPARE: Cell<Option<blink::Cursor>> = const { Cell::new(None) };
}

/// A new cursor, with the memory of one that is not used any more if the thread has one.
#[inline]
pub(crate) fn unused() -> blink::Cursor {
    SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default()
}

/// A place in a [`Tree`](crate::Tree), from [`Tree::cursor`](crate::Tree::cursor), or in a
/// [`SnapshotTree`](crate::SnapshotTree).
///
/// A cursor goes to a pair by [`seek`](Cursor::seek), [`seek_for_prev`](Cursor::seek_for_prev),
/// [`first`](Cursor::first) or [`last`](Cursor::last), and from there by [`next`](Cursor::next) and
/// [`prev`](Cursor::prev), in either direction as often as you like. Each of these says whether there is a
/// pair; [`key`](Cursor::key) and [`value`](Cursor::value) lend it from memory, so a scan allocates nothing. A
/// value that is too long for the page of its key, and is in memory, is not even copied.
///
/// A cursor holds no latch and no lock between two calls. You may keep it for as long as you like, and
/// the tree may be written meanwhile, by the same thread, too. That of a `Tree` is no snapshot: each step shows the tree
/// as it is then. A key that is inserted or removed during a pass may be met or not; a key that stays is
/// met exactly once, and the order always holds. If the pair under the cursor is removed, the cursor
/// keeps its key and value, and goes on from where it was.
///
/// **Ends.** A step that finds no pair puts the cursor behind the last one, or before the first, and the
/// step back gives that one. A new cursor is at neither end: `next` goes to the first pair, `prev` to the
/// last.
///
/// **Cost.** A seek costs a descent, as [`get`](crate::Tree::get) does. A step within a page takes some
/// nanoseconds. A step costs a descent if the page was written since the last one, and if it goes downwards to the next
/// page.
///
/// **Errors.** Each method returns
/// - [`Corrupt`](crate::Error::Corrupt) or [`Io`](crate::Error::Io) for a pair or a page that cannot be
///   read. If it is one pair, the cursor is there, without key and value, and the next step goes on
///   behind it. If it is more, a step leaves the cursor where it was.
/// - [`NoMemory`](crate::Error::NoMemory) if an allocation failed.
/// - [`Closed`](crate::Error::Closed), [`NoTree`](crate::Error::NoTree) or
///   [`Forked`](crate::Error::Forked) if the tree's handle is not valid any more. Then the cursor has no
///   pair.
///
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
/// let prices = db.tree("prices")?;
/// for (day, price) in [("06-01", "3.10"), ("06-04", "3.25"), ("06-05", "3.20")] {
///     prices.put(day, price)?;
/// }
/// // The price on a day is the last one that was set until then.
/// let mut cursor = prices.cursor();
/// assert!(cursor.seek_for_prev("06-03")?);
/// assert_eq!(cursor.key(), Some(&b"06-01"[..]));
/// assert_eq!(cursor.value()?, Some(&b"3.10"[..]));
/// assert!(cursor.next()? && cursor.next()?);
/// assert_eq!(cursor.key(), Some(&b"06-05"[..]));
/// assert!(!cursor.next()?);
/// assert_eq!(cursor.key(), None);
/// assert!(cursor.prev()?);
/// assert_eq!(cursor.value()?, Some(&b"3.20"[..]));
/// # Ok(())
/// # }
/// ```
pub struct Cursor {
    source: Source,
    at: blink::Cursor,
}

impl Cursor {
    pub(crate) fn new(source: Source) -> Self {
        let mut at = unused();
        source.tree.buffers().note_cursor(&mut at);
        Self { source, at }
    }

    fn go(&mut self, to: Move<'_>) -> Result<bool> {
        found(self.source.go(&mut self.at, to)?)
    }

    #[inline(always)]
    fn step(&mut self, up: bool) -> Result<bool> {
        if self.source.slides(&mut self.at, up) {
            return Ok(true);
        }
        self.step_on(up)
    }

    #[cold]
    #[inline(never)]
    fn step_on(&mut self, up: bool) -> Result<bool> {
        found(self.source.step_on(&mut self.at, up)?)
    }

    /// Goes to the pair with the smallest key. O(log n).
    ///
    /// # Errors
    ///
    /// Those of [a cursor](Cursor).
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// let mut cursor = tree.cursor();
    /// assert!(!cursor.first()?);
    /// tree.put("a", "1")?;
    /// assert!(cursor.first()?);
    /// assert_eq!(cursor.key(), Some(&b"a"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn first(&mut self) -> Result<bool> {
        self.go(Move::First)
    }

    /// Goes to the pair with the largest key. O(log n).
    ///
    /// # Errors
    ///
    /// Those of [a cursor](Cursor).
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put("a", "1")?;
    /// tree.put("b", "2")?;
    /// let mut cursor = tree.cursor();
    /// assert!(cursor.last()?);
    /// assert_eq!(cursor.key(), Some(&b"b"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn last(&mut self) -> Result<bool> {
        self.go(Move::Last)
    }

    /// Goes to the first pair whose key is `key` or above it. If there is none, the cursor is where `key`
    /// would be: behind the last pair. O(log n).
    ///
    /// # Errors
    ///
    /// Those of [a cursor](Cursor).
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// for key in ["a/1", "b/1", "b/2", "c/1"] {
    ///     tree.put(key, "")?;
    /// }
    /// let mut cursor = tree.cursor();
    /// let mut found = cursor.seek("b/")?;
    /// let mut n = 0;
    /// while found && cursor.key().is_some_and(|key| key.starts_with(b"b/")) {
    ///     n += 1;
    ///     found = cursor.next()?;
    /// }
    /// assert_eq!(n, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn seek(&mut self, key: impl AsBytes) -> Result<bool> {
        self.go(Move::Seek(key.as_bytes()))
    }

    /// Goes to the last pair whose key is `key` or below it. If there is none, the cursor is where `key`
    /// would be: before the first pair. O(log n).
    ///
    /// # Errors
    ///
    /// Those of [a cursor](Cursor).
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put([10], "ten")?;
    /// tree.put([20], "twenty")?;
    /// let mut cursor = tree.cursor();
    /// assert!(cursor.seek_for_prev([15])?);
    /// assert_eq!(cursor.key(), Some(&[10][..]));
    /// assert!(!cursor.seek_for_prev([5])?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn seek_for_prev(&mut self, key: impl AsBytes) -> Result<bool> {
        self.go(Move::SeekDown(key.as_bytes()))
    }

    /// Goes to the next pair. A new cursor goes to the first one. O(1) as a rule, O(log n) if the page was
    /// written since the last step.
    ///
    /// # Errors
    ///
    /// Those of [a cursor](Cursor).
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put("a", "1")?;
    /// tree.put("b", "22")?;
    /// let mut cursor = tree.cursor();
    /// let mut bytes = 0;
    /// while cursor.next()? {
    ///     bytes += cursor.value()?.map_or(0, <[u8]>::len);
    /// }
    /// assert_eq!(bytes, 3);
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::should_implement_trait)]
    #[inline]
    pub fn next(&mut self) -> Result<bool> {
        self.step(true)
    }

    /// Goes to the pair before this one. A new cursor goes to the last one. O(1) as a rule, O(log n) from
    /// page to page, or if the page was written since the last step.
    ///
    /// # Errors
    ///
    /// Those of [a cursor](Cursor).
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put("a", "1")?;
    /// tree.put("b", "2")?;
    /// let mut cursor = tree.cursor();
    /// assert!(cursor.seek("b")? && cursor.prev()?);
    /// assert_eq!(cursor.key(), Some(&b"a"[..]));
    /// assert!(!cursor.prev()?);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn prev(&mut self) -> Result<bool> {
        self.step(false)
    }

    /// Returns the key of the pair that the cursor is at, or `None` if it is at no pair. The key is lent until the
    /// cursor moves.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put("a", "1")?;
    /// let mut cursor = tree.cursor();
    /// assert_eq!(cursor.key(), None);
    /// cursor.first()?;
    /// tree.delete("a")?;
    /// assert_eq!(cursor.key(), Some(&b"a"[..])); // what it found
    /// assert!(!cursor.next()?);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.at.key()
    }

    /// Returns the value of the pair that the cursor is at, or `None` if it is at no pair. The value is lent until
    /// the cursor moves.
    ///
    /// A value that is too long for the page of its key is read by the first call, and only then: this
    /// looks the key up, and gives the value that it has now, or `None` if it was removed since the
    /// cursor came to it. O(bytes) then, O(1) otherwise.
    ///
    /// # Errors
    ///
    /// Those of [a cursor](Cursor). The cursor stays at the pair, unless the tree's handle is not valid any more.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put("a", vec![7; 1 << 20])?;
    /// let mut cursor = tree.cursor();
    /// assert!(cursor.first()?); // reads no megabyte
    /// assert_eq!(cursor.value()?.map(<[u8]>::len), Some(1 << 20));
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn value(&mut self) -> Result<Option<&[u8]>> {
        if !self.at.has_all() {
            self.read_value()?;
        }
        Ok(self.at.value())
    }

    /// Returns the key and the value of the pair that the cursor is at, or `None` if it is at no pair. Both are
    /// lent until the cursor moves. See [`value`](Cursor::value) for values that are too long for a page.
    ///
    /// # Errors
    ///
    /// Those of [a cursor](Cursor). The cursor stays at the pair, unless the tree's handle is not valid any more.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let tree = db.tree("t")?;
    /// tree.put("a", "1")?;
    /// let mut cursor = tree.cursor();
    /// assert!(cursor.first()?);
    /// assert_eq!(cursor.pair()?, Some((&b"a"[..], &b"1"[..])));
    /// assert!(!cursor.next()?);
    /// assert_eq!(cursor.pair()?, None);
    /// # Ok(())
    /// # }
    /// ```
    // With more than one caller in a crate, the compiler would make it a call, which costs as much as what it does.
    #[inline(always)]
    pub fn pair(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if !self.at.has_all() {
            self.read_value()?;
        }
        Ok(self.at.pair())
    }

    #[cold]
    fn read_value(&mut self) -> Result<()> {
        self.source.read_value(&mut self.at).map(drop)
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.source.give_back(&mut self.at);
    }
}

#[inline(always)]
fn found(step: Stepped) -> Result<bool> {
    match step {
        Stepped::Pair => Ok(true),
        Stepped::End => Ok(false),
        Stepped::Damaged(error) => Err(error),
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("tree", &self.source.name)
            .field("key", &self.key())
            .finish_non_exhaustive()
    }
}
