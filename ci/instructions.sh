#!/usr/bin/env bash
# Hazard: work that nobody sees, because times are noisy. Counts the instructions of each kind of
# operation (crates/everleaf/examples/instructions.rs, under callgrind, which has no AVX-512) and
# compares them with ci/instructions.txt: 2 % more or less fails. The rows locked_* count those that lock
# a word: a transaction that meets nobody locks its own words, its leaves and the clock's. The rows c_* are of a program in C
# (crates/capi/tests/instructions.c) with the same keys; how many more a call takes is printed.
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
cargo build --quiet --release -p everleaf-capi
out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT
release="${CARGO_TARGET_DIR:-target}/release"

# Counts functions of a program, those whose names begin with words: count WORD ... -- PROGRAM ...
count() {
    local toggles=()
    while [ "$1" != -- ]; do
        toggles+=("--toggle-collect=$1*")
        shift
    done
    shift
    if ! valgrind --tool=callgrind --collect-bus=yes --callgrind-out-file="$out/calls" "${toggles[@]}" \
        "$@" > "$out/said" 2> "$out/log"; then
        cat "$out/log" >&2
        exit 1
    fi
    rows Ir
    rows Ge | sed -nE 's/^(db_put|db_tx_ledger) /locked_\1 /p'
}

# Prints the rows of an event: instructions, or those that lock a word.
rows() {
    # "1,234 (5.6%)  file:instructions::db_put [program]" -> "db_put 0.12".
    callgrind_annotate --auto=no --inclusive=yes --threshold=100 --show="$1" --sort="$1" "$out/calls" \
        | sed -nE 's/^ *([0-9,]+) .*:(instructions::)?((db|words|circ|c)_[a-z0-9_]+) \[.*/\3 \1/p' | tr -d , \
        | awk -v n="$(awk '$1 == "operations" { print $2 }' "$out/said")" '{ printf "%s %.0f\n", $1, $2 / n }'
}

cc -std=c99 -O2 -Icrates/capi/include -o "$out/in_c" crates/capi/tests/instructions.c \
    "$release/libeverleaf.a" -lpthread -ldl -lm
"$release/examples/instructions" "$out/keys"
{
    count instructions::db_ instructions::words_ instructions::circ_ -- "$release/examples/instructions"
    count c_get c_put c_next -- "$out/in_c" "$out/pool" "$out/keys"
} | sort > "$out/counts"
if [ "$(wc -l < "$out/counts")" -ne 46 ]; then
    echo "not the 46 counts that were expected:" && cat "$out/counts"
    exit 1
fi
awk '
    { of[$1] = $2 }
    END {
        split("c_get db_get_with 1 c_put db_put 1 c_next db_cursor_all 2", row)
        for (i = 1; i < 9; i += 3) {
            more = (of[row[i]] - of[row[i + 1]]) / row[i + 2]
            printf "%-6s %+.1f a call beside %s\n", row[i], more, row[i + 1]
        }
    }
' "$out/counts"

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
