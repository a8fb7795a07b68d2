"""Figures of a pool. The fields have the names, and the meanings, that they have in the Rust library."""

from __future__ import annotations

import uuid as _uuid
from dataclasses import dataclass

__all__ = ["Compaction", "Counts", "Damage", "MemoryStats", "Stats", "TreeStats"]


@dataclass(frozen=True)
class MemoryStats:
    """What the pool has in memory."""

    #: Bytes in use, of at most so many.
    bytes: int
    most_bytes: int
    #: Pages that were found in memory, that were read, that left it, and that were written.
    hits: int
    misses: int
    evictions: int
    write_backs: int
    #: The same of large values.
    value_bytes: int
    value_misses: int
    value_evictions: int


@dataclass(frozen=True)
class Stats:
    """Figures that a pool keeps all the time, from `Db.stats`."""

    #: The identity of the pool, which its backups share.
    uuid: _uuid.UUID
    #: How often the pool was opened for writing.
    open_generation: int
    page_bytes: int
    node_bytes: int
    #: The file: its length, and how much of it is alive, and free.
    file_bytes: int
    live_bytes: int
    free_bytes: int
    #: The journal: its length, what an open would read of it, and what was written in all.
    journal_file_bytes: int
    journal_bytes: int
    journal_written_bytes: int
    #: The epoch that runs, and the last one that is on disk.
    epoch: int
    durable_epoch: int
    #: Open snapshots, the old values that are kept for them, and how many snapshots expired.
    snapshots: int
    snapshot_values: int
    snapshot_bytes: int
    snapshots_given_up: int
    #: Transactions that were committed, those that failed because of others, and the bytes of those that are open.
    transactions: int
    conflicts: int
    transaction_bytes: int
    cursor_bytes: int
    #: Trees that were dropped and whose space is not free yet.
    dropped_trees: int
    memory: MemoryStats


@dataclass(frozen=True)
class TreeStats:
    """What a walk has counted of one tree."""

    name: str
    entries: int
    depth: int
    nodes_by_level: list[int]
    fill: float
    key_bytes: int
    value_bytes: int


@dataclass(frozen=True)
class Counts:
    """What a walk over the whole pool has counted, from `Db.count`."""

    trees: list[TreeStats]
    #: Pages by what they are for.
    pages: dict[str, int]


@dataclass(frozen=True)
class Damage:
    """A place in the pool that is not what was written, from `Db.check`."""

    #: The damaged file: ``data``, or ``memory`` if the pool has no file.
    file: str
    #: Bytes from the start of the file.
    offset: int
    what: str


@dataclass(frozen=True)
class Compaction:
    """The length of a pool's file before and after `Db.compact`."""

    before_bytes: int
    after_bytes: int
