//! See `everleaf_fuzz::crash`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| everleaf_fuzz::crash::run(data));
