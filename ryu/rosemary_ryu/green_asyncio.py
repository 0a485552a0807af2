"""Runs event loops of `asyncio` on green threads.

A zone makes no sockets, so the loops have no pair of sockets to wake themselves.

While a loop waits, the other green threads run. `create_server` accepts at a port that the operator granted (`listening.py`).
As everything is one thread of the system, one loop runs at a time.

eventlet imports `asyncio` itself, so an application without it pays nothing more.
"""

from __future__ import annotations

import asyncio
import select
import selectors
from asyncio import unix_events
from typing import Any

import eventlet
import eventlet.hubs
import eventlet.patcher
import greenlet

from rosemary_ryu import listening

_poll = eventlet.patcher.original("select").poll


class Selector(selectors._BaseSelectorImpl):  # type: ignore[misc, name-defined]
    """Waits for descriptors in eventlet's hub."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: greenlet.greenlet | None = None
        self._is_woken = False

    def wake(self) -> None:
        """Ends a wait, or the next one."""
        self._is_woken = True
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            eventlet.hubs.get_hub().schedule_call_global(0, waiting.switch)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Returns the descriptors that are ready; waits at most `timeout` seconds for the first."""
        ready = self._ready()
        if ready or self._is_woken or timeout is not None and timeout <= 0:
            eventlet.sleep(0)  # the other green threads
        else:
            self._wait(timeout)
            ready = self._ready()
        self._is_woken = False
        return ready

    def _wait(self, timeout: float | None) -> None:
        hub = eventlet.hubs.get_hub()
        timer = hub.schedule_call_global(timeout, self.wake) if timeout is not None else None
        listeners = []
        self._waiting = greenlet.getcurrent()
        try:
            for key in self.get_map().values():
                for event, kind in ((selectors.EVENT_READ, hub.READ), (selectors.EVENT_WRITE, hub.WRITE)):
                    if key.events & event:
                        listeners.append(hub.add(kind, key.fd, lambda _: self.wake(), _ignored, self.wake))
            hub.switch()
        finally:
            self._waiting = None
            for listener in listeners:
                hub.remove(listener)
            if timer is not None:
                timer.cancel()

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        keys = self.get_map()
        if not keys:
            return []
        poll = _poll()
        for key in keys.values():
            wanted = select.POLLIN if key.events & selectors.EVENT_READ else 0
            poll.register(key.fd, wanted | (select.POLLOUT if key.events & selectors.EVENT_WRITE else 0))
        found = []
        for fd, events in poll.poll(0):
            key = keys[fd]
            readable = selectors.EVENT_READ if events & ~select.POLLOUT else 0
            writable = selectors.EVENT_WRITE if events & ~select.POLLIN else 0
            found.append((key, (readable | writable) & key.events))
        return [it for it in found if it[1]]


def _ignored(*_: Any) -> None:
    """Has no effect: an exception for a listener ends the wait with `wake`."""


class Loop(unix_events._UnixSelectorEventLoop):  # type: ignore[misc, name-defined]
    """An event loop without sockets of its own."""

    def __init__(self, selector: Any = None) -> None:
        super().__init__(Selector())

    def _make_self_pipe(self) -> None:
        self._ssock = self._csock = None

    def _close_self_pipe(self) -> None:
        pass

    def _write_to_self(self) -> None:
        selector = self._selector
        if selector is not None:
            selector.wake()

    def add_signal_handler(self, sig: Any, callback: Any, *args: Any) -> None:
        """Refuses: signals end a zone, and reach no application."""
        raise NotImplementedError("an app in a zone receives no signals")

    def remove_signal_handler(self, sig: Any) -> bool:
        """Returns false: there is no handler."""
        return False

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        """Accepts at a granted port, or at `sock`.

        Raises `PermissionError` with the setting that would allow it.
        """
        if options.get("sock") is None:
            name = host if isinstance(host, str) else "0.0.0.0"
            options["sock"] = listening.socket_for((name, port or 0))
        for option in ("family", "flags", "reuse_address", "reuse_port"):
            options.pop(option, None)  # the monitor has bound the socket
        return await super().create_server(protocol_factory, **options)


def install() -> None:
    """Makes `Loop` the event loop of `asyncio`."""
    for name in ("SelectorEventLoop", "EventLoop"):  # the second one from Python 3.13 on
        for module in (asyncio, unix_events):
            if hasattr(module, name):
                setattr(module, name, Loop)
    unix_events._UnixDefaultEventLoopPolicy._loop_factory = Loop  # type: ignore[attr-defined]
