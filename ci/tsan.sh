#!/usr/bin/env bash
# Hazard: data races in code that runs at full speed, which Miri is too slow for. ThreadSanitizer
# over the tests with threads: the media's, the latches', the trees' on a file, the product's. It
# cannot see loads of `asm!` blocks (the vector searches; they are validated by a latch word), and
# does not know fences.
#
# Not among the default tests. Needs nightly with rust-src, since std is built with it, too; ends
# with 77 ("skipped") without.
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-linux-gnu
if [ ! -d "$(rustc +nightly --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library" ]; then
    echo "skipped: no nightly toolchain with rust-src"
    exit 77
fi
export RUSTFLAGS="-Zsanitizer=thread" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/tsan"
export TSAN_OPTIONS="halt_on_error=1:${TSAN_OPTIONS:-}"
test() { cargo +nightly test -Zbuild-std --target "$target" "$@"; }

test -p everleaf-pmem --lib --test file_real --test file_close --test buffered
test -p everleaf --test threads_sim --test facade
test -p everleaf-tree --test threads_file --test readers
