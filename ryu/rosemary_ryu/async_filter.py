"""Keeps an application's filter of asynchronous messages: `set_async` sets it, `get_async` returns it.

| version | body of both messages |
| --- | --- |
| 1.3 | six masks of reasons: packet-in, port-status, flow-removed, each for master and slave |
| 1.4, 1.5 | properties of 8 bytes: type (2), size (2), mask (4). Types 0 to 5: the same masks, each for slave and master |

1.4 has further types for messages that only Rosemary's kernel receives: these masks are kept, and have no effect.

Source: OpenFlow 1.3.5, section 7.3.10; OpenFlow 1.4.1, section 7.3.10.
"""

from __future__ import annotations

import struct

from rosemary_ryu import wire

# All reasons, except an invalid TTL for packet-ins. 1.4 has more reasons.
_DEFAULT_1_3 = {0: 0, 1: 0b11, 2: 0b111, 3: 0b111, 4: 0, 5: 0b1111}
_DEFAULT_1_4 = {0: 0, 1: 0b111011, 2: 0b111, 3: 0b111, 4: 0, 5: 0b111111}

# The highest type of a property with a mask of reasons (OFPACPT_REQUESTFORWARD_MASTER, OFPACPT_CONT_STATUS_MASTER).
_LAST = {wire.V1_4: 11, wire.V1_5: 15}

# Types of properties for a slave; those for a master are higher by one.
_SLAVE = {wire.PACKET_IN: 0, wire.PORT_STATUS: 2, wire.FLOW_REMOVED: 4}

# The order of the masks in 1.3, by the types of 1.4.
_ORDER_1_3 = (1, 0, 3, 2, 5, 4)

# OFPET_ASYNC_CONFIG_FAILED, OFPACFC_INVALID and OFPACFC_UNSUPPORTED (1.4.1 §7.5.4.16).
_FAILED, _INVALID, _UNSUPPORTED = 15, 0, 1


class AsyncFilter:
    """The filter of one application at one switch: masks of reasons by the types of 1.4."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._masks = dict(_DEFAULT_1_4 if version >= wire.V1_4 else _DEFAULT_1_3)

    def set(self, message: bytes) -> tuple[int, int] | None:
        """Applies a `set_async` of 1.3 or later. Returns type and code of the error if it is wrong; it has no effect then."""
        if self._version < wire.V1_4:
            if len(message) < 32:
                return _FAILED, _INVALID
            self._masks.update(zip(_ORDER_1_3, struct.unpack_from("!6I", message, 8), strict=True))
            return None
        masks, at = {}, 8
        for place, kind, size in wire.entries(message, 8, len(message)):
            if kind > _LAST[self._version]:
                return _FAILED, _UNSUPPORTED
            if size != 8:
                return _FAILED, _INVALID
            masks[kind] = wire.u32(message, place + 4)
            at = place + size
        if at != len(message):
            return _FAILED, _INVALID
        self._masks.update(masks)
        return None

    def body(self) -> bytes:
        """Returns the body of the reply to `get_async`."""
        if self._version < wire.V1_4:
            return struct.pack("!6I", *(self._masks[it] for it in _ORDER_1_3))
        return b"".join(struct.pack("!HHI", kind, 8, mask) for kind, mask in sorted(self._masks.items()))

    def wants(self, kind: int, reason: int, is_slave: bool) -> bool:
        """Whether the filter lets a message of this type and reason pass."""
        return bool(self._masks[_SLAVE[kind] + (0 if is_slave else 1)] >> reason & 1)
