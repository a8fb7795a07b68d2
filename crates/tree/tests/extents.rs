//! Large values and the pages that they leave behind, on the file medium.

use std::path::Path;
use std::sync::Arc;

use everleaf_file::File;
use everleaf_file::FileOptions;
use everleaf_file::io::SimIo;
use everleaf_tree::blink::Condition;
use everleaf_tree::{FilePool, INDEX_ANCHOR, StringTree};

fn open(io: &SimIo) -> (FilePool, StringTree<File>) {
    let options = FileOptions {
        slots: 8,
        max_pages: 2000,
        create: true,
        background: false,
        ..FileOptions::default()
    };
    let file = FilePool::open_on(Arc::new(io.clone()), Path::new("/p"), &options).expect("opens");
    let tree = StringTree::open(Arc::clone(file.pool()), INDEX_ANCHOR).expect("opens");
    (file, tree)
}

/// A group of extents that a crash has taken back may become one of pages. The bytes written to
/// the disk there are no page, and must not be taken for a damaged one.
#[test]
fn extents_that_a_crash_took_back_do_not_damage_pages() {
    let io = SimIo::new(1);
    let (file, tree) = open(&io);
    file.pool().medium().sync().expect("no fault");
    tree.put(b"lost", &[7; 20_000], Condition::Always).expect("space");
    file.pool().medium().abandon();
    drop((file, tree));

    let (file, tree) = open(&io);
    assert_eq!(tree.get(b"lost").expect("no fault"), None);
    let put =
        |i: u32| tree.put(&i.to_be_bytes(), &[0; 100], Condition::Always).expect("no fault").old;
    let used = || 2000 - file.pool().stats().expect("no fault").free;
    let full = 1 + (0..).find(|i| (put(*i), used()).1 > 135).expect("it fills up");
    tree.put(b"large", &[8; 20_000], Condition::Always).expect("space");
    file.drain().expect("no fault");
    file.pool().medium().checkpoint().expect("no fault");
    for i in full..full + 100 {
        put(i);
    }
    inspect(&file, &tree, full + 100);
    file.pool().medium().sync().expect("no fault");
    file.pool().medium().abandon();
    drop((file, tree));

    let (mut file, tree) = open(&io);
    inspect(&file, &tree, full + 100);
    file.close().expect("no fault");
    drop((file, tree));
    let (file, tree) = open(&io);
    inspect(&file, &tree, full + 100);
}

fn inspect(file: &FilePool, tree: &StringTree<File>, small: u32) {
    for i in 0..small {
        assert_eq!(tree.get(&i.to_be_bytes()).expect("no fault"), Some(vec![0; 100]));
    }
    assert_eq!(tree.get(b"large").expect("no fault"), Some(vec![8; 20_000]));
    assert_eq!(file.pool().check(), []);
    assert_eq!(tree.check().expect("no fault").damages, []);
}
