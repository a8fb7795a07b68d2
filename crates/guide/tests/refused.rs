//! Programs that the compiler must refuse, and what it says: `refused/NAME.rs` and `NAME.stderr`. Code that it must
//! accept is in `crates/everleaf/tests/db/at_the_compiler.rs`.
//!
//! The messages are those of one compiler; another one skips this. `TRYBUILD=overwrite` writes them anew.

use std::process::Command;

/// The compiler whose messages they are.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn the_compiler_refuses_what_would_be_wrong_and_says_what_is_right() {
    let version = Command::new("rustc").arg("--version").output().expect("a compiler");
    let version = String::from_utf8(version.stdout).expect("text");
    if !version.starts_with(COMPILER) {
        println!("skipped: the messages are those of {COMPILER}x, and this is {version}");
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/refused/*.rs");
}
