"""Everleaf beside plyvel, lmdb and sqlite: one call at a time, from one Python thread.

    bench.py [PAIRS [ROUNDS [FOLDER]]]

Each round makes all stores anew and runs each operation on one store after the other, first on another one each time.
The table has medians over the rounds. No store waits for the disk: lmdb runs with sync=False, sqlite in WAL mode with
synchronous=normal. A store whose package is missing is left out.
"""

from __future__ import annotations

import gc
import os
import random
import shutil
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict

import everleaf

try:
    import plyvel
except ImportError:
    plyvel = None
try:
    import lmdb
except ImportError:
    lmdb = None

PAIRS = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
RANDOM = random.Random(1)
KEYS = [bytes(RANDOM.getrandbits(8) for _ in range(16)) for _ in range(PAIRS)]
VALUE = bytes(RANDOM.getrandbits(8) for _ in range(100))
SHUFFLED = RANDOM.sample(KEYS, PAIRS)
STARTS = SHUFFLED[: PAIRS // 20]


def take_100(pairs):
    n = 0
    for _ in pairs:
        n += 1
        if n == 100:
            break


class Everleaf:
    name = "everleaf"

    def __init__(self, folder):
        self.db = everleaf.Db(f"{folder}/pool.ever")
        self.tree, self.other = self.db.tree("t"), self.db.tree("other")

    def put(self):
        tree = self.tree
        for key in KEYS:
            tree[key] = VALUE

    def put_batches(self):
        for at in range(0, PAIRS, 1000):
            with self.db.batch() as batch:
                for key in KEYS[at : at + 1000]:
                    batch.put(self.other, key, VALUE)

    def get(self):
        tree = self.tree
        for key in SHUFFLED:
            tree[key]

    get_in_one = get

    def iterate(self):
        return sum(1 for key, value in self.tree.items())

    def scan(self):
        for key in STARTS:
            take_100(self.tree.range(key))

    def close(self):
        self.db.close()


class Plyvel:
    name = "plyvel"

    def __init__(self, folder):
        self.db = plyvel.DB(f"{folder}/t", create_if_missing=True)
        self.other = plyvel.DB(f"{folder}/other", create_if_missing=True)

    def put(self):
        db = self.db
        for key in KEYS:
            db.put(key, VALUE)

    def put_batches(self):
        for at in range(0, PAIRS, 1000):
            with self.other.write_batch() as batch:
                for key in KEYS[at : at + 1000]:
                    batch.put(key, VALUE)

    def get(self):
        db = self.db
        for key in SHUFFLED:
            db.get(key)

    get_in_one = get

    def iterate(self):
        return sum(1 for key, value in self.db)

    def scan(self):
        for key in STARTS:
            take_100(self.db.iterator(start=key))

    def close(self):
        self.db.close()
        self.other.close()


class Lmdb:
    name = "lmdb"

    def __init__(self, folder):
        self.env = lmdb.open(f"{folder}/m", map_size=4 << 30, sync=False, max_dbs=2)
        self.tree, self.other = self.env.open_db(b"t"), self.env.open_db(b"other")

    def put(self):
        env, tree = self.env, self.tree
        for key in KEYS:
            with env.begin(write=True, db=tree) as transaction:
                transaction.put(key, VALUE)

    def put_batches(self):
        for at in range(0, PAIRS, 1000):
            with self.env.begin(write=True, db=self.other) as transaction:
                for key in KEYS[at : at + 1000]:
                    transaction.put(key, VALUE)

    def get(self):
        env, tree = self.env, self.tree
        for key in SHUFFLED:
            with env.begin(db=tree) as transaction:
                transaction.get(key)

    def get_in_one(self):
        with self.env.begin(db=self.tree) as transaction:
            for key in SHUFFLED:
                transaction.get(key)

    def iterate(self):
        with self.env.begin(db=self.tree) as transaction:
            return sum(1 for key, value in transaction.cursor())

    def scan(self):
        with self.env.begin(db=self.tree) as transaction:
            cursor = transaction.cursor()
            for key in STARTS:
                cursor.set_range(key)
                take_100(cursor.iternext())

    def close(self):
        self.env.close()


class Sqlite:
    name = "sqlite"

    def __init__(self, folder):
        self.db = sqlite3.connect(f"{folder}/s.db", isolation_level=None)
        self.db.execute("pragma journal_mode=wal")
        self.db.execute("pragma synchronous=normal")
        for table in ("t", "other"):
            self.db.execute(f"create table {table}(k blob primary key, v blob) without rowid")

    def put(self):
        execute = self.db.execute
        for key in KEYS:
            execute("insert or replace into t values(?, ?)", (key, VALUE))

    def put_batches(self):
        for at in range(0, PAIRS, 1000):
            self.db.execute("begin")
            rows = [(key, VALUE) for key in KEYS[at : at + 1000]]
            self.db.executemany("insert or replace into other values(?, ?)", rows)
            self.db.execute("commit")

    def get(self):
        execute = self.db.execute
        for key in SHUFFLED:
            execute("select v from t where k=?", (key,)).fetchone()

    get_in_one = get

    def iterate(self):
        return sum(1 for key, value in self.db.execute("select k, v from t order by k"))

    def scan(self):
        for key in STARTS:
            rows = self.db.execute("select k, v from t where k>=? order by k limit 100", (key,))
            take_100(rows)

    def close(self):
        self.db.close()


OPERATIONS = [
    ("put", "put, one a call", PAIRS),
    ("put_batches", "put, batches of 1,000", PAIRS),
    ("get", "get (lmdb: a transaction each)", PAIRS),
    ("get_in_one", "get (lmdb: one transaction)", PAIRS),
    ("iterate", "iterate", PAIRS),
    ("scan", "scan of 100", len(STARTS)),
]
BARS = [
    ("put", "plyvel", 2.0),
    ("get", "lmdb", 2.0),
    ("iterate", "lmdb", 1.2),
    ("scan", "lmdb", 1.2),
]


def one_round(number, folder, stores, rates):
    """Runs each operation on each store."""
    opened = []
    for store in stores:
        place = f"{folder}/{store.name}"
        os.makedirs(place)
        opened.append(store(place))
    for turn, (operation, _, count) in enumerate(OPERATIONS):
        for at in range(len(opened)):
            store = opened[(at + number + turn) % len(opened)]
            gc.collect()
            begun = time.perf_counter()
            answer = getattr(store, operation)()
            rates[operation, store.name].append(count / (time.perf_counter() - begun))
            assert operation != "iterate" or answer == PAIRS, (store.name, answer)
    for store in opened:
        store.close()


def stands_still(folder, write, value_bytes):
    """The longest time, in milliseconds, for which another thread stands still beside a loop of writes."""
    value = os.urandom(value_bytes)
    keys = KEYS[: max(PAIRS * 100 // value_bytes // 2, 1000)]
    longest, stop = [0.0], threading.Event()

    def other():
        last = time.perf_counter()
        while not stop.is_set():
            time.sleep(0.0005)
            now = time.perf_counter()
            longest[0] = max(longest[0], now - last)
            last = now

    with everleaf.Db(f"{folder}/still{value_bytes}{bool(write)}.ever") as db:
        tree = db.tree("t")
        control = {}
        thread = threading.Thread(target=other)
        thread.start()
        target = tree if write else control
        for _ in range(2):
            for key in keys:
                target[key] = value
        stop.set()
        thread.join()
    return longest[0] * 1000


def main():
    stores = [Everleaf, Sqlite]
    stores += [Plyvel] if plyvel else []
    stores += [Lmdb] if lmdb else []
    rates = defaultdict(list)
    still = defaultdict(list)
    top = sys.argv[3] if len(sys.argv) > 3 else None
    for number in range(ROUNDS):
        folder = tempfile.mkdtemp(dir=top)
        try:
            one_round(number, folder, stores, rates)
            for value_bytes in (100, 4000):
                still[value_bytes].append(stands_still(folder, True, value_bytes))
            still["a dict"].append(stands_still(folder, False, 100))
        finally:
            shutil.rmtree(folder)
    median = {what: statistics.median(found) for what, found in rates.items()}
    print(f"{PAIRS:,} pairs of 16 and 100 bytes, medians of {ROUNDS} rounds; thousands a second")
    print(f"Python {sys.version.split()[0]}, everleaf {everleaf.__version__}")
    print(f"{'':32}" + "".join(f"{store.name:>10}" for store in stores))
    for operation, title, _ in OPERATIONS:
        row = "".join(f"{median[operation, store.name] / 1000:10,.1f}" for store in stores)
        print(f"{title:32}{row}")
    for operation, peer, bar in BARS:
        if (operation, peer) in median:
            ratio = median[operation, "everleaf"] / median[operation, peer]
            print(f"{operation} / {peer}: {ratio:.2f} (at least {bar})")
    for what, found in still.items():
        name = f"puts of {what} bytes" if isinstance(what, int) else "writes to a dict, for comparison"
        print(
            f"another thread stands still beside {name}: at worst {max(found):.1f} ms, "
            f"median of the rounds' worst {statistics.median(found):.1f} ms (at most 20)"
        )


if __name__ == "__main__":
    main()
