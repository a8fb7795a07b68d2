#!/usr/bin/env bash
# Runs each fuzz target under libFuzzer with AddressSanitizer for some seconds (60), with what it has
# found before: fuzz/corpus and fuzz/regressions. Needs cargo-fuzz (cargo install cargo-fuzz) and the
# nightly toolchain, or none but stable by RUSTC_BOOTSTRAP.
#
#   ci/fuzz.sh [SECONDS [TARGET ...]]
#
# New inputs stay in $EVERLEAF_FUZZ_OUT (target/fuzz-new); copy the minimised ones into fuzz/corpus:
#   cargo fuzz cmin TARGET fuzz/corpus/TARGET $EVERLEAF_FUZZ_OUT/TARGET
set -euo pipefail
cd "$(dirname "$0")/.."

seconds="${1:-60}"
shift || true
targets=("$@")
[ "${#targets[@]}" -gt 0 ] || targets=(open_raw open_structured hostile journal operations crash node)
out="${EVERLEAF_FUZZ_OUT:-target/fuzz-new}"
if ! command -v cargo-fuzz > /dev/null; then
    echo "fuzz: skipped, there is no cargo-fuzz (cargo install cargo-fuzz)"
    exit 0
fi
export RUSTC_BOOTSTRAP=1
for target in "${targets[@]}"; do
    echo "== fuzz $target, $seconds s"
    mkdir -p "$out/$target" "$out/artifacts/$target" "fuzz/corpus/$target" "fuzz/regressions/$target"
    # Nothing may be allocated by a number in a file: the largest input makes files of a mebibyte.
    cargo fuzz run "$target" "$out/$target" "fuzz/corpus/$target" "fuzz/regressions/$target" -- \
        -max_total_time="$seconds" -timeout=20 -malloc_limit_mb=64 -rss_limit_mb=2048 \
        -max_len=16384 -print_final_stats=1 -artifact_prefix="$out/artifacts/$target/"
done
