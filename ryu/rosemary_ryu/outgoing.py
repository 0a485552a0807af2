"""Prepares an application's messages of OpenFlow 1.2 to 1.5 for the kernel.

Works on private copies of encoded messages. Priorities, cookies, groups and meters get their numbers on the switch.
Some things exist once per switch: the table-miss entry (`table_miss.py`), configuration, role and asynchronous filters
(`own_settings.py`). Messages about them are answered here, for this application alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rosemary_ryu import group_buckets, table_miss, wire
from rosemary_ryu.numbers import GROUP_MAX, METER_MAX, Numbers

if TYPE_CHECKING:
    from rosemary_ryu.site import Site

# Types of multipart messages. In 1.5, 1 is a description of flows, and 17 their statistics.
_FLOW, _AGGREGATE, _GROUP, _GROUP_DESC, _METER, _METER_CONFIG, _FLOW_STATS_1_5 = 1, 2, 6, 7, 9, 10, 17
_ALL_GROUPS, _ALL_METERS = 0xFFFF_FFFC, 0xFFFF_FFFF
_DELETE_ENTRY = 2  # OFPGC_DELETE and OFPMC_DELETE


def prepare(site: Site, sent: bytes) -> list[bytes]:
    """Returns the messages to send for a message of the application: mostly one, none if it is answered here."""
    kind = sent[1]
    if kind == wire.PACKET_OUT:
        return [_packet_out(site.numbers, sent)]
    if kind == wire.FLOW_MOD:
        return _flow_mod(site, bytearray(sent))
    if kind == wire.MULTIPART_REQUEST:
        return _request(site, bytearray(sent))
    if kind == wire.GROUP_MOD:
        return _group_mod(site, bytearray(sent))
    if kind == wire.METER_MOD:
        return _meter_mod(site, bytearray(sent))
    return site.settings.prepare(sent)


def _packet_out(numbers: Numbers, sent: bytes) -> bytes:
    if sent[0] == wire.V1_5:  # it has a match where the others have the in-port
        at, size = wire.match_end(sent, 16), wire.u16(sent, 12)
    else:
        at, size = 24, wire.u16(sent, 16)
    if size == 16 and sent[at : at + 2] == b"\x00\x00":  # a single output
        return sent
    copy = bytearray(sent)
    number_actions(numbers, copy, at, at + size)
    return bytes(copy)


def number_actions(numbers: Numbers, buf: bytearray, at: int, end: int) -> None:
    """Gives the groups and meters in a list of actions their numbers on the switch."""
    for place, kind, _ in wire.entries(buf, at, end):
        if kind == wire.GROUP:
            wire.put_u32(buf, place + 4, numbers.groups.to_switch(wire.u32(buf, place + 4)))
        elif kind == wire.METER_ACTION and buf[0] == wire.V1_5:
            wire.put_u32(buf, place + 4, numbers.meters.to_switch(wire.u32(buf, place + 4)))


def _flow_mod(site: Site, buf: bytearray) -> list[bytes]:
    command, table = buf[wire.FM_COMMAND], buf[wire.FM_TABLE]
    # Before 1.3, an entry without fields is one like all others.
    if buf[0] >= wire.V1_3 and table_miss.is_miss(buf) and table in (0, 0xFF):
        if not _keeps_miss(site, buf, command):
            return []
        site.miss.note_sent(command, table)
    return [bytes(buf)] if _number_flow_mod(site.numbers, buf) else []


def _keeps_miss(site: Site, buf: bytearray, command: int) -> bool:
    """Applies a flow-mod to the table-miss entry that is kept here. Returns whether the switch receives it, too."""
    miss = site.miss
    kept = table_miss.kept_instructions(buf)
    if command == wire.ADD:
        is_timed = wire.u32(buf, wire.FM_IDLE) != 0
        drops_alone = kept is False and site.numbers.priorities.is_whole
        if kept is None or is_timed or drops_alone:
            return True
        was_flow = miss.is_flow
        miss.add(buf)
        if was_flow:
            site.send_prepared(_delete_strict(site, buf))
        return False
    strict = command in (wire.MODIFY_STRICT, wire.DELETE_STRICT)
    if miss.selected_by_flow_mod(buf):
        if command in (wire.DELETE, wire.DELETE_STRICT):
            removed = miss.remove()
            if removed is not None:
                site.answer(removed)
        elif kept is not None and miss.entry is not None:
            miss.entry.instructions = bytes(buf[wire.instructions_at(buf) :])
            miss.entry.to_controller = kept
        else:
            _move_to_switch(site, buf)
    if strict and not miss.is_flow:
        return False  # there is nothing of this entry in the switch
    return True


def _move_to_switch(site: Site, modify: bytearray) -> None:
    """Makes the entry a flow, with the instructions of a modify that cannot be kept here."""
    entry = site.miss.entry
    assert entry is not None
    site.miss.entry, site.miss.is_flow = None, True
    add = bytearray(modify)
    wire.put_u64(add, wire.FM_COOKIE, entry.cookie)
    wire.put_u64(add, wire.FM_MASK, 0)
    add[wire.FM_TABLE], add[wire.FM_COMMAND] = 0, wire.ADD
    wire.put_u16(add, wire.FM_PRIORITY, 0)
    wire.put_u16(add, wire.FM_FLAGS, entry.flags)
    if _number_flow_mod(site.numbers, add):
        site.send_prepared(bytes(add))


def _delete_strict(site: Site, add: bytearray) -> bytes:
    """Returns the deletion of the table-miss entry that was a flow."""
    delete = bytearray(add[: wire.instructions_at(add)])
    wire.put_u64(delete, wire.FM_COOKIE, 0)
    wire.put_u64(delete, wire.FM_MASK, 0)
    delete[wire.FM_COMMAND] = wire.DELETE_STRICT
    wire.put_u32(delete, wire.FM_BUFFER, wire.NO_BUFFER)
    wire.put_u32(delete, wire.FM_OUT_PORT, wire.ANY)
    wire.put_u32(delete, wire.FM_OUT_GROUP, wire.ANY)
    wire.put_u16(delete, 2, len(delete))
    _number_flow_mod(site.numbers, delete)
    return bytes(delete)


def _number_flow_mod(numbers: Numbers, buf: bytearray) -> bool:
    """Gives a flow-mod its numbers on the switch; returns false if it selects a cookie that no flow can have."""
    cookie, mask = wire.u64(buf, wire.FM_COOKIE), wire.u64(buf, wire.FM_MASK)
    if buf[wire.FM_COMMAND] == wire.ADD:
        wire.put_u64(buf, wire.FM_COOKIE, numbers.cookies.to_switch(cookie))
        wire.put_u64(buf, wire.FM_MASK, 0)
    else:
        selected = numbers.cookies.filter_to_switch(cookie, mask)
        if selected is None:
            return False
        wire.put_u64(buf, wire.FM_COOKIE, selected[0])
        wire.put_u64(buf, wire.FM_MASK, selected[1])
    priority = wire.u16(buf, wire.FM_PRIORITY)
    wire.put_u16(buf, wire.FM_PRIORITY, numbers.priorities.to_switch(priority))
    wire.put_u32(buf, wire.FM_OUT_GROUP, numbers.groups.to_switch(wire.u32(buf, wire.FM_OUT_GROUP)))
    for place, kind, size in wire.entries(buf, wire.instructions_at(buf), len(buf)):
        if kind in (wire.APPLY_ACTIONS, wire.WRITE_ACTIONS):
            number_actions(numbers, buf, place + 8, place + size)
        elif kind == wire.METER:
            wire.put_u32(buf, place + 4, numbers.meters.to_switch(wire.u32(buf, place + 4)))
    return True


def _request(site: Site, buf: bytearray) -> list[bytes]:
    what, numbers = wire.u16(buf, 8), site.numbers
    if what in (_FLOW, _AGGREGATE) or what == _FLOW_STATS_1_5 and buf[0] == wire.V1_5:
        cookie, mask = wire.u64(buf, 32), wire.u64(buf, 40)
        if wire.u16(buf, 50) <= 4 and site.miss.selected_by(buf[16], cookie, mask, wire.u32(buf, 20), wire.u32(buf, 24)):
            site.expect_miss(wire.xid_of(buf))
        selected = numbers.cookies.filter_to_switch(cookie, mask)
        if selected is None:
            selected = ((1 << 48) - 1, (1 << 48) - 1)  # selects nothing: no flow has this cookie
        wire.put_u64(buf, 32, selected[0])
        wire.put_u64(buf, 40, selected[1])
        wire.put_u32(buf, 24, numbers.groups.to_switch(wire.u32(buf, 24)))
    elif what == _GROUP or what == _GROUP_DESC and buf[0] == wire.V1_5:
        wire.put_u32(buf, 16, numbers.groups.to_switch(wire.u32(buf, 16)))
    elif what in (_METER, _METER_CONFIG):
        wire.put_u32(buf, 16, numbers.meters.to_switch(wire.u32(buf, 16)))
    return [bytes(buf)]


def _group_mod(site: Site, buf: bytearray) -> list[bytes]:
    number, command = wire.u32(buf, 12), wire.u16(buf, 8)
    numbers = site.numbers
    if number > GROUP_MAX:
        return _each(site, buf, site.groups, number == _ALL_GROUPS and command == _DELETE_ENTRY)
    wire.put_u32(buf, 12, numbers.groups.to_switch(number))
    (site.groups.discard if command == _DELETE_ENTRY else site.groups.add)(number)
    for watch, actions, end in group_buckets.places(buf):
        if watch is not None:
            wire.put_u32(buf, watch, numbers.groups.to_switch(wire.u32(buf, watch)))
        number_actions(numbers, buf, actions, end)
    return [bytes(buf)]


def _meter_mod(site: Site, buf: bytearray) -> list[bytes]:
    number, command = wire.u32(buf, 12), wire.u16(buf, 8)
    if number > METER_MAX:
        return _each(site, buf, site.meters, number == _ALL_METERS and command == _DELETE_ENTRY)
    wire.put_u32(buf, 12, site.numbers.meters.to_switch(number))
    (site.meters.discard if command == _DELETE_ENTRY else site.meters.add)(number)
    return [bytes(buf)]


def _each(site: Site, buf: bytearray, own: set[int], deletes_all: bool) -> list[bytes]:
    """Returns the deletion of each of the application's own groups or meters in the place of one for all."""
    if not deletes_all:
        return [bytes(buf)]  # the kernel refuses it
    ids = site.numbers.groups if own is site.groups else site.numbers.meters
    messages = []
    for number in sorted(own):
        copy = bytearray(buf)
        wire.put_u32(copy, 12, ids.to_switch(number))
        messages.append(bytes(copy))
    own.clear()
    return messages
