"""Gives messages of a switch the application's numbers: raw ones before they are parsed, parsed ones afterwards."""

from __future__ import annotations

from typing import Any

from rosemary_ryu import oxs, wire
from rosemary_ryu.numbers import Numbers
from rosemary_ryu.site import Site

_MORE = 1

# Reasons of packet-ins: OFPR_NO_MATCH; OFPR_ACTION and, from 1.4 on, OFPR_PACKET_OUT.
_MISS, _FROM_PACKET_OUT = 0, (1, 5)

# Types of multipart messages. In 1.5, 1 is a description of flows, and 17 their statistics.
_FLOW, _AGGREGATE, _FLOW_STATS_1_5 = 1, 2, 17
_GROUPS_1_2 = (6, 7)


def raw(site: Site, message: bytes) -> bytes | None:
    """Returns the message to parse in the place of one from the switch; `None` if the application does not receive it."""
    kind = message[1]
    if site.version == wire.V1_0:
        if kind == wire.BARRIER_REPLY_1_0:
            return site.settings.echo_reply(message)
        return site.aggregated(message)
    is_1_5 = site.version == wire.V1_5
    if kind == wire.BARRIER_REPLY:
        return site.settings.echo_reply(message)
    if kind == wire.MULTIPART_REPLY and not wire.u16(message, 10) & _MORE:
        what = wire.u16(message, 8)
        if (what in (_FLOW, _AGGREGATE) or is_1_5 and what == _FLOW_STATS_1_5) and site.takes_miss(wire.xid_of(message)):
            return _with_miss(site, message, what)
    if kind == wire.PORT_STATUS and not site.settings.wants(kind, message[8]):
        return None
    if kind == wire.FLOW_REMOVED and not site.settings.wants(kind, message[9 if is_1_5 else 18]):
        return None
    return message


def _with_miss(site: Site, message: bytes, what: int) -> bytes:
    """Adds the table-miss entry that is kept here to the statistics of the application's flows."""
    copy, entry, is_1_5 = bytearray(message), site.miss.entry, site.version == wire.V1_5
    if what != _AGGREGATE:
        copy += site.miss.description() if is_1_5 and what == _FLOW else site.miss.statistics()
        if len(copy) > 0xFFFF:
            return message
        wire.put_u16(copy, 2, len(copy))
    elif entry is not None and is_1_5:
        oxs.add_flow(copy, 16, entry.packets, entry.octets)
    elif entry is not None and len(copy) >= 40:
        wire.put_u64(copy, 16, wire.u64(copy, 16) + entry.packets)
        wire.put_u64(copy, 24, wire.u64(copy, 24) + entry.octets)
        wire.put_u32(copy, 32, wire.u32(copy, 32) + 1)
    return bytes(copy)


def wants_packet(site: Site, event: Any) -> bool:
    """Whether a packet-in of OpenFlow 1.3 to 1.5 reaches the application.

    A packet that no flow matched needs the application's own table-miss entry. A packet that a flow sent needs a flow of
    the application: the kernel hides the cookie of all others (all ones). The reason tells both apart, except for Open
    vSwitch: the packet of a packet-out that crosses a patch port and matches no flow there has the reason "action", from 1.4
    on "packet-out". An application that has all priorities for itself has no others beside it, so it receives these.

    An application beside others that never had an entry of its own receives all packets: it relies on the entry and the
    flows of another application.
    """
    if not site.settings.wants(wire.PACKET_IN, event.reason):
        return False
    if event.cookie != (1 << 64) - 1:
        return True
    is_whole = site.numbers.priorities.is_whole
    if not site.miss.is_decided and not is_whole:
        return True
    if site.miss.wants_packets and (event.reason == _MISS or event.reason in _FROM_PACKET_OUT and is_whole):
        site.miss.count(event.total_len)
        return True
    return False


def parsed(site: Site, msg: Any) -> None:
    """Gives a parsed message the application's numbers."""
    change = _CHANGES.get(type(msg).__name__)
    if change is not None:
        change(site, msg)


def _packet_in(site: Site, msg: Any) -> None:
    cookie = getattr(msg, "cookie", None)
    if cookie is None:
        return
    if cookie == (1 << 64) - 1 and site.miss.entry is not None:
        msg.cookie = site.miss.entry.cookie
    else:
        msg.cookie = site.numbers.cookies.to_app(cookie)


def _flow_removed(site: Site, msg: Any) -> None:
    if site.version == wire.V1_0 and not site.numbers.priorities.is_whole:
        site.known_flows.forget(bytes(msg.buf[8:48]), msg.priority)
    msg.priority = site.numbers.priorities.to_app(msg.priority)
    msg.cookie = site.numbers.cookies.to_app(msg.cookie)


def _flow_stats(site: Site, msg: Any) -> None:
    numbers = site.numbers
    for flow in msg.body:
        flow.priority = numbers.priorities.to_app(flow.priority)
        if hasattr(flow, "cookie"):  # statistics of 1.5 have none
            flow.cookie = numbers.cookies.to_app(flow.cookie)
        for instruction in getattr(flow, "instructions", ()):
            if hasattr(instruction, "meter_id"):
                instruction.meter_id = numbers.meters.to_app(instruction.meter_id)
            _actions(numbers, getattr(instruction, "actions", ()))


def _actions(numbers: Numbers, actions: Any) -> None:
    for action in actions:
        if hasattr(action, "group_id"):
            action.group_id = numbers.groups.to_app(action.group_id)
        elif hasattr(action, "meter_id"):  # 1.5
            action.meter_id = numbers.meters.to_app(action.meter_id)


def _groups(site: Site, msg: Any) -> None:
    for group in msg.body:
        group.group_id = site.numbers.groups.to_app(group.group_id)
        site.groups.add(group.group_id)
        for bucket in getattr(group, "buckets", ()):
            # In 1.5 it is one of the properties, mostly of a bucket without any.
            watching = [bucket, *getattr(bucket, "properties", ())]
            for it in watching:
                if hasattr(it, "watch_group"):
                    it.watch_group = site.numbers.groups.to_app(it.watch_group)
            _actions(site.numbers, bucket.actions)


def _statistics_1_2(site: Site, msg: Any) -> None:
    """Handles a reply of 1.2, where os-ken has one class for all statistics."""
    if msg.type == _FLOW:
        _flow_stats(site, msg)
    elif msg.type in _GROUPS_1_2:
        _groups(site, msg)


def _meters(site: Site, msg: Any) -> None:
    for meter in msg.body:
        meter.meter_id = site.numbers.meters.to_app(meter.meter_id)
        site.meters.add(meter.meter_id)


def _error(site: Site, msg: Any) -> None:
    if msg.data:
        msg.data = site.as_sent(msg.xid, msg.data)


_CHANGES = {
    "OFPPacketIn": _packet_in,
    "OFPFlowRemoved": _flow_removed,
    "OFPFlowStatsReply": _flow_stats,
    "OFPFlowDescStatsReply": _flow_stats,
    "OFPGroupStatsReply": _groups,
    "OFPGroupDescStatsReply": _groups,
    "OFPMeterStatsReply": _meters,
    "OFPMeterConfigStatsReply": _meters,
    "OFPMeterDescStatsReply": _meters,
    "OFPStatsReply": _statistics_1_2,
    "OFPErrorMsg": _error,
}
