//! Many pairs in ascending order.

use everleaf_pmem::fallible;

use crate::limits::{check_key, check_value};
use crate::{AsBytes, Error, Result, Tree};

/// So many pages of pairs are kept before some are put.
const CHUNK_PAGES: usize = 16;
/// So many pages of pairs are kept back then, because they may fill a leaf together with what comes.
const KEPT_PAGES: usize = 4;
/// Bytes that a pair takes in a leaf beside its own, at least.
const PAIR_BYTES: usize = 8;
/// Of a key at least this part counts, however much of it is that of the key before.
const KEY_PART: usize = 16;
/// A leaf that could not be filled is a reason to put so many pairs one by one, at most.
const ALONE_MAX: usize = 64;

const PAIRS: &str = "the pairs of a load";

/// An item that [`Tree::load_sorted`] takes: a pair of [byte strings](AsBytes), a reference to one, or a `Result` of one,
/// whose error the load returns.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no pair of byte strings",
    label = "each item is `(key, value)`, `&(key, value)`, or a `Result` of that whose error is `From<everleaf::Error>`",
    note = "keys and values are byte strings: `&str`, `String`, `Vec<u8>`, `&[u8]`, `[u8; N]` and the like; an integer \
            becomes one by `everleaf::keys::encode(n)`"
)]
pub trait IntoPair {
    /// The type of the key.
    type Key: AsBytes;
    /// The type of the value.
    type Value: AsBytes;
    /// The error that may come in place of a pair, and that the load returns.
    type Error: From<Error>;

    /// Returns the pair.
    ///
    /// # Errors
    ///
    /// The error that comes in place of the pair.
    fn into_pair(self) -> Result<(Self::Key, Self::Value), Self::Error>;
}

#[diagnostic::do_not_recommend]
impl<K: AsBytes, V: AsBytes> IntoPair for (K, V) {
    type Key = K;
    type Value = V;
    type Error = Error;

    fn into_pair(self) -> Result<(K, V)> {
        Ok(self)
    }
}

#[diagnostic::do_not_recommend]
impl<'p, K: AsBytes, V: AsBytes> IntoPair for &'p (K, V) {
    type Key = &'p K;
    type Value = &'p V;
    type Error = Error;

    fn into_pair(self) -> Result<(&'p K, &'p V)> {
        Ok((&self.0, &self.1))
    }
}

#[diagnostic::do_not_recommend]
impl<K: AsBytes, V: AsBytes, E: From<Error>> IntoPair for Result<(K, V), E> {
    type Key = K;
    type Value = V;
    type Error = E;

    fn into_pair(self) -> Self {
        self
    }
}

impl Tree {
    /// Sets the values of keys that come in ascending order, and returns how many pairs there were. It does what a
    /// [`put`](Tree::put) of each pair does, but faster on a file: pairs that fill a leaf of the tree get there in one step,
    /// and leave it full, so that the tree takes less room, too. Where other keys lie between them, pairs are put one
    /// by one, as are long keys and values. Use it to fill an empty tree, or to add pairs behind all others.
    ///
    /// Other threads may read and write the tree meanwhile; they see pairs come, in order. An open snapshot does
    /// not see them. No lock is held while `pairs` is asked for the next one; it may wait, and may use the pool.
    ///
    /// The load is not one operation. About 16 pages of pairs gather in memory before some are put, so the last pairs
    /// that `pairs` has given are not in the tree yet while it waits. A pair is on disk one interval and two syncs
    /// after it was put (or the whole load when it returns, if the [durability](Tree::with) of the handle is
    /// [`Durability::Sync`](crate::Durability::Sync)). After a crash the first pairs are there, up to some pair.
    ///
    /// `pairs` gives pairs, references to pairs, or a `Result` of each: another tree is copied with
    /// `copy.load_sorted(tree.iter())`.
    ///
    /// O(bytes) for pairs that fill leaves, and O(log n) for each other one.
    ///
    /// # Errors
    ///
    /// - [`NotAscending`](crate::Error::NotAscending) if a key is not above the one before it: equal keys are
    ///   refused, too. It names the position. A key of your own type that is asked for its bytes again, and returns
    ///   others, is judged by those.
    /// - Those of [`put`](Tree::put).
    /// - The error that comes in place of a pair.
    ///
    /// The pairs before the one with the error are in the tree, and stay there; the call does not wait until they are on
    /// disk. If the pool or the disk is full, or an allocation failed, the last of them may be missing; [`Tree::last`] tells
    /// where to go on.
    ///
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = everleaf::Db::open(dir.path().join("p.ever"))?;
    /// let squares = db.tree("squares")?;
    /// let pairs = (0..10_000_u64).map(|n| (n.to_be_bytes(), (n * n).to_le_bytes()));
    /// assert_eq!(squares.load_sorted(pairs)?, 10_000);
    /// assert_eq!(squares.get(12_u64.to_be_bytes())?, Some(144_u64.to_le_bytes().into()));
    /// db.sync()?; // all of them are on disk
    ///
    /// let error = squares.load_sorted([("b", "1"), ("a", "2")]).unwrap_err();
    /// assert!(matches!(error, everleaf::Error::NotAscending { position: 1 }));
    /// # assert!(squares.contains("b")?);
    ///
    /// let copy = db.tree("copy")?;
    /// assert_eq!(copy.load_sorted(squares.range(..100_u64.to_be_bytes()))?, 100);
    /// # Ok(())
    /// # }
    /// ```
    pub fn load_sorted<P: IntoPair>(
        &self,
        pairs: impl IntoIterator<Item = P>,
    ) -> Result<u64, P::Error> {
        self.on.expect_loadable()?;
        let mut load =
            Load { tree: self, waiting: Vec::new(), bytes: 0, taken: 0, alone: Alone::default() };
        for pair in pairs {
            let taken = pair.into_pair().and_then(|(key, value)| Ok(load.take(key, value)?));
            if let Err(error) = taken {
                // Pairs that were taken before are not lost for that; if they cannot be put, the error is the same or worse.
                load.put_all()?;
                return Err(error);
            }
        }
        load.put_all()?;
        self.settle()?;
        Ok(load.taken)
    }
}

/// A load that is under way.
struct Load<'t, K, V> {
    tree: &'t Tree,
    /// Pairs that were taken and not put, in order, and how many bytes they have.
    waiting: Vec<BufferedPair<K, V>>,
    bytes: usize,
    taken: u64,
    alone: Alone,
}

struct BufferedPair<K, V> {
    key: K,
    value: V,
    bytes: usize,
}

/// How many pairs are still to be put one by one before a leaf is looked at, and how many it will be next time.
#[derive(Default)]
struct Alone {
    left: usize,
    next: usize,
}

/// How many bytes a key has in common with the one before it, from its beginning on, and whether it is above that.
#[inline(always)]
fn beside(last: &[u8], key: &[u8]) -> (usize, bool) {
    match (last.first_chunk(), key.first_chunk()) {
        // As a rule these decide.
        (Some(last), Some(key)) if last != key => {
            let (last, key) = (u64::from_be_bytes(*last), u64::from_be_bytes(*key));
            ((last ^ key).leading_zeros() as usize / 8, last < key)
        }
        _ => (last.iter().zip(key).take_while(|(a, b)| a == b).count(), last < key),
    }
}

impl<K: AsBytes, V: AsBytes> Load<'_, K, V> {
    #[inline(always)]
    fn take(&mut self, key: K, value: V) -> Result<()> {
        let (key_bytes, value_bytes) = (key.as_bytes(), value.as_bytes());
        check_key(key_bytes)?;
        check_value(value_bytes)?;
        // The last one is kept, so there is none only before the first.
        let key_part = match self.waiting.last() {
            None => key_bytes.len(),
            Some(last) => {
                let (common, is_above) = beside(last.key.as_bytes(), key_bytes);
                if !is_above {
                    return Err(Error::NotAscending { position: self.taken });
                }
                (key_bytes.len() - common).max(key_bytes.len() / KEY_PART)
            }
        };
        // About what it takes in a leaf, rather less.
        let bytes = PAIR_BYTES + key_part + value_bytes.len();
        fallible::push(&mut self.waiting, BufferedPair { key, value, bytes }, PAIRS)?;
        self.bytes += bytes;
        self.taken += 1;
        let page_bytes = self.tree.on.geometry().page_bytes();
        match self.bytes >= CHUNK_PAGES * page_bytes {
            // The last key is kept: the next one is to be above it.
            true => self.put(1, KEPT_PAGES * page_bytes),
            false => Ok(()),
        }
    }

    fn put_all(&mut self) -> Result<()> {
        self.put(0, 0)
    }

    /// Puts pairs until so many are left, or fewer bytes.
    fn put(&mut self, pairs_left: usize, mut bytes_left: usize) -> Result<()> {
        let count = self.waiting.len().saturating_sub(pairs_left);
        let mut pairs = fallible::list(count, PAIRS)?;
        let waiting = self.waiting.iter().take(count);
        pairs.extend(waiting.clone().map(|pair| (pair.key.as_bytes(), pair.value.as_bytes())));
        // A leaf is filled as if they ascended, and a key of the caller's own type may be another one by now.
        let next = pairs.get(1..).unwrap_or_default();
        let descends = pairs.iter().zip(next).position(|(last, next)| !beside(last.0, next.0).1);
        if let Some(at) = descends {
            pairs.truncate(at + 1);
            bytes_left = 0;
        }
        let (tree, mut done) = (&self.tree.on, 0);
        while let rest @ [(key, value), ..] = &pairs[done..]
            && self.bytes > bytes_left
        {
            let filled = if self.alone.left == 0 { tree.fill_leaf(rest)? } else { 0 };
            if filled == 0 {
                tree.put(key, value)?;
            }
            self.alone.note(filled > 0);
            let put = waiting.clone().skip(done).take(filled.max(1));
            self.bytes -= put.map(|pair| pair.bytes).sum::<usize>();
            done += filled.max(1);
        }
        drop(pairs);
        let Some(at) = descends else {
            drop(self.waiting.drain(..done));
            return Ok(());
        };
        let position = self.taken - (self.waiting.len() - at - 1) as u64;
        // It ends there.
        (self.waiting, self.bytes) = (Vec::new(), 0);
        Err(Error::NotAscending { position })
    }
}

impl Alone {
    /// A leaf was filled, or a pair was put.
    fn note(&mut self, has_filled: bool) {
        if has_filled {
            *self = Self::default();
        } else if self.left > 0 {
            self.left -= 1;
        } else {
            self.next = (2 * self.next + 1).min(ALONE_MAX);
            self.left = self.next;
        }
    }
}
