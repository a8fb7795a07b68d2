//! A place in a tree.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jni::Env;
use jni::objects::{JByteArray, JObject};
use jni::sys::{jboolean, jint, jlong};
use store::scan::goes_on_behind;
use store::{Cursor, Db, ReadCursor, Tree};

use crate::bytes::{Taken, give, give_some};
use crate::call::native;
use crate::failure::{Failure, Result, invalid};
use crate::read::{AnyTree, either};
use crate::table::{keep, kind};
use crate::transaction::{Shared, Txn};

/// A cursor, for one thread at a time.
pub(crate) struct Place {
    pub(crate) db: Db,
    cursor: Mutex<Over>,
}

kind!(Place, "cursor");

/// The tree or transaction that it is over.
enum Over {
    Tree(Box<Cursor>),
    Transaction(Walk),
}

/// A cursor of a transaction. One of the library would borrow the transaction, so each step makes one for itself.
struct Walk {
    shared: Arc<Shared>,
    tree: Tree,
    at: At,
    /// Steps from there that have failed, one behind the other: upwards or downwards, and how many. They tell no key.
    failed: (bool, usize),
}

enum At {
    New,
    Pair(Vec<u8>, Vec<u8>),
    /// At the key of a pair whose value cannot be read.
    Lost(Vec<u8>),
    /// Beside a key, at no pair: above it, or else below it.
    Gap(Vec<u8>, bool),
}

impl Place {
    pub(crate) fn new(db: &Db, cursor: Cursor) -> Self {
        Self { db: db.clone(), cursor: Mutex::new(Over::Tree(Box::new(cursor))) }
    }

    fn lock(&self) -> MutexGuard<'_, Over> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Walk {
    /// A part of the pair, or null if it is at none.
    fn give<'l>(
        &self,
        env: &mut Env<'l>,
        part: impl for<'p> FnOnce(&'p [u8], &'p [u8]) -> &'p [u8],
    ) -> Result<JByteArray<'l>> {
        self.shared.with(|_| Ok(()))?;
        match &self.at {
            At::Pair(key, value) => give(env, part(key, value)),
            _ => Ok(JByteArray::default()),
        }
    }

    fn go(&mut self, to: jint, key: Option<&[u8]>) -> Result<bool> {
        if matches!((to, key), (4 | 5, None)) {
            return Err(no_key());
        }
        let up = matches!(to, 0 | 2 | 4);
        let is_step = matches!(to, 2 | 3);
        if !is_step {
            self.at = key.map_or(At::New, |key| At::Gap(key.to_vec(), !up));
        }
        if !is_step || self.failed.0 != up {
            self.failed = (up, 0);
        }
        let Self { shared, tree, at, failed } = self;
        shared.with(|transaction| {
            let mut cursor = transaction.of(tree)?.cursor();
            // The key that it was at or beside, and whether that counts as passed by a step in this direction.
            let from = match &*at {
                At::New => None,
                At::Pair(last, _) | At::Lost(last) => Some((last.clone(), true)),
                At::Gap(last, above) => Some((last.clone(), *above == up)),
            };
            let is_there = match &from {
                Some((last, passed)) => {
                    let near = if up { cursor.seek(last) } else { cursor.seek_for_prev(last) };
                    go_on(&mut cursor, up, near, passed.then_some(last), failed.1)
                }
                None => {
                    let end = if up { cursor.first() } else { cursor.last() };
                    go_on(&mut cursor, up, end, None, failed.1)
                }
            };
            let is_there = is_there.inspect_err(|error| {
                failed.1 += usize::from(goes_on_behind(error));
                if let Some((last, passed)) = &from {
                    *at = At::Gap(last.clone(), *passed == up);
                }
            })?;
            match cursor.pair() {
                Ok(Some((key, value))) => *at = At::Pair(key.to_vec(), value.to_vec()),
                Ok(None) => {
                    if let (true, Some((last, _))) = (is_step, from) {
                        *at = At::Gap(last, up);
                    }
                    return Ok(is_there);
                }
                Err(error) => {
                    *at = cursor.key().map_or(At::New, |key| At::Lost(key.to_vec()));
                    failed.1 = 0;
                    return Err(error.into());
                }
            }
            failed.1 = 0;
            Ok(is_there)
        })
    }
}

/// Goes on in a direction until it is at another key than `passed`, over as many steps that fail as were `told`.
fn go_on(
    cursor: &mut impl ReadCursor,
    up: bool,
    mut found: store::Result<bool>,
    passed: Option<&Vec<u8>>,
    mut told: usize,
) -> store::Result<bool> {
    loop {
        match &found {
            Ok(true)
                if cursor.key().is_some_and(|key| passed.is_some_and(|last| *last == *key)) => {}
            Err(error) if told > 0 && goes_on_behind(error) => told -= 1,
            _ => return found,
        }
        found = if up { cursor.next() } else { cursor.prev() };
    }
}

/// Goes somewhere, as `cursor_go` says.
fn go(cursor: &mut impl ReadCursor, to: jint, key: Option<&[u8]>) -> Result<bool> {
    Ok(match (to, key) {
        (0, _) => cursor.first(),
        (1, _) => cursor.last(),
        (2, _) => cursor.next(),
        (3, _) => cursor.prev(),
        (4, Some(key)) => cursor.seek(key),
        (5, Some(key)) => cursor.seek_for_prev(key),
        _ => return Err(no_key()),
    }?)
}

#[cold]
fn no_key() -> Failure {
    invalid("the key is null")
}

native! {
    /// Goes somewhere: to the first pair (0), the last one (1), the next one (2), the one before (3), to a key or the first
    /// one above it (4), to a key or the last one below it (5).
    fn cursor_go(env, place: Place, to: jint, key: JByteArray<'l>) -> jboolean {
        place.db.expect_open()?;
        let key = Taken::some(env, &key)?;
        let key = key.as_ref().map(Taken::bytes);
        match &mut *place.lock() {
            Over::Tree(cursor) => go(&mut **cursor, to, key),
            Over::Transaction(walk) => walk.go(to, key),
        }
    }
}

native! {
    fn cursor_key(env, place: Place) -> JByteArray<'l> {
        place.db.expect_open()?;
        match &*place.lock() {
            Over::Tree(cursor) => give_some(env, cursor.key()),
            Over::Transaction(walk) => walk.give(env, |key, _| key),
        }
    }
}

native! {
    fn cursor_value(env, place: Place) -> JByteArray<'l> {
        place.db.expect_open()?;
        match &mut *place.lock() {
            Over::Tree(cursor) => give_some(env, cursor.value()?),
            Over::Transaction(walk) => walk.give(env, |_, value| value),
        }
    }
}

native! {
    fn read_cursor(_env, tree: AnyTree) -> jlong {
        tree.db.expect_open()?;
        keep(Place::new(&tree.db, either!(tree, tree => tree.cursor())))
    }
}

native! {
    fn txn_cursor(_env, txn: Txn, _tree: JObject<'l>, tree: jlong) -> jlong {
        let tree = txn.with(tree, |txn, tree| {
            txn.of(tree)?;
            Ok(tree.clone())
        })?;
        let walk = Walk { shared: Arc::clone(&txn.shared), tree, at: At::New, failed: (true, 0) };
        keep(Place { db: txn.db.clone(), cursor: Mutex::new(Over::Transaction(walk)) })
    }
}
