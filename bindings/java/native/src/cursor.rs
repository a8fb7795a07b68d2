//! A place in a tree.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jni::objects::JByteArray;
use jni::sys::{jboolean, jint, jlong};
use store::{Cursor, Db};

use crate::bytes::{Taken, give_some};
use crate::call::native;
use crate::failure::invalid;
use crate::read::{AnyTree, either};
use crate::table::{keep, kind};

/// A cursor, for one thread at a time.
pub(crate) struct Place {
    pub(crate) db: Db,
    cursor: Mutex<Cursor>,
}

kind!(Place, "cursor");

impl Place {
    pub(crate) fn new(db: &Db, cursor: Cursor) -> Self {
        Self { db: db.clone(), cursor: Mutex::new(cursor) }
    }

    fn lock(&self) -> MutexGuard<'_, Cursor> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

native! {
    /// Goes somewhere: to the first pair (0), the last one (1), the next one (2), the one before (3), to a key or the first
    /// one above it (4), to a key or the last one below it (5).
    fn cursor_go(env, place: Place, to: jint, key: JByteArray<'l>) -> jboolean {
        place.db.expect_open()?;
        let key = Taken::some(env, &key)?;
        let mut cursor = place.lock();
        Ok(match (to, &key) {
            (0, _) => cursor.first(),
            (1, _) => cursor.last(),
            (2, _) => cursor.next(),
            (3, _) => cursor.prev(),
            (4, Some(key)) => cursor.seek(key.bytes()),
            (5, Some(key)) => cursor.seek_for_prev(key.bytes()),
            _ => return Err(invalid("the key is null")),
        }?)
    }
}

native! {
    fn cursor_key(env, place: Place) -> JByteArray<'l> {
        place.db.expect_open()?;
        give_some(env, place.lock().key())
    }
}

native! {
    fn cursor_value(env, place: Place) -> JByteArray<'l> {
        place.db.expect_open()?;
        give_some(env, place.lock().value()?)
    }
}

native! {
    fn read_cursor(_env, tree: AnyTree) -> jlong {
        tree.db.expect_open()?;
        keep(Place::new(&tree.db, either!(tree, tree => tree.cursor())))
    }
}
