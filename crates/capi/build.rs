//! How the shared library is linked: its name, its symbols, and that it is never unloaded.

use std::env;
use std::path::PathBuf;

fn main() {
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo names it"));
    let script = folder.join("everleaf.map");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", script.display());
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    let version = env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo names it");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libeverleaf.so.{version}");
    // Its threads end some seconds after the last pool was closed, and run its code until then.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--version-script={}", script.display());
}
