//! A crash in the first milliseconds of a pool may leave its pages without the catalog.

use std::path::Path;
use std::sync::Arc;

use everleaf::{Error, Options};
use everleaf_file::FileOptions;
use everleaf_file::io::SimIo;
use everleaf_tree::FilePool;
use everleaf_tree::slotted::Slotted;

#[test]
fn a_pool_without_a_catalog_reads_as_an_empty_one_and_gets_it_from_a_writer() {
    let (disk, path) = (SimIo::new(1), Path::new("p"));
    let options = FileOptions {
        slots: 252,
        max_pages: 4096,
        create: true,
        background: false,
        ..FileOptions::default()
    };
    // The epoch of the first pages ends, and the process with it.
    let pool =
        FilePool::open_for::<Slotted>(Arc::new(disk.clone()), path, &options).expect("a new pool");
    pool.pool().medium().sync().expect("no fault");
    let killed = disk.power_cut(1);
    drop(pool);

    let options = Options::new().max_bytes(8 << 20).background(false);
    let reader = options.clone().read_only(true);
    let db = reader.open_on(Arc::new(killed.clone()), path).expect("it reads as empty");
    assert!(db.open_tree("t").expect("readable").is_none());
    assert!(matches!(db.tree("t"), Err(Error::ReadOnly)));
    assert_eq!(db.tree_names().expect("readable"), [""; 0]);
    assert_eq!(db.check().expect("readable"), []);
    assert_eq!(db.count().expect("readable").trees.len(), 0);
    db.close().expect("no fault");

    let db = options.open_on(Arc::new(killed.clone()), path).expect("it gets a catalog");
    db.tree("t").expect("writable").insert("k", "v").expect("room");
    db.close().expect("no fault");
    let db = reader.open_on(Arc::new(killed), path).expect("a pool");
    let tree = db.open_tree("t").expect("readable").expect("made");
    assert_eq!(tree.get("k").expect("readable"), Some(b"v".into()));
}
