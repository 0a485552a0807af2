"""Places of fields in OpenFlow messages, and the few messages that this package makes itself.

Source: OpenFlow 1.0.2, section 5; 1.2, section A; 1.3.5, 1.4.1 and 1.5.1, section 7. Places and numbers without a version
are those of 1.2 to 1.5. Messages of applications come from os-ken's encoder, so their lengths are right; messages of switches
were checked by the kernel.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

V1_0, V1_2, V1_3, V1_4, V1_5 = 1, 3, 4, 5, 6

# The versions that applications may support.
SPOKEN = {V1_0: "1.0", V1_2: "1.2", V1_3: "1.3", V1_4: "1.4", V1_5: "1.5"}

# Types of messages with the same number in all versions.
HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY = 0, 1, 2, 3
FEATURES_REQUEST, FEATURES_REPLY = 5, 6
GET_CONFIG_REQUEST, GET_CONFIG_REPLY, SET_CONFIG = 7, 8, 9
PACKET_IN, FLOW_REMOVED, PORT_STATUS, PACKET_OUT, FLOW_MOD = 10, 11, 12, 13, 14

# Types of 1.2 and later.
GROUP_MOD, MULTIPART_REQUEST, MULTIPART_REPLY, BARRIER_REQUEST, BARRIER_REPLY = 15, 18, 19, 20, 21
ROLE_REQUEST, ROLE_REPLY, GET_ASYNC_REQUEST, GET_ASYNC_REPLY, SET_ASYNC, METER_MOD = 24, 25, 26, 27, 28, 29

# Types of 1.0.
STATS_REQUEST_1_0, STATS_REPLY_1_0, BARRIER_REQUEST_1_0, BARRIER_REPLY_1_0 = 16, 17, 18, 19

# Flow-mod commands, the same in all versions.
ADD, MODIFY, MODIFY_STRICT, DELETE, DELETE_STRICT = 0, 1, 2, 3, 4

# Ports.
CONTROLLER, ANY = 0xFFFF_FFFD, 0xFFFF_FFFF

NO_BUFFER = 0xFFFF_FFFF

# Places in a flow-mod.
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

# Instruction and action types. Meters are an instruction in 1.3 and 1.4, an action in 1.5.
WRITE_ACTIONS, APPLY_ACTIONS, METER = 3, 4, 6
OUTPUT, GROUP, METER_ACTION = 0, 22, 29

# A match of all packets.
EMPTY_MATCH = b"\x00\x01\x00\x04\x00\x00\x00\x00"

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
    """Returns where the instructions of a flow-mod begin."""
    return match_end(buf, FM_MATCH)


def match_end(buf: bytes | bytearray, at: int) -> int:
    """Returns where a match ends, with its padding."""
    return at + padded(u16(buf, at + 2))
