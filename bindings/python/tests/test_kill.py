"""Kill -9 of a Python program: each line that it acknowledged is there, and the pool is the state of some moment.

`pytest tests/test_kill.py` runs a few rounds; `python tests/test_kill.py 500` runs as many as asked.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import everleaf

if __name__ != "__main__":
    from conftest import SCALE, SEED

#: Writes lines in order, and says which are durable: by one of five ways.
PROGRAM = """
import asyncio, everleaf, sys
path, first, way = sys.argv[1], int(sys.argv[2]), sys.argv[3]
db = everleaf.Db(path, interval=0.002)
lines, index = db.tree("lines"), db.tree("index")

def say(n):
    print(n, flush=True)

def write(n):
    with db.batch() as batch:
        batch.put(lines, b"%08d" % n, b"line %d" % n * (n % 50))
        batch.put(index, b"last", b"%d" % n)

async def by_event_loop(n):
    while True:
        for _ in range(20):
            write(n)
            n += 1
        await db.durable()
        say(n - 1)

n = first
say(n - 1)
if way == "async":
    asyncio.run(by_event_loop(n))
while True:
    if way == "put":
        lines.put(b"%08d" % n, b"line %d" % n * (n % 50))
        index.put(b"last", b"%d" % n, sync=True)
        say(n)
    elif way == "batch":
        with db.batch(sync=True) as batch:
            batch.put(lines, b"%08d" % n, b"line %d" % n * (n % 50))
            batch.put(index, b"last", b"%d" % n)
        say(n)
    elif way == "transact":
        def add(transaction):
            last = int(transaction.get(index, b"last", b"-1"))
            assert last == n - 1 or last == -1, (last, n)
            transaction.put(lines, b"%08d" % n, b"line %d" % n * (n % 50))
            transaction.put(index, b"last", b"%d" % n)
        db.transact(add)
        if n % 10 == 0:
            db.sync()
            say(n)
    else:
        write(n)
        if n % 50 == 0:
            db.wait_durable()
            say(n)
        if n % 1000 == 0:
            db.checkpoint()
    n += 1
"""
WAYS = ["put", "batch", "transact", "wait", "async"]


def one_round(path, rng, first):
    """Starts the program, kills it at a random moment, and looks at what is left. Returns the next line's number."""
    way = rng.choice(WAYS)
    line = [sys.executable, "-c", PROGRAM, path, str(first), way]
    process = subprocess.Popen(line, stdout=subprocess.PIPE)
    ready = process.stdout.readline()
    assert ready.strip() == b"%d" % (first - 1), (way, ready)
    time.sleep(rng.random() * rng.choice([0.005, 0.05, 0.2]))
    process.send_signal(signal.SIGKILL)
    said = process.stdout.read().split(b"\n")
    assert process.wait() == -signal.SIGKILL, way
    # The last piece may be half a number.
    acknowledged = max([int(number) for number in said[:-1]], default=first - 1)
    with everleaf.Db(path) as db:
        lines = list(db.tree("lines").items())
        last = int(db.tree("index").get(b"last", b"-1"))
        assert db.check() == []
    expected = [(b"%08d" % n, b"line %d" % n * (n % 50)) for n in range(len(lines))]
    assert lines == expected, f"{way}: not a prefix"
    # Two puts are two operations; all other ways write both at once.
    assert last == len(lines) - 1 or (way == "put" and last == len(lines) - 2), (way, last, len(lines))
    assert len(lines) > acknowledged, f"{way}: line {acknowledged} was acknowledged and is gone"
    return len(lines), acknowledged - first + 1


def rounds(folder, seed, count):
    rng, first, acknowledged = random.Random(seed), 0, 0
    path = os.path.join(folder, "pool.ever")
    for number in range(count):
        if first > 20_000:
            os.remove(path)
            first = 0
        if first and rng.random() < 0.5:
            # Most orders of `put` leave the index one behind.
            with everleaf.Db(path) as db:
                db.tree("index")[b"last"] = b"%d" % (first - 1)
        try:
            first, said = one_round(path, rng, first)
        except BaseException:
            print(f"round {number}; run it again: {sys.argv[0]} {count} {seed}")
            raise
        acknowledged += said
    return acknowledged


def test_each_acknowledged_line_survives_a_kill(tmp_path):
    print(f"run it again: EVERLEAF_SEED={SEED} pytest tests/test_kill.py")
    assert rounds(str(tmp_path), SEED, 5 * SCALE) > 0


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    with tempfile.TemporaryDirectory() as folder:
        acknowledged = rounds(folder, seed, count)
    print(f"{count} kills, {acknowledged} acknowledged lines, all there")
