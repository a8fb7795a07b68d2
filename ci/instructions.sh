#!/usr/bin/env bash
# Hazard: work that nobody sees, because times are noisy. Counts the instructions of each kind of
# operation (crates/everleaf/examples/instructions.rs, under callgrind, which has no AVX-512) and
# compares them with ci/instructions.txt: 2 % more or less fails.
#
#   ci/instructions.sh           compares
#   ci/instructions.sh --renew   writes ci/instructions.txt: after a change that is meant to cost or
#                                to save instructions, or another compiler
#
# Ends with 77 ("skipped") without valgrind, or if the compiler is not the one of the file.
set -euo pipefail
cd "$(dirname "$0")/.."

golden=ci/instructions.txt
if ! command -v valgrind > /dev/null; then
    echo "skipped: no valgrind"
    exit 77
fi
cargo build --quiet --release -p everleaf --features heavy --example instructions
out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT
program="${CARGO_TARGET_DIR:-target}/release/examples/instructions"
if ! valgrind --tool=callgrind --callgrind-out-file="$out/calls" \
    --toggle-collect='instructions::db_*' --toggle-collect='instructions::words_*' \
    "$program" > "$out/said" 2> "$out/log"; then
    cat "$out/log" >&2
    exit 1
fi
operations="$(awk '$1 == "operations" { print $2 }' "$out/said")"

# "1,234 (5.6%)  file:instructions::db_put [program]" -> "db_put 0.12", by name.
callgrind_annotate --auto=no --inclusive=yes --threshold=100 "$out/calls" \
    | sed -nE 's/^ *([0-9,]+) .*:instructions::((db|words)_[a-z0-9_]+) \[.*/\2 \1/p' | tr -d , \
    | awk -v n="$operations" '{ printf "%s %.0f\n", $1, $2 / n }' | sort > "$out/counts"
if [ "$(wc -l < "$out/counts")" -ne 26 ]; then
    echo "not the 26 counts that were expected:" && cat "$out/counts"
    exit 1
fi

compiler="$(rustc --version | cut -d' ' -f1,2)"
if [ "${1:-}" = --renew ]; then
    {
        echo "# Instructions an operation, a pair of a scan. By ci/instructions.sh --renew; $compiler"
        cat "$out/counts"
    } > "$golden"
fi
awk -v golden="$golden" '
    NR == FNR { if ($1 != "#") was[$1] = $2; next }
    {
        change = was[$1] ? 100 * ($2 / was[$1] - 1) : 100
        far = change > 2 || change < -2
        failed += far
        printf "%-16s %6d, %6d expected, %+6.1f %%%s\n", $1, $2, was[$1], change, far ? "  <--" : ""
    }
    END {
        if (failed) printf "%d counts are not those of %s\n", failed, golden
        exit failed > 0
    }
' "$golden" "$out/counts" && same=0 || same=1
if ! grep -q "; $compiler\$" "$golden"; then
    echo "skipped: $golden is of another compiler than $compiler"
    exit 77
fi
exit "$same"
