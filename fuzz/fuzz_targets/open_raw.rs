//! See `everleaf_fuzz::open_raw`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everleaf_fuzz::open_raw::run(data));
