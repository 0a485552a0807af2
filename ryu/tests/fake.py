"""A fake of the native module's zone: it delivers the events of a test and keeps what the application sends.

File descriptors are waited for with `select`, so web servers work.
"""

from __future__ import annotations

import importlib
import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any


@dataclass
class Numbers:
    band: tuple[int, int] = (1, 65535)
    groups: tuple[int, int] = (0x50000, 0x5FFFF)
    meters: tuple[int, int] = (0x500, 0x5FF)


@dataclass
class Listener:
    name: str
    host: str
    port: int
    fd: int


class Full(Exception):
    """No room in the ring."""


def event(kind: str, **fields: Any) -> Any:
    """Makes an event of the native module."""
    return type(kind, (), {"kind": kind})() if not fields else _with(kind, fields)


def _with(kind: str, fields: dict[str, Any]) -> Any:
    made = type(kind, (), {"kind": kind})()
    made.__dict__.update(fields)
    return made


@dataclass
class Zone:
    """The zone. A test calls `step` to deliver events and run the application until it waits."""

    objects: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    listeners: list[Listener] = field(default_factory=list)
    numbers: Numbers = field(default_factory=Numbers)
    name: str = "test"
    host: str = "ryu"
    config: bytes = b""
    room: int = 1 << 30
    sent: list[tuple[int, int, bytes]] = field(default_factory=list)
    incoming: list[Any] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    script: Callable[[Zone], bool] | None = None
    _watched: dict[int, int] = field(default_factory=dict)

    def load(self) -> list[ModuleType]:
        return [importlib.import_module(name) for name in self.objects]

    def loaded(self, version: str) -> None:
        self.versions.append(version)

    def send(self, dpid: int, epoch: int, message: bytes) -> None:
        if len(message) > self.room:
            raise Full
        self.room -= len(message)
        self.sent.append((dpid, epoch, message))

    def watch(self, fd: int, events: int) -> None:
        if events:
            self._watched[fd] = events
        else:
            self._watched.pop(fd, None)

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def run(self, handler: Callable[[list[Any]], int | None]) -> None:
        """Runs until the script returns false. The script is called between two calls of the handler."""
        due: int | None = None
        while True:
            events, self.incoming = self.incoming[:64], self.incoming[64:]
            events += self._ready(0 if events else due)
            due = handler(events)
            if self.script is None or not self.script(self):
                return

    def _ready(self, due: int | None) -> list[Any]:
        now = time.monotonic_ns()
        wait = 0.01 if due is None else min(max(due - now, 0) / 1e9, 0.01)
        reads = [fd for fd, events in self._watched.items() if events & select.POLLIN]
        writes = [fd for fd, events in self._watched.items() if events & select.POLLOUT]
        readable, writable, _ = _select(reads, writes, [], 0 if due == 0 else wait)
        ready = [event("Ready", fd=fd, events=select.POLLIN) for fd in readable]
        return ready + [event("Ready", fd=fd, events=select.POLLOUT) for fd in writable]


# The real one: eventlet replaces that of the module.
_select = select.select


def is_readable(fd: int) -> bool:
    """Whether a file descriptor can be read without waiting."""
    return bool(_select([fd], [], [], 0)[0])
