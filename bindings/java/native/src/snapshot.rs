//! All trees of a pool as they were at one moment.

use jni::objects::{JByteArray, JObject};
use jni::sys::jlong;
use store::{Db, Snapshot};

use crate::bytes::{Taken, give, pack};
use crate::call::native;
use crate::read::AnyTree;
use crate::table::{find, keep, kind};

/// A snapshot. Trees that came from it keep the moment, too.
pub(crate) struct Moment {
    pub(crate) db: Db,
    pub(crate) snapshot: Snapshot,
}

kind!(Moment, "snapshot");

native! {
    /// The tree that had this name, or 0.
    fn snapshot_tree(env, moment: Moment, name: JByteArray<'l>) -> jlong {
        let name = Taken::new(env, &name)?;
        let tree = moment.snapshot.tree(name.text()?)?;
        tree.map_or(Ok(0), |tree| keep(AnyTree::then(&moment.db, tree)))
    }
}

native! {
    fn snapshot_of(_env, moment: Moment, _tree: JObject<'l>, tree: jlong) -> jlong {
        let tree = find::<AnyTree>(tree)?;
        let tree = moment.snapshot.of(tree.writable()?)?;
        keep(AnyTree::then(&moment.db, tree))
    }
}

native! {
    fn snapshot_tree_names(env, moment: Moment) -> JByteArray<'l> {
        let names = moment.snapshot.tree_names()?;
        let packed = pack(names.iter().map(String::as_bytes));
        give(env, &packed)
    }
}
