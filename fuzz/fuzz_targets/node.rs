//! See `everleaf_fuzz::node`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everleaf_fuzz::node::run(data));
