#!/usr/bin/env bash
# Hazard: data races in code that runs at full speed, which Miri is too slow for. ThreadSanitizer
# over the tests with threads: those of the media, the product on a simulated disk and on files, the
# trees in memory. It cannot see loads of `asm!` blocks (the vector searches; a latch word validates
# them), nor races of atomics, which are none (what pages hold is atomics; ci/miri.sh and the loom
# tests look at their order), and it does not know fences.
#
# Needs nightly with rust-src, since std is built with it, too; ends with 77 ("skipped") without.
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-linux-gnu
if [ ! -d "$(rustc +nightly --print sysroot 2> /dev/null)/lib/rustlib/src/rust/library" ]; then
    echo "skipped: no nightly toolchain with rust-src"
    exit 77
fi
export RUSTFLAGS="-Zsanitizer=thread ${RUSTFLAGS:-}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/tsan"
export CARGO_PROFILE_TEST_DEBUG=line-tables-only CARGO_PROFILE_DEV_DEBUG=line-tables-only
export EVERLEAF_SCALE="${EVERLEAF_SCALE:-0.1}"
export TSAN_OPTIONS="halt_on_error=1:${TSAN_OPTIONS:-}"
failed=()
run() {
    echo "== $*"
    # The slow test of readers takes longer here than its watchdog waits (300 s on a busy machine).
    cargo +nightly test -Zbuild-std --target "$target" -p "$@" --no-fail-fast -- \
        --skip no_way_to_read_tears_a_leaf || failed+=("$1")
}

run everleaf-pmem --lib --test buffered
run everleaf-file --lib
run everleaf-file --test files buffered_dax::
run everleaf-file --test files file_real::
run everleaf-file --test files file_close::
run everleaf --features heavy --test threads_sim --test threads_cut
run everleaf --test db facade::
# Not trees/threads_file: the lives of its pools are milliseconds, too short here for what it must meet.
# Nor racing: one case of it did not end in four minutes.
run everleaf-tree --features heavy --test trees readers::
[ "${#failed[@]}" -eq 0 ] || { echo "tsan: FAILED: ${failed[*]}"; exit 1; }
