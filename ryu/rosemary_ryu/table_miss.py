"""The table-miss entry of one application at one switch, which acts for that application alone.

A switch has one table-miss entry for all, and it is the kernel's: it sends packets to the controller, which forwards
them to the applications. An application's own entry in table 0 is kept here instead of in the switch:

| the application's entry | effect |
| --- | --- |
| none, and it is alone | packets without a matching flow do not reach the application |
| none, and others share the switch | all packets reach it, as under Ryu, also those of another's entry and flows |
| deleted by the application | they do not reach it |
| output to the controller | they reach it, with the entry's cookie |
| drop | they do not reach it |
| any other | it is a flow with the lowest priority of the application's band |

OpenFlow 1.0 and 1.2 have no such entry: there all applications receive these packets.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass, field

from rosemary_ryu import oxs, wire

SEND_FLOW_REM = 1
REMOVED_BY_DELETE = 2  # OFPRR_DELETE


@dataclass
class Entry:
    """An entry that is kept here."""

    cookie: int
    flags: int
    instructions: bytes
    to_controller: bool
    since: float = field(default_factory=time.monotonic)
    packets: int = 0
    octets: int = 0


def is_miss(flow_mod: bytes | bytearray) -> bool:
    """Whether a flow-mod of 1.3 to 1.5 is about a table-miss entry: all wildcards, and the lowest priority if that counts."""
    if wire.u16(flow_mod, wire.FM_MATCH + 2) > 4:
        return False
    loose = flow_mod[wire.FM_COMMAND] in (wire.MODIFY, wire.DELETE)
    return loose or wire.u16(flow_mod, wire.FM_PRIORITY) == 0


def kept_instructions(flow_mod: bytes | bytearray) -> bool | None:
    """Returns whether the instructions send to the controller; `None` if they do anything else but that or drop."""
    to_controller = False
    at = wire.instructions_at(flow_mod)
    for place, kind, size in wire.entries(flow_mod, at, len(flow_mod)):
        if kind not in (wire.APPLY_ACTIONS, wire.WRITE_ACTIONS):
            return None
        for action, action_kind, _ in wire.entries(flow_mod, place + 8, place + size):
            if action_kind != wire.OUTPUT or wire.u32(flow_mod, action + 4) != wire.CONTROLLER:
                return None
            to_controller = True
    return to_controller


class TableMiss:
    """The state at one switch."""

    def __init__(self, version: int = wire.V1_3) -> None:
        self._version = version
        self.entry: Entry | None = None
        self.is_flow = False  # the application's entry is a flow in the switch
        self.is_decided = False  # the application has had an entry of its own, so it decides about its packets

    @property
    def wants_packets(self) -> bool:
        """Whether packets without a matching flow reach the application."""
        return self.entry is not None and self.entry.to_controller

    def add(self, flow_mod: bytes | bytearray) -> None:
        """Keeps the entry of an add."""
        self.is_flow = False
        self.is_decided = True
        self.entry = Entry(
            cookie=wire.u64(flow_mod, wire.FM_COOKIE),
            flags=wire.u16(flow_mod, wire.FM_FLAGS),
            instructions=bytes(flow_mod[wire.instructions_at(flow_mod) :]),
            to_controller=bool(kept_instructions(flow_mod)),
        )

    def note_sent(self, command: int, table: int) -> None:
        """Notes that a flow-mod about the entry goes to the switch."""
        if command == wire.ADD and table == 0:
            self.entry, self.is_flow, self.is_decided = None, True, True
        elif command in (wire.DELETE, wire.DELETE_STRICT):
            self.is_flow = False

    def selected_by(self, table: int, cookie: int, mask: int, out_port: int, out_group: int) -> bool:
        """Whether there is an entry that such a filter of a delete, modify or request selects."""
        entry = self.entry
        if entry is None or table not in (0, 0xFF):
            return False
        if entry.cookie & mask != cookie & mask or out_group != wire.ANY:
            return False
        return out_port == wire.ANY or (out_port == wire.CONTROLLER and entry.to_controller)

    def selected_by_flow_mod(self, flow_mod: bytes | bytearray) -> bool:
        """Whether a modify or delete selects the entry."""
        if not is_miss(flow_mod):
            return False
        deletes = flow_mod[wire.FM_COMMAND] in (wire.DELETE, wire.DELETE_STRICT)
        return self.selected_by(
            flow_mod[wire.FM_TABLE],
            wire.u64(flow_mod, wire.FM_COOKIE),
            wire.u64(flow_mod, wire.FM_MASK),
            wire.u32(flow_mod, wire.FM_OUT_PORT) if deletes else wire.ANY,
            wire.u32(flow_mod, wire.FM_OUT_GROUP) if deletes else wire.ANY,
        )

    def count(self, octets: int) -> None:
        """Counts a packet that the entry sent to the controller."""
        if self.entry is not None:
            self.entry.packets += 1
            self.entry.octets += octets

    def remove(self) -> bytes | None:
        """Removes the entry, and returns the flow-removed message that it asked for."""
        entry, self.entry = self.entry, None
        if entry is None or not entry.flags & SEND_FLOW_REM:
            return None
        if self._version == wire.V1_5:
            head = struct.pack("!BBHHHQ", 0, REMOVED_BY_DELETE, 0, 0, 0, entry.cookie)
            body = head + wire.EMPTY_MATCH + oxs.of_flow(_age(entry), entry.packets, entry.octets)
            return wire.message(self._version, wire.FLOW_REMOVED, 0, body)
        seconds, nanoseconds = _age(entry)
        head = struct.pack("!QHBBIIHH", entry.cookie, 0, REMOVED_BY_DELETE, 0, seconds, nanoseconds, 0, 0)
        counts = struct.pack("!QQ", entry.packets, entry.octets)
        return wire.message(self._version, wire.FLOW_REMOVED, 0, head + counts + wire.EMPTY_MATCH)

    def description(self) -> bytes:
        """Returns the entry as a flow's description of OpenFlow 1.5 (1.5.1 §7.3.5.2)."""
        entry = self.entry
        assert entry is not None
        tail = wire.EMPTY_MATCH + oxs.of_flow(_age(entry), entry.packets, entry.octets) + entry.instructions
        return struct.pack("!H2xBxHHHHHQ", 24 + len(tail), 0, 0, 0, 0, entry.flags, 0, entry.cookie) + tail

    def statistics(self) -> bytes:
        """Returns the entry as one of flow statistics (OpenFlow 1.3.5 §7.3.5.2, 1.5.1 §7.3.5.3)."""
        entry = self.entry
        assert entry is not None
        if self._version == wire.V1_5:
            tail = wire.EMPTY_MATCH + oxs.of_flow(_age(entry), entry.packets, entry.octets)
            return struct.pack("!H2xBBH", 8 + len(tail), 0, 0, 0) + tail
        seconds, nanoseconds = _age(entry)
        size = 48 + len(wire.EMPTY_MATCH) + len(entry.instructions)
        head = struct.pack("!HBxIIHHHH4x", size, 0, seconds, nanoseconds, 0, 0, 0, entry.flags)
        counts = struct.pack("!QQQ", entry.cookie, entry.packets, entry.octets)
        return head + counts + wire.EMPTY_MATCH + entry.instructions


def _age(entry: Entry) -> tuple[int, int]:
    age = time.monotonic() - entry.since
    return int(age), int(age % 1 * 1e9)
