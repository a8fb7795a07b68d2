#!/usr/bin/env bash
# Hazard: undefined behaviour and data races that no run on a real machine shows. Miri interprets
# what needs no `asm!`, no mapping of a file and no real disk: the unit tests of the media, pool and
# trees with the scalar searches in place of the vectors, and a Db with threads and a power cut on a
# simulated disk. What it leaves out is skipped by name below: loops over all shapes, hours here.
#
# Not among the default tests. Needs `rustup component add miri rust-src --toolchain nightly`; ends
# with 77 ("skipped") without. More seeds, hence schedules: EVERLEAF_MIRI_SEEDS (1).
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "skipped: no Miri in the nightly toolchain"
    exit 77
fi
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/miri"
# The clock of the machine, for epochs.
isolation="-Zmiri-disable-isolation"
for ((seed = 0; seed < ${EVERLEAF_MIRI_SEEDS:-1}; seed++)); do
    MIRIFLAGS="$isolation -Zmiri-seed=$seed" \
        cargo +nightly miri test -p everleaf --test half_made --test threads_sim
done
MIRIFLAGS="$isolation" cargo +nightly miri test -p everleaf-pmem --lib -- \
    --skip slots_move_at_once --skip words_move_by_a_slot
