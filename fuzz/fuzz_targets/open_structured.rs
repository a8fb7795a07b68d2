//! See `everleaf_fuzz::open_structured`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everleaf_fuzz::open_structured::run(data));
