"""The exceptions: one class for each thing that a program acts on."""

from __future__ import annotations


class Error(OSError):
    """An error of the store. ``errno`` is the system's number for the like, ``strerror`` says what failed and where."""


class Corrupt(Error):
    """Bytes are not what was written: list the damage with `Db.check`, then restore a backup or run ``everleaf salvage``."""

    #: The damaged file: ``data``, or ``memory`` if the pool has no file.
    file: str
    #: Bytes from the start of the file.
    offset: int


class Foreign(Error):
    """The file is not a pool, or is one of another version. It was not touched."""


class Locked(Error):
    """The pool is open already, in another process or in this one."""


class FileExists(Error, FileExistsError):
    """A file has a name that the pool or a backup needs. It was not touched."""


class NotFound(Error, FileNotFoundError):
    """There is no such file or folder."""


class Denied(Error, PermissionError):
    """The system allows no access to a file."""


class Closed(Error, ValueError):
    """The pool was closed; or the batch, the transaction or the snapshot is over."""


class Forked(Error):
    """The pool was opened by the process of which this one is a fork. Nothing was done: use it in the parent only."""


class NoMemory(Error, MemoryError):
    """The system gave no memory. The call changed nothing."""


class Poisoned(Error):
    """Writes have stopped after a failed write or sync. Close the pool and open it again: all that was durable is there."""


class Full(Error):
    """There is no room: the disk is full, or the pool has as many bytes as ``max_bytes`` allows. Nothing was changed."""


class EpochTooLarge(Error):
    """An epoch has changed more than memory holds, and no checkpoint could write that: call `Db.checkpoint`."""


class SnapshotTooOld(Error):
    """A snapshot, or a transaction, needs an old value that was not kept. Take a new one, or run it again."""


class Conflict(Error):
    """Others have changed what a transaction has read. Run it again, reads included, as `Db.transact` does."""

    #: The name of the tree.
    tree: str
    #: The key that others have changed.
    key: bytes
    #: How often it was tried.
    attempts: int


class Deadlock(Error):
    """Two transactions that lock what they use have waited for each other. Those of Python lock nothing yet."""


class Stuck(Error):
    """Other threads were in the way for ten minutes."""


class TransactionTooLarge(Error):
    """A transaction or a batch would take more memory than ``transaction_memory`` allows: divide it."""


class ReadOnly(Error):
    """The pool was opened read-only, and the call would write."""


class TooLong(Error, ValueError):
    """The key or the value is longer than one may be. Nothing was changed."""


class TreeExists(Error):
    """A tree has the name that another tree was to get."""


class NoTree(Error):
    """There is no such tree: it was dropped, or never made."""


class Unrecovered(Error):
    """A crash left work to do first: open the pool for writing once."""


class Unsupported(Error):
    """The machine, the file system or the kind of pool cannot do that."""


class Invalid(Error, ValueError):
    """An argument or an option is outside its limits. Nothing was changed."""
