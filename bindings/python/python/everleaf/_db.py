"""Pools, batches, transactions and snapshots."""

from __future__ import annotations

import functools
import os
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Optional, TypeVar, Union

from . import _everleaf
from ._everleaf import Batch, Cursor
from ._stats import Compaction, Counts, Damage, MemoryStats, Stats, TreeStats
from ._trees import SnapshotTree, TransactionTree, Tree

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Batch", "Cursor", "Db", "Snapshot", "Transaction"]

_T = TypeVar("_T")
_Path = Union[str, "os.PathLike[str]"]


class Snapshot(_everleaf.Snapshot):
    """All trees of a pool as they were at one moment, from `Db.snapshot`, whatever is written later.

    Use it in a ``with`` block, or call `close`: while it is open, writers keep the values that they replace.
    """

    __slots__ = ()

    def tree(self, tree: Union[str, Tree]) -> SnapshotTree:
        """Return a tree as it was: by the name that it had, or by a handle. `NoTree` if no tree had the name."""
        return SnapshotTree(self, tree)


class Transaction(_everleaf.Transaction):
    """Reads and writes of which all take effect or none, from `Db.transaction` or `Db.transact`.

    It is serializable: if others have changed what it has read, `commit` raises `Conflict`. In a ``with`` block the end
    commits, and an exception aborts.
    """

    __slots__ = ()

    def tree(self, tree: Tree) -> TransactionTree:
        """Return a tree as the transaction sees it: a mapping."""
        return TransactionTree(self, tree)


class Budget(_everleaf.Budget):
    """Memory that pools share: ``Db(path, budget=Budget(64 << 20))`` for each of them.

    All together take no more than it has: pages and values leave memory that were not used recently, whichever pool they
    are of. Pools that are given no memory share `of_process`: a quarter of what the process may use.
    """

    __slots__ = ()


class Db(_everleaf.Db):
    """An open pool of named trees.

    ``Db(path, **options)`` opens the pool at `path`, or makes it. The options are those of the Rust library, by their
    names: ``create``, ``read_only``, ``interval`` (in seconds), ``sync`` (each write waits for the disk), ``memory``,
    ``budget`` (a `Budget`), ``snapshot_memory``, ``transaction_memory``, ``journal_bytes``, ``pending_bytes``, ``max_bytes``, ``page_bytes``,
    ``compression`` (``"none"`` or ``"lz4"``), ``background``, ``manual_epochs`` and ``storage`` (``"file"``, ``"dax"`` or
    ``"emulated-dax"``, which raise `Unsupported` unless the package was built with the feature ``dax``).

    Use it in a ``with`` block, or call `close`. One that is open when the interpreter ends is synced and not closed,
    so the next open reads its journal.
    """

    __slots__ = ()

    @classmethod
    def in_memory(cls, **options: Any) -> Self:
        """Make a pool in memory: for tests, and for caches. Nothing outlives the process."""
        return cls(None, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def tree(self, name: str, *, create: bool = True, sync: Optional[bool] = None) -> Tree:
        """Return the tree called `name`, and make it if there is none.

        With ``create=False`` a missing tree is `NoTree`. With ``sync=True`` each write of the handle waits until it is
        on disk; the default is that of the pool.
        """
        return Tree(self, name, create=create, sync=sync)

    def batch(self, *, sync: Optional[bool] = None) -> Batch:
        """Return an empty batch. Use it in a ``with`` block, whose end commits it and whose exceptions drop it."""
        return Batch(self, sync=sync)

    def snapshot(self) -> Snapshot:
        """Return all trees as they are now, whatever is written to them afterwards."""
        return Snapshot(self)

    def transaction(
        self,
        *,
        isolation: Literal["serializable", "snapshot"] = "serializable",
        sync: Optional[bool] = None,
    ) -> Transaction:
        """Begin a transaction. It sees the moment of its first read."""
        return Transaction(self, isolation=isolation, sync=sync)

    def transact(
        self,
        run: Callable[[Transaction], _T],
        *,
        attempts: int = 100,
        isolation: Literal["serializable", "snapshot"] = "serializable",
        sync: Optional[bool] = None,
    ) -> _T:
        """Run ``run(transaction)``, commit, and return what `run` has returned.

        If others have changed what it depends on, it runs again, up to `attempts` times, and then raises `Conflict`. So
        `run` should do nothing that cannot be done twice. If it raises, nothing has happened. From the ninth attempt on
        others that are about to write wait for it, each for at most 50 ms.
        """
        if attempts < 1:
            raise ValueError(f"attempts is 1 or more, not {attempts}")
        begin = functools.partial(self.transaction, isolation=isolation, sync=sync)
        return _everleaf.transact(self, run, begin, min(attempts, 2**32 - 1))

    async def durable(self, epoch: Optional[int] = None) -> None:
        """Wait until an epoch is on disk; without one, until everything before this call is. For asyncio."""
        from ._aio import wait

        await wait(self, self.epoch if epoch is None else epoch)

    def compact(self) -> Compaction:
        """Make the file as short as its contents allow. Others read and write meanwhile."""
        return Compaction(*self._compact())

    def check(self) -> list[Damage]:
        """Read the whole pool and return each damage that it finds: an empty list if the pool is sound."""
        return [Damage(*damage) for damage in self._check()]

    def stats(self) -> Stats:
        """Return figures that the pool keeps all the time. It takes the same short time for any pool."""
        figures = self._stats()
        figures["memory"] = MemoryStats(**figures["memory"])
        figures["uuid"] = uuid.UUID(bytes=figures["uuid"])
        return Stats(**figures)

    def count(self) -> Counts:
        """Count everything in the pool, by a walk over all trees."""
        counts = self._count()
        return Counts([TreeStats(**tree) for tree in counts["trees"]], counts["pages"])
