//! See `everleaf_fuzz::hostile`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everleaf_fuzz::hostile::run(data));
