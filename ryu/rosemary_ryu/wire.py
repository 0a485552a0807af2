"""Places of fields in OpenFlow messages, and the few messages that this package makes itself.

Source: OpenFlow 1.0.2 and 1.3.5, section 5 and 7. Messages of applications come from os-ken's encoder, so their lengths
are right; messages of switches were checked by the kernel.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

V1_0 = 1
V1_3 = 4

# Types of messages with the same number in both versions.
HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY = 0, 1, 2, 3
FEATURES_REQUEST, FEATURES_REPLY = 5, 6
GET_CONFIG_REQUEST, GET_CONFIG_REPLY, SET_CONFIG = 7, 8, 9
PACKET_IN, FLOW_REMOVED, PORT_STATUS, PACKET_OUT, FLOW_MOD = 10, 11, 12, 13, 14

# Types of 1.3.
GROUP_MOD, MULTIPART_REQUEST, MULTIPART_REPLY, BARRIER_REQUEST, BARRIER_REPLY = 15, 18, 19, 20, 21
ROLE_REQUEST, ROLE_REPLY, GET_ASYNC_REQUEST, GET_ASYNC_REPLY, SET_ASYNC, METER_MOD = 24, 25, 26, 27, 28, 29

# Types of 1.0.
STATS_REQUEST_1_0, STATS_REPLY_1_0, BARRIER_REQUEST_1_0, BARRIER_REPLY_1_0 = 16, 17, 18, 19

# Flow-mod commands, the same in both versions.
ADD, MODIFY, MODIFY_STRICT, DELETE, DELETE_STRICT = 0, 1, 2, 3, 4

# Ports of 1.3.
CONTROLLER, ANY = 0xFFFF_FFFD, 0xFFFF_FFFF

NO_BUFFER = 0xFFFF_FFFF

# Places in a 1.3 flow-mod.
FM_COOKIE, FM_MASK, FM_TABLE, FM_COMMAND, FM_IDLE, FM_PRIORITY = 8, 16, 24, 25, 26, 30
FM_BUFFER, FM_OUT_PORT, FM_OUT_GROUP, FM_FLAGS, FM_MATCH = 32, 36, 40, 44, 48

# Places in a 1.0 flow-mod.
FM10_MATCH, FM10_COOKIE, FM10_COMMAND, FM10_PRIORITY, FM10_BUFFER, FM10_OUT_PORT, FM10_ACTIONS = (
    8,
    48,
    56,
    62,
    64,
    68,
    72,
)

# Instruction and action types of 1.3.
WRITE_ACTIONS, APPLY_ACTIONS, METER = 3, 4, 6
OUTPUT, GROUP = 0, 22

_U16 = struct.Struct("!H")
_U32 = struct.Struct("!I")
_U64 = struct.Struct("!Q")
_HEADER = struct.Struct("!BBHI")


def u16(buf: bytes | bytearray, at: int) -> int:
    """Reads a 16-bit field."""
    return int(_U16.unpack_from(buf, at)[0])


def u32(buf: bytes | bytearray, at: int) -> int:
    """Reads a 32-bit field."""
    return int(_U32.unpack_from(buf, at)[0])


def u64(buf: bytes | bytearray, at: int) -> int:
    """Reads a 64-bit field."""
    return int(_U64.unpack_from(buf, at)[0])


def put_u16(buf: bytearray, at: int, value: int) -> None:
    """Writes a 16-bit field."""
    _U16.pack_into(buf, at, value)


def put_u32(buf: bytearray, at: int, value: int) -> None:
    """Writes a 32-bit field."""
    _U32.pack_into(buf, at, value)


def put_u64(buf: bytearray, at: int, value: int) -> None:
    """Writes a 64-bit field."""
    _U64.pack_into(buf, at, value)


def xid_of(buf: bytes | bytearray) -> int:
    """Returns the transaction id of a message."""
    return u32(buf, 4)


def message(version: int, kind: int, xid: int, body: bytes = b"") -> bytes:
    """Makes a message."""
    return _HEADER.pack(version, kind, 8 + len(body), xid & 0xFFFF_FFFF) + body


def error(version: int, xid: int, kind: int, code: int, about: bytes) -> bytes:
    """Makes an error message about the beginning of another message."""
    return message(version, ERROR, xid, struct.pack("!HH", kind, code) + about[:64])


def padded(size: int) -> int:
    """Rounds up to a multiple of 8."""
    return (size + 7) // 8 * 8


def entries(buf: bytes | bytearray, at: int, end: int, least: int = 4) -> Iterator[tuple[int, int, int]]:
    """Yields place, type and size of the instructions or actions between two places. Ends at a malformed one."""
    while at + least <= end:
        kind, size = u16(buf, at), u16(buf, at + 2)
        if size < least or at + size > end:
            return
        yield at, kind, size
        at += size


def instructions_at(buf: bytes | bytearray) -> int:
    """Returns where the instructions of a 1.3 flow-mod begin."""
    return FM_MATCH + padded(u16(buf, FM_MATCH + 2))
