"""Trees: real mappings of bytes to bytes, in the order of their keys."""

from __future__ import annotations

from collections.abc import (
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    ValuesView,
)
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Optional, TypeVar, Union, cast, overload

from . import _everleaf

__all__ = ["SnapshotTree", "TransactionTree", "Tree"]

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._db import Transaction

_T = TypeVar("_T")
_Pair = tuple[bytes, bytes]
_MISSING: Any = object()


class _Reads(Mapping[bytes, bytes]):
    """What every tree can be asked for beside its gets."""

    __slots__ = ()

    def _iterate(
        self,
        start: Optional[Buffer],
        stop: Optional[Buffer],
        prefix: Optional[Buffer],
        reverse: bool,
        keys: bool,
        values: bool,
    ) -> Iterator[Any]:
        # Lists of pairs, which `chain` takes apart.
        return chain.from_iterable(self._scan(start, stop, prefix, reverse, keys, values))

    def _scan(
        self,
        start: Optional[Buffer],
        stop: Optional[Buffer],
        prefix: Optional[Buffer],
        reverse: bool,
        keys: bool,
        values: bool,
    ) -> Iterator[list[Any]]:
        raise NotImplementedError

    @overload
    def range(
        self,
        start: Optional[Buffer] = ...,
        stop: Optional[Buffer] = ...,
        *,
        prefix: Optional[Buffer] = ...,
        reverse: bool = ...,
        keys: Literal[True] = ...,
        values: Literal[True] = ...,
    ) -> Iterator[_Pair]: ...

    @overload
    def range(
        self,
        start: Optional[Buffer] = ...,
        stop: Optional[Buffer] = ...,
        *,
        prefix: Optional[Buffer] = ...,
        reverse: bool = ...,
        keys: Literal[False],
        values: Literal[True] = ...,
    ) -> Iterator[bytes]: ...

    @overload
    def range(
        self,
        start: Optional[Buffer] = ...,
        stop: Optional[Buffer] = ...,
        *,
        prefix: Optional[Buffer] = ...,
        reverse: bool = ...,
        keys: Literal[True] = ...,
        values: Literal[False],
    ) -> Iterator[bytes]: ...

    def range(
        self,
        start: Optional[Buffer] = None,
        stop: Optional[Buffer] = None,
        *,
        prefix: Optional[Buffer] = None,
        reverse: bool = False,
        keys: bool = True,
        values: bool = True,
    ) -> Iterator[Any]:
        """Iterate over the pairs from `start` on and before `stop` whose keys begin with `prefix`.

        The order is that of the keys, bytewise, or the other way round with ``reverse=True``. Without `values` it gives
        keys alone and reads no large value; without `keys` it gives values alone.

        The tree may be written meanwhile. The iterator reads up to 256 pairs ahead, and gives each pair as it was when
        it was read; a key that stays is met once. Take a snapshot to see one moment. If a pair cannot be read, those
        before it are given first, and the error ends the iteration: another one may begin behind that pair.
        """
        return self._iterate(start, stop, prefix, reverse, keys, values)

    def __iter__(self) -> Iterator[bytes]:
        return self._iterate(None, None, None, False, True, False)

    def __reversed__(self) -> Iterator[bytes]:
        return self._iterate(None, None, None, True, True, False)

    def keys(self) -> KeysView[bytes]:
        """Return the keys, as a view."""
        return _Keys(self)

    def values(self) -> ValuesView[bytes]:
        """Return the values in the order of their keys, as a view."""
        return _Values(self)

    def items(self) -> ItemsView[bytes, bytes]:
        """Return the pairs in the order of their keys, as a view."""
        return _Items(self)


class _Keys(KeysView[bytes]):
    __slots__ = ()
    _mapping: _Reads

    def __reversed__(self) -> Iterator[bytes]:
        return reversed(self._mapping)


class _Values(ValuesView[bytes]):
    __slots__ = ()
    _mapping: _Reads

    def __iter__(self) -> Iterator[bytes]:
        return self._mapping.range(keys=False)

    def __contains__(self, value: object) -> bool:
        return any(found == value for found in self)

    def __reversed__(self) -> Iterator[bytes]:
        return self._mapping.range(keys=False, reverse=True)


class _Items(ItemsView[bytes, bytes]):
    __slots__ = ()
    _mapping: _Reads

    def __iter__(self) -> Iterator[_Pair]:
        return self._mapping.range()

    def __reversed__(self) -> Iterator[_Pair]:
        return self._mapping.range(reverse=True)


class SnapshotTree(_everleaf.SnapshotTree, _Reads):
    """A tree as it was at the moment of a `Snapshot`, from `Snapshot.tree`: a mapping that does not change.

    It keeps the moment for as long as it is there itself. `len` counts the keys one by one.
    """

    __slots__ = ()


class _Writes(_Reads, MutableMapping[bytes, bytes]):
    """What is the same for all trees that can be written."""

    __slots__ = ()

    def take(self, key: Buffer) -> Optional[bytes]:
        raise NotImplementedError

    def insert_new(self, key: Buffer, value: Buffer) -> bool:
        raise NotImplementedError

    @overload
    def pop(self, key: Buffer) -> bytes: ...

    @overload
    def pop(self, key: Buffer, default: bytes) -> bytes: ...

    @overload
    def pop(self, key: Buffer, default: _T) -> Union[bytes, _T]: ...

    def pop(self, key: Buffer, default: Any = _MISSING) -> Any:
        """Remove `key` and return its value, or `default` if it is not there: one atomic operation."""
        value = self.take(key)
        if value is not None:
            return value
        if default is _MISSING:
            raise KeyError(key)
        return default

    def setdefault(self, key: Buffer, default: Buffer) -> bytes:
        """Return the value of `key`; set it to `default` first if the key is not there."""
        while True:
            value: Optional[bytes] = self.get(cast(bytes, key))
            if value is not None:
                return value
            # Another thread may be faster, and a third one may remove what it has put.
            if self.insert_new(key, default):
                return bytes(default)


class Tree(_everleaf.Tree, _Writes):
    """A named tree of a pool, from `Db.tree`: a mapping of bytes to bytes in the order of its keys.

    Many threads may read and write at once. A write is visible as soon as it returns, and on disk soon after; with
    ``sync=True``, when it returns. Each operation is atomic; `update` is as a whole.
    """

    __slots__ = ()

    def popitem(self) -> _Pair:
        """Remove the pair with the smallest key and return it. `KeyError` if the tree is empty."""
        pair = self.pop_first()
        if pair is None:
            raise KeyError("the tree is empty")
        return pair

    def update(self, other: Any = (), /, **others: Any) -> None:
        """Put all pairs of a mapping, or of an iterable of pairs: in one batch, so a crash keeps all or none."""
        pairs = _pairs(other, others)
        with _everleaf.Batch(self) as batch:
            batch.put_many(self, pairs)


class TransactionTree(_Writes):
    """A tree as a transaction sees it, from `Transaction.tree`. What is read counts as read by the transaction."""

    __slots__ = ("_transaction", "_tree")

    def __init__(self, transaction: Transaction, tree: Tree) -> None:
        self._transaction = transaction
        self._tree = tree

    @property
    def name(self) -> str:
        """The name that the tree was opened with."""
        return self._tree.name

    def __getitem__(self, key: Buffer) -> bytes:
        value = self._transaction.get(self._tree, key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Buffer, value: Buffer) -> None:
        self._transaction.put(self._tree, key, value)

    def __delitem__(self, key: Buffer) -> None:
        if self._transaction.take(self._tree, key) is None:
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return self._transaction.contains(self._tree, cast("Buffer", key))

    def __len__(self) -> int:
        return self._transaction.len(self._tree)

    def __bool__(self) -> bool:
        return self._transaction.first(self._tree) is not None

    def take(self, key: Buffer) -> Optional[bytes]:
        """Remove `key` and return its value, or None if it is not there."""
        return self._transaction.take(self._tree, key)

    def insert_new(self, key: Buffer, value: Buffer) -> bool:
        """Set `key` if it is not there, and return whether that was so."""
        return self._transaction.insert_new(self._tree, key, value)

    def popitem(self) -> _Pair:
        """Remove the pair with the smallest key and return it. `KeyError` if the tree is empty."""
        pair = self._transaction.first(self._tree)
        if pair is None:
            raise KeyError("the tree is empty")
        self._transaction.delete(self._tree, pair[0])
        return pair

    def clear(self) -> None:
        """Remove all pairs, which all count as read."""
        self._transaction.remove_range(self._tree)

    def update(self, other: Any = (), /, **others: Any) -> None:
        """Put all pairs of a mapping, or of an iterable of pairs."""
        for key, value in _pairs(other, others):
            self._transaction.put(self._tree, key, value)

    def _iterate(
        self,
        start: Optional[Buffer],
        stop: Optional[Buffer],
        prefix: Optional[Buffer],
        reverse: bool,
        keys: bool,
        values: bool,
    ) -> Iterator[Any]:
        return self._transaction.range(
            self._tree, start, stop, prefix=prefix, reverse=reverse, keys=keys, values=values
        )


def _pairs(other: Any, others: dict[str, Any]) -> Iterable[tuple[Any, Any]]:
    """The pairs of what `update` was given, all of them before the first one is put."""
    if others:
        raise TypeError("a key is str, and must be bytes: give update() a mapping")
    if isinstance(other, Mapping):
        return list(other.items())
    if hasattr(other, "keys"):
        return [(key, other[key]) for key in other.keys()]
    return [(key, value) for key, value in other]
