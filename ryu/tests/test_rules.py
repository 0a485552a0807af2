"""What acts for one application alone, and the numbers on the switch, with messages that os-ken encodes."""

import pytest
from bench import app, frame
from fake import event
from recording import delete_all, flow_mod, named, packets, recorder, to_controller

from rosemary_ryu import wire

def test_table_miss_entry_acts_for_the_app_alone(tmp_path):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        miss = frame("00:00:00:00:00:01", "00:00:00:00:00:02")
        flow_mod(dp, actions=to_controller(dp), cookie=0x1234)
        bench.zone.incoming.append(switch.packet_in(miss, 1))
        bench.zone.incoming.append(switch.packet_in(miss, 1, reason=1))  # of another app's flow
        yield from bench.turns(3)
        assert switch.flows == {}
        [packet] = packets(recorded.seen)
        assert (packet.cookie, packet.match["in_port"], packet.data) == (0x1234, 1, miss)

        dp.send_msg(dp.ofproto_parser.OFPFlowStatsRequest(dp))
        yield from bench.until(lambda: named(recorded.seen, "OFPFlowStatsReply"), "statistics")
        [reply] = named(recorded.seen, "OFPFlowStatsReply")
        [entry] = reply.body
        assert (entry.priority, entry.cookie, entry.packet_count, entry.byte_count) == (0, 0x1234, 1, 60)
        assert entry.instructions[0].actions[0].port == dp.ofproto.OFPP_CONTROLLER

        delete_all(dp)
        bench.zone.incoming.append(switch.packet_in(miss, 1))
        yield from bench.turns(3)
        assert len(packets(recorded.seen)) == 1

    recorder(tmp_path, band=(1, 32767)).run(scenario)


def test_app_without_an_entry_alone_receives_no_misses(tmp_path):
    assert received_without_an_entry(tmp_path, (1, 65535)) == 0


def test_app_without_an_entry_beside_others_receives_all(tmp_path):
    assert received_without_an_entry(tmp_path, (1, 32767)) == 2


def received_without_an_entry(tmp_path, band):
    """Returns how many packets reach an application that has added none but another flow."""
    received = []

    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        flow_mod(dp, dp.ofproto_parser.OFPMatch(in_port=3), 5, to_controller(dp))
        delete_all(dp)  # as many applications do first
        miss = frame("00:00:00:00:00:01", "00:00:00:00:00:02")
        bench.zone.incoming.append(switch.packet_in(miss, 1))
        bench.zone.incoming.append(switch.packet_in(miss, 1, reason=1))  # of another app's flow
        yield from bench.turns(3)
        received.extend(packets(recorded.seen))

    recorder(tmp_path, band=band).run(scenario)
    return len(received)


def test_app_with_an_entry_that_drops_receives_no_misses(tmp_path):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        flow_mod(dp)
        bench.zone.incoming.append(switch.packet_in(frame("00:00:00:00:00:01", "00:00:00:00:00:02"), 1))
        yield from bench.turns(3)
        assert packets(recorded.seen) == []

    recorder(tmp_path, band=(1, 32767)).run(scenario)


def test_app_alone_receives_misses_with_another_reason(tmp_path):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        flow_mod(dp, actions=to_controller(dp))
        miss = frame("00:00:00:00:00:01", "00:00:00:00:00:02")
        # Open vSwitch: a packet-out that crosses a patch port.
        bench.zone.incoming.append(switch.packet_in(miss, 1, reason=1))
        yield from bench.turns(3)
        assert len(packets(recorded.seen)) == 1

    recorder(tmp_path).run(scenario)


def test_deleted_table_miss_entry_reports_its_removal(tmp_path):
    def scenario(bench):
        yield from bench.connect()
        recorded = app("Recorder")
        [dp] = recorded.dps
        flow_mod(dp, actions=to_controller(dp), cookie=7, flags=dp.ofproto.OFPFF_SEND_FLOW_REM)
        delete_all(dp, cookie=8, cookie_mask=(1 << 64) - 1)
        yield from bench.turns(3)
        assert named(recorded.seen, "OFPFlowRemoved") == []
        delete_all(dp, cookie=7, cookie_mask=(1 << 64) - 1)
        yield from bench.until(lambda: named(recorded.seen, "OFPFlowRemoved"), "the removal is reported")
        [removed] = named(recorded.seen, "OFPFlowRemoved")
        assert (removed.cookie, removed.priority, removed.reason) == (7, 0, dp.ofproto.OFPRR_DELETE)

    recorder(tmp_path).run(scenario)


def test_other_table_miss_entries_are_flows_at_the_bottom_of_the_band(tmp_path):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        flow_mod(dp, actions=[dp.ofproto_parser.OFPActionOutput(dp.ofproto.OFPP_NORMAL)])
        flow_mod(dp, actions=to_controller(dp), table_id=1)
        yield from bench.turns(2)
        assert sorted((table, priority) for table, priority, _ in switch.flows) == [(0, 1000), (1, 1000)]
        flow_mod(dp, actions=to_controller(dp))
        yield from bench.turns(2)
        assert [table for table, _, _ in switch.flows] == [1]  # the kernel's entry does it

    recorder(tmp_path, band=(1000, 30000)).run(scenario)


def test_numbers_are_those_of_the_app(tmp_path):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        parser, ofproto = dp.ofproto_parser, dp.ofproto
        bucket = parser.OFPBucket(actions=[parser.OFPActionOutput(1)])
        dp.send_msg(parser.OFPGroupMod(dp, ofproto.OFPGC_ADD, ofproto.OFPGT_ALL, 50, [bucket]))
        match = parser.OFPMatch(in_port=1)
        flow_mod(dp, match, 500, [parser.OFPActionGroup(50)], cookie=1 << 60)
        dp.send_msg(parser.OFPFlowStatsRequest(dp))
        yield from bench.until(lambda: named(recorded.seen, "OFPFlowStatsReply"), "statistics")
        group = [it for it in switch.received if it[1] == wire.GROUP_MOD][0]
        assert wire.u32(group, 12) == 0x50000 + 50
        [(_, priority, _)] = switch.flows
        assert priority == 1500
        [flow] = named(recorded.seen, "OFPFlowStatsReply")[0].body
        assert (flow.priority, flow.cookie, flow.instructions[0].actions[0].group_id) == (500, 1 << 60, 50)
        dp.send_msg(parser.OFPGroupMod(dp, ofproto.OFPGC_DELETE, ofproto.OFPGT_ALL, ofproto.OFPG_ALL))
        yield from bench.turns(2)
        assert wire.u32([it for it in switch.received if it[1] == wire.GROUP_MOD][1], 12) == 0x50000 + 50

    recorder(tmp_path, band=(1000, 30000)).run(scenario)


def test_settings_are_the_apps_own(tmp_path):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        parser, ofproto = dp.ofproto_parser, dp.ofproto
        before = len(switch.received)
        dp.send_msg(parser.OFPSetConfig(dp, ofproto.OFPC_FRAG_NORMAL, 77))
        dp.send_msg(parser.OFPGetConfigRequest(dp))
        dp.send_msg(parser.OFPRoleRequest(dp, ofproto.OFPCR_ROLE_SLAVE, 5))
        flow_mod(dp, parser.OFPMatch(in_port=1), 1, to_controller(dp))
        yield from bench.until(lambda: named(recorded.seen, "OFPErrorMsg"), "an error")
        assert len(switch.received) == before
        assert named(recorded.seen, "OFPGetConfigReply")[0].miss_send_len == 77
        assert named(recorded.seen, "OFPRoleReply")[0].role == ofproto.OFPCR_ROLE_SLAVE
        error = named(recorded.seen, "OFPErrorMsg")[0]
        assert (error.type, error.code) == (ofproto.OFPET_BAD_REQUEST, ofproto.OFPBRC_IS_SLAVE)

    recorder(tmp_path).run(scenario)


def test_echo_makes_a_round_trip(tmp_path):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        dp.send_msg(dp.ofproto_parser.OFPEchoRequest(dp, data=b"12.5"))
        dp.send_barrier()
        yield from bench.until(lambda: named(recorded.seen, "OFPBarrierReply"), "a barrier reply")
        assert [it[1] for it in switch.received[-2:]] == [wire.BARRIER_REQUEST] * 2
        [echo] = named(recorded.seen, "OFPEchoReply")
        assert echo.data == b"12.5"
        assert len(named(recorded.seen, "OFPBarrierReply")) == 1

    recorder(tmp_path).run(scenario)


def test_refusal_is_an_error_about_the_message_as_sent(tmp_path, caplog):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        flow_mod(dp, dp.ofproto_parser.OFPMatch(in_port=1), 500, to_controller(dp))
        yield from bench.turns(2)
        refused = switch.received[-1]
        bench.zone.incoming.append(
            event(
                "Refused",
                dpid=1,
                epoch=1,
                version=4,
                xid=wire.xid_of(refused),
                why="no capability",
                reason=6,
                message=refused[:64],
                remedy='add "flow.write"',
            )
        )
        yield from bench.until(lambda: named(recorded.seen, "OFPErrorMsg"), "an error")
        [error] = named(recorded.seen, "OFPErrorMsg")
        assert (error.type, error.code) == (dp.ofproto.OFPET_BAD_REQUEST, dp.ofproto.OFPBRC_EPERM)
        assert wire.u16(error.data, wire.FM_PRIORITY) == 500
        assert 'add "flow.write"' in caplog.text

    recorder(tmp_path, band=(1000, 30000)).run(scenario)


def test_delete_of_1_0_is_confined_to_own_flows(tmp_path):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        parser, ofproto = dp.ofproto_parser, dp.ofproto

        def add(**match):
            actions = [parser.OFPActionOutput(match.pop("out", 2))]
            dp.send_msg(parser.OFPFlowMod(dp, parser.OFPMatch(**match), 0, ofproto.OFPFC_ADD, 0, 0, 10, actions=actions))

        def delete(out_port=ofproto.OFPP_NONE, **match):
            dp.send_msg(
                parser.OFPFlowMod(dp, parser.OFPMatch(**match), 0, ofproto.OFPFC_DELETE, out_port=out_port, priority=0)
            )

        add(in_port=1)
        add(in_port=2)
        add(dl_type=0x800, nw_src="10.0.0.1", out=3)
        delete(in_port=1)
        yield from bench.turns(3)
        assert len(switch.flows) == 2
        delete(out_port=3)
        yield from bench.turns(3)
        assert len(switch.flows) == 1
        delete()
        yield from bench.turns(3)
        assert switch.flows == {}
        commands = [wire.u16(it, wire.FM10_COMMAND) for it in switch.received if it[1] == wire.FLOW_MOD]
        assert commands == [wire.ADD] * 3 + [wire.DELETE_STRICT] * 3

    recorder(tmp_path, wire.V1_0, band=(1000, 30000)).run(scenario)


def test_messages_wait_for_room_in_their_order(tmp_path):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        bench.zone.room = 0
        before = len(switch.received)
        for number in range(5):
            dp.xid = 100 + number
            dp.send_barrier()
        yield from bench.turns(3)
        assert len(switch.received) == before
        bench.zone.room = 16
        yield from bench.turns(3)
        bench.zone.room = 1 << 20
        yield from bench.turns(3)
        assert [wire.xid_of(it) for it in switch.received[before:]] == [101, 102, 103, 104, 105]

    recorder(tmp_path).run(scenario)


def test_flow_mod_whose_buffer_another_app_has_used_is_added_without_it(tmp_path):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        received, receive = [], switch.receive
        switch.receive = lambda message: (received.append(message), receive(message))[1]
        flow_mod(dp, dp.ofproto_parser.OFPMatch(in_port=3), 7, to_controller(dp), buffer_id=77)
        yield from bench.turns(3)
        [sent] = received
        assert wire.u32(sent, wire.FM_BUFFER) == 77
        about = {"dpid": 1, "epoch": 1, "version": wire.V1_3, "xid": wire.xid_of(sent), "message": sent[:64]}
        refused = event("Refused", why="its buffer was not given", reason=11, remedy=None, **about)
        bench.zone.incoming.append(refused)
        yield from bench.turns(3)
        [_, again] = received
        assert wire.u32(again, wire.FM_BUFFER) == wire.NO_BUFFER
        end = wire.FM_BUFFER + 4
        assert (again[: wire.FM_BUFFER], again[end:]) == (sent[: wire.FM_BUFFER], sent[end:])
        # As a switch that does not know the buffer reports it.
        [error] = named(recorded.seen, "OFPErrorMsg")
        assert (error.type, error.code) == (1, 8)
        bench.zone.incoming.append(refused)
        yield from bench.turns(3)
        assert len(received) == 2, "it is sent again once"

    recorder(tmp_path).run(scenario)


LATER = ["a deletion", "the same flow", "another flow", "a modification", "a deletion of others", "a modification of others"]


@pytest.mark.parametrize("later", LATER)
def test_refused_flow_mod_does_not_undo_a_later_one(tmp_path, later):
    def scenario(bench):
        yield from bench.connect()
        [dp] = app("Recorder").dps
        match, ofp, switch = dp.ofproto_parser.OFPMatch, dp.ofproto, bench.switches[1]
        received, receive = [], switch.receive
        switch.receive = lambda message: (received.append(message), receive(message))[1]
        flow_mod(dp, match(in_port=3), 7, to_controller(dp), buffer_id=77)
        if later == "a deletion":
            flow_mod(dp, match(in_port=3), 7, [], command=ofp.OFPFC_DELETE, buffer_id=78)
        elif later == "a modification":
            flow_mod(dp, match(), 7, to_controller(dp), command=ofp.OFPFC_MODIFY)
        elif later == "a deletion of others":
            flow_mod(dp, match(in_port=3, eth_type=0x800), 7, [], command=ofp.OFPFC_DELETE)
        elif later == "a modification of others":
            flow_mod(dp, match(in_port=3), 8, to_controller(dp), command=ofp.OFPFC_MODIFY_STRICT)
        else:
            flow_mod(dp, match(in_port=3 if later == "the same flow" else 4), 7, to_controller(dp))
        yield from bench.turns(3)
        sent, second = received
        if later == "a deletion":
            assert wire.u32(second, wire.FM_BUFFER) == wire.NO_BUFFER, "a buffer means nothing in it"
        about = {"dpid": 1, "epoch": 1, "version": wire.V1_3, "xid": wire.xid_of(sent), "message": sent[:64]}
        bench.zone.incoming.append(event("Refused", why="its buffer was not given", reason=11, remedy=None, **about))
        yield from bench.turns(3)
        assert len(received) == (3 if "other" in later else 2)

    recorder(tmp_path).run(scenario)
