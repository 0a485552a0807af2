"""Statistics of flows in the form of OpenFlow 1.5: a list of fields (OXS).

```text
0  reserved (2)   2  size of header and fields (2)   4  fields, then padding to 8 bytes
   field: class 0x8002 (2)   number << 1 (1)   size of the value (1)   value
```

Source: OpenFlow 1.5.1, section 7.2.4.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from rosemary_ryu import wire

_BASIC = 0x8002
_DURATION, _FLOW_COUNT, _PACKET_COUNT, _BYTE_COUNT = 0, 3, 4, 5


def of_flow(age: tuple[int, int], packets: int, octets: int) -> bytes:
    """Returns the statistics of one flow: its age in seconds and nanoseconds, its packets and bytes."""
    values = (
        (_DURATION, struct.pack("!II", *age)),
        (_PACKET_COUNT, struct.pack("!Q", packets)),
        (_BYTE_COUNT, struct.pack("!Q", octets)),
    )
    fields = b"".join(struct.pack("!HBB", _BASIC, number << 1, len(value)) + value for number, value in values)
    size = 4 + len(fields)
    return struct.pack("!HH", 0, size) + fields + bytes(wire.padded(size) - size)


def add_flow(buf: bytearray, at: int, packets: int, octets: int) -> None:
    """Adds one flow to the counts in statistics of several flows. A count that the switch did not send stays away."""
    added = {_FLOW_COUNT: (4, 1), _PACKET_COUNT: (8, packets), _BYTE_COUNT: (8, octets)}
    for number, place, size in _fields(buf, at):
        expected, more = added.get(number, (0, 0))
        if size == expected:
            total = int.from_bytes(buf[place : place + size], "big") + more
            buf[place : place + size] = min(total, (1 << 8 * size) - 1).to_bytes(size, "big")


def _fields(buf: bytes | bytearray, at: int) -> Iterator[tuple[int, int, int]]:
    """Yields number, place and size of the values. Ends at a malformed one."""
    if at + 4 > len(buf):
        return
    place, end = at + 4, min(at + wire.u16(buf, at + 2), len(buf))
    while place + 4 <= end:
        size = buf[place + 3]
        if place + 4 + size > end:
            return
        if wire.u16(buf, place) == _BASIC:
            yield buf[place + 2] >> 1, place + 4, size
        place += 4 + size
