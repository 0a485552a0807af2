"""Replaces the flows of an application's earlier life without a gap (OpenFlow 1.2 to 1.4).

An application such as Faucet configures each switch from scratch when it starts: it deletes all its flows, and adds them again.
Between both, packets of established traffic find no flow. So that delete is held back here. When the application has
added its flows, those that it has not added again are deleted one by one:

```text
 new ---delete of all flows---> holding ---no flow-mod for QUIET---> asking ---reply with the flows---> done
  `----any added flow-----------------------------------------------------------------------------------^
```

A flow is deleted if it is older than the delete and the application has not added it since. Both are checked, so neither a
switch that lists a match in another form nor one that keeps the age of a replaced flow can lose a new flow.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

from rosemary_ryu import wire

LOG = logging.getLogger("rosemary.ryu")

# Seconds without a flow-mod after which the application is believed to have added its flows, and the most to wait for that.
QUIET = 0.5
LONGEST = 3.0

# Seconds until the switch is asked again, and how often.
PATIENCE = 5.0
MOST_REQUESTS = 3

# The transaction id of the request for flows. os-ken's begin anywhere and count up, so one of them in 2^32 is the same.
XID = 0xFFFF_FFF1

_FLOW, _MORE = 1, 1
_ALL_TABLES = 0xFF
_REQUEST = struct.Struct("!HH4xB3xII4xQQ")
_DELETE = struct.Struct("!QQBBHHHIIIH2x")

Key = tuple[int, int, frozenset[tuple[int, bytes, bytes]]]


def _fields(buf: bytes, at: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Yields the fields of a match in one form: class and number, value and mask. A mask of ones is an empty one."""
    end, place = at + wire.u16(buf, at + 2), at + 4
    while place + 4 <= end:
        head = wire.u32(buf, place)
        payload = buf[place + 4 : place + 4 + (head & 0xFF)]
        place += 4 + (head & 0xFF)
        value, mask = payload, b""
        if head & 0x100:
            half = len(payload) // 2
            mask = payload[half:]
            value = bytes(one & other for one, other in zip(payload[:half], mask, strict=False))
            if not any(mask):
                continue  # it has no effect
            if mask == b"\xff" * half:
                mask = b""
        yield head >> 9, bytes(value), bytes(mask)


def _key(buf: bytes, table: int, priority: int, match_at: int) -> Key:
    return table, priority, frozenset(_fields(buf, match_at))


def _deletes_all(flow_mod: bytes) -> bool:
    return (
        flow_mod[wire.FM_COMMAND] == wire.DELETE
        and flow_mod[wire.FM_TABLE] == _ALL_TABLES
        and wire.u16(flow_mod, wire.FM_MATCH + 2) <= 4
        and wire.u64(flow_mod, wire.FM_MASK) == 0
        and wire.u32(flow_mod, wire.FM_OUT_PORT) == wire.ANY
        and wire.u32(flow_mod, wire.FM_OUT_GROUP) == wire.ANY
    )


class Renewal:
    """The renewal of the flows at one connection.

    `post` sends a message, and `later` calls a function after some seconds.
    """

    def __init__(
        self,
        post: Callable[[bytes], None],
        later: Callable[[float, Callable[[], None]], Any],
        clock: Callable[[], float] = time.monotonic,
        version: int = wire.V1_3,
    ) -> None:
        self._post, self._later, self._clock, self._version = post, later, clock, version
        self._state = "new"
        self._began = self._last = 0.0
        self._added: set[Key] = set()
        self._parts: list[bytes] = []
        self._requests = 0

    def passes(self, message: bytes) -> bool:
        """Whether a message, with its numbers on the switch, is to be sent now."""
        if message[1] != wire.FLOW_MOD or self._state == "done":
            return True
        adds = message[wire.FM_COMMAND] == wire.ADD
        if self._state == "new":
            if _deletes_all(message):
                self._state = "holding"
                self._began = self._last = self._clock()
                self._later(QUIET, self._check)
                return False
            if adds:
                self._state = "done"  # it goes on with the flows that it has
            return True
        self._last = self._clock()
        if _deletes_all(message):
            if not self._added:
                return False  # Faucet sends two
            self._state = "done"  # it deletes the flows that it has added, too
            return True
        if adds:
            priority = wire.u16(message, wire.FM_PRIORITY)
            self._added.add(_key(message, message[wire.FM_TABLE], priority, wire.FM_MATCH))
        return True

    def _check(self) -> None:
        if self._state != "holding":
            return
        now = self._clock()
        if now - self._last < QUIET and now - self._began < LONGEST:
            self._later(QUIET / 2, self._check)
            return
        self._state = "asking"
        self._ask()

    def _ask(self) -> None:
        if self._state != "asking":
            return
        if self._requests == MOST_REQUESTS:
            LOG.warning("a switch does not list its flows; those of the app's earlier life stay in it")
            self._state = "done"
            return
        self._requests += 1
        self._parts.clear()
        body = _REQUEST.pack(_FLOW, 0, _ALL_TABLES, wire.ANY, wire.ANY, 0, 0) + wire.EMPTY_MATCH
        self._post(wire.message(self._version, wire.MULTIPART_REQUEST, XID, body))
        self._later(PATIENCE, self._ask)

    def takes(self, xid: int, reply: bytes) -> bool:
        """Takes a part of the reply to the request. Returns false for another message."""
        if xid != XID or self._state != "asking" or reply[1] != wire.MULTIPART_REPLY:
            return False
        self._parts.append(reply)
        if not wire.u16(reply, 10) & _MORE:
            self._state = "done"
            self._delete_old(self._clock() - self._began)
        return True

    def _delete_old(self, age: float) -> None:
        deleted = 0
        for part in self._parts:
            at = 16
            while at + 56 <= len(part):
                size = wire.u16(part, at)
                if size < 56 or at + size > len(part):
                    break
                seconds = wire.u32(part, at + 4) + wire.u32(part, at + 8) / 1e9
                table, priority = part[at + 2], wire.u16(part, at + 12)
                if seconds > age and _key(part, table, priority, at + 48) not in self._added:
                    match = part[at + 48 : at + 48 + wire.padded(wire.u16(part, at + 50))]
                    self._post(_delete_strict(self._version, table, priority, match))
                    deleted += 1
                at += size
        self._parts.clear()
        self._added.clear()
        LOG.info("%d flows of the app's earlier life were deleted", deleted)


def _delete_strict(version: int, table: int, priority: int, match: bytes) -> bytes:
    body = _DELETE.pack(0, 0, table, wire.DELETE_STRICT, 0, 0, priority, wire.NO_BUFFER, wire.ANY, wire.ANY, 0)
    return wire.message(version, wire.FLOW_MOD, XID, body + match)
