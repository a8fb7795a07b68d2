//! A place in a tree.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jni::Env;
use jni::objects::{JByteArray, JObject};
use jni::sys::{jboolean, jint, jlong};
use store::{Cursor, Db, ReadCursor, Tree};

use crate::bytes::{Taken, give, give_some};
use crate::call::native;
use crate::failure::{Result, invalid};
use crate::read::{AnyTree, either};
use crate::table::{keep, kind};
use crate::transaction::{Shared, Txn};

/// A cursor, for one thread at a time.
pub(crate) struct Place {
    pub(crate) db: Db,
    cursor: Mutex<Over>,
}

kind!(Place, "cursor");

/// What it is over.
enum Over {
    Tree(Box<Cursor>),
    Transaction(Walk),
}

/// A cursor of a transaction. One of the library would borrow the transaction, so each step makes one for itself.
struct Walk {
    shared: Arc<Shared>,
    tree: Tree,
    at: At,
}

enum At {
    New,
    Pair(Vec<u8>, Vec<u8>),
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
        let Self { shared, tree, at } = self;
        shared.with(|transaction| {
            let mut cursor = transaction.of(tree)?.cursor();
            // The key that it was at or beside, and whether that counts as passed by a step in this direction.
            let from = match &*at {
                At::New => None,
                At::Pair(last, _) => Some((last, true)),
                At::Gap(last, above) => Some((last, *above == (to == 2))),
            };
            let is_there = match (to, from) {
                (2, Some((last, passed))) => {
                    cursor.seek(last)?
                        && (!passed || cursor.key() != Some(&last[..]) || cursor.next()?)
                }
                (3, Some((last, passed))) => {
                    cursor.seek_for_prev(last)?
                        && (!passed || cursor.key() != Some(&last[..]) || cursor.prev()?)
                }
                _ => go(&mut cursor, to, key)?,
            };
            *at = match cursor.pair()? {
                Some((key, value)) if is_there => At::Pair(key.to_vec(), value.to_vec()),
                _ => match (to, key, from) {
                    (2 | 3, _, Some((last, _))) => At::Gap(last.clone(), to == 2),
                    (4 | 5, Some(key), _) => At::Gap(key.to_vec(), to == 5),
                    _ => At::New,
                },
            };
            Ok(is_there)
        })
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
        _ => return Err(invalid("the key is null")),
    }?)
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
        let walk = Walk { shared: Arc::clone(&txn.shared), tree, at: At::New };
        keep(Place { db: txn.db.clone(), cursor: Mutex::new(Over::Transaction(walk)) })
    }
}
