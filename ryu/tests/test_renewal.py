"""Replaces the flows of an earlier life without a gap."""

import struct

from rosemary_ryu import renewal, wire
from rosemary_ryu.renewal import Renewal

IN_PORT = 0x8000_0004


def oxm(head, value):
    return struct.pack("!I", head) + value


def match(*fields):
    body = b"".join(fields)
    size = 4 + len(body)
    return struct.pack("!HH", 1, size) + body + bytes(wire.padded(size) - size)


PORT = oxm(IN_PORT, struct.pack("!I", 1))
DST = oxm(0x8000_0606, b"\x02\0\0\0\0\x01")
DST_MASKED = oxm(0x8000_070C, b"\x02\0\0\0\0\x01" + b"\xff" * 6)
NO_VLAN = oxm(0x8000_0D04, bytes(4))


def flow_mod(command, match_=wire.EMPTY_MATCH, table=0, priority=1):
    head = struct.pack(
        "!QQBBHHHIIIH2x", 0, 0, table, command, 0, 0, priority, wire.NO_BUFFER, wire.ANY, wire.ANY, 0
    )
    return wire.message(wire.V1_3, wire.FLOW_MOD, 7, head + match_)


DELETE_ALL = flow_mod(wire.DELETE, table=0xFF)


def listed(match_, seconds, table=0, priority=1):
    size = 48 + len(match_)
    return struct.pack("!HBxIIHHHH4xQQQ", size, table, seconds, 0, priority, 0, 0, 0, 0, 0, 0) + match_


def reply(*flows, more=0):
    return wire.message(wire.V1_3, wire.MULTIPART_REPLY, renewal.XID, struct.pack("!HH4x", 1, more) + b"".join(flows))


class Bench:
    def __init__(self):
        self.sent, self.timers, self.now = [], [], 100.0
        self.renewal = Renewal(self.sent.append, lambda seconds, call: self.timers.append((self.now + seconds, call)), lambda: self.now)

    def passes(self, *messages):
        return [self.renewal.passes(message) for message in messages]

    def wait(self, seconds):
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer[0] <= end]:
            timer = min(due, key=lambda it: it[0])
            self.timers.remove(timer)
            self.now = max(self.now, timer[0])
            timer[1]()
        self.now = end


def test_only_flows_that_were_not_added_again_are_deleted():
    bench = Bench()
    again, gone = match(PORT, DST_MASKED, NO_VLAN), match(DST)
    assert bench.passes(DELETE_ALL, flow_mod(wire.ADD, again)) == [False, True]
    bench.wait(1.0)
    [request] = bench.sent
    assert (request[1], wire.u16(request, 8), len(request)) == (wire.MULTIPART_REQUEST, 1, 56)
    # The switch lists fields in another order, and only masks that have an effect. It keeps the age of a replaced flow.
    first = reply(listed(match(DST, PORT), 60), listed(gone, 60), more=1)
    assert bench.renewal.takes(renewal.XID, first) and len(bench.sent) == 1
    last = reply(listed(match(PORT), 0), listed(again, 60, table=1), listed(again, 60, priority=2))
    assert bench.renewal.takes(renewal.XID, last)
    deleted = [(it[wire.FM_TABLE], it[wire.FM_COMMAND], wire.u16(it, wire.FM_PRIORITY), it[wire.FM_MATCH :]) for it in bench.sent[1:]]
    assert deleted == [(0, 4, 1, gone), (1, 4, 1, again), (0, 4, 2, again)]
    assert not bench.renewal.takes(renewal.XID, last), "once"
    assert bench.passes(DELETE_ALL) == [True], "later ones are the app's own"


def test_app_that_adds_first_is_left_alone():
    bench = Bench()
    assert bench.passes(flow_mod(wire.ADD, match(DST)), DELETE_ALL) == [True, True]
    bench.wait(10.0)
    assert bench.sent == []


def test_delete_with_a_filter_and_a_second_one_pass():
    bench = Bench()
    assert bench.passes(flow_mod(wire.DELETE, match(DST), table=0xFF), flow_mod(wire.DELETE)) == [True, True]
    assert bench.passes(DELETE_ALL, DELETE_ALL, flow_mod(wire.ADD, match(DST)), DELETE_ALL) == [False, False, True, True]
    bench.wait(10.0)
    assert bench.sent == []


def test_busy_app_and_silent_switch_end_it():
    bench = Bench()
    bench.passes(DELETE_ALL)
    for _ in range(40):
        bench.passes(flow_mod(wire.ADD, match(DST)))
        bench.wait(0.1)
    assert len(bench.sent) == 1, "asked while the app still adds flows"
    bench.wait(60.0)
    assert len(bench.sent) == renewal.MOST_REQUESTS
    assert bench.passes(DELETE_ALL) == [True]
