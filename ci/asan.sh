#!/usr/bin/env bash
# Hazard: bytes beyond an allocation, and bytes of one that is gone. AddressSanitizer over the tests
# of all crates but the benchmark, the real binary and killed processes among them, with debug
# assertions, and the random tiers scaled down. The media, which have most of the `unsafe`, come
# first. What it cannot see: loads of `asm!` blocks (the vector searches), a wrong page inside the one
# mapping of all pages, and races (ci/tsan.sh, ci/miri.sh).
#
#   ci/asan.sh [PACKAGE ...]
#
# The stable compiler does it with RUSTC_BOOTSTRAP; ends with 77 ("skipped") without a runtime.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=("$@")
[ "${#packages[@]}" -gt 0 ] || packages=(pmem file pool everleaf salvage cli fuzz crash-check tree)
target=x86_64-unknown-linux-gnu
if ! ls "$(rustc --print sysroot)/lib/rustlib/$target/lib/"librustc*_rt.asan.a > /dev/null 2>&1; then
    echo "skipped: no AddressSanitizer for $target"
    exit 77
fi
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address ${RUSTFLAGS:-}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/asan"
export CARGO_PROFILE_TEST_DEBUG=line-tables-only CARGO_PROFILE_DEV_DEBUG=line-tables-only

export EVERLEAF_SCALE="${EVERLEAF_SCALE:-0.1}"

# Reports go into files: a test may expect that a process which it started fails.
reports="$(mktemp -d)"
trap 'rm -rf "$reports"' EXIT
# Leaks are no memory errors, and tests kill, abandon and forget pools on purpose. Too large an
# allocation must fail as it does without the sanitizer.
export ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1:log_path=$reports/report"

# The tests of package $1, without those that the sanitizer cannot run.
run() {
    local name="everleaf-$1" targets=(--tests) skips=()
    case "$1" in
        everleaf) name=everleaf targets+=(--features heavy) ;;
        # Some canaries are noticed only if threads happen to meet, which is rarer when all is slower.
        crash-check) skips=(--skip each_canary_fails) ;;
        pool | tree) targets+=(--features heavy) ;;
        # The sanitizer itself needs terabytes of address space, which this test limits.
        cli) skips=(--skip too_little_memory) ;;
    esac
    echo "== $name"
    cargo test --target "$target" -p "$name" "${targets[@]}" --no-fail-fast -- "${skips[@]}"
}

failed=()
for package in "${packages[@]}"; do
    run "$package" || failed+=("$package")
done
if grep -ls "ERROR: AddressSanitizer" "$reports"/* > /dev/null; then
    cat "$reports"/*
    failed+=("reports above")
fi
[ "${#failed[@]}" -eq 0 ] || { echo "asan: FAILED: ${failed[*]}"; exit 1; }
