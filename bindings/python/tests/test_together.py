"""Batches, transactions and snapshots: whole or not at all, whatever happens in their blocks."""

from __future__ import annotations

import threading
import time

import pytest

import everleaf


class Stop(Exception):
    pass


def test_a_batch_commits_at_the_end_of_its_block(db, tree):
    other = db.tree("other")
    with db.batch() as batch:
        batch.put(tree, b"a", b"1")
        batch.put_many(other, {b"b": b"2", b"c": b"3"}.items())
        batch.delete(other, b"c")
        assert len(batch) == 4 and not tree and not other
    assert dict(tree) == {b"a": b"1"} and dict(other) == {b"b": b"2"}
    with pytest.raises(everleaf.Closed):
        batch.put(tree, b"z", b"")
    with pytest.raises(everleaf.Closed):
        batch.commit()


def test_an_exception_in_the_block_of_a_batch_changes_nothing(db, tree):
    with pytest.raises(Stop), db.batch() as batch:
        batch.put(tree, b"a", b"1")
        raise Stop
    assert not tree
    with db.batch() as batch:
        batch.put(tree, b"a", b"1")
        batch.abort()
    assert not tree
    with db.batch() as batch:
        batch.put(tree, b"a", b"1")
        batch.commit()
    assert dict(tree) == {b"a": b"1"}


def test_an_exception_in_the_block_of_a_transaction_changes_nothing(db, tree):
    tree[b"a"] = b"1"
    with pytest.raises(Stop), db.transaction() as transaction:
        transaction.put(tree, b"a", b"2")
        assert transaction.get(tree, b"a") == b"2" and tree[b"a"] == b"1"
        raise Stop
    assert tree[b"a"] == b"1"
    with pytest.raises(everleaf.Closed):
        transaction.get(tree, b"a")
    with pytest.raises(Stop):
        db.transact(lambda transaction: stop_after(transaction, tree))
    assert tree[b"a"] == b"1"


def stop_after(transaction, tree):
    transaction.put(tree, b"a", b"2")
    raise Stop


def test_an_exception_in_the_block_of_a_snapshot_ends_it(db, tree):
    with pytest.raises(Stop), db.snapshot() as snapshot:
        raise Stop
    with pytest.raises(everleaf.Closed):
        snapshot.tree(tree)
    assert db.stats().snapshots == 0


def test_an_exception_in_the_block_of_a_pool_closes_it(path):
    with pytest.raises(Stop), everleaf.Db(path) as db:
        db.tree("t")[b"a"] = b"1"
        raise Stop
    assert db.closed
    with everleaf.Db(path) as db:
        assert db.tree("t")[b"a"] == b"1"


def test_a_transaction_sees_its_own_writes_and_its_moment(db, tree):
    tree.update({b"a": b"1", b"b": b"2", b"c": b"3"})
    with db.transaction() as transaction:
        seen = transaction.tree(tree)
        assert seen[b"a"] == b"1" and seen.name == "t"
        tree[b"z"] = b"later"
        assert b"z" not in seen
        seen[b"d"] = b"4"
        del seen[b"b"]
        assert list(seen.items()) == [(b"a", b"1"), (b"c", b"3"), (b"d", b"4")]
        assert list(reversed(seen)) == [b"d", b"c", b"a"] and len(seen) == 3 and seen
        assert transaction.first(tree) == (b"a", b"1") and transaction.last(tree) == (b"d", b"4")
        assert transaction.floor(tree, b"b") == (b"a", b"1")
        assert transaction.ceiling(tree, b"b") == (b"c", b"3")
        assert seen.pop(b"c") == b"3" and seen.insert_new(b"e", b"5")
        assert transaction.compare_and_swap(tree, b"e", b"5", b"6")
        assert transaction.remove_range(tree, b"a", b"b") == 1
        # It has read all of the tree, into which another one has put a key.
        with pytest.raises(everleaf.Conflict) as raised:
            transaction.commit()
    assert (raised.value.tree, raised.value.key, raised.value.attempts) == ("t", b"z", 1)
    assert dict(tree) == {b"a": b"1", b"b": b"2", b"c": b"3", b"z": b"later"}


def test_a_scan_of_a_transaction_counts_what_it_has_passed_and_no_more(db, tree):
    tree.update({b"%d" % n: b"v" for n in range(10)})
    with db.transaction() as transaction:
        walk = transaction.range(tree)
        assert [next(walk)[0] for _ in range(3)] == [b"0", b"1", b"2"]
        tree[b"5"] = b"changed"
        transaction.put(tree, b"sum", b"3")
    assert tree[b"sum"] == b"3"
    with pytest.raises(everleaf.Conflict), db.transaction() as transaction:
        walk = transaction.range(tree, values=False)
        assert [next(walk) for _ in range(3)] == [b"0", b"1", b"2"]
        tree[b"1"] = b"changed"
        transaction.put(tree, b"sum", b"4")


def test_transact_tries_again_and_gives_up(db, tree):
    tree[b"n"] = b"0"
    runs = []

    def add(transaction):
        runs.append(1)
        number = int(transaction.get(tree, b"n"))
        if len(runs) < 3:
            tree[b"n"] = b"%d" % (number + 10)
        transaction.put(tree, b"n", b"%d" % (number + 1))
        return number

    assert db.transact(add) == 20 and tree[b"n"] == b"21" and len(runs) == 3

    def loses(transaction):
        transaction.get(tree, b"n")
        tree[b"n"] = b"%d" % (int(tree[b"n"]) + 1)
        transaction.put(tree, b"m", b"")

    with pytest.raises(everleaf.Conflict) as raised:
        db.transact(loses, attempts=4)
    assert raised.value.attempts == 4 and b"m" not in tree
    with pytest.raises(ValueError):
        db.transact(loses, attempts=0)
    with pytest.raises(ValueError):
        db.transaction(isolation="none")


def test_a_long_transaction_gets_through_beside_a_busy_writer(db, tree):
    tree[b"busy"] = b""
    written, stop, runs = [0], threading.Event(), []

    def write():
        while not stop.is_set():
            tree[b"busy"] = b"%d" % written[0]
            written[0] += 1

    def sums(transaction):
        transaction.get(tree, b"busy")
        # All that it could wait for has happened, unless the writer waits for it.
        before, until = written[0], time.perf_counter() + 0.01
        while written[0] < before + 2 and time.perf_counter() < until:
            time.sleep(0)
        runs.append(1)
        transaction.put(tree, b"sum", b"%d" % len(runs))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            runs.clear()
            db.transact(sums)
            assert tree[b"sum"] == b"%d" % len(runs)
    finally:
        stop.set()
        writer.join()


def test_threads_that_transfer_lose_nothing(db, tree):
    accounts = [b"%d" % n for n in range(4)]
    tree.update({account: b"100" for account in accounts})
    failed = []

    def work(number):
        def transfer(transaction):
            source, target = accounts[number % 4], accounts[(number + 1) % 4]
            balance = int(transaction.get(tree, source))
            transaction.put(tree, source, b"%d" % (balance - 1))
            transaction.put(tree, target, b"%d" % (int(transaction.get(tree, target)) + 1))

        try:
            for _ in range(200):
                db.transact(transfer)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and [tree[account] for account in accounts] == [b"100"] * 4


def test_a_snapshot_stays_as_it_was(db, tree):
    tree.update({b"a": b"1", b"b": b"2"})
    with db.snapshot() as snapshot:
        tree.update({b"a": b"changed", b"c": b"new"})
        del tree[b"b"]
        then = snapshot.tree("t")
        assert dict(then) == {b"a": b"1", b"b": b"2"} and len(then) == 2 and then
        assert then == snapshot.tree(tree) and then.first() == (b"a", b"1")
        assert then.cursor().last() and then.get(b"c") is None and then.get_many([b"b"]) == [b"2"]
        assert snapshot.tree_names() == ["t"]
        with pytest.raises(everleaf.NoTree):
            snapshot.tree("none")
        with pytest.raises(TypeError):
            then[b"a"] = b""


def test_a_snapshot_that_is_too_old_says_so_in_a_scan_half_way(path):
    with everleaf.Db(path, snapshot_memory=100_000, memory=32 << 20) as db:
        tree = db.tree("t")
        tree.update_many((b"%05d" % n, b"v" * 100) for n in range(5000))
        with db.snapshot() as snapshot:
            walk = snapshot.tree(tree).range()
            assert next(walk)[0] == b"00000"
            tree.update_many((b"%05d" % n, b"w" * 100) for n in range(5000))
            with pytest.raises(everleaf.SnapshotTooOld):
                list(walk)


def test_handles_of_another_pool_are_refused(db, tree):
    with everleaf.Db.in_memory() as other:
        stranger = other.tree("t")
        with pytest.raises(everleaf.Invalid), db.batch() as batch:
            batch.put(stranger, b"a", b"")
        with pytest.raises(everleaf.Invalid), db.transaction() as transaction:
            transaction.get(stranger, b"a")
        with pytest.raises(everleaf.Invalid), db.snapshot() as snapshot:
            snapshot.tree(stranger)
