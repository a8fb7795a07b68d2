"""What programs do to it: objects that go away, forks, signals, ends of the interpreter."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import time

import pytest

import everleaf
from conftest import run


def test_objects_may_go_while_a_scan_is_half_way(path):
    db = everleaf.Db(path)
    tree = db.tree("t")
    tree.update_many((b"%05d" % n, b"v" * 50) for n in range(3000))
    walk = tree.items().__iter__()
    snapshot = db.snapshot()
    old = snapshot.tree(tree).range(reverse=True)
    for _ in range(20):
        next(walk), next(old)
    del db, tree, snapshot
    gc.collect()
    assert sum(1 for _ in walk) == 2980 and sum(1 for _ in old) == 2980
    del walk, old
    gc.collect()
    # All is gone, so the pool is closed.
    everleaf.Db(path).close()


def test_a_scan_half_way_goes_away_with_its_pool_closed(path):
    with everleaf.Db(path) as db:
        tree = db.tree("t")
        tree.update_many((b"%05d" % n, b"v") for n in range(3000))
        walk = iter(tree)
        next(walk)
    with pytest.raises(everleaf.Closed):
        list(walk)
    assert list(walk) == []


def test_a_tree_may_be_written_while_it_is_scanned(tree):
    tree.update_many((b"%05d" % n, b"v") for n in range(2000))
    seen = []
    for key in tree:
        seen.append(key)
        del tree[key]
        tree[b"a" + key] = b""
        if len(seen) == 2000:
            break
    assert seen == [b"%05d" % n for n in range(2000)] and list(tree)[0] == b"a00000"


def test_an_iterator_in_two_threads_gives_each_pair_once_or_says_so(tree):
    tree.update_many((b"%06d" % n, b"v" * 20) for n in range(20_000))
    walk, seen, refused = tree.range(values=False), [], []

    def work():
        while True:
            try:
                seen.append(next(walk))
            except StopIteration:
                return
            except (RuntimeError, ValueError) as error:
                refused.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [b"%06d" % n for n in range(20_000)]


def test_objects_cannot_be_pickled_or_made_by_hand(db, tree):
    import pickle

    for item in (db, tree, tree.cursor(), db.snapshot()):
        with pytest.raises(TypeError):
            pickle.dumps(item)
    for kind in (everleaf.Cursor, everleaf.Batch):
        with pytest.raises(TypeError):
            kind()
    with pytest.raises(TypeError):
        everleaf.Tree("not a pool", "t")


def test_a_forked_child_gets_forked(db, tree):
    tree[b"a"] = b"1"
    db.sync()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            calls = [
                lambda: tree[b"a"],
                lambda: tree.__setitem__(b"a", b"2"),
                lambda: list(tree.items()),
                lambda: db.sync(),
                lambda: db.snapshot(),
                lambda: db.close(),
            ]
            raised = 0
            for call in calls:
                try:
                    call()
                except everleaf.Forked:
                    raised += 1
            # The child may open pools of its own.
            with everleaf.Db.in_memory() as own:
                own.tree("t")[b"x"] = b"y"
            status = 0 if raised == len(calls) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    tree[b"b"] = b"2"
    db.sync()
    assert dict(tree) == {b"a": b"1", b"b": b"2"}


def test_a_forked_child_that_ends_as_programs_do_leaves_the_pool_alone(path):
    run(
        """
        import everleaf, os, sys
        db = everleaf.Db(sys.argv[1])
        tree = db.tree("t")
        tree[b"a"] = b"1"
        db.sync()
        child = os.fork()
        if child == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        tree[b"b"] = b"2"
        db.close()
        """,
        path,
    )
    with everleaf.Db(path) as db:
        assert dict(db.tree("t")) == {b"a": b"1", b"b": b"2"}


def spawned(path, answers):
    try:
        everleaf.Db(path)
    except everleaf.Locked:
        with everleaf.Db(path + ".own") as db:
            db.tree("t")[b"a"] = b"1"
        answers.put("locked")


def test_a_spawned_process_has_its_own_pools(db, path):
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=spawned, args=(str(path), answers))
    process.start()
    assert answers.get(timeout=60) == "locked"
    process.join()
    assert process.exitcode == 0
    with everleaf.Db(str(path) + ".own") as own:
        assert own.tree("t")[b"a"] == b"1"


@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "raise SystemExit(0)", "os.kill(os.getpid(), 9)"])
def test_an_interpreter_that_ends_keeps_what_is_durable(path, end):
    killed = "kill" in end
    printed = run(
        f"""
        import everleaf, os, sys, threading, time
        db = everleaf.Db(sys.argv[1])
        tree = db.tree("t")
        for n in range(20_000):
            tree[b"%05d" % n] = b"v" * 100
        walk = iter(tree); next(walk)
        snapshot = db.snapshot()
        batch = db.batch(); batch.put(tree, b"never", b"")
        db.wait_durable()
        tree[b"last"] = b""
        threading.Thread(target=time.sleep, args=(0.01,), daemon=True).start()
        print(time.time(), flush=True)
        {end}
        """,
        path,
        expect=-9 if killed else 0,
    )
    took = time.time() - float(printed)
    # The bar is 1 s; tests assert no time, so this one says what it saw.
    print(f"the interpreter ended within {took:.3f} s")
    with everleaf.Db(path) as db:
        tree = db.tree("t")
        assert len(tree) in ({20_000, 20_001} if killed else {20_001}) and b"never" not in tree
        assert db.check() == []


def test_daemon_threads_that_write_do_not_keep_an_interpreter_from_ending(path):
    run(
        """
        import everleaf, itertools, sys, threading, time
        db = everleaf.Db(sys.argv[1])
        tree = db.tree("t")
        def work(name):
            for n in itertools.count():
                tree.put(b"%d/%d" % (name, n), b"v" * 100, sync=n % 100 == 0)
        for name in range(3):
            threading.Thread(target=work, args=(name,), daemon=True).start()
        time.sleep(0.2)
        """,
        path,
    )
    with everleaf.Db(path) as db:
        assert db.check() == [] and len(db.tree("t")) > 0


@pytest.mark.parametrize("call", ["wait_durable(db.epoch + 10**9)", "wait_durable(db.epoch + 10**9, 3600)"])
def test_control_c_ends_a_wait(path, call):
    program = f"""
        import everleaf, os, signal, sys, threading, time
        db = everleaf.Db(sys.argv[1])
        # A program that a shell started in the background ignores it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupt = lambda: (time.sleep(0.2), os.kill(os.getpid(), signal.SIGINT))
        threading.Thread(target=interrupt).start()
        try:
            db.{call}
        except KeyboardInterrupt:
            db.tree("t")[b"a"] = b"1"
            db.sync()
            print("interrupted")
        """
    assert run(program, path) == "interrupted\n"
    with everleaf.Db(path) as db:
        assert db.tree("t")[b"a"] == b"1"


def test_control_c_ends_a_long_sync_which_goes_on(path):
    # The pool has no threads of its own, so all of this is written by the one sync.
    program = """
        import everleaf, os, signal, sys
        db = everleaf.Db(sys.argv[1], background=False, memory=1 << 30)
        tree = db.tree("t")
        for n in range(60):
            tree[b"%d" % n] = os.urandom(4 << 20)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        try:
            db.sync()
            print("done first")
        except KeyboardInterrupt:
            print("interrupted")
        # Waits for the one that goes on.
        db.sync()
        tree[b"after"] = b""
        db.close()
        """
    assert run(program, path).strip() in {"interrupted", "done first"}
    with everleaf.Db(path) as db:
        assert len(db.tree("t")) == 61


def test_signals_to_a_writer_lose_nothing(path):
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        with everleaf.Db(path, pending_bytes=1 << 20) as db:
            tree = db.tree("t")
            for n in range(30_000):
                tree[b"%06d" % n] = b"v" * 200
                if n % 3000 == 0:
                    db.sync()
            tree[b"large"] = bytes(8 << 20)
            assert db.check() == []
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen
    with everleaf.Db(path) as db:
        assert len(db.tree("t")) == 30_001


def test_a_handler_that_raises_leaves_whole_operations(path):
    class Stop(Exception):
        pass

    def handler(*_):
        raise Stop

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with everleaf.Db(path) as db:
            tree, n = db.tree("t"), 0
            for _ in range(20):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.003)
                    while True:
                        tree.update({b"%06d/a" % n: b"", b"%06d/b" % n: b""})
                        n += 1
                except Stop:
                    n += 1
            keys = list(tree)
            assert len(keys) % 2 == 0 and db.check() == []
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_subinterpreter_is_refused_with_a_sentence():
    program = """
        try:
            import _interpreters as interpreters
        except ImportError:
            try:
                import _xxsubinterpreters as interpreters
            except ImportError:
                print("none")
                raise SystemExit
        import everleaf
        code = '''
        try:
            import everleaf
            print("imported", flush=True)
        except ImportError as error:
            print("refused:", error, flush=True)
        '''.replace("\\n        ", "\\n")
        own = interpreters.create()
        run = getattr(interpreters, "exec", None) or interpreters.run_string
        run(own, code)
        """
    printed = run(program)
    if printed.strip() == "none":
        pytest.skip("this interpreter has no subinterpreters")
    assert printed.startswith("refused:") and "subinterpreter" in printed
