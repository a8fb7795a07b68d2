//! All trees of a pool at one moment.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use everleaf_pmem::fallible;
use everleaf_tree::blink::{self, Before, InPast, Stepped};

use crate::cursor::{Cursor, Pair, Source};
use crate::engine::{Cut, Engine, KeyBefore, Move, PoolTree, still};
use crate::range::{Keys, OwnedBounds, Range, copy_bound};
use crate::read_tree::{copy_part, own_reads, sealed};
use crate::{AsBytes, Bytes, KeyRange, ReadTree, Result, Tree};

/// All trees of a pool as they were at one moment, whatever is written later: a read transaction, from
/// [`Db::snapshot`](crate::Db::snapshot).
///
/// A snapshot sees every write that returned before it was made, and no write that began afterwards. Of a
/// [`Batch`](crate::Batch) or a [transaction](crate::Transaction) it sees all or nothing. While it is made, it waits for
/// writes in progress and keeps others out; afterwards nothing waits for it, and it waits for nothing.
///
/// Clones see the same moment, from any thread. The snapshot ends when the last of them, and of the trees, cursors and
/// ranges that come from it, is dropped. It may see writes that are not on disk yet. Nothing of it is on disk: it does not
/// survive the process.
///
/// **Cost.** The first write to a key since the last snapshot keeps the key's old value in
/// memory for as long as a snapshot needs it, and reads it from the disk for that if it is a large one. All old values
/// together take no more than [`Options::snapshot_memory`](crate::Options::snapshot_memory). Beyond that the oldest
/// snapshot expires, and its reads return [`SnapshotTooOld`](crate::Error::SnapshotTooOld). A value that is larger than
/// a quarter of that memory is not kept. Then reads of its key return the same error, and so do `len` and each range,
/// `keys` and cursor that comes to it, in its place; reads of other keys go on. If a value cannot be read when it is
/// replaced, the write goes on, and reads of that key at the snapshot return the error from then on. A write costs one
/// branch more while there is no snapshot. A cursor, a range and `len` at a snapshot cost what they cost in the tree where
/// nothing has changed since, and more by what has changed in the pages that they come through.
///
/// A snapshot knows the trees, and their names, as they were: it sees a tree that was [dropped](crate::Db::drop_tree),
/// [cleared](Tree::clear) or [renamed](crate::Db::rename_tree) since, and no tree that was made later. The space of a tree
/// that was dropped or cleared becomes free when no snapshot from before needs it any more.
///
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
/// let (stock, orders) = (db.tree("stock")?, db.tree("orders")?);
/// stock.put("chair", "4")?;
/// let before = db.snapshot()?;
/// stock.put("chair", "3")?;
/// orders.put("0001", "a chair")?;
/// assert_eq!(before.of(&stock)?.get("chair")?.as_deref(), Some(&b"4"[..]));
/// assert_eq!(before.of(&orders)?.iter().count(), 0);
/// assert_eq!(orders.iter().count(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Snapshot {
    engine: Engine,
    cut: Arc<Cut>,
}

impl Snapshot {
    pub(crate) fn new(engine: Engine) -> Result<Self> {
        let cut = engine.cut()?;
        Ok(Self { engine, cut })
    }

    /// Returns the tree that was called `name`, or `None` if there was none.
    ///
    /// # Errors
    ///
    /// Those of [`Tree::get`]; [`SnapshotTooOld`](crate::Error::SnapshotTooOld).
    pub fn tree(&self, name: &str) -> Result<Option<SnapshotTree>> {
        let found = self.engine.find_tree(name, Some(&self.cut))?;
        let source = |tree| Source { tree, name: name.into(), cut: Some(Arc::clone(&self.cut)) };
        Ok(found.map(source).map(SnapshotTree))
    }

    /// Returns the names that trees had at the moment, in bytewise order, with those that were dropped or renamed since.
    /// The time grows with the number of trees.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// db.tree("stock")?.put("chair", "4")?;
    /// let before = db.snapshot()?;
    /// db.drop_tree("stock")?;
    /// db.tree("orders")?;
    /// assert_eq!(before.tree_names()?, ["stock"]);
    /// assert_eq!(db.tree_names()?, ["orders"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`tree`](Self::tree).
    pub fn tree_names(&self) -> Result<Vec<String>> {
        self.engine.tree_names_at(&self.cut)
    }

    /// Returns a tree as it was at the moment: empty if it was made later.
    ///
    /// # Errors
    ///
    /// [`OtherPool`](crate::Error::OtherPool) if the tree belongs to another pool.
    pub fn of(&self, tree: &Tree) -> Result<SnapshotTree> {
        tree.expect_of(&self.engine)?;
        Ok(SnapshotTree(tree.at(Some(Arc::clone(&self.cut)))))
    }

    pub(crate) fn cut(&self) -> &Cut {
        &self.cut
    }

    /// For a tree of this pool.
    #[inline]
    pub(crate) fn keys_of<'a>(&'a self, tree: &'a Tree) -> KeysAt<'a> {
        KeysAt { tree: &tree.on, cut: &self.cut }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

/// A [`Tree`] at the moment of a [`Snapshot`]. Its reads are those of the tree, which documents them; each may
/// also return [`SnapshotTooOld`](crate::Error::SnapshotTooOld). `len` counts the keys one by one: O(n). It is a
/// [`ReadTree`].
#[derive(Clone)]
pub struct SnapshotTree(Source);

impl SnapshotTree {
    /// Returns the name that the tree was opened with, or had at the moment.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    #[inline]
    fn keys_at(&self) -> KeysAt<'_> {
        let cut = self.0.cut.as_ref().expect("the tree of a snapshot has a moment");
        KeysAt { tree: &self.0.tree, cut }
    }
}

own_reads!(impl [] SnapshotTree { range: Range, keys: Keys, cursor: Cursor } |self| *self);

impl sealed::Sealed for SnapshotTree {}

impl ReadTree for SnapshotTree {
    type Range = Range;
    type Keys = Keys;
    type Cursor = Cursor;

    fn name(&self) -> &str {
        &self.0.name
    }

    #[inline]
    fn get(&self, key: impl AsBytes) -> Result<Option<Bytes>> {
        self.keys_at().get(key.as_bytes())
    }

    fn get_into(&self, key: impl AsBytes, value: &mut Vec<u8>) -> Result<bool> {
        self.keys_at().get_into(key.as_bytes(), value)
    }

    fn read_at(&self, key: impl AsBytes, offset: u64, buf: &mut [u8]) -> Result<Option<usize>> {
        self.keys_at().read_at(key.as_bytes(), offset, buf)
    }

    fn value_len(&self, key: impl AsBytes) -> Result<Option<u64>> {
        self.keys_at().value_len(key.as_bytes())
    }

    fn contains(&self, key: impl AsBytes) -> Result<bool> {
        self.keys_at().contains(key.as_bytes())
    }

    fn len(&self) -> Result<u64> {
        self.keys().try_fold(0, |pairs, key| key.map(|_| pairs + 1))
    }

    fn first(&self) -> Result<Option<Pair>> {
        self.0.pair(Move::First)
    }

    fn last(&self) -> Result<Option<Pair>> {
        self.0.pair(Move::Last)
    }

    fn floor(&self, key: impl AsBytes) -> Result<Option<Pair>> {
        self.0.pair(Move::SeekDown(key.as_bytes()))
    }

    fn ceiling(&self, key: impl AsBytes) -> Result<Option<Pair>> {
        self.0.pair(Move::Seek(key.as_bytes()))
    }

    fn cursor(&self) -> Cursor {
        Cursor::new(self.0.clone())
    }

    fn between(&self, bounds: OwnedBounds) -> Range {
        Range::new(self.0.clone(), bounds)
    }
}

impl IntoIterator for &SnapshotTree {
    type Item = Result<Pair>;
    type IntoIter = Range;

    fn into_iter(self) -> Range {
        self.iter()
    }
}

impl fmt::Debug for SnapshotTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SnapshotTree").field(&self.0.name).finish()
    }
}

/// The value that there was.
fn value_of(before: Before<Vec<u8>>, cut: &Cut) -> Result<Option<Vec<u8>>> {
    match before {
        Before::Absent => Ok(None),
        Before::Value(value) => Ok(Some(value)),
        Before::TooLarge => Err(cut.too_old()),
        Before::Lost(error) => Err(error),
    }
}

/// Reads of single keys at a cut: the tree first, and then what it has no more.
pub(crate) struct KeysAt<'a> {
    tree: &'a PoolTree,
    cut: &'a Cut,
}

impl KeysAt<'_> {
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.read(key, |kept| Ok(kept.map(Bytes::from)), |tree| tree.get(key))
    }

    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let mut kept = None;
        let found = self.read(
            key,
            |before| {
                kept = Some(before);
                Ok(false)
            },
            |tree| tree.get_into(key, value),
        )?;
        Ok(match kept {
            None => found,
            Some(before) => {
                let is_there = before.is_some();
                *value = before.unwrap_or_default();
                is_there
            }
        })
    }

    pub fn read_at(&self, key: &[u8], offset: u64, buf: &mut [u8]) -> Result<Option<usize>> {
        let mut kept = None;
        let read = self.read(
            key,
            |before| {
                kept = Some(before);
                Ok(None)
            },
            |tree| tree.read_at(key, offset, buf),
        )?;
        let Some(before) = kept else { return Ok(read) };
        Ok(before.map(|value| copy_part(&value, offset, buf)))
    }

    pub fn value_len(&self, key: &[u8]) -> Result<Option<u64>> {
        let len = |before: Option<Vec<u8>>| Ok(before.map(|value| value.len() as u64));
        self.read(key, len, |tree| tree.value_len(key))
    }

    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        let is_there = |before: Option<Vec<u8>>| Ok(before.is_some());
        self.read(key, is_there, |tree| tree.contains(key))
    }

    /// Reads a key: from what was kept, or from the tree if nothing was. Only the first look may save time; the
    /// second one counts.
    #[inline(always)]
    fn read<T>(
        &self,
        key: &[u8],
        mut kept: impl FnMut(Option<Vec<u8>>) -> Result<T>,
        mut read: impl FnMut(&PoolTree) -> Result<T>,
    ) -> Result<T> {
        let cut = self.cut;
        of_cut(self.tree, cut, |tree| {
            let (images, until) = (tree.images(), tree.until());
            let mut answer = None;
            let mut before = images.find(cut, until, key)?;
            if before.is_none() {
                answer = Some(read(tree));
                before = images.find(cut, until, key)?;
            }
            if before.is_some() {
                tree.expect_there()?;
            }
            match (before, answer) {
                (Some(before), _) => value_of(before, cut).and_then(&mut kept),
                (None, Some(answer)) => answer,
                (None, None) => unreachable!("one of the two was asked"),
            }
        })
    }
}

/// Reads what a tree was at a cut. It may be cleared or dropped meanwhile: then it is another one.
#[inline(always)]
fn of_cut<T>(now: &PoolTree, cut: &Cut, mut read: impl FnMut(&PoolTree) -> Result<T>) -> Result<T> {
    loop {
        let former = now.former(cut);
        let answer = read(former.as_ref().unwrap_or(now));
        if former.is_some() || now.former(cut).is_none() {
            return cut.alive().and(answer);
        }
    }
}

/// Cursors at a cut.
impl Source {
    /// Takes a cursor to the next pair that there was at a cut: leaf by leaf, as each one was.
    #[inline(never)]
    pub(crate) fn go_at(
        &self,
        cut: &Arc<Cut>,
        at: &mut blink::Cursor,
        to: Move<'_>,
    ) -> Result<Stepped> {
        let up = matches!(to, Move::First | Move::Seek(_) | Move::Next);
        match to {
            Move::First | Move::Last => at.clear(),
            Move::Seek(key) => at.go_beside(key, true)?,
            Move::SeekDown(key) => at.go_beside(key, false)?,
            Move::Next | Move::Prev => {}
        }
        self.tree.expect_open(at)?;
        let mut met = at.step_in_past(up)?;
        loop {
            let from = match met {
                InPast::Pair => return Ok(Stepped::Pair),
                InPast::End(None) => return at.end_past(up),
                InPast::End(Some(bound)) => bound,
                InPast::Astray(no) => return Err(self.tree.leads_astray(no)),
                InPast::Lost(key) => return self.go_past_lost(cut, at, &key, up),
                InPast::Not if at.is_slow_in_past() => return self.go_slowly(cut, at, up),
                InPast::Not => copy_bound(at.bound(up))?,
            };
            self.copy_leaf_at(cut, at, &from, up)?;
            met = at.enter_past(from.as_ref().map(|key| &key[..]), up)?;
            if matches!(met, InPast::Not) {
                return self.go_slowly(cut, at, up);
            }
        }
    }

    /// Copies the leaf in which a cursor goes on, as it was at a cut.
    fn copy_leaf_at(
        &self,
        cut: &Arc<Cut>,
        at: &mut blink::Cursor,
        from: &Bound<Vec<u8>>,
        up: bool,
    ) -> Result<()> {
        let from = from.as_ref().map(|key| &key[..]);
        let copied = of_cut(&self.tree, cut, |tree| {
            tree.copy_leaf(at, from, up)?;
            // A value that has changed before the leaf was copied was kept before that.
            tree.images().tell_changes((cut, tree.until()), at, (from, up))
        });
        still(at, copied)
    }

    /// Goes past a key that had a value at a cut which cannot be told.
    #[cold]
    fn go_past_lost(
        &self,
        cut: &Arc<Cut>,
        at: &mut blink::Cursor,
        key: &[u8],
        up: bool,
    ) -> Result<Stepped> {
        let found = of_cut(&self.tree, cut, |tree| tree.images().find(cut, tree.until(), key));
        if found.is_err() {
            // It has gone past the pair in its copy, and is to be told the same again.
            at.forget_leaf()?;
        }
        let found = found?;
        at.go_past(key, up)?;
        match found.map(|before| value_of(before, cut)) {
            Some(Err(error)) => Ok(Stepped::Damaged(error)),
            // Nobody changes what was kept.
            _ => Err(cut.too_old()),
        }
    }

    /// Takes a cursor to the next pair that there was at a cut, looking at the tree and at what was kept at each step: where
    /// a leaf cannot be copied, or not all of it.
    #[inline(never)]
    fn go_slowly(&self, cut: &Arc<Cut>, at: &mut blink::Cursor, up: bool) -> Result<Stepped> {
        let to = if up { Move::Next } else { Move::Prev };
        let mut from = copy_bound(at.bound(up))?;
        loop {
            let former = self.tree.former(cut);
            let tree = former.as_ref().unwrap_or(&self.tree);
            let step = tree.go(at, to);
            let found = match &step {
                Ok(Stepped::Damaged(_)) | Err(_) => None,
                Ok(_) => self.kept_before(cut, tree, at, (&from, up))?,
            };
            // After both: what was kept since a clear says nothing of what there was before.
            if former.is_none() && self.tree.former(cut).is_some() {
                at.clear();
                let place = copy_bound(from.as_ref().map(|key| &key[..]))?;
                *at = std::mem::take(at).beside(place, up);
                continue;
            }
            cut.alive()?;
            let step = step?;
            let Some((key, before)) = found else { return Ok(step) };
            match value_of(before, cut) {
                Ok(Some(value)) if at.key() == Some(&key[..]) => at.set_value(value)?,
                Ok(Some(value)) => at.go_to_pair(&key, value)?,
                Ok(None) => {
                    // It came later.
                    from = Bound::Excluded(key);
                    continue;
                }
                // The cut is alive, so it is this pair's alone: nothing of its value was kept.
                Err(error) => {
                    at.go_past(&key, up)?;
                    return Ok(Stepped::Damaged(error));
                }
            }
            return Ok(Stepped::Pair);
        }
    }

    /// The first pair from a place on, up to where a cursor is now, of which something was kept.
    #[inline(always)]
    fn kept_before(
        &self,
        cut: &Cut,
        tree: &PoolTree,
        at: &mut blink::Cursor,
        (from, up): (&Bound<Vec<u8>>, bool),
    ) -> Result<Option<KeyBefore>> {
        // A leaf that was copied while nothing had changed shows all its pairs as they were. Else each step
        // comes through here.
        if !tree.images().is_empty() {
            at.forget_copy()?;
        }
        let here = at.key();
        let (near, far) =
            (from.as_ref().map(|key| &key[..]), here.map_or(Bound::Unbounded, Bound::Included));
        let range = if up { (near, far) } else { (far, near) };
        tree.images().next((cut, tree.until()), range, up, here)
    }

    /// Reads a large value of the pair that a cursor is at.
    #[cold]
    pub(crate) fn read_value_at(&self, cut: &Arc<Cut>, at: &mut blink::Cursor) -> Result<bool> {
        let Some(key) = at.key() else { return Ok(false) };
        let key = fallible::copy(key, "the key of a cursor")?;
        of_cut(&self.tree, cut, |tree| {
            let (images, until) = (tree.images(), tree.until());
            if at.key() != Some(&key[..]) {
                // It was in a tree that was dropped in this moment, and knows no place any more.
                at.go_to_key(&key)?;
            }
            let mut answer = Ok(true);
            let mut before = images.find(cut, until, &key)?;
            if before.is_none() {
                answer = tree.read_value(at);
                before = images.find(cut, until, &key)?;
            }
            let Some(before) = before else { return answer };
            tree.expect_there()?;
            match value_of(before, cut)? {
                Some(value) => at.set_value(value).map(|()| true),
                None => Ok(false),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, Options};

    /// Between two looks at what a tree was before it may go, and then the walk goes on in that.
    #[test]
    fn a_cursor_whose_tree_goes_before_its_leaf_is_copied_stays_where_it_is() {
        let db = Options::new().in_memory().expect("opens");
        let tree = db.tree("t").expect("room");
        (0..9).for_each(|n| tree.put([n], "v").expect("room"));
        let snapshot = db.snapshot().expect("open");
        let (now, cut) = (tree.at(None).tree, &snapshot.cut);
        let then = tree.at(Some(Arc::clone(cut)));
        let mut at = blink::Cursor::default();
        at.go_beside(&[4], false).expect("memory");
        assert!(db.drop_tree("t").expect("writable"));
        let copied = now.copy_leaf(&mut at, Bound::Included(&[4]), false);
        assert!(matches!(copied, Err(Error::NoTree)), "{copied:?}");
        assert_eq!(at.bound(false), Bound::Included(&[4][..]));
        for n in (0..5).rev() {
            let step = then.go_at(cut, &mut at, Move::Prev).expect("kept");
            assert!(matches!(step, Stepped::Pair) && at.key() == Some(&[n]), "{n}");
        }
    }
}
