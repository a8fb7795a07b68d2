//! Has the library stay in memory until the process ends.
//!
//! A virtual machine unloads a native library with the class loader that has loaded it. Threads of the store end some
//! seconds after the last pool was closed, and run code of the library until then.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
