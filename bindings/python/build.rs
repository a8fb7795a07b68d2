//! Has the module use the system's unwinder.
//!
//! A thread that wants the interpreter's lock while the interpreter ends is ended by `pthread_exit`, and that unwinds
//! its stack by the system's `libgcc_s`. `zig`, which links the wheels, would put another unwinder into the module: its
//! functions do not understand the first one's frames, and the process would crash.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const NAME: &str = "libgcc_s.so.1";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_native = env::var("HOST") == env::var("TARGET");
    let Some(library) = library().filter(|_| is_native) else {
        println!("cargo:warning={NAME} of the target is not known: do not link with zig");
        return;
    };
    // In a folder of its own, so that no other library of the host is found.
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("unwinder");
    fs::create_dir_all(&folder).expect("cargo's own folder");
    let link = folder.join(NAME);
    let _ = fs::remove_file(&link);
    symlink(library, link).expect("the folder is new");
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=dylib:+verbatim={NAME}");
}

fn library() -> Option<PathBuf> {
    let output = Command::new("cc").arg(format!("-print-file-name={NAME}")).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(path.trim())).filter(|path| path.is_absolute() && Path::exists(path))
}
