//! Trees by name, and trees as a snapshot sees them: all that can read one can read the other.

use std::ops::Bound;

use jni::Env;
use jni::objects::JByteArray;
use jni::sys::{jboolean, jint, jlong};
use store::{Db, Error, Pair, ReadTree, SnapshotTree, Tree};

use crate::bytes::{Taken, expect_fits, give, give_some, give_values, pack, signed, unpack};
use crate::call::native;
use crate::failure::{Failure, Result, invalid};
use crate::table::kind;

/// A tree that can be read.
pub(crate) struct AnyTree {
    pub(crate) db: Db,
    pub(crate) is: Which,
}

pub(crate) enum Which {
    Now(Tree),
    Then(SnapshotTree),
}

kind!(AnyTree, "tree");

impl AnyTree {
    pub(crate) fn now(db: &Db, tree: Tree) -> Self {
        Self { db: db.clone(), is: Which::Now(tree) }
    }

    pub(crate) fn then(db: &Db, tree: SnapshotTree) -> Self {
        Self { db: db.clone(), is: Which::Then(tree) }
    }

    /// The tree, to write to it.
    #[inline]
    pub(crate) fn writable(&self) -> Result<&Tree> {
        match &self.is {
            Which::Now(tree) => Ok(tree),
            Which::Then(_) => Err(Error::ReadOnly.into()),
        }
    }
}

/// Does the same with a tree as it is now and as a snapshot sees it.
macro_rules! either {
    ($tree:expr, $one:ident => $body:expr) => {
        match &$tree.is {
            $crate::read::Which::Now($one) => $body,
            $crate::read::Which::Then($one) => $body,
        }
    };
}

pub(crate) use either;

/// A range of keys, as Java gives it.
pub(crate) struct Keys {
    pub(crate) from: Bound<Vec<u8>>,
    pub(crate) to: Bound<Vec<u8>>,
}

/// Flags of a range and of a scan, as in `Range` of Java.
const FROM_EXCLUDED: jint = 1;
const TO_INCLUDED: jint = 2;
pub(crate) const REVERSE: jint = 4;
pub(crate) const KEYS_ONLY: jint = 8;

impl Keys {
    pub(crate) fn new(
        env: &Env<'_>,
        (from, to): (&JByteArray<'_>, &JByteArray<'_>),
        flags: jint,
    ) -> Result<Self> {
        let owned =
            |array| Ok::<_, Failure>(Taken::some(env, array)?.map(|key| key.bytes().to_vec()));
        let (from, to) = (owned(from)?, owned(to)?);
        let from = match from {
            None => Bound::Unbounded,
            Some(key) if flags & FROM_EXCLUDED != 0 => Bound::Excluded(key),
            Some(key) => Bound::Included(key),
        };
        let to = match to {
            None => Bound::Unbounded,
            Some(key) if flags & TO_INCLUDED != 0 => Bound::Included(key),
            Some(key) => Bound::Excluded(key),
        };
        Ok(Self { from, to })
    }

    pub(crate) fn of(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.from.as_ref().map(Vec::as_slice), self.to.as_ref().map(Vec::as_slice))
    }

    /// Whether no key can lie in it.
    pub(crate) fn is_empty(&self) -> bool {
        match (&self.from, &self.to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (
                Bound::Included(from) | Bound::Excluded(from),
                Bound::Included(to) | Bound::Excluded(to),
            ) => from >= to,
            _ => false,
        }
    }
}

/// The pair at an end of a tree, or beside a key.
pub(crate) fn edge(tree: &impl ReadTree, which: jint, key: Option<&Taken>) -> Result<Option<Pair>> {
    let key = key.map(Taken::bytes);
    match (which, key) {
        (0, _) => Ok(tree.first()?),
        (1, _) => Ok(tree.last()?),
        (2, Some(key)) => Ok(tree.floor(key)?),
        (3, Some(key)) => Ok(tree.ceiling(key)?),
        _ => Err(invalid("the key is null")),
    }
}

/// A pair for Java: both pieces in one array, or null.
pub(crate) fn give_pair<'l>(env: &mut Env<'l>, pair: Option<Pair>) -> Result<JByteArray<'l>> {
    let packed = pair.map(|(key, value)| pack([&key[..], &value[..]]));
    give_some(env, packed.as_deref())
}

/// Refuses to remove a value that could not be given.
pub(crate) fn expect_value_fits(tree: &impl ReadTree, key: &Taken) -> Result<()> {
    expect_fits(tree.value_len(key.bytes())?.unwrap_or(0))
}

/// The same of the pair at an end, which is given in one array.
pub(crate) fn expect_pair_fits(tree: &store::Tree, last: bool) -> Result<()> {
    let mut keys = tree.keys();
    let key = if last { keys.next_back() } else { keys.next() };
    let Some(key) = key.transpose()? else { return Ok(()) };
    let value = tree.value_len(&key)?.unwrap_or(0);
    // Two lengths of four bytes.
    expect_fits(value + key.len() as u64 + 8)
}

/// A value for Java, or null.
#[inline]
pub(crate) fn give_value<'l>(
    env: &mut Env<'l>,
    tree: &impl ReadTree,
    key: &Taken,
) -> Result<JByteArray<'l>> {
    match tree.get_with(key.bytes(), |value| give(env, value))? {
        Some(array) => array,
        None => Ok(JByteArray::default()),
    }
}

/// Copies a part of a value to an array of Java; the bytes that were copied, or -1 if the key is not there.
pub(crate) fn copy_part(
    env: &Env<'_>,
    tree: &impl ReadTree,
    key: &Taken,
    offset: jlong,
    (into, at, len): (&JByteArray<'_>, jint, jint),
) -> Result<jint> {
    let no_place = |_| invalid("an offset or a length is below 0");
    let (offset, len) =
        (u64::try_from(offset).map_err(no_place)?, usize::try_from(len).map_err(no_place)?);
    let mut part = Vec::new();
    let no_memory = |_| Error::NoMemory { what: "a part of a value", bytes: len };
    part.try_reserve_exact(len).map_err(no_memory)?;
    part.resize(len, 0);
    let Some(copied) = tree.read_at(key.bytes(), offset, &mut part)? else { return Ok(-1) };
    into.set_region(env, at, signed(&part[..copied]))?;
    Ok(copied as jint)
}

native! {
    fn read_get(env, tree: AnyTree, key: JByteArray<'l>) -> JByteArray<'l> {
        let key = Taken::new(env, &key)?;
        either!(tree, tree => give_value(env, tree, &key))
    }
}

native! {
    /// The values of packed keys, packed.
    fn read_get_many(env, tree: AnyTree, keys: JByteArray<'l>) -> JByteArray<'l> {
        let keys = Taken::new(env, &keys)?;
        let keys = unpack(keys.bytes())?;
        let values = either!(tree, tree => tree.get_many(keys))?;
        give_values(env, &values)
    }
}

native! {
    fn read_contains(env, tree: AnyTree, key: JByteArray<'l>) -> jboolean {
        let key = Taken::new(env, &key)?;
        Ok(either!(tree, tree => tree.contains(key.bytes()))?)
    }
}

native! {
    /// The bytes of a value, or -1.
    fn read_value_len(env, tree: AnyTree, key: JByteArray<'l>) -> jlong {
        let key = Taken::new(env, &key)?;
        let len = either!(tree, tree => tree.value_len(key.bytes()))?;
        Ok(len.map_or(-1, |len| len as jlong))
    }
}

native! {
    fn read_at(
        env, tree: AnyTree, key: JByteArray<'l>, offset: jlong, into: JByteArray<'l>, at: jint, len: jint
    ) -> jint {
        let key = Taken::new(env, &key)?;
        either!(tree, tree => copy_part(env, tree, &key, offset, (&into, at, len)))
    }
}

native! {
    fn read_len(_env, tree: AnyTree) -> jlong {
        Ok(either!(tree, tree => tree.len())? as jlong)
    }
}

native! {
    fn read_is_empty(_env, tree: AnyTree) -> jboolean {
        Ok(either!(tree, tree => tree.is_empty())?)
    }
}

native! {
    fn read_edge(env, tree: AnyTree, which: jint, key: JByteArray<'l>) -> JByteArray<'l> {
        let key = Taken::some(env, &key)?;
        let pair = either!(tree, tree => edge(tree, which, key.as_ref()))?;
        give_pair(env, pair)
    }
}
