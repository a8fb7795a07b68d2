//! An open pool.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jni::objects::{JByteArray, JClass, JLongArray};
use jni::sys::{jboolean, jint, jlong};
use jni::{EnvUnowned, jni_mangle};
use store::{Db, Isolation, TransactionOptions};

use crate::batch::Changes;
use crate::bytes::{Taken, give, give_numbers, pack};
use crate::call::{call, native};
use crate::failure::{Result, invalid};
use crate::options::{self, SETTINGS};
use crate::read::AnyTree;
use crate::snapshot::Moment;
use crate::table::{self, keep, kind};
use crate::transaction::{Tries, Txn};

/// A pool, as long as Java has its number.
pub(crate) struct Pool {
    pub(crate) db: Db,
    /// The program ends epochs.
    ends_epochs: bool,
    /// It was closed or abandoned.
    has_ended: AtomicBool,
}

kind!(Pool, "pool");

impl Pool {
    /// The pool, for handles with another durability.
    fn with(&self, durability: jint) -> Result<Db> {
        self.db.expect_open()?;
        let durability = options::durability(durability)?;
        Ok(durability.map_or_else(|| self.db.clone(), |durability| self.db.with(durability)))
    }
}

impl Drop for Pool {
    /// Nobody has closed it: what the program has not ended as an epoch may be half of something.
    fn drop(&mut self) {
        if !self.has_ended.load(Ordering::Relaxed) {
            let db = self.db.clone();
            let _ = if self.ends_epochs { db.abandon() } else { db.close() };
        }
    }
}

fn path(taken: &Taken) -> &Path {
    Path::new(OsStr::from_bytes(taken.bytes()))
}

/// The version of the library.
#[jni_mangle("io.everleaf.Native")]
pub fn version<'l>(env: EnvUnowned<'l>, _: JClass<'l>) -> JByteArray<'l> {
    call(env, 0, |env| give(env, env!("CARGO_PKG_VERSION").as_bytes()))
}

/// Takes a number away.
#[jni_mangle("io.everleaf.Native")]
pub fn free<'l>(env: EnvUnowned<'l>, _: JClass<'l>, number: jlong) -> jboolean {
    call(env, number, |_| Ok(table::take(number)))
}

/// Opens the pool at a path; without one, makes a pool in memory.
#[jni_mangle("io.everleaf.Native")]
pub fn pool_open<'l>(
    env: EnvUnowned<'l>,
    _: JClass<'l>,
    at: JByteArray<'l>,
    settings: JLongArray<'l>,
) -> jlong {
    call(env, 0, |env| {
        let mut numbers = [0; SETTINGS];
        settings.get_region(env, 0, &mut numbers)?;
        let settings = options::read(&numbers)?;
        let db = match Taken::some(env, &at)? {
            Some(at) => settings.options.open(path(&at))?,
            None => settings.options.in_memory()?,
        };
        keep(Pool { db, ends_epochs: settings.ends_epochs, has_ended: AtomicBool::new(false) })
    })
}

native! {
    fn pool_close(_env, pool: Pool) {
        pool.has_ended.store(true, Ordering::Relaxed);
        Ok(pool.db.clone().close()?)
    }
}

native! {
    fn pool_abandon(_env, pool: Pool) {
        pool.has_ended.store(true, Ordering::Relaxed);
        Ok(pool.db.clone().abandon()?)
    }
}

native! {
    fn pool_sync(_env, pool: Pool) {
        Ok(pool.db.sync()?)
    }
}

native! {
    fn pool_checkpoint(_env, pool: Pool) {
        Ok(pool.db.checkpoint()?)
    }
}

native! {
    fn pool_end_epoch(_env, pool: Pool) -> jlong {
        Ok(pool.db.end_epoch()? as jlong)
    }
}

native! {
    fn pool_epoch(_env, pool: Pool) -> jlong {
        pool.db.expect_open()?;
        Ok(pool.db.epoch() as jlong)
    }
}

native! {
    fn pool_durable_epoch(_env, pool: Pool) -> jlong {
        pool.db.expect_open()?;
        Ok(pool.db.durable_epoch() as jlong)
    }
}

native! {
    fn pool_pending_bytes(_env, pool: Pool) -> jlong {
        pool.db.expect_open()?;
        Ok(pool.db.pending_bytes() as jlong)
    }
}

native! {
    /// Waits for an epoch, at most so many microseconds, or without an end if they are below 0.
    fn pool_wait_durable(_env, pool: Pool, epoch: jlong, microseconds: jlong) -> jboolean {
        let epoch = u64::try_from(epoch).map_err(|_| invalid(format!("there is no epoch {epoch}")))?;
        match u64::try_from(microseconds) {
            Ok(most) => Ok(pool.db.wait_durable_for(epoch, Duration::from_micros(most))?),
            Err(_) => {
                pool.db.wait_durable(epoch)?;
                Ok(true)
            }
        }
    }
}

native! {
    fn pool_backup(env, pool: Pool, to: JByteArray<'l>) -> jlong {
        let to: PathBuf = std::ffi::OsString::from_vec(Taken::new(env, &to)?.bytes().to_vec()).into();
        Ok(pool.db.backup(to)? as jlong)
    }
}

native! {
    fn pool_compact(env, pool: Pool) -> JLongArray<'l> {
        let compaction = pool.db.compact()?;
        give_numbers(env, &[compaction.before_bytes as jlong, compaction.after_bytes as jlong])
    }
}

native! {
    /// Of each damage the file, the place and what it is.
    fn pool_check(env, pool: Pool) -> JByteArray<'l> {
        let damages = pool.db.check()?;
        let offsets: Vec<_> = damages.iter().map(|damage| damage.offset.to_string()).collect();
        let pieces = damages.iter().zip(&offsets).flat_map(|(damage, offset)| {
            [damage.file.as_bytes(), offset.as_bytes(), damage.what.as_bytes()]
        });
        let packed = pack(pieces);
        give(env, &packed)
    }
}

native! {
    /// How many trees there are; seven pieces of each; then the kinds of pages, each before its number.
    fn pool_count(env, pool: Pool) -> JByteArray<'l> {
        let counts = pool.db.count()?;
        let mut pieces = vec![counts.trees.len().to_string()];
        for tree in counts.trees {
            let levels: Vec<_> = tree.nodes_by_level.iter().map(u64::to_string).collect();
            let (depth, fill) = (tree.depth.to_string(), tree.fill.to_string());
            let [entries, keys, values] =
                [tree.entries, tree.key_bytes, tree.value_bytes].map(|number| number.to_string());
            pieces.extend([tree.name, entries, depth, levels.join(" "), fill, keys, values]);
        }
        for page in counts.pages {
            pieces.extend([page.kind.to_owned(), page.pages.to_string()]);
        }
        let packed = pack(pieces.iter().map(String::as_bytes));
        give(env, &packed)
    }
}

native! {
    /// In the order of `Stats` of Java.
    fn pool_stats(env, pool: Pool) -> JLongArray<'l> {
        let stats = pool.db.stats()?;
        let memory = &stats.memory;
        let (high, low) = stats.uuid.split_at(8);
        let half = |bytes: &[u8]| bytes.iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
        let numbers = [
            stats.page_bytes.into(),
            stats.node_bytes.into(),
            stats.file_bytes,
            stats.live_bytes,
            stats.free_bytes,
            stats.journal_file_bytes,
            stats.journal_bytes,
            stats.journal_written_bytes,
            memory.bytes,
            memory.most_bytes,
            memory.hits,
            memory.misses,
            memory.evictions,
            memory.write_backs,
            memory.value_bytes,
            memory.value_misses,
            memory.value_evictions,
            stats.snapshots,
            stats.snapshot_values,
            stats.snapshot_bytes,
            stats.snapshots_given_up,
            stats.transaction_bytes,
            stats.cursor_bytes,
            stats.transactions,
            stats.conflicts,
            stats.dropped_trees,
            stats.epoch,
            stats.durable_epoch,
            stats.open_generation,
            half(high),
            half(low),
        ];
        give_numbers(env, &numbers.map(|number| number as jlong))
    }
}

native! {
    /// Makes a tree that is not there, or returns 0 if that is not asked for.
    fn pool_tree(env, pool: Pool, name: JByteArray<'l>, durability: jint, create: jboolean) -> jlong {
        let name = Taken::new(env, &name)?;
        let db = pool.with(durability)?;
        let tree = match create {
            true => Some(db.tree(name.text()?)?),
            false => db.open_tree(name.text()?)?,
        };
        tree.map_or(Ok(0), |tree| keep(AnyTree::now(&pool.db, tree)))
    }
}

native! {
    fn pool_drop_tree(env, pool: Pool, name: JByteArray<'l>) -> jboolean {
        let name = Taken::new(env, &name)?;
        Ok(pool.db.drop_tree(name.text()?)?)
    }
}

native! {
    fn pool_rename_tree(env, pool: Pool, name: JByteArray<'l>, to: JByteArray<'l>) -> jboolean {
        let (name, to) = (Taken::new(env, &name)?, Taken::new(env, &to)?);
        Ok(pool.db.rename_tree(name.text()?, to.text()?)?)
    }
}

native! {
    fn pool_tree_names(env, pool: Pool) -> JByteArray<'l> {
        let names = pool.db.tree_names()?;
        let packed = pack(names.iter().map(String::as_bytes));
        give(env, &packed)
    }
}

native! {
    fn pool_snapshot(_env, pool: Pool) -> jlong {
        keep(Moment { snapshot: pool.db.snapshot()?, db: pool.db.clone() })
    }
}

native! {
    fn pool_batch(_env, pool: Pool, durability: jint) -> jlong {
        keep(Changes::new(pool.with(durability)?))
    }
}

native! {
    /// Begins a transaction, which locks what it uses for so many microseconds, or not at all if they are below 0.
    fn pool_begin(_env, pool: Pool, snapshot: jboolean, durability: jint, locks: jlong) -> jlong {
        let isolation = if snapshot { Isolation::Snapshot } else { Isolation::Serializable };
        let mut options = TransactionOptions::new().isolation(isolation);
        if let Ok(lasts) = u64::try_from(locks) {
            options = options.pessimistic(Duration::from_micros(lasts));
        }
        let db = pool.with(durability)?;
        keep(Txn::new(&pool.db, db.begin_with(options)))
    }
}

native! {
    /// The attempts of a transaction that Java runs until nobody is in its way.
    fn pool_attempts(_env, pool: Pool, most: jint) -> jlong {
        pool.db.expect_open()?;
        keep(Tries::new(&pool.db, most.max(1) as u32))
    }
}
