//! Many pairs a call: see [`store::scan`]. The buffer is one that Java and this library both see.

use std::sync::{Arc, Mutex, PoisonError};

use jni::objects::{JByteArray, JByteBuffer, JObject};
use jni::sys::{jint, jlong};
use store::scan::{self, Pairs};
use store::{Cursor, Db, Tree};

use crate::bytes::in_buffer;
use crate::call::native;
use crate::failure::{Result, invalid};
use crate::read::{AnyTree, KEYS_ONLY, Keys, REVERSE, either};
use crate::table::{keep, kind};
use crate::transaction::{Shared, Txn};

/// A walk over a range, for one thread at a time.
pub(crate) struct Scan {
    pub(crate) db: Db,
    walk: Mutex<Walk>,
}

kind!(Scan, "scan");

/// The tree or transaction that is walked over.
pub(crate) enum Over {
    Tree(Box<Cursor>),
    Transaction(Arc<Shared>, Tree),
}

struct Walk {
    over: Over,
    rest: scan::Scan,
}

impl Scan {
    pub(crate) fn new(db: &Db, over: Over, keys: Keys, flags: jint) -> Self {
        let is_empty = keys.is_empty();
        let (is_reverse, keys_only) = (flags & REVERSE != 0, flags & KEYS_ONLY != 0);
        let mut rest = scan::Scan::new((keys.from, keys.to), is_reverse, keys_only);
        if is_empty {
            rest.end();
        }
        Self { db: db.clone(), walk: Mutex::new(Walk { over, rest }) }
    }
}

impl Walk {
    fn fill(&mut self, pairs: &mut Pairs<'_>) -> Result<()> {
        let Self { over, rest } = self;
        rest.expect_no_error()?;
        match over {
            Over::Tree(cursor) => Ok(rest.fill(&mut **cursor, pairs)?),
            Over::Transaction(shared, tree) => {
                shared.with(|txn| Ok(rest.fill_anew(&mut txn.of(tree)?.cursor(), pairs)?))
            }
        }
    }
}

native! {
    /// Fills so many bytes of a direct buffer with the next pairs. The bytes that they take; 0 at the end; below 0 if the first pair needs a
    /// larger buffer, of as many bytes.
    fn scan_fill(env, scan: Scan, buffer: JByteBuffer<'l>, bytes: jint) -> jlong {
        scan.db.expect_open()?;
        let mut walk = scan.walk.lock().unwrap_or_else(PoisonError::into_inner);
        in_buffer(env, &buffer, |buffer| {
            let buffer = usize::try_from(bytes).ok().and_then(|bytes| buffer.get_mut(..bytes));
            let buffer = buffer.ok_or_else(|| invalid("the buffer is too short"))?;
            let mut pairs = Pairs::new(buffer);
            walk.fill(&mut pairs)?;
            Ok(if pairs.needed > 0 { -(pairs.needed as jlong) } else { pairs.used as jlong })
        })
    }
}

native! {
    fn read_scan(env, tree: AnyTree, from: JByteArray<'l>, to: JByteArray<'l>, flags: jint) -> jlong {
        tree.db.expect_open()?;
        let keys = Keys::new(env, (&from, &to), flags)?;
        let cursor = either!(tree, tree => tree.cursor());
        keep(Scan::new(&tree.db, Over::Tree(Box::new(cursor)), keys, flags))
    }
}

native! {
    fn txn_scan(
        env, txn: Txn, _tree: JObject<'l>, tree: jlong, from: JByteArray<'l>, to: JByteArray<'l>, flags: jint
    ) -> jlong {
        let keys = Keys::new(env, (&from, &to), flags)?;
        let tree = txn.with(tree, |txn, tree| {
            txn.of(tree)?;
            Ok(tree.clone())
        })?;
        let over = Over::Transaction(Arc::clone(&txn.shared), tree);
        keep(Scan::new(&txn.db, over, keys, flags))
    }
}
