//! Runs each Rust block of `docs/guide` and of the README in an empty directory. `build.rs` makes functions
//! of them.

use std::fmt::Display;

include!(concat!(env!("OUT_DIR"), "/blocks.rs"));

/// A value that a block's `main` returns.
trait Ends {
    fn end(self);
}

impl Ends for () {
    fn end(self) {}
}

impl<E: Display> Ends for Result<(), E> {
    fn end(self) {
        if let Err(error) = self {
            panic!("{error}");
        }
    }
}

/// One test for all, because the working directory is the process's.
#[test]
fn each_block_of_the_guide_does_what_it_says() {
    for (place, run) in BLOCKS {
        println!("{place}");
        let dir = tempfile::tempdir().expect("a directory");
        std::env::set_current_dir(dir.path()).expect("it is there");
        run();
        std::env::set_current_dir("/").expect("there is a root");
    }
    assert!(!BLOCKS.is_empty());
    println!("{} blocks", BLOCKS.len());
}
