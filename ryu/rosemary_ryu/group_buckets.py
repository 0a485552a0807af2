"""Finds the numbers of groups in the buckets of a group-mod.

| version | begin of the buckets | a bucket (bytes) | group that it watches |
| --- | --- | --- | --- |
| 1.2 to 1.4 | 16 | size (2), weight (2), watched port (4), watched group (4), padding (4), actions | a field |
| 1.5 | 24 | size (2), size of the actions (2), number (4), actions, properties | a property |

Source: OpenFlow 1.3.5, section 7.3.4.2; OpenFlow 1.5.1, section 7.3.4.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from rosemary_ryu import wire

# The property of a bucket of 1.5 that names the group that it watches (OFPGBPT_WATCH_GROUP).
_WATCH_GROUP = 2


def places(group_mod: bytes | bytearray) -> Iterator[tuple[int | None, int, int]]:
    """Yields for each bucket the place of the group that it watches, and begin and end of its actions.

    Ends at a malformed bucket, which the kernel refuses.
    """
    return _of_1_5(group_mod) if group_mod[0] == wire.V1_5 else _of_1_3(group_mod)


def _of_1_3(buf: bytes | bytearray) -> Iterator[tuple[int | None, int, int]]:
    at = 16
    while at + 16 <= len(buf):
        end = at + wire.u16(buf, at)
        if end < at + 16 or end > len(buf):
            return
        yield at + 8, at + 16, end
        at = end


def _of_1_5(buf: bytes | bytearray) -> Iterator[tuple[int | None, int, int]]:
    if len(buf) < 24:
        return
    at, last = 24, min(24 + wire.u16(buf, 16), len(buf))
    while at + 8 <= last:
        end, actions_end = at + wire.u16(buf, at), at + 8 + wire.u16(buf, at + 2)
        if actions_end > end or end > last:
            return
        properties = wire.entries(buf, actions_end, end)
        watch = next((place + 4 for place, kind, size in properties if kind == _WATCH_GROUP and size == 8), None)
        yield watch, at + 8, actions_end
        at = end
