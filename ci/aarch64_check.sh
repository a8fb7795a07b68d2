#!/usr/bin/env bash
# Compiles the product for aarch64, whose flushes (dc cvap, dc cvac) and barriers no x86 machine
# runs. Not among the default tests: it needs the target's standard library, and ends with 77
# ("skipped") where that cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
if ! rustup target list --installed | grep -qx "$target" && ! rustup target add "$target"; then
    echo "skipped: no standard library for $target"
    exit 77
fi
cargo check -p everleaf-pmem -p everleaf-file -p everleaf-pool -p everleaf-tree -p everleaf \
    -p everleaf-cli --target "$target"
