"""A tree is a mapping: the interpreter's own tests of mappings say so, and a model."""

from __future__ import annotations

import itertools
from collections.abc import ItemsView, KeysView, Mapping, MutableMapping, ValuesView

import pytest
from test import mapping_tests

import everleaf
from conftest import SCALE

#: One pool in memory is enough: each mapping is a tree of its own.
POOL = everleaf.Db.in_memory()
NUMBERS = itertools.count()


class TestOfTheInterpreter(mapping_tests.BasicTestMappingProtocol):
    """All tests of the interpreter that do not need keys other than bytes."""

    def _reference(self):
        return {b"1": b"2", b"key1": b"value1", b"key2": b"value2"}

    def _empty_mapping(self):
        return POOL.tree(f"mapping {next(NUMBERS)}")


class TestOfTheInterpreterInATransaction(TestOfTheInterpreter):
    """The same of trees in a transaction."""

    def _empty_mapping(self):
        return POOL.transaction().tree(POOL.tree(f"mapping {next(NUMBERS)}"))


def test_a_tree_inherits_from_the_abstract_classes(tree, db):
    assert issubclass(everleaf.Tree, MutableMapping) and isinstance(tree, MutableMapping)
    assert isinstance(tree.keys(), KeysView)
    assert isinstance(tree.values(), ValuesView)
    assert isinstance(tree.items(), ItemsView)
    with db.snapshot() as snapshot:
        assert isinstance(snapshot.tree(tree), Mapping)
        assert not isinstance(snapshot.tree(tree), MutableMapping)
    with db.transaction() as transaction:
        assert isinstance(transaction.tree(tree), MutableMapping)


def test_views_are_sets_in_the_order_of_the_keys(tree):
    tree.update({b"b": b"2", b"a": b"1", b"c": b"3"})
    assert list(tree.keys()) == [b"a", b"b", b"c"]
    assert list(reversed(tree.keys())) == [b"c", b"b", b"a"]
    assert list(reversed(tree.items())) == [(b"c", b"3"), (b"b", b"2"), (b"a", b"1")]
    assert list(reversed(tree.values())) == [b"3", b"2", b"1"]
    assert tree.keys() & {b"a", b"z"} == {b"a"}
    assert tree.keys() | {b"z"} == {b"a", b"b", b"c", b"z"}
    assert (b"a", b"1") in tree.items() and (b"a", b"2") not in tree.items()
    assert b"3" in tree.values() and b"4" not in tree.values()
    assert len(tree.keys()) == len(tree.values()) == len(tree.items()) == 3
    # A view shows what the tree is now.
    keys = tree.keys()
    tree[b"d"] = b"4"
    assert list(keys) == [b"a", b"b", b"c", b"d"]


def test_all_that_has_bytes_is_a_key_or_a_value(tree):
    from array import array

    for key in (b"bytes", bytearray(b"bytearray"), memoryview(b"memoryview"), array("B", b"array")):
        tree[key] = key
        assert tree[key] == bytes(key) and key in tree
    # Every second byte, and two dimensions.
    tree[memoryview(b"a-b-c-")[::2]] = memoryview(b"123456").cast("B", (2, 3))
    assert tree[b"abc"] == b"123456"
    assert tree.get(memoryview(b"none")) is None
    assert type(tree[b"array"]) is bytes


@pytest.mark.parametrize("wrong, says", [("text", ".encode()"), (5, "not int"), (None, "NoneType")])
def test_what_has_no_bytes_is_a_type_error_that_says_what_to_do(tree, wrong, says):
    calls = [
        lambda: tree[wrong],
        lambda: tree.get(wrong),
        lambda: wrong in tree,
        lambda: tree.__setitem__(wrong, b""),
        lambda: tree.__setitem__(b"", wrong),
        lambda: tree.__delitem__(wrong),
        lambda: tree.pop(wrong),
        lambda: tree.update({b"a": wrong}),
        lambda: tree.get_many([b"a", wrong]),
        lambda: tree.setdefault(b"a", wrong),
        lambda: tree.cursor().seek(wrong),
    ]
    for call in calls:
        with pytest.raises(TypeError) as raised:
            call()
        assert says in str(raised.value)
    assert len(tree) == 0


def test_update_is_whole_or_not_at_all(tree):
    with pytest.raises(everleaf.TooLong):
        tree.update([(b"a", b"1"), (b"k" * 65_537, b"2")])
    with pytest.raises(ValueError):
        tree.update([(b"a", b"1"), (b"b",)])
    with pytest.raises(TypeError):
        tree.update(a=b"1")
    assert dict(tree) == {}
    tree.update([(b"a", b"1"), [b"b", b"2"]])
    assert dict(tree) == {b"a": b"1", b"b": b"2"}


def test_operations_that_look_first(tree):
    assert tree.insert_new(b"a", b"1") and not tree.insert_new(b"a", b"2")
    assert tree.replace(b"a", b"3") and not tree.replace(b"b", b"3")
    assert tree.compare_and_swap(b"a", b"3", b"4") and not tree.compare_and_swap(b"a", b"3", b"5")
    assert tree.compare_and_swap(b"b", None, b"6") and not tree.compare_and_swap(b"b", None, b"7")
    assert tree.compare_and_swap(b"b", b"6", None) and b"b" not in tree
    assert tree.swap(b"a", b"8") == b"4" and tree.swap(b"b", b"9") is None
    assert tree.take(b"b") == b"9" and tree.take(b"b") is None
    tree.delete(b"nothing")
    assert dict(tree) == {b"a": b"8"}
    assert tree.update_many((bytes([n]), b"v") for n in range(200)) == 200
    assert len(tree) == 200
    assert tree.get_many([b"\x00", b"none", b"a"]) == [b"v", None, b"v"]
    assert tree.pop_first() == (b"\x00", b"v") and tree.pop_last() == (b"\xc7", b"v")
    assert tree.remove_range(b"\x10", b"\x20") == 16
    assert tree.remove_range(prefix=b"a") == 1 and tree.remove_range(b"b", b"a") == 0
    tree.clear()
    assert not tree and tree.pop_first() is None


def test_sizes_at_their_limits(tree):
    tree[b""] = b""
    tree[b"k" * 65_536] = b"v" * 5_000_000
    assert tree[b""] == b"" and len(tree[b"k" * 65_536]) == 5_000_000
    assert tree.value_len(b"k" * 65_536) == 5_000_000 and tree.value_len(b"none") is None
    assert tree.read_at(b"k" * 65_536, 4_999_998, 100) == b"vv"
    assert tree.read_at(b"k" * 65_536, 5_000_001, 100) == b"" and tree.read_at(b"none", 0, 1) is None
    with pytest.raises(everleaf.TooLong) as raised:
        tree[b"k" * 65_537] = b""
    assert isinstance(raised.value, ValueError)
    assert list(tree.range(values=False)) == [b"", b"k" * 65_536]


def parts(rng, keys):
    """Arguments of a range, and what it must give of `keys`."""
    bound = lambda: rng.choice([None, rng.choice(keys), rng.randbytes(rng.randrange(4))])
    start, stop = bound(), bound()
    prefix = rng.choice([None, None, b"", b"\x01", b"\xff", b"\xff\xff", rng.choice(keys)[:1]])
    inside = [
        key
        for key in keys
        if (start is None or key >= start)
        and (stop is None or key < stop)
        and (prefix is None or key.startswith(prefix))
    ]
    return (start, stop, prefix), inside


def test_ranges_against_a_model(tree, db, rng):
    model = {rng.randbytes(rng.randrange(4)): rng.randbytes(rng.randrange(700)) for _ in range(2000)}
    model[b"\xff\xff\xff"] = b"last"
    tree.update(model)
    keys = sorted(model)
    transaction = db.transaction()
    with db.snapshot() as snapshot:
        sources = [tree, snapshot.tree(tree), transaction.tree(tree)]
        for _ in range(50 * SCALE):
            (start, stop, prefix), inside = parts(rng, keys)
            reverse = rng.random() < 0.5
            expected = [(key, model[key]) for key in (inside[::-1] if reverse else inside)]
            source = rng.choice(sources)
            part = {"prefix": prefix, "reverse": reverse}
            assert list(source.range(start, stop, **part)) == expected
            only_keys = source.range(start, stop, values=False, **part)
            assert list(only_keys) == [key for key, _ in expected]
            only_values = source.range(start, stop, keys=False, **part)
            assert list(only_values) == [value for _, value in expected]
    with pytest.raises(ValueError):
        tree.range(keys=False, values=False)


def test_a_tree_against_a_model(tree, rng):
    model = {}
    for _ in range(2000 * SCALE):
        key, value = rng.randbytes(rng.randrange(3)), rng.randbytes(rng.choice([0, 5, 100, 3000]))
        turn = rng.randrange(9)
        if turn < 3:
            tree[key] = model[key] = value
        elif turn == 3:
            assert tree.pop(key, None) == model.pop(key, None)
        elif turn == 4:
            assert tree.setdefault(key, value) == model.setdefault(key, value)
        elif turn == 5:
            assert tree.get(key, b"none") == model.get(key, b"none") and (key in tree) == (key in model)
        elif turn == 6:
            before = max((k for k in model if k <= key), default=None)
            after = min((k for k in model if k >= key), default=None)
            assert tree.floor(key) == (None if before is None else (before, model[before]))
            assert tree.ceiling(key) == (None if after is None else (after, model[after]))
        elif turn == 7 and model:
            assert tree.popitem() == (min(model), model.pop(min(model)))
        else:
            end = key + b"\x01"
            gone = [k for k in model if key <= k < end]
            assert tree.remove_range(key, end) == len(gone)
            for k in gone:
                del model[k]
    assert dict(tree) == model and len(tree) == len(model)
    assert list(tree) == sorted(model) and list(reversed(tree)) == sorted(model, reverse=True)


def test_cursors(tree):
    tree.update({b"a": b"1", b"c": b"3", b"e": b"5"})
    cursor = tree.cursor()
    assert cursor.key is None and cursor.value is None and cursor.item is None
    assert cursor.next() and cursor.item == (b"a", b"1")
    assert cursor.seek(b"b") and cursor.key == b"c" and cursor.value == b"3"
    assert cursor.seek_for_prev(b"d") and cursor.key == b"c"
    assert cursor.last() and cursor.key == b"e" and not cursor.next() and cursor.key is None
    assert cursor.prev() and cursor.key == b"e"
    assert cursor.first() and not cursor.prev() and cursor.next() and cursor.key == b"a"
    del tree[b"a"]
    assert cursor.item == (b"a", b"1") and cursor.next() and cursor.key == b"c"
