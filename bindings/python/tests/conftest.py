"""What the tests share: pools, random numbers with a seed, and programs that run in a process of their own."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap

import pytest

import everleaf

#: One variable for all random tests, as in the tests of the Rust crates.
SEED = int(os.environ.get("EVERLEAF_SEED", "1"))
#: How much the random tests and the kill test do: `ci` unless it is set.
SCALES = {"smoke": 1, "ci": 4, "nightly": 100}
SCALE = SCALES[os.environ.get("EVERLEAF_SCALE", "ci")]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pool.ever"


@pytest.fixture
def db(path):
    with everleaf.Db(path) as db:
        yield db


@pytest.fixture
def tree(db):
    return db.tree("t")


@pytest.fixture
def rng(request):
    """Random numbers; a test that fails prints the command that repeats it."""
    print(f"run it again: EVERLEAF_SEED={SEED} pytest '{request.node.nodeid}'")
    return random.Random(SEED)


def run(program, *args, expect=0, timeout=120):
    """Runs a program in an interpreter of its own and returns what it printed."""
    line = [sys.executable, "-c", textwrap.dedent(program), *map(str, args)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    return done.stdout
