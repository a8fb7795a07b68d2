//! See `everleaf_fuzz::operations`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everleaf_fuzz::operations::run(data));
