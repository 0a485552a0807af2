"""Prepares an application's OpenFlow 1.0 messages for the kernel.

OpenFlow 1.0 cannot confine a modify or delete to the flows of one application. So this module knows the flows that the
application has written, and sends a strict modify or delete for each of those that the message covers. A flow that has
timed out may still be known; a strict delete of it has no effect.

A flow without wildcards is above all others in OpenFlow 1.0, whatever its priority. Where other applications write flows,
it therefore gets one wildcard: the type of service, which hardly any application matches on.
"""

from __future__ import annotations

import logging
import struct
from typing import TYPE_CHECKING

from rosemary_ryu import wire

if TYPE_CHECKING:
    from rosemary_ryu.site import Site

LOG = logging.getLogger("rosemary.ryu")

MOST_KNOWN_FLOWS = 1 << 16

_MATCH = struct.Struct("!IH6s6sHBxHBB2xIIHH")  # OpenFlow 1.0.2 §5.2.3, 40 bytes
_ALL_WILDCARDS = (1 << 22) - 1
_WILDCARD_TOS = 1 << 21
_NO_PORT = 0xFFFF
_FLOW_STATS, _AGGREGATE_STATS = 1, 2

# Bit of each field's wildcard, in the order of the fields in `_MATCH` after the wildcards; 0 for addresses with a mask.
_BITS = (1 << 0, 1 << 2, 1 << 3, 1 << 1, 1 << 20, 1 << 4, 1 << 21, 1 << 5, 0, 0, 1 << 6, 1 << 7)
_ADDRESS_SHIFTS = {8: 8, 9: 14}


def covers(wide: bytes, narrow: bytes) -> bool:
    """Whether every packet that `narrow` matches is matched by `wide`."""
    wide_bits, *wide_fields = _MATCH.unpack(wide)
    narrow_bits, *narrow_fields = _MATCH.unpack(narrow)
    for index, bit in enumerate(_BITS):
        if bit:
            if wide_bits & bit:
                continue
            if narrow_bits & bit or wide_fields[index] != narrow_fields[index]:
                return False
            continue
        shift = _ADDRESS_SHIFTS[index]
        wide_free, narrow_free = (min(bits >> shift & 0x3F, 32) for bits in (wide_bits, narrow_bits))
        if narrow_free > wide_free or (wide_fields[index] ^ narrow_fields[index]) >> wide_free:
            return False
    return True


class KnownFlows:
    """The flows that an application has at one switch, by match and priority."""

    def __init__(self) -> None:
        self._flows: dict[tuple[bytes, int], bytes] = {}  # with the actions

    def note(self, match: bytes, priority: int, actions: bytes) -> None:
        """Notes a flow. Beyond the bound, the oldest is forgotten."""
        key = (match, priority)
        self._flows.pop(key, None)
        if len(self._flows) >= MOST_KNOWN_FLOWS:
            self._flows.pop(next(iter(self._flows)))
        self._flows[key] = actions

    def note_kept(self, reply: bytes) -> None:
        """Notes the flows of an earlier life, as a reply with flow statistics lists them (OpenFlow 1.0.2 §5.3.5)."""
        at = 12
        while at + 88 <= len(reply):
            size = wire.u16(reply, at)
            if size < 88:
                break
            self.note(reply[at + 4 : at + 44], wire.u16(reply, at + 52), reply[at + 88 : at + size])
            at += size

    def forget(self, match: bytes, priority: int) -> None:
        """Forgets a flow that has been removed."""
        self._flows.pop((match, priority), None)

    def covered(self, match: bytes, out_port: int = _NO_PORT) -> list[tuple[bytes, int]]:
        """Returns the flows that a modify or delete with this match covers, and that output to this port."""
        found = [(key, actions) for key, actions in self._flows.items() if covers(match, key[0])]
        return [key for key, actions in found if out_port == _NO_PORT or _outputs_to(actions, out_port)]


def _outputs_to(actions: bytes, port: int) -> bool:
    for place, kind, _ in wire.entries(actions, 0, len(actions)):
        if kind in (0, 11) and wire.u16(actions, place + 4) == port:  # output and enqueue
            return True
    return False


def prepare(site: Site, sent: bytes) -> list[bytes]:
    """Returns the messages to send for a message of the application."""
    if sent[1] == wire.FLOW_MOD:
        return _flow_mod(site, bytearray(sent))
    if sent[1] == wire.STATS_REQUEST_1_0 and wire.u16(sent, 8) == _AGGREGATE_STATS:
        site.expect_aggregate(wire.xid_of(sent))
        request = bytearray(sent)
        wire.put_u16(request, 8, _FLOW_STATS)
        return [bytes(request)]
    return site.settings.prepare(sent)


def _flow_mod(site: Site, buf: bytearray) -> list[bytes]:
    numbers, command = site.numbers, wire.u16(buf, wire.FM10_COMMAND)
    alone = numbers.priorities.is_whole
    placed = numbers.priorities.to_switch(wire.u16(buf, wire.FM10_PRIORITY))
    wire.put_u16(buf, wire.FM10_PRIORITY, placed)
    wire.put_u64(buf, wire.FM10_COOKIE, numbers.cookies.to_switch(wire.u64(buf, wire.FM10_COOKIE)))
    if not alone and command not in (wire.MODIFY, wire.DELETE):
        _widen(buf)
    match = bytes(buf[wire.FM10_MATCH : wire.FM10_COOKIE])
    if alone:
        return [bytes(buf)]
    if command in (wire.ADD, wire.MODIFY_STRICT):
        site.known_flows.note(match, placed, bytes(buf[wire.FM10_ACTIONS :]))
        return [bytes(buf)]
    if command == wire.DELETE_STRICT:
        site.known_flows.forget(match, placed)
        return [bytes(buf)]
    return _each(site, buf, match, command)


def _each(site: Site, buf: bytearray, match: bytes, command: int) -> list[bytes]:
    """Returns a strict message for each known flow that a modify or delete covers."""
    deletes = command == wire.DELETE
    out_port = wire.u16(buf, wire.FM10_OUT_PORT) if deletes else _NO_PORT
    messages = []
    for known, priority in site.known_flows.covered(match, out_port):
        copy = bytearray(buf)
        copy[wire.FM10_MATCH : wire.FM10_COOKIE] = known
        wire.put_u16(copy, wire.FM10_PRIORITY, priority)
        wire.put_u16(copy, wire.FM10_COMMAND, wire.DELETE_STRICT if deletes else wire.MODIFY_STRICT)
        messages.append(bytes(copy))
        if deletes:
            site.known_flows.forget(known, priority)
    if not messages and not deletes:
        wire.put_u16(buf, wire.FM10_COMMAND, wire.ADD)  # a modify that finds nothing adds (OpenFlow 1.0.2 §4.6)
        _widen(buf)
        match, priority = bytes(buf[wire.FM10_MATCH : wire.FM10_COOKIE]), wire.u16(buf, wire.FM10_PRIORITY)
        site.known_flows.note(match, priority, bytes(buf[wire.FM10_ACTIONS :]))
        messages.append(bytes(buf))
    return messages


def _widen(buf: bytearray) -> None:
    wildcards = wire.u32(buf, wire.FM10_MATCH)
    if wildcards & _ALL_WILDCARDS == 0:
        wire.put_u32(buf, wire.FM10_MATCH, wildcards | _WILDCARD_TOS)
        buf[wire.FM10_MATCH + 24] = 0


def aggregate(replies: list[bytes]) -> bytes:
    """Returns the body of an aggregate reply that adds up the parts of a reply with flows."""
    packets = octets = flows = 0
    for reply in replies:
        at = 12
        while at + 88 <= len(reply):
            size = wire.u16(reply, at)
            if size < 88:
                break
            packets, octets, flows = packets + wire.u64(reply, at + 72), octets + wire.u64(reply, at + 80), flows + 1
            at += size
    return struct.pack("!HHQQI4x", _AGGREGATE_STATS, 0, packets, octets, flows)
