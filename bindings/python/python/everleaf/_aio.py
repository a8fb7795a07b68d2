"""The wait of an event loop for the disk."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ._everleaf import Watch

__all__ = ["wait"]

if TYPE_CHECKING:
    from ._db import Db


async def wait(db: Db, epoch: int) -> None:
    """Wait until an epoch is on disk. The store wakes the loop by a byte in a socket, so no thread waits."""
    watch = Watch(db, epoch)
    loop = asyncio.get_running_loop()
    # It raises what keeps the epoch from the disk.
    while not watch.poll():
        woken = loop.create_future()
        loop.add_reader(watch.fileno(), _wake, woken)
        try:
            await woken
        finally:
            loop.remove_reader(watch.fileno())


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
