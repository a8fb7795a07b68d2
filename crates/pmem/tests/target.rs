//! Targets whose pointers are shorter than 64 bits are refused when they are compiled for, in one sentence.
//!
//! No standard library of such a target need be there: the file that refuses is compiled without any, by
//! the compiler that runs the test, which knows all targets.

use std::path::Path;
use std::process::Command;

const SENTENCE: &str = "error: everleaf needs a target whose pointers have 64 bits";

/// Compiles the file for a target, and returns what the compiler says.
fn compile(target: &str) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/target.rs");
    let text = std::fs::read_to_string(source).expect("it is there");
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("target.rs");
    // A crate without `core`, which would have to be built for the target.
    let head = "#![feature(no_core, rustc_attrs)]\n#![no_core]\n#![allow(internal_features, unused_macros)]\n\
                #[rustc_builtin_macro]\nmacro_rules! compile_error { ($what:expr $(,)?) => {{}}; }\n";
    let body: String = text
        .lines()
        .filter(|line| !line.starts_with("//!"))
        .fold(String::new(), |body, line| body + line + "\n");
    std::fs::write(&file, head.to_owned() + &body).expect("room");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .env("RUSTC_BOOTSTRAP", "1")
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "lib",
            "--emit",
            "metadata",
            "--target",
            target,
        ])
        .arg("--out-dir")
        .arg(dir.path())
        .arg(&file)
        .output()
        .expect("a compiler");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn targets_without_pointers_of_64_bits_are_refused_in_one_sentence() {
    for target in
        ["i686-unknown-linux-musl", "armv7-unknown-linux-gnueabihf", "wasm32-unknown-unknown"]
    {
        let said = compile(target);
        assert_eq!(said.matches(SENTENCE).count(), 1, "{target}: {said}");
        assert_eq!(said.matches("error: everleaf").count(), 1, "{target}: {said}");
    }
    for target in
        ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "riscv64gc-unknown-linux-gnu"]
    {
        let said = compile(target);
        assert!(!said.contains("error"), "{target}: {said}");
    }
}
