//! Persistent memory, in a build that has it and in one that has not: CI runs this with and without the feature `dax`.

use everleaf::{Db, Error, Options, Storage};
use everleaf_file::DaxOptions;
use everleaf_tree::slots::{Circular, Sentinel};

#[test]
fn persistent_memory_is_there_or_is_refused_by_the_name_of_its_feature() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pool");
    let opened = Options::new().storage(Storage::EmulatedDax).max_bytes(4 << 20).open(&path);
    if cfg!(feature = "dax") {
        let tree = opened.expect("there is room").tree("t").expect("there is room");
        tree.put("k", "v").expect("there is room");
        assert_eq!(tree.get("k").expect("it can be read").as_deref(), Some(&b"v"[..]));
        return;
    }
    assert!(!path.exists(), "nothing is made");
    for refused in [opened, Options::new().storage(Storage::Dax).max_bytes(4 << 20).open(&path)] {
        let Err(Error::Unsupported { what }) = refused else { panic!("{refused:?}") };
        assert!(
            what.contains("no persistent memory") && what.contains("the feature `dax`"),
            "{what}"
        );
    }
}

#[test]
fn a_pool_of_persistent_memory_is_not_opened_as_a_file_and_the_message_names_the_feature() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("pool");
    let options = DaxOptions { pages: 64, create: true, emulate: true, ..DaxOptions::default() };
    drop(everleaf_tree::open_dax::<Circular, Sentinel>(&path, &options).expect("there is room"));
    let refused = Db::open(&path).expect_err("of another kind");
    assert!(matches!(refused, Error::Foreign { .. }), "{refused:?}");
    assert!(refused.to_string().contains("the feature `dax`"), "{refused}");
}
