"""Pools: open, close, options, errors, epochs, figures, copies."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import threading
import uuid
from pathlib import Path

import pytest

import everleaf

TOP = Path(__file__).resolve().parents[3]


def test_a_closed_pool_says_so_from_every_handle(path):
    db = everleaf.Db(path)
    tree, snapshot, batch, transaction = db.tree("t"), db.snapshot(), db.batch(), db.transaction()
    tree[b"a"] = b"1"
    at_moment, cursor = snapshot.tree(tree), tree.cursor()
    batch.put(tree, b"b", b"2")
    transaction.put(tree, b"c", b"3")
    walk = tree.range()
    assert next(walk) == (b"a", b"1") and db.path == path and not db.closed
    db.close()
    db.close()
    assert db.closed and "closed" in repr(db)
    calls = [
        lambda: tree[b"a"],
        lambda: tree.__setitem__(b"a", b""),
        lambda: len(tree),
        lambda: list(tree),
        lambda: at_moment[b"a"],
        lambda: cursor.first(),
        lambda: batch.commit(),
        lambda: transaction.commit(),
        lambda: db.tree("u"),
        lambda: db.batch(),
        lambda: db.transaction(),
        lambda: db.snapshot(),
        lambda: db.stats(),
        lambda: db.check(),
        lambda: db.sync(),
        lambda: tree.update({b"a": b""}),
        lambda: db.backup(path.with_suffix(".copy")),
    ]
    for number, call in enumerate(calls):
        with pytest.raises(everleaf.Closed) as raised:
            call()
        assert isinstance(raised.value, ValueError), number
    with everleaf.Db(path) as again:
        assert dict(again.tree("t")) == {b"a": b"1"}


def test_a_pool_closes_with_its_last_handle(path):
    tree = everleaf.Db(path).tree("t")
    tree[b"a"] = b"1"
    walk = iter(tree)
    del tree
    # The iterator is a handle, too.
    with pytest.raises(everleaf.Locked):
        everleaf.Db(path)
    assert next(walk) == b"a"
    del walk
    with everleaf.Db(path) as db:
        assert db.tree("t")[b"a"] == b"1"


def test_errors_of_an_open(path, tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        everleaf.Db(tmp_path / "no" / "pool")
    assert isinstance(raised.value, everleaf.NotFound) and isinstance(raised.value, everleaf.Error)
    with pytest.raises(everleaf.NotFound):
        everleaf.Db(path, create=False)
    (tmp_path / "other").write_bytes(b"not a pool" * 1000)
    with pytest.raises(everleaf.Foreign):
        everleaf.Db(tmp_path / "other")
    with everleaf.Db(path), pytest.raises(everleaf.Locked) as raised:
        everleaf.Db(path)
    assert raised.value.errno and "open in this process already" in raised.value.strerror
    with pytest.raises(TypeError) as raised:
        everleaf.Db(path, no_such_option=1)
    assert "no_such_option" in str(raised.value) and "page_bytes" in str(raised.value)
    with pytest.raises(TypeError):
        everleaf.Db(path, no_such_option=None)
    for wrong in ({"compression": "zip"}, {"storage": "tape"}, {"interval": -1}, {"interval": float("nan")}):
        with pytest.raises(ValueError):
            everleaf.Db(path, **wrong)
    for storage in ("dax", "emulated-dax"):
        with pytest.raises(everleaf.Unsupported) as raised:
            everleaf.Db(tmp_path / "new", storage=storage, max_bytes=4 << 20)
        assert "the feature `dax`" in raised.value.strerror
    with pytest.raises(everleaf.Invalid):
        everleaf.Db(tmp_path / "new", page_bytes=1000)
    with pytest.raises(OverflowError):
        everleaf.Db(path, memory=-1)


def test_read_only(path):
    with everleaf.Db(path) as db:
        db.tree("t")[b"a"] = b"1"
    with everleaf.Db(path, read_only=True) as one, everleaf.Db(path, read_only=True) as other:
        tree = one.tree("t")
        assert tree[b"a"] == other.tree("t")[b"a"] == b"1"
        with pytest.raises(everleaf.ReadOnly):
            tree[b"a"] = b"2"
        with pytest.raises(everleaf.ReadOnly):
            one.tree("new")
        with pytest.raises(everleaf.NoTree):
            one.tree("new", create=False)


def test_options_are_those_of_the_rust_library():
    api = (TOP / "ci/public-api/everleaf.txt").read_text()
    there = set(re.findall(r"fn everleaf::Options::(\w+)\(self, ", api))
    source = (TOP / "bindings/python/src/options.rs").read_text()
    names = set(re.findall(r'^    "(\w+)",$', source, re.M))
    assert names == there - {"durability"} | {"sync"}


def test_each_error_of_the_rust_library_has_a_class():
    api = (TOP / "ci/public-api/everleaf.txt").read_text()
    there = set(re.findall(r"variant everleaf::Error::(\w+)", api))
    source = (TOP / "bindings/python/src/errors.rs").read_text()
    classes = source.split("fn class(", 1)[1].split("\n}\n", 1)[0]
    assert set(re.findall(r"Error::(\w+)", classes)) == there
    for name in set(re.findall(r'\("([A-Z]\w+)", ', source)):
        assert issubclass(getattr(everleaf, name), everleaf.Error), name


def test_figures_are_those_of_the_rust_library(db, tree):
    api = (TOP / "ci/public-api/everleaf.txt").read_text()
    for name in ("Stats", "MemoryStats", "TreeStats", "Damage", "Compaction"):
        there = set(re.findall(rf"field everleaf::{name}\.(\w+)", api))
        assert {field.name for field in dataclasses.fields(getattr(everleaf, name))} == there
    tree.update({b"a": b"1", b"b": b"22"})
    stats = db.stats()
    assert stats.page_bytes == 4096 and isinstance(stats.uuid, uuid.UUID)
    assert stats.memory.bytes > 0 and stats.epoch >= stats.durable_epoch
    with pytest.raises(dataclasses.FrozenInstanceError):
        stats.epoch = 1
    counts = db.count()
    assert [(tree.name, tree.entries, tree.value_bytes) for tree in counts.trees] == [("t", 2, 3)]
    assert counts.pages["node"] >= 1


def test_names_of_trees(db):
    db.tree("a")[b"k"] = b"v"
    db.tree("b")
    assert db.tree_names() == ["a", "b"] and db.tree("a").name == "a"
    assert db.rename_tree("a", "c") and not db.rename_tree("a", "d")
    with pytest.raises(everleaf.TreeExists):
        db.rename_tree("c", "b")
    gone = db.tree("c")
    assert gone[b"k"] == b"v" and db.drop_tree("c") and not db.drop_tree("c")
    with pytest.raises(everleaf.NoTree):
        gone[b"k"]
    for wrong in ("", "x" * 256):
        with pytest.raises(everleaf.Invalid):
            db.tree(wrong)


def test_epochs(db, tree):
    tree[b"a"] = b"1"
    epoch = db.epoch
    assert db.wait_durable(epoch) and db.durable_epoch >= epoch
    assert db.wait_durable(timeout=30) and db.wait_durable(0, timeout=0)
    assert not db.wait_durable(db.epoch + 1000, timeout=0.05)
    with pytest.raises(ValueError):
        db.wait_durable(timeout=-1)
    db.sync()
    db.checkpoint()
    tree.put(b"b", b"2", sync=True)
    with db.batch(sync=True) as batch:
        batch.put(tree, b"c", b"3")
    before = db.epoch
    db.tree("t", sync=True)[b"d"] = b"4"
    assert db.durable_epoch >= before


def test_a_pool_without_threads_keeps_what_was_synced(path):
    db = everleaf.Db(path, background=False)
    tree = db.tree("t")
    tree[b"kept"] = b""
    db.sync()
    tree[b"gone"] = b""
    db.abandon()
    with everleaf.Db(path) as db:
        assert list(db.tree("t")) == [b"kept"]


def test_a_program_ends_epochs(path):
    db = everleaf.Db(path, manual_epochs=True)
    tree = db.tree("t")
    tree[b"kept"] = b"x" * 20_000
    assert db.pending_bytes > 0
    db.checkpoint()
    epoch = db.end_epoch()
    assert db.epoch == epoch + 1 and db.pending_bytes == 0
    assert db.wait_durable(epoch)
    tree[b"gone"] = b""
    copy = path.with_name("copy")
    assert db.backup(copy) == epoch
    db.checkpoint()
    db.abandon()
    for found in (path, copy):
        with everleaf.Db(found) as db:
            assert list(db.tree("t")) == [b"kept"]
    with pytest.raises(everleaf.Closed):
        db.end_epoch()


def test_event_loops_wait_for_the_disk(path):
    async def work(db, tree, number):
        tree[b"%d" % number] = b"v"
        epoch = db.epoch
        await db.durable(epoch)
        assert db.durable_epoch >= epoch

    async def all_of_it(db, tree):
        await asyncio.gather(*(work(db, tree, number) for number in range(50)))
        await db.durable()
        # A wait that is given up leaves nothing behind.
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(db.durable(db.epoch + 1000), 0.05)
        await db.durable(0)
        waits = asyncio.ensure_future(db.durable(db.epoch + 1000))
        await asyncio.sleep(0.02)
        await asyncio.get_running_loop().run_in_executor(None, db.close)
        with pytest.raises(everleaf.Closed):
            await waits

    with everleaf.Db(path) as db:
        asyncio.run(all_of_it(db, db.tree("t")))


def test_copies_and_checks(db, tree, tmp_path):
    tree.update_many((b"%05d" % n, b"v" * 100) for n in range(5000))
    assert db.backup(tmp_path / "copy") > 0
    with pytest.raises(FileExistsError) as raised:
        db.backup(tmp_path / "copy")
    assert isinstance(raised.value, everleaf.FileExists)
    tree.clear()
    compaction = db.compact()
    assert compaction.after_bytes > 0 and compaction.before_bytes > 0
    assert db.check() == []
    with everleaf.Db(tmp_path / "copy", read_only=True) as copy:
        assert len(copy.tree("t")) == 5000


def test_damage_is_found_and_named(path):
    with everleaf.Db(path) as db:
        db.tree("t").update_many((b"%05d" % n, b"v" * 100) for n in range(5000))
    data = bytearray(path.read_bytes())
    for at in range(len(data) // 2, len(data) // 2 + 4096):
        data[at] ^= 0x5A
    path.write_bytes(data)
    with everleaf.Db(path) as db:
        damages = db.check()
        assert damages and all(isinstance(damage, everleaf.Damage) for damage in damages)
        with pytest.raises(everleaf.Corrupt) as raised:
            list(db.tree("t").items())
        assert raised.value.offset > 0 and raised.value.file == "data"


def with_a_damaged_value(path):
    """The pairs a to g, of which d has a value of its own pages that is damaged in the file."""
    with everleaf.Db(path) as db:
        db.tree("t").update_many((b"%c" % key, bytes([key ^ 0xA5]) * (20_000 if key == ord("d") else 3)) for key in b"abcdefg")
    data = bytearray(path.read_bytes())
    data[data.index(bytes([ord("d") ^ 0xA5]) * 1000) + 500] ^= 1
    path.write_bytes(data)


def walk(items):
    """The keys that an iterator gives, with an exclamation mark for each error: the first one ends it."""
    items, keys = iter(items), ""
    while len(keys) < 20:
        try:
            keys += next(items)[0].decode()
        except everleaf.Corrupt:
            keys += "!"
        except StopIteration:
            break
    return keys


def test_pairs_before_a_damage_come_first(path):
    with_a_damaged_value(path)
    with everleaf.Db(path) as db, db.snapshot() as snapshot:
        tree = db.tree("t")
        for reading in tree, snapshot.tree("t"):
            assert walk(reading.items()) == "abc!"
            assert walk(reading.range(reverse=True)) == "gfe!"
            assert walk(reading.range(b"d")) == "!"
            assert walk(reading.range(b"e")) == "efg"
        with db.transaction() as transaction:
            assert walk(transaction.range(tree)) == "abc!"
            # It needs the value of before, and nobody could keep that.
            tree[b"d"] = b"new"
            assert walk(transaction.range(tree)) == "abc!"
            assert walk(transaction.range(tree, reverse=True)) == "gfe!"
            assert walk(transaction.range(tree, b"d", keys=True, values=False)) == "!"
            transaction.abort()
        assert tree[b"d"] == b"new"


def test_a_full_pool(path):
    with everleaf.Db(path, max_bytes=1 << 20) as db:
        tree = db.tree("t")
        with pytest.raises(everleaf.Full):
            for n in range(100_000):
                tree[b"%06d" % n] = b"v" * 400
        assert tree[b"000000"] == b"v" * 400
        tree.clear()


def test_threads_write_and_read_at_once(db, tree):
    failed = []

    def work(number):
        try:
            for n in range(3000):
                key = b"%d/%05d" % (number, n)
                tree[key] = key * 10
                assert tree[key] == key * 10
            assert len(list(tree.range(prefix=b"%d/" % number))) == 3000
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and len(tree) == 12_000


def test_a_pool_in_memory(tmp_path):
    with everleaf.Db.in_memory(max_bytes=64 << 20) as db:
        db.tree("t")[b"a"] = b"1"
        assert db.path is None and "in memory" in repr(db)
        db.backup(tmp_path / "copy")
    with everleaf.Db(tmp_path / "copy") as db:
        assert db.tree("t")[b"a"] == b"1"
    with pytest.raises(everleaf.Invalid):
        everleaf.Db.in_memory(read_only=True)


def test_pools_share_a_budget(tmp_path):
    budget = everleaf.Budget(64 << 20)
    assert (budget.bytes, budget.pools, budget.used) == (64 << 20, 0, 0)
    with everleaf.Db(tmp_path / "a", budget=budget) as one, everleaf.Db(tmp_path / "b", budget=budget) as other:
        for db in (one, other):
            db.tree("t")[b"key"] = bytes(10_000)
            assert db.stats().memory.most_bytes <= budget.bytes
        assert budget.pools == 2 and 0 < budget.used < budget.bytes
        assert "2 pools" in repr(budget)
    shared = everleaf.Budget.of_process()
    before = shared.pools
    with everleaf.Db(tmp_path / "a") as db:
        assert shared.pools == before + 1
        assert db.stats().memory.most_bytes <= shared.bytes
    with pytest.raises(TypeError):
        everleaf.Db(tmp_path / "a", budget=7)


def test_everything_public_is_documented():
    bare = []
    for name in everleaf.__all__:
        item = getattr(everleaf, name)
        if not isinstance(item, type):
            continue
        if not (item.__doc__ or "").strip():
            bare.append(name)
        for method, value in vars(item).items() if item.__module__.startswith("everleaf") else ():
            if not method.startswith("_") and callable(value) and not value.__doc__:
                bare.append(f"{name}.{method}")
    for base in (everleaf.Db, everleaf.Tree, everleaf.Batch, everleaf.Cursor, everleaf.Transaction, everleaf.Snapshot):
        for method in dir(base):
            if not method.startswith("_") and not getattr(base, method).__doc__:
                bare.append(f"{base.__name__}.{method}")
    assert not bare
