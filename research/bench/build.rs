//! Collects the facts that a result must state of the program that made it: compiler and its flags, commit.

use std::collections::hash_map::DefaultHasher;
use std::env::var;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::process::Command;

/// All that decides what is built.
const SOURCES: [&str; 3] = ["..", "../../Cargo.toml", "../../Cargo.lock"];

/// The output of a command, trimmed; `None` if it fails or is not there.
fn said(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_string())
}

/// The compiler, and what changes its code.
fn compiler() -> String {
    let rustc = var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let mut text = said(&rustc, &["--version"]).unwrap_or_else(|| "unknown".into());
    let level = var("OPT_LEVEL").unwrap_or_default();
    if level != "3" {
        text += &format!(", opt-level {level}");
    }
    let flags = var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if !flags.is_empty() {
        text += &format!(", {}", flags.replace('\u{1f}', " "));
    }
    text
}

/// The commit; with a hash of what was changed after it.
fn commit() -> Option<String> {
    let commit = said("git", &["rev-parse", "--short=10", "HEAD"])?;
    let changed = said("git", &[&["diff", "HEAD", "--"], &SOURCES[..]].concat())?;
    if changed.is_empty() {
        return Some(commit);
    }
    let mut hash = DefaultHasher::new();
    changed.hash(&mut hash);
    Some(format!("{commit}-changed-{:08x}", hash.finish() as u32))
}

/// The crate `rocksdb` names one function that RocksDB 7.8, as Debian has it, does not have. It frees
/// what is never made here: one that does nothing takes its place.
fn stand_in_for_newer_rocksdb() {
    println!("cargo:rerun-if-env-changed=ROCKSDB_LIB_DIR");
    if var("CARGO_FEATURE_ROCKSDB").is_err() || var("ROCKSDB_LIB_DIR").is_err() {
        return;
    }
    let folder = var("OUT_DIR").unwrap_or_default();
    let (source, object) = (format!("{folder}/newer.c"), format!("{folder}/newer.o"));
    let text = "void rocksdb_write_buffer_manager_destroy(void *it) { (void)it; }";
    let written = std::fs::write(&source, text).is_ok();
    if written && said("cc", &["-c", "-fPIC", &source, "-o", &object]).is_some() {
        println!("cargo:rustc-link-arg-bins={object}");
    }
}

fn main() {
    println!("cargo:rustc-env=EVERLEAF_RUSTC={}", compiler());
    println!("cargo:rustc-env=EVERLEAF_COMMIT={}", commit().unwrap_or_else(|| "unknown".into()));
    stand_in_for_newer_rocksdb();
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
    }
    // A commit moves it.
    if let Some(log) = said("git", &["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo:rerun-if-changed={log}");
    }
}
