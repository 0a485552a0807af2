"""The loop of green threads, inside the loop of the zone.

`zone.run` calls `_turn` with a batch of events. A turn passes them on, runs all green threads that can run, and returns
the time of the next timer. The zone sends the messages of a turn when it returns. It also waits for the file descriptors.
"""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable
from typing import Any

from eventlet.hubs import hub

_READ_MASK = select.POLLIN | select.POLLPRI
_WRITE_MASK = select.POLLOUT
_BROKEN_MASK = select.POLLERR | select.POLLHUP | select.POLLNVAL

# Rounds of a turn: a thread that only yields must not keep the messages of others from being sent.
MOST_ROUNDS = 16

# How soon a turn follows if messages found no room in the ring.
_RETRY_NS = 1_000_000


class ZoneHub(hub.BaseHub):  # type: ignore[misc]
    """An eventlet hub whose loop is the zone's."""

    # Set by `prepare` before eventlet makes the hub.
    zone: Any = None
    running: bool
    arrived: Callable[[Any], None]
    send_unsent: Callable[[], bool]
    before_run: Callable[[], None]
    # Set by `published` if an application has a web interface.
    requested: Callable[[Any], None] | None = None
    # Set by `prepare`: the databases of switches, and what takes the answers about them.
    databases: Any = None
    served: Callable[[Any], None]
    # A problem that the zone states in the next turn, `None` to end it. Outside of turns it cannot.
    problems: list[str | None] = []

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        super().__init__(clock or time.monotonic)
        self._ready: list[tuple[int, int]] = []

    def add(self, evtype: str, fileno: int, cb: Any, tb: Any, mark_as_closed: Any) -> Any:
        """Waits for a file descriptor."""
        listener = super().add(evtype, fileno, cb, tb, mark_as_closed)
        try:
            self._watch(fileno)
        except OSError:
            super().remove(listener)
            raise
        return listener

    def remove(self, listener: Any) -> None:
        """Ends a wait for a file descriptor."""
        super().remove(listener)
        self._watch(listener.fileno)

    def remove_descriptor(self, fileno: int) -> None:
        """Ends all waits for a file descriptor."""
        super().remove_descriptor(fileno)
        self._watch(fileno)

    def _watch(self, fileno: int) -> None:
        wanted = 0
        if self.listeners[self.READ].get(fileno):
            wanted |= _READ_MASK & select.POLLIN
        if self.listeners[self.WRITE].get(fileno):
            wanted |= _WRITE_MASK
        self.zone.watch(fileno, wanted)

    def run(self, *_args: Any, **_kwargs: Any) -> None:
        """Runs the zone until it is to stop."""
        if self.running:
            raise RuntimeError("the loop runs already")
        self.running = True
        try:
            type(self).before_run()
            self.zone.run(self._turn)
        finally:
            self.running = False

    def wait(self, seconds: float | None = None) -> None:
        """Not used: the zone waits."""

    def _turn(self, events: list[Any]) -> int | None:
        ready = []
        arrived = type(self).arrived
        for event in events:
            if type(event).__name__ == "Ready":
                ready.append((event.fd, event.events))
            elif type(event).__name__ == "HttpRequest":
                self._requested(event)
            elif type(event).__name__ in ("OvsdbEvent", "ServiceUp"):
                type(self).served(event)
            else:
                arrived(event)
        self._call_back(ready)
        soonest = self._run_threads()
        if self.problems:
            self.zone.set_problem(self.problems[-1])
            self.problems.clear()
        if not type(self).send_unsent():
            soon = self.zone.now_ns() + _RETRY_NS
            return soon if soonest is None else min(soon, soonest)
        return soonest

    def _requested(self, request: Any) -> None:
        requested = type(self).requested
        if requested is not None:
            requested(request)
            return
        from rosemary import Response

        self.zone.respond(request, Response(404, "no application of this zone has a web interface\n"))

    def _run_threads(self) -> int | None:
        """Runs threads until all wait. Returns when the first wants to go on, in nanoseconds of the clock."""
        for _ in range(MOST_ROUNDS):
            while self.closed:
                self.close_one()
            self.prepare_timers()
            self.fire_timers(self.clock())
            self.prepare_timers()
            due = self.sleep_until()
            if due is None:
                return None
            if due > self.clock():
                break
        return int(due * 1e9) + 1

    def _call_back(self, ready: list[tuple[int, int]]) -> None:
        callbacks = []
        readers, writers = self.listeners[self.READ], self.listeners[self.WRITE]
        for fileno, events in ready:
            if events & (_READ_MASK | _BROKEN_MASK) and fileno in readers:
                callbacks.append((readers[fileno], fileno))
            if events & (_WRITE_MASK | _BROKEN_MASK) and fileno in writers:
                callbacks.append((writers[fileno], fileno))
        for listener, fileno in callbacks:
            try:
                listener.cb(fileno)
            except self.SYSTEM_EXCEPTIONS:
                raise
            except Exception:
                self.squelch_exception(fileno, sys.exc_info())
