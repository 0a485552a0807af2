"""A queue with one reader, for the events of one application.

It costs less than a general queue: the reader is woken once for all items that arrive while it sleeps.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import eventlet.hubs
import greenlet


class Mailbox:
    """Items in the order of their arrival. `put` never waits."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._reader: greenlet.greenlet | None = None

    def put(self, item: Any) -> None:
        """Appends an item and wakes the reader if it sleeps."""
        self._items.append(item)
        reader = self._reader
        if reader is not None:
            self._reader = None
            eventlet.hubs.get_hub().schedule_call_global(0, reader.switch)

    def get(self) -> Any:
        """Removes the oldest item, and waits for one if there is none."""
        while not self._items:
            self._reader = greenlet.getcurrent()
            try:
                eventlet.hubs.get_hub().switch()
            finally:
                self._reader = None
        return self._items.popleft()

    def empty(self) -> bool:
        """Whether no item waits."""
        return not self._items

    def qsize(self) -> int:
        """Returns how many items wait."""
        return len(self._items)
