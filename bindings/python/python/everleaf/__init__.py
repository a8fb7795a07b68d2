"""Everleaf: an embedded, crash-safe, ordered key-value store.

A pool is one file with named trees. A tree is a mapping of bytes to bytes in the order of its keys::

    import everleaf

    with everleaf.Db("sales.ever") as db:
        orders = db.tree("orders")
        orders[b"2026-11-20/0001"] = b"2 chairs"   # visible now, on disk within about 10 ms
        for key, value in orders.range(prefix=b"2026-11-20/"):
            print(key, value)
        db.sync()                                   # everything before this line is on disk

Keys and values are any objects with bytes; what comes back is ``bytes``. All objects may be used from any thread.
"""

from __future__ import annotations

import atexit as _atexit

from . import _main  # noqa: F401  First: it refuses a subinterpreter.
from ._db import Batch, Budget, Cursor, Db, Snapshot, Transaction
from ._errors import (
    Closed,
    Conflict,
    Corrupt,
    Deadlock,
    Denied,
    EpochTooLarge,
    Error,
    FileExists,
    Foreign,
    Forked,
    Full,
    Invalid,
    Locked,
    NoMemory,
    NotFound,
    NoTree,
    Poisoned,
    ReadOnly,
    SnapshotTooOld,
    Stuck,
    TooLong,
    TransactionTooLarge,
    TreeExists,
    Unrecovered,
    Unsupported,
)
from ._everleaf import __version__
from ._everleaf import at_exit as _at_exit
from ._stats import Compaction, Counts, Damage, MemoryStats, Stats, TreeStats
from ._trees import SnapshotTree, TransactionTree, Tree

_atexit.register(_at_exit)

__all__ = [
    "Batch",
    "Budget",
    "Closed",
    "Compaction",
    "Conflict",
    "Corrupt",
    "Counts",
    "Cursor",
    "Damage",
    "Db",
    "Deadlock",
    "Denied",
    "EpochTooLarge",
    "Error",
    "FileExists",
    "Foreign",
    "Forked",
    "Full",
    "Invalid",
    "Locked",
    "MemoryStats",
    "NoMemory",
    "NoTree",
    "NotFound",
    "Poisoned",
    "ReadOnly",
    "Snapshot",
    "SnapshotTooOld",
    "SnapshotTree",
    "Stats",
    "Stuck",
    "TooLong",
    "Transaction",
    "TransactionTooLarge",
    "TransactionTree",
    "Tree",
    "TreeExists",
    "TreeStats",
    "Unrecovered",
    "Unsupported",
    "__version__",
]
