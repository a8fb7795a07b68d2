//! Reads and writes of which all take effect or none.

use std::sync::{Arc, Mutex, PoisonError};

use jni::objects::{JByteArray, JObject};
use jni::sys::{jboolean, jint, jlong};
use store::{Attempts, Db, Error, Swap, Transaction};

use crate::bytes::{Taken, give_some, give_values, unpack};
use crate::call::native;
use crate::failure::{Failure, Result};
use crate::read::{AnyTree, Keys, copy_part, edge, expect_value_fits, give_pair, give_value};
use crate::table::{find, kind};

/// A transaction, until it is committed or aborted.
pub(crate) struct Txn {
    pub(crate) db: Db,
    pub(crate) shared: Arc<Shared>,
}

kind!(Txn, "transaction");

impl Txn {
    pub(crate) fn new(db: &Db, transaction: Transaction) -> Self {
        Self { db: db.clone(), shared: Arc::new(Shared(Mutex::new(Some(transaction)))) }
    }

    /// Does something with a tree in the transaction.
    pub(crate) fn with<T>(
        &self,
        tree: jlong,
        run: impl FnOnce(&Transaction, &store::Tree) -> Result<T>,
    ) -> Result<T> {
        let tree = find::<AnyTree>(tree)?;
        let tree = tree.writable()?;
        self.shared.with(|transaction| run(transaction, tree))
    }
}

impl Drop for Txn {
    /// A scan must not keep what the transaction sees.
    fn drop(&mut self) {
        let _ = self.shared.take();
    }
}

/// The state that a transaction and its scans share.
pub(crate) struct Shared(Mutex<Option<Transaction>>);

impl Shared {
    /// Does something with the transaction, unless it has ended.
    pub(crate) fn with<T>(&self, run: impl FnOnce(&Transaction) -> Result<T>) -> Result<T> {
        let transaction = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        run(transaction.as_ref().ok_or(Failure::Gone("transaction"))?)
    }

    fn take(&self) -> Result<Transaction> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.ok_or(Failure::Gone("transaction"))
    }
}

/// The attempts of a transaction that Java runs until nobody is in its way.
pub(crate) struct Tries {
    pub(crate) db: Db,
    attempts: Mutex<Attempts>,
}

kind!(Tries, "transaction");

impl Tries {
    pub(crate) fn new(db: &Db, most: u32) -> Self {
        Self { db: db.clone(), attempts: Mutex::new(db.attempts(most)) }
    }
}

native! {
    fn txn_get(env, txn: Txn, _tree: JObject<'l>, tree: jlong, key: JByteArray<'l>) -> JByteArray<'l> {
        let key = Taken::new(env, &key)?;
        txn.with(tree, |txn, tree| give_value(env, &txn.of(tree)?, &key))
    }
}

native! {
    /// The values of packed keys, packed.
    fn txn_get_many(env, txn: Txn, _tree: JObject<'l>, tree: jlong, keys: JByteArray<'l>) -> JByteArray<'l> {
        let keys = Taken::new(env, &keys)?;
        let keys = unpack(keys.bytes())?;
        let values = txn.with(tree, |txn, tree| Ok(txn.get_many(tree, keys)?))?;
        give_values(env, &values)
    }
}

native! {
    fn txn_contains(env, txn: Txn, _tree: JObject<'l>, tree: jlong, key: JByteArray<'l>) -> jboolean {
        let key = Taken::new(env, &key)?;
        txn.with(tree, |txn, tree| Ok(txn.contains(tree, key.bytes())?))
    }
}

native! {
    fn txn_value_len(env, txn: Txn, _tree: JObject<'l>, tree: jlong, key: JByteArray<'l>) -> jlong {
        let key = Taken::new(env, &key)?;
        let len = txn.with(tree, |txn, tree| Ok(txn.value_len(tree, key.bytes())?))?;
        Ok(len.map_or(-1, |len| len as jlong))
    }
}

native! {
    fn txn_read_at(
        env, txn: Txn, _tree: JObject<'l>, tree: jlong, key: JByteArray<'l>, offset: jlong, into: JByteArray<'l>, at: jint,
        len: jint
    ) -> jint {
        let key = Taken::new(env, &key)?;
        txn.with(tree, |txn, tree| copy_part(env, &txn.of(tree)?, &key, offset, (&into, at, len)))
    }
}

native! {
    fn txn_len(_env, txn: Txn, _tree: JObject<'l>, tree: jlong) -> jlong {
        txn.with(tree, |txn, tree| Ok(txn.len(tree)? as jlong))
    }
}

native! {
    fn txn_edge(env, txn: Txn, _tree: JObject<'l>, tree: jlong, which: jint, key: JByteArray<'l>) -> JByteArray<'l> {
        let key = Taken::some(env, &key)?;
        let pair = txn.with(tree, |txn, tree| edge(&txn.of(tree)?, which, key.as_ref()))?;
        give_pair(env, pair)
    }
}

native! {
    fn txn_put(env, txn: Txn, _tree: JObject<'l>, tree: jlong, key: JByteArray<'l>, value: JByteArray<'l>) {
        let (key, value) = (Taken::new(env, &key)?, Taken::new(env, &value)?);
        txn.with(tree, |txn, tree| Ok(txn.put(tree, key.bytes(), value.bytes())?))
    }
}

native! {
    fn txn_delete(env, txn: Txn, _tree: JObject<'l>, tree: jlong, key: JByteArray<'l>) {
        let key = Taken::new(env, &key)?;
        txn.with(tree, |txn, tree| Ok(txn.delete(tree, key.bytes())?))
    }
}

native! {
    fn txn_insert_new(
        env, txn: Txn, _tree: JObject<'l>, tree: jlong, key: JByteArray<'l>, value: JByteArray<'l>
    ) -> jboolean {
        let (key, value) = (Taken::new(env, &key)?, Taken::new(env, &value)?);
        txn.with(tree, |txn, tree| Ok(txn.insert_new(tree, key.bytes(), value.bytes())?))
    }
}

native! {
    fn txn_take(env, txn: Txn, _tree: JObject<'l>, tree: jlong, key: JByteArray<'l>) -> JByteArray<'l> {
        let key = Taken::new(env, &key)?;
        let old = txn.with(tree, |txn, tree| {
            expect_value_fits(&txn.of(tree)?, &key)?;
            Ok(txn.remove(tree, key.bytes())?)
        })?;
        give_some(env, old.as_deref())
    }
}

native! {
    fn txn_compare_and_swap(
        env, txn: Txn, _tree: JObject<'l>, tree: jlong, key: JByteArray<'l>, expected: JByteArray<'l>, new: JByteArray<'l>
    ) -> jboolean {
        let key = Taken::new(env, &key)?;
        let (expected, new) = (Taken::some(env, &expected)?, Taken::some(env, &new)?);
        txn.with(tree, |txn, tree| {
            let swap = txn.compare_and_swap(tree, key.bytes(), expected, new)?;
            Ok(matches!(swap, Swap::Done))
        })
    }
}

native! {
    fn txn_remove_range(
        env, txn: Txn, _tree: JObject<'l>, tree: jlong, from: JByteArray<'l>, to: JByteArray<'l>, flags: jint
    ) -> jlong {
        let keys = Keys::new(env, (&from, &to), flags)?;
        txn.with(tree, |txn, tree| {
            Ok(if keys.is_empty() { 0 } else { txn.remove_range(tree, keys.of())? as jlong })
        })
    }
}

native! {
    fn txn_commit(_env, txn: Txn) {
        Ok(txn.shared.take()?.commit()?)
    }
}

native! {
    fn txn_abort(_env, txn: Txn) {
        txn.shared.take()?.abort();
        Ok(())
    }
}

native! {
    /// Commits a transaction; false if others were in its way, and it is time to begin another one.
    fn tries_commit(_env, tries: Tries, txn: jlong) -> jboolean {
        let txn = find::<Txn>(txn)?;
        let mut attempts = tries.attempts.try_lock().map_err(|_| Error::InUse { what: "the transaction" })?;
        Ok(attempts.commit(txn.shared.take()?)?)
    }
}
