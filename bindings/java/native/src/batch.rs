//! Changes to any trees of a pool that a crash keeps or loses together.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jni::objects::{JByteArray, JObject};
use jni::sys::{jint, jlong};
use store::{Batch, Db};

use crate::bytes::Taken;
use crate::call::native;
use crate::read::AnyTree;
use crate::table::{find, kind};

/// A batch that can be filled again after a commit.
pub(crate) struct Changes {
    pub(crate) db: Db,
    batch: Mutex<Batch>,
}

kind!(Changes, "batch");

impl Changes {
    /// An empty one, as durable as this handle of the pool says.
    pub(crate) fn new(db: Db) -> Self {
        Self { batch: Mutex::new(db.batch()), db }
    }

    fn lock(&self) -> MutexGuard<'_, Batch> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

native! {
    fn batch_put(env, changes: Changes, _tree: JObject<'l>, tree: jlong, key: JByteArray<'l>, value: JByteArray<'l>) {
        let tree = find::<AnyTree>(tree)?;
        let (key, value) = (Taken::new(env, &key)?, Taken::new(env, &value)?);
        Ok(changes.lock().put(tree.writable()?, key.bytes(), value.bytes())?)
    }
}

native! {
    fn batch_delete(env, changes: Changes, _tree: JObject<'l>, tree: jlong, key: JByteArray<'l>) {
        let tree = find::<AnyTree>(tree)?;
        let key = Taken::new(env, &key)?;
        Ok(changes.lock().delete(tree.writable()?, key.bytes())?)
    }
}

native! {
    fn batch_len(_env, changes: Changes) -> jint {
        Ok(changes.lock().len() as jint)
    }
}

native! {
    fn batch_commit(_env, changes: Changes) {
        changes.db.expect_open()?;
        // Without the lock: a commit may wait for the disk.
        let batch = mem::replace(&mut *changes.lock(), changes.db.batch());
        Ok(batch.commit()?)
    }
}

native! {
    fn batch_clear(_env, changes: Changes) {
        *changes.lock() = changes.db.batch();
        Ok(())
    }
}
