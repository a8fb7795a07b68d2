//! How the shared library is linked: its name, and that it is never unloaded. Threads of its trees run its code until the
//! trees are freed. rustc exports the functions of C and nothing else.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    let version = env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo names it");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libeverleaf_index.so.{version}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
