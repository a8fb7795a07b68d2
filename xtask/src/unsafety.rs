//! `unsafe` stays where it is expected.

use crate::source::{code, has_word};
use crate::tree::{Files, finding, rust};

/// The roots of crates that forbid it.
const FORBID: [&str; 13] = [
    "crates/file/src/lib.rs",
    "crates/pool/src/lib.rs",
    "crates/tree/src/lib.rs",
    "crates/everleaf/src/lib.rs",
    "crates/salvage/src/lib.rs",
    "crates/crash-check/src/lib.rs",
    "crates/cli/src/main.rs",
    "crates/fuzz/src/lib.rs",
    "crates/testing/src/lib.rs",
    "bindings/python/src/lib.rs",
    "research/rivals/src/lib.rs",
    "xtask/src/main.rs",
    "research/bench/src/main.rs",
];

/// The files that may say it.
const ALLOWED: [&str; 11] = [
    // Bytes of Java, and buffers that it shares.
    "bindings/java/native/src/bytes.rs",
    // An allocator that refuses, for tests.
    "crates/everleaf/tests/allocations/failing.rs",
    // An allocator that counts, for tests.
    "crates/everleaf/tests/bounds_memory.rs",
    // A fork, for tests.
    "crates/everleaf/tests/fork/child.rs",
    "crates/pmem/src/bytes.rs",
    "crates/pmem/src/flush.rs",
    "crates/pmem/src/latch.rs",
    "crates/pmem/src/page.rs",
    "crates/pmem/src/region.rs",
    "crates/pmem/src/shared.rs",
    "crates/pmem/src/simd.rs",
];

/// The C libraries: each of their functions gets pointers.
const C_LIBRARIES: [&str; 2] = ["crates/capi/src/", "research/index/src/"];

/// Reports missing `forbid(unsafe_code)` and `unsafe` in files that are not listed.
pub fn check(files: &Files, findings: &mut Vec<String>) {
    for path in FORBID {
        if files.get(path).is_some_and(|text| !code(text).contains("#![forbid(unsafe_code)]")) {
            findings.push(finding(path, 1, "does not say #![forbid(unsafe_code)]"));
        }
    }
    for (path, source) in rust(files) {
        if ALLOWED.contains(&path) || C_LIBRARIES.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        for (at, line) in code(source).lines().enumerate() {
            if has_word(line, "unsafe") {
                findings.push(finding(path, at + 1, "`unsafe` outside of the files for it"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::files;

    #[test]
    fn unsafe_code_is_found_and_the_word_in_a_comment_is_not() {
        let mut findings = Vec::new();
        let tree = "// #![forbid(unsafe_code)]\n// unsafe\nfn f() { unsafe { g() } }\n";
        let simd = "unsafe fn f() {}";
        let c = "crates/capi/src/tree.rs";
        let files =
            [("crates/tree/src/lib.rs", tree), ("crates/pmem/src/simd.rs", simd), (c, simd)];
        check(&crate::tree::files(files), &mut findings);
        let path = "crates/tree/src/lib.rs";
        assert_eq!(findings[0], format!("{path}:1: does not say #![forbid(unsafe_code)]"));
        assert_eq!(findings[1], format!("{path}:3: `unsafe` outside of the files for it"));
        assert_eq!(findings.len(), 2);
        let mut findings = Vec::new();
        check(&self::files([(path, "#![forbid(unsafe_code)]\n")]), &mut findings);
        assert!(findings.is_empty());
    }
}
