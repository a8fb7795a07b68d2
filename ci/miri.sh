#!/usr/bin/env bash
# Hazard: undefined behaviour and data races that no run on a real machine shows. Miri interprets the
# unit tests of the media (the one crate with `unsafe`, with the scalar searches in place of the
# vectors) and of the pool: a minute or two. With EVERLEAF_MIRI_SEEDS=N (0), also a Db with threads
# and a power cut on a simulated disk, in N schedules of minutes each. It cannot see `asm!`, mappings
# of files and real disks, nor other schedules than it happens to take.
#
# Needs `rustup component add miri rust-src --toolchain nightly`; ends with 77 ("skipped") without.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly miri --version > /dev/null 2>&1; then
    echo "skipped: no Miri in the nightly toolchain"
    exit 77
fi
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/miri"
# Epochs read the machine's clock.
flags="-Zmiri-disable-isolation ${MIRIFLAGS:-}"

# Left out: loops over all shapes that hold no pointers or, here, compare the scalar search with
# itself, many panics, whose traces take minutes here, the simulated disk, which is for tests, and
# mappings of files and of more than there is.
MIRIFLAGS="$flags" cargo +nightly miri test -p everleaf-pmem --lib --test bytes -- \
    --skip slots_move_at_once --skip words_move_by_a_slot --skip all_variants_find_the_same_bytes \
    --skip what_does_not_fit --skip a_lead_that_wraps \
    --skip no_address_space
MIRIFLAGS="$flags" cargo +nightly miri test -p everleaf-file --lib -- --skip io::sim
MIRIFLAGS="$flags" cargo +nightly miri test -p everleaf-pool --lib -- \
    --skip every_length_has_a_class --skip runs_change_their_bytes
for ((seed = 0; seed < ${EVERLEAF_MIRI_SEEDS:-0}; seed++)); do
    MIRIFLAGS="$flags -Zmiri-seed=$seed" cargo +nightly miri test -p everleaf --test threads_sim
done
