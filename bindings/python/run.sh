#!/bin/sh
# Builds the Python package and runs it, in environments that this makes under target/python.
#
#   run.sh test            lints, the wheel, and all tests on Python 3.9 and 3.13
#   run.sh wheel           the wheel and the source archive, in target/python/dist
#   run.sh bench [ARGS]    bench.py beside plyvel, lmdb and sqlite
#   run.sh kill [ROUNDS]   kill -9 of a program, 500 times unless it says otherwise
#
# PYTHONS names the interpreters of `test`, PYTHON that of `bench` and `kill`. Ends with 77 if there is no interpreter.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)/target/python
dist=$top/dist
# The most bytes of a wheel.
most=1500000
cd "$here"
mkdir -p "$top"
export CARGO_TARGET_DIR="$top/build"

# The interpreter of a version: in the path, or among those of pyenv.
find_python() {
    if "python$1" -c '' 2>/dev/null; then
        command -v "python$1"
        return
    fi
    for python in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
        [ -x "$python" ] && echo "$python" && return
    done
    return 0
}

# An environment with the tools for an interpreter; prints its folder.
environment() {
    version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    venv=$top/venv-$version
    if ! cmp -s requirements.txt "$venv/requirements.txt"; then
        "$1" -m venv --clear "$venv" >&2
        "$venv/bin/pip" install -q --disable-pip-version-check -r requirements.txt >&2
        cp requirements.txt "$venv/requirements.txt"
    fi
    echo "$venv"
}

# Runs maturin with the tools of an environment.
run_maturin() {
    tools=$1
    shift
    PYO3_PYTHON="$tools/bin/python" VIRTUAL_ENV="$tools" PATH="$tools/bin:$PATH" "$tools/bin/maturin" "$@" >&2
}

# The wheel, as it is published. One interpreter builds it for all of them.
wheel() {
    rm -rf "$dist"
    builder=$(environment "$first")
    run_maturin "$builder" build --locked --release --zig --compatibility manylinux2014 \
        --compression-level 9 -o "$dist"
    bytes=$(cat "$dist"/*.whl | wc -c)
    ls -l "$dist" >&2
    [ "$bytes" -le "$most" ] || { echo "the wheel has $bytes bytes, at most $most" >&2 && exit 1; }
}

install() {
    "$1/bin/pip" install -q --disable-pip-version-check --no-deps --force-reinstall "$dist"/*.whl
}

one=$(find_python 3.9)
other=$(find_python 3.13)
pythons=${PYTHONS:-$one $other}
first=${pythons%% *}
[ -n "$first" ] || { echo "skipped: no Python 3.9 and no 3.13; PYTHONS may name another" && exit 77; }

task=${1:-test}
[ $# -eq 0 ] || shift
case $task in
test)
    venv=$(environment "$first")
    export PYO3_PYTHON="$venv/bin/python"
    cargo fmt --check
    cargo clippy -q --locked -- -D warnings
    wheel
    for python in $pythons; do
        venv=$(environment "$python")
        install "$venv"
        "$venv/bin/python" --version
        "$venv/bin/mypy" --strict python/everleaf
        # The only stub. Away from the sources, so that it is compared with the module that is installed.
        (cd "$top" && "$venv/bin/python" -m mypy.stubtest everleaf._everleaf)
        "$venv/bin/python" -m pytest -q -p no:cacheprovider "$@"
    done
    ;;
wheel)
    wheel
    run_maturin "$builder" sdist -o "$dist"
    ls -l "$dist"
    ;;
bench)
    # The last version for which plyvel has a wheel.
    python=${PYTHON:-$(find_python 3.12)}
    venv=$(environment "${python:-$first}")
    wheel
    install "$venv"
    for package in plyvel lmdb; do
        "$venv/bin/pip" install -q --disable-pip-version-check --only-binary :all: $package ||
            echo "without $package: it has no wheel for this Python"
    done
    "$venv/bin/python" bench.py "$@"
    ;;
kill)
    venv=$(environment "${PYTHON:-$first}")
    wheel
    install "$venv"
    "$venv/bin/python" tests/test_kill.py "${@:-500}"
    ;;
*)
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$0"
    exit 2
    ;;
esac
