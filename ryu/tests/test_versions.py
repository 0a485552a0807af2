"""Applications of OpenFlow 1.2, 1.4 and 1.5, with messages that os-ken encodes and decodes."""

import struct

import pytest
from bench import app, frame
from recording import delete_all, flow_mod, named, packets, recorder, to_controller

from rosemary_ryu import group_buckets, oxs, wire
from rosemary_ryu.renewal import XID, Renewal

VERSIONS = [wire.V1_2, wire.V1_3, wire.V1_4, wire.V1_5]
WITH_MISS_ENTRIES = VERSIONS[1:]
WITH_PROPERTIES = VERSIONS[2:]
MISS = frame("00:00:00:00:00:01", "00:00:00:00:00:02")


def request_flows(dp):
    """Asks for the flows with all their instructions, and returns the name of the reply."""
    ofp, parser = dp.ofproto, dp.ofproto_parser
    if ofp.OFP_VERSION == wire.V1_2:
        dp.send_msg(parser.OFPFlowStatsRequest(dp, ofp.OFPTT_ALL, ofp.OFPP_ANY, ofp.OFPG_ANY, 0, 0, parser.OFPMatch()))
        return "OFPStatsReply"
    name = "OFPFlowDescStats" if ofp.OFP_VERSION == wire.V1_5 else "OFPFlowStats"
    dp.send_msg(getattr(parser, name + "Request")(dp))
    return name + "Reply"


def bucket(dp, actions, watch_group):
    parser, ofproto = dp.ofproto_parser, dp.ofproto
    if ofproto.OFP_VERSION == wire.V1_5:
        weight = parser.OFPGroupBucketPropWeight(type_=ofproto.OFPGBPT_WEIGHT, weight=1)
        watch = parser.OFPGroupBucketPropWatch(type_=ofproto.OFPGBPT_WATCH_GROUP, watch=watch_group)
        return parser.OFPBucket(bucket_id=1, actions=actions, properties=[weight, watch])
    return parser.OFPBucket(weight=1, watch_port=ofproto.OFPP_ANY, watch_group=watch_group, actions=actions)


def packet_out(dp, actions):
    parser, ofproto = dp.ofproto_parser, dp.ofproto
    if ofproto.OFP_VERSION == wire.V1_5:
        match = parser.OFPMatch(in_port=1, metadata=5)
        return parser.OFPPacketOut(dp, ofproto.OFP_NO_BUFFER, match, actions, MISS)
    return parser.OFPPacketOut(dp, wire.NO_BUFFER, 1, actions, MISS)


@pytest.mark.parametrize("version", VERSIONS)
def test_numbers_are_those_of_the_app(tmp_path, version):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        assert sorted(dp.ports)[:3] == [1, 2, 3]
        parser, ofproto = dp.ofproto_parser, dp.ofproto
        inner = bucket(dp, [parser.OFPActionOutput(1), parser.OFPActionGroup(7)], 51)
        dp.send_msg(parser.OFPGroupMod(dp, ofproto.OFPGC_ADD, ofproto.OFPGT_FF, 50, buckets=[inner]))
        flow_mod(dp, parser.OFPMatch(in_port=1), 500, [parser.OFPActionGroup(50)], cookie=1 << 60)
        dp.send_msg(packet_out(dp, [parser.OFPActionOutput(1), parser.OFPActionGroup(50)]))
        reply = request_flows(dp)
        yield from bench.until(lambda: named(recorded.seen, reply), "statistics")
        group = [it for it in switch.received if it[1] == wire.GROUP_MOD][0]
        assert wire.u32(group, 12) == 0x50000 + 50
        for number, times in ((7, 1), (51, 1)):
            assert group.count(struct.pack("!I", 0x50000 + number)) == times
            assert struct.pack("!HHI", 22, 8, number) not in group
        [sent] = switch.packet_outs
        assert struct.pack("!HHI", wire.GROUP, 8, 0x50000 + 50) in sent and sent.endswith(MISS)
        [(_, priority, _)] = switch.flows
        assert priority == 1500
        [flow] = named(recorded.seen, reply)[0].body
        assert (flow.priority, flow.cookie, flow.instructions[0].actions[0].group_id) == (500, 1 << 60, 50)

    recorder(tmp_path, version, band=(1000, 30000)).run(scenario)


@pytest.mark.parametrize("version", WITH_MISS_ENTRIES)
def test_table_miss_entry_acts_for_the_app_alone(tmp_path, version):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        parser, ofproto = dp.ofproto_parser, dp.ofproto
        flow_mod(dp, actions=to_controller(dp), cookie=0x1234, flags=ofproto.OFPFF_SEND_FLOW_REM)
        bench.zone.incoming.append(switch.packet_in(MISS, 1))
        bench.zone.incoming.append(switch.packet_in(MISS, 1, reason=1))  # of another app's flow
        yield from bench.turns(3)
        assert switch.flows == {}
        [packet] = packets(recorded.seen)
        assert (packet.cookie, packet.match["in_port"], packet.data) == (0x1234, 1, MISS)

        reply = request_flows(dp)
        dp.send_msg(parser.OFPAggregateStatsRequest(dp, 0, 0xFF, ofproto.OFPP_ANY, ofproto.OFPG_ANY, 0, 0, parser.OFPMatch()))
        yield from bench.until(lambda: named(recorded.seen, "OFPAggregateStatsReply"), "statistics")
        [entry] = named(recorded.seen, reply)[0].body
        assert (entry.priority, entry.cookie, entry.flags) == (0, 0x1234, ofproto.OFPFF_SEND_FLOW_REM)
        assert entry.instructions[0].actions[0].port == ofproto.OFPP_CONTROLLER
        total = named(recorded.seen, "OFPAggregateStatsReply")[0].body
        counts = entry.stats if version == wire.V1_5 else vars(entry)
        totals = total.stats if version == wire.V1_5 else total._asdict()
        assert (counts["packet_count"], counts["byte_count"]) == (1, 60)
        assert (totals["flow_count"], totals["packet_count"], totals["byte_count"]) == (1, 11, 1060)

        delete_all(dp)
        yield from bench.until(lambda: named(recorded.seen, "OFPFlowRemoved"), "the removal is reported")
        [removed] = named(recorded.seen, "OFPFlowRemoved")
        assert (removed.cookie, removed.priority, removed.reason) == (0x1234, 0, ofproto.OFPRR_DELETE)
        counts = removed.stats if version == wire.V1_5 else vars(removed)
        assert (counts["packet_count"], counts["byte_count"]) == (1, 60)

    recorder(tmp_path, version, band=(1, 32767)).run(scenario)


def test_statistics_of_1_5_have_the_table_miss_entry(tmp_path):
    def scenario(bench):
        yield from bench.connect()
        recorded = app("Recorder")
        [dp] = recorded.dps
        flow_mod(dp, actions=to_controller(dp))
        flow_mod(dp, dp.ofproto_parser.OFPMatch(in_port=1), 5, to_controller(dp), cookie=3)
        dp.send_msg(dp.ofproto_parser.OFPFlowStatsRequest(dp, cookie=3, cookie_mask=(1 << 64) - 1))
        dp.send_msg(dp.ofproto_parser.OFPFlowStatsRequest(dp))
        yield from bench.until(lambda: len(named(recorded.seen, "OFPFlowStatsReply")) == 2, "statistics")
        one, both = (it.body for it in named(recorded.seen, "OFPFlowStatsReply"))
        assert [(it.priority, it.stats["packet_count"]) for it in one] == [(5, 10)]
        assert [(it.priority, it.stats["packet_count"]) for it in both] == [(5, 10), (0, 0)]

    recorder(tmp_path, wire.V1_5, band=(1, 32767)).run(scenario)


def test_app_of_1_2_receives_all_packets(tmp_path):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        flow_mod(dp)  # an entry like all others, as 1.2 has no table-miss entry
        bench.zone.incoming += [switch.packet_in(MISS, 1, reason=reason) for reason in (0, 1)]
        yield from bench.turns(3)
        assert [it.reason for it in packets(recorded.seen)] == [0, 1]
        assert [priority for _, priority, _ in switch.flows] == [1000]

    recorder(tmp_path, wire.V1_2, band=(1000, 30000)).run(scenario)


@pytest.mark.parametrize("version", WITH_PROPERTIES)
def test_packet_out_that_matches_no_flow_reaches_an_app_alone(tmp_path, version):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        flow_mod(dp, actions=to_controller(dp))
        bench.zone.incoming.append(switch.packet_in(MISS, 1, reason=dp.ofproto.OFPR_PACKET_OUT))
        yield from bench.turns(3)
        assert len(packets(recorded.seen)) == 1

    recorder(tmp_path, version).run(scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_ports_follow_the_switch(tmp_path, version):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        bench.zone.incoming.append(switch.port_event(1, 0))  # known
        bench.zone.incoming.append(switch.port_event(2, 2, state=1))
        bench.zone.incoming.append(switch.port_event(9, 0))
        bench.zone.incoming.append(switch.port_event(3, 1))
        yield from bench.until(lambda: 3 not in dp.ports, "port 3 is deleted")
        changes = [(it.reason, it.desc.port_no) for it in named(recorded.seen, "OFPPortStatus")]
        assert changes == [(2, 2), (0, 9), (1, 3)]
        features = dp.ports[2].properties[0] if version >= wire.V1_4 else dp.ports[2]
        assert (dp.ports[2].state, features.curr, dp.ports[2].name) == (1, 0xC0, b"s1-eth2")
        assert 9 in dp.ports

    recorder(tmp_path, version).run(scenario)


@pytest.mark.parametrize("version", VERSIONS)
def test_settings_are_the_apps_own(tmp_path, version):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        parser, ofproto = dp.ofproto_parser, dp.ofproto
        before = len(switch.received)
        dp.send_msg(parser.OFPSetConfig(dp, ofproto.OFPC_FRAG_NORMAL, 77))
        dp.send_msg(parser.OFPSetConfig(dp, ofproto.OFPC_FRAG_DROP, 78))
        dp.send_msg(parser.OFPGetConfigRequest(dp))
        fields = {"short_id": 9} if version == wire.V1_5 else {}
        dp.send_msg(parser.OFPRoleRequest(dp, ofproto.OFPCR_ROLE_SLAVE, generation_id=5, **fields))
        flow_mod(dp, parser.OFPMatch(in_port=1), 1, to_controller(dp))
        yield from bench.until(lambda: len(named(recorded.seen, "OFPErrorMsg")) == 2, "errors")
        assert len(switch.received) == before
        [config] = named(recorded.seen, "OFPGetConfigReply")
        assert (config.flags, config.miss_send_len) == (0, 77)
        [role] = named(recorded.seen, "OFPRoleReply")
        assert (role.role, role.generation_id) == (ofproto.OFPCR_ROLE_SLAVE, 5)
        assert version != wire.V1_5 or role.short_id == 9
        errors = [(it.type, it.code) for it in named(recorded.seen, "OFPErrorMsg")]
        assert errors == [
            (ofproto.OFPET_SWITCH_CONFIG_FAILED, ofproto.OFPSCFC_BAD_FLAGS),
            (ofproto.OFPET_BAD_REQUEST, ofproto.OFPBRC_IS_SLAVE),
        ]

    recorder(tmp_path, version).run(scenario)


@pytest.mark.parametrize("version", WITH_PROPERTIES)
def test_filter_of_properties_is_the_apps_own(tmp_path, version):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        parser, ofproto = dp.ofproto_parser, dp.ofproto

        def mask(kind, value):
            return parser.OFPAsyncConfigPropReasons(kind, 8, value)

        set_async = [mask(ofproto.OFPACPT_PORT_STATUS_MASTER, 0b011), mask(ofproto.OFPACPT_TABLE_STATUS_MASTER, 0b11000)]
        dp.send_msg(parser.OFPSetAsync(dp, set_async))
        dp.send_msg(parser.OFPSetAsync(dp, [mask(ofproto.OFPACPT_PORT_STATUS_MASTER, 0), mask(99, 1)]))
        dp.send_msg(parser.OFPGetAsyncRequest(dp))
        yield from bench.until(lambda: named(recorded.seen, "OFPGetAsyncReply"), "the filter")
        [error] = named(recorded.seen, "OFPErrorMsg")
        assert (error.type, error.code) == (ofproto.OFPET_ASYNC_CONFIG_FAILED, ofproto.OFPACFC_UNSUPPORTED)
        masks = {it.type: it.mask for it in named(recorded.seen, "OFPGetAsyncReply")[0].properties}
        assert masks[ofproto.OFPACPT_PORT_STATUS_MASTER] == 0b011, "a wrong message has no effect"
        assert masks[ofproto.OFPACPT_TABLE_STATUS_MASTER] == 0b11000
        assert masks[ofproto.OFPACPT_PACKET_IN_MASTER] >> ofproto.OFPR_PACKET_OUT & 1
        bench.zone.incoming += [switch.port_event(2, 2, state=1), switch.port_event(3, 1)]
        yield from bench.turns(3)
        assert [it.reason for it in named(recorded.seen, "OFPPortStatus")] == [1]

    recorder(tmp_path, version).run(scenario)


def test_meters_of_1_5_are_actions(tmp_path):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        parser = dp.ofproto_parser
        flow_mod(dp, parser.OFPMatch(in_port=1), 5, [parser.OFPActionMeter(3), parser.OFPActionOutput(2)])
        reply = request_flows(dp)
        yield from bench.until(lambda: named(recorded.seen, reply), "the flow")
        [flow] = switch.flows.values()
        assert struct.pack("!HHI", wire.METER_ACTION, 8, 0x500 + 3) in flow
        [entry] = named(recorded.seen, reply)[0].body
        assert entry.instructions[0].actions[0].meter_id == 3

    recorder(tmp_path, wire.V1_5).run(scenario)


@pytest.mark.parametrize("version", [wire.V1_2, wire.V1_4])
def test_renewal_speaks_the_version_of_the_switch(version):
    sent, timers = [], []
    renewal = Renewal(sent.append, lambda seconds, call: timers.append(call), iter(range(100)).__next__, version)
    head = struct.pack("!QQBBHHHIIIHH", 0, 0, 0xFF, wire.DELETE, 0, 0, 0, wire.NO_BUFFER, wire.ANY, wire.ANY, 0, 0)
    assert not renewal.passes(wire.message(version, wire.FLOW_MOD, 1, head + wire.EMPTY_MATCH))
    timers.pop(0)()
    entry = struct.pack("!HBxIIHHHHHxxQQQ", 56, 3, 60, 0, 7, 0, 0, 0, 0, 1, 0, 0) + wire.EMPTY_MATCH
    reply = wire.message(version, wire.MULTIPART_REPLY, XID, struct.pack("!HH4x", 1, 0) + entry)
    assert renewal.takes(XID, reply)
    assert [(it[0], it[1]) for it in sent] == [(version, wire.MULTIPART_REQUEST), (version, wire.FLOW_MOD)]
    assert (sent[1][wire.FM_TABLE], wire.u16(sent[1], wire.FM_PRIORITY)) == (3, 7)


@pytest.mark.parametrize("version", VERSIONS)
def test_malformed_buckets_end_the_search(version):
    begin = 24 if version == wire.V1_5 else 16
    for size in (0, 7, 15, 24, 0xFFFF):
        for inner in (0, 8, 0xFFFF):
            group_mod = bytearray(
                wire.message(version, wire.GROUP_MOD, 1, bytes(begin - 8) + struct.pack("!HHI8x", size, inner, 1))
            )
            wire.put_u16(group_mod, 16, 0xFFFF)
            for watch, first, end in group_buckets.places(group_mod):
                assert watch is None or watch + 4 <= len(group_mod)
                assert first <= end <= len(group_mod)


def test_malformed_statistics_stay_as_they_are():
    whole = bytearray(struct.pack("!HHHBBIHBBQ", 0, 24, 0x8002, 6, 4, 1, 0x8002, 8, 8, 5))
    for size in range(len(whole) + 1):
        cut = whole[:size]
        oxs.add_flow(cut, 0, 2, 9)
        assert len(cut) == size
    for wrong in (0, 3, 0xFFFF):
        malformed = bytearray(whole)
        wire.put_u16(malformed, 2, wrong)
        oxs.add_flow(malformed, 0, 2, 9)
        assert len(malformed) == len(whole)
    oxs.add_flow(whole, 0, 2, 9)
    assert (wire.u32(whole, 8), wire.u64(whole, 16)) == (2, 7)
    full = bytearray(struct.pack("!HHHBBQ", 0, 16, 0x8002, 8, 8, (1 << 64) - 1))
    oxs.add_flow(full, 0, 2, 9)
    assert wire.u64(full, 8) == (1 << 64) - 1
