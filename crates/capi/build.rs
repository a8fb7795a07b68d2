//! How the shared library is linked: its name, and that it is never unloaded.
//!
//! Which symbols it exports is not said here. rustc gives the linker a version script of its own for that, with the functions
//! of C and nothing else, and GNU ld refuses a second one. `everleaf.map` is for those who link the static library.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    let version = env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo names it");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libeverleaf.so.{version}");
    // Its threads end some seconds after the last pool was closed, and run its code until then.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
