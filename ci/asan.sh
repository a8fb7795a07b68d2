#!/usr/bin/env bash
# Hazard: bytes beyond an allocation, and bytes of one that is gone. AddressSanitizer over the tests
# of the media (the one crate with `unsafe`), the pool and the product, the real binary among them,
# and over the trees' tests with threads; the random tiers scaled down. What it cannot see: loads of
# `asm!` blocks (the vector searches), and a wrong page inside the one mapping of all pages.
#
# Not among the default tests. The compiler's stable release does it with RUSTC_BOOTSTRAP; ends with
# 77 ("skipped") where the sanitizer's runtime is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-linux-gnu
if ! ls "$(rustc --print sysroot)/lib/rustlib/$target/lib/"librustc*_rt.asan.a >/dev/null 2>&1; then
    echo "skipped: no AddressSanitizer for $target"
    exit 77
fi
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/asan"
# Leaks are no memory errors, and tests kill, abandon and forget pools on purpose.
export ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS:-}"
export EVERLEAF_KILLS="${EVERLEAF_KILLS:-3}" EVERLEAF_FUSE_CUTS="${EVERLEAF_FUSE_CUTS:-3}"
export EVERLEAF_POWER_CUTS="${EVERLEAF_POWER_CUTS:-300}" EVERLEAF_DAMAGES="${EVERLEAF_DAMAGES:-10}"
export EVERLEAF_DAX_KILLS="${EVERLEAF_DAX_KILLS:-3}"

cargo test --target "$target" -p everleaf-pmem -p everleaf-pool -p everleaf --lib --tests "$@"
# The sanitizer itself needs terabytes of address space.
cargo test --target "$target" -p everleaf-cli --tests "$@" -- --skip too_little_memory
cargo test --target "$target" -p everleaf-tree "$@" \
    --lib --test threads_file --test readers --test racing --test reclaim
