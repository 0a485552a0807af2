"""What acts for one application alone, and the numbers on the switch, with messages that os-ken encodes."""

import textwrap

import pytest
from bench import Bench, Switch, app, frame
from fake import Numbers, event

from rosemary_ryu import wire

APP = """
from ryu.base import app_manager
from ryu.controller import ofp_event
from ryu.controller.handler import CONFIG_DISPATCHER, DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from ryu.ofproto import ofproto_v1_0, ofproto_v1_2, ofproto_v1_3, ofproto_v1_4, ofproto_v1_5

class Recorder(app_manager.RyuApp):
    OFP_VERSIONS = [{versions}]
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen, self.dps = [], []

    @set_ev_cls([ofp_event.EventOFPSwitchFeatures], CONFIG_DISPATCHER)
    def features(self, ev):
        self.dps.append(ev.msg.datapath)

    @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])
    def state(self, ev):
        self.seen.append(ev.state)

    @set_ev_cls([ofp_event.EventOFPPacketIn, ofp_event.EventOFPFlowStatsReply, ofp_event.EventOFPErrorMsg,
                 ofp_event.EventOFPFlowRemoved, ofp_event.EventOFPBarrierReply, ofp_event.EventOFPEchoReply,
                 ofp_event.EventOFPGetConfigReply, ofp_event.EventOFPPortStatus, ofp_event.EventOFPRoleReply,
                 ofp_event.EventOFPGroupDescStatsReply, ofp_event.EventOFPFlowDescStatsReply,
                 ofp_event.EventOFPAggregateStatsReply, ofp_event.EventOFPGetAsyncReply,
                 ofp_event.EventOFPStatsReply], MAIN_DISPATCHER)
    def message(self, ev):
        self.seen.append(ev.msg)
"""


def recorder(tmp_path, version=wire.V1_3, band=(1, 65535), dpids=(1,)):
    """Returns a bench with an application that records its events."""
    import sys

    name = f"ofproto_v{wire.SPOKEN[version].replace('.', '_')}.OFP_VERSION"
    (tmp_path / "recorder.py").write_text(textwrap.dedent(APP.format(versions=name)))
    sys.path.insert(0, str(tmp_path))
    bench = Bench("recorder", version=version, dpids=dpids)
    bench.zone.numbers = Numbers(band=band)
    return bench


def flow_mod(dp, match=None, priority=0, actions=(), **fields):
    parser, ofproto = dp.ofproto_parser, dp.ofproto
    match = match or parser.OFPMatch()
    instructions = [parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, list(actions))] if actions else []
    dp.send_msg(parser.OFPFlowMod(datapath=dp, match=match, priority=priority, instructions=instructions, **fields))


def to_controller(dp):
    return [dp.ofproto_parser.OFPActionOutput(dp.ofproto.OFPP_CONTROLLER, dp.ofproto.OFPCML_NO_BUFFER)]


def delete_all(dp, **fields):
    ofproto = dp.ofproto
    flow_mod(
        dp,
        command=ofproto.OFPFC_DELETE,
        table_id=ofproto.OFPTT_ALL,
        out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY,
        **fields,
    )


def packets(seen):
    return [it for it in seen if type(it).__name__ == "OFPPacketIn"]


def named(seen, name):
    return [it for it in seen if type(it).__name__ == name]


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


def test_ports_follow_the_switch(tmp_path):
    check_ports(tmp_path, wire.V1_3)


def test_ports_of_1_0_follow_the_switch(tmp_path):
    check_ports(tmp_path, wire.V1_0)


def check_ports(tmp_path, version):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        [dp] = recorded.dps
        assert sorted(dp.ports)[:3] == [1, 2, 3]
        bench.zone.incoming.append(switch.port_event(1, 0))  # known
        bench.zone.incoming.append(switch.port_event(2, 2, state=1))
        bench.zone.incoming.append(switch.port_event(9, 0))
        bench.zone.incoming.append(switch.port_event(3, 1))
        yield from bench.until(lambda: 3 not in dp.ports, "port 3 is deleted")
        changes = [(it.reason, it.desc.port_no) for it in named(recorded.seen, "OFPPortStatus")]
        assert changes == [(2, 2), (0, 9), (1, 3)]
        assert dp.ports[2].state == 1
        assert dp.ports[2].curr == 0xC0
        assert 9 in dp.ports

    recorder(tmp_path, version).run(scenario)


def test_switch_that_returns_is_a_new_datapath(tmp_path):
    def scenario(bench):
        yield from bench.connect()
        recorded, switch = app("Recorder"), bench.switches[1]
        bench.zone.incoming += [switch.down()]
        yield from bench.turns(3)
        assert recorded.seen == ["main", "dead"]
        assert not recorded.dps[0].send_barrier()
        bench.zone.incoming += [event("SnapshotBegin"), switch.up(), event("SnapshotEnd")]
        yield from bench.turns(6)
        bench.zone.incoming += [event("SnapshotBegin"), switch.up(), event("SnapshotEnd")]  # a new kernel
        yield from bench.turns(6)
        assert recorded.seen == ["main", "dead"] * 2 + ["main"]
        bench.zone.incoming.append(event("FlowsMissing", dpid=1, epoch=1, version=4))
        yield from bench.turns(6)
        assert recorded.seen == ["main", "dead"] * 3 + ["main"]
        assert len({id(it) for it in recorded.dps}) == 4

    recorder(tmp_path).run(scenario)


def test_closed_switch_is_presented_again(tmp_path):
    def scenario(bench):
        from rosemary_ryu import switchboard

        switchboard.SECONDS_UNTIL_RECONNECTED = 0.05
        yield from bench.connect()
        recorded = app("Recorder")
        recorded.dps[0].close()
        yield from bench.until(lambda: recorded.seen.count("main") == 2, "the switch comes back")
        assert recorded.seen == ["main", "dead", "main"]

    recorder(tmp_path).run(scenario)


def test_switch_of_another_version_is_not_presented(tmp_path, caplog):
    def scenario(bench):
        yield from bench.connect()
        assert app("Recorder").dps == []
        assert "protocols=OpenFlow13" in caplog.text

    bench = recorder(tmp_path)
    bench.switches[1] = Switch(1, wire.V1_0, ports=3)
    bench.run(scenario)


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


def test_failing_handler_is_logged_and_the_next_event_is_handled(tmp_path, caplog):
    source = """
    from ryu.base import app_manager
    from ryu.controller import ofp_event
    from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls

    class Failing(app_manager.RyuApp):
        count = 0
        @set_ev_cls(ofp_event.EventOFPStateChange, MAIN_DISPATCHER)
        def state(self, ev):
            self.count += 1
            raise SystemExit(1)
    """
    import sys

    (tmp_path / "failing.py").write_text(textwrap.dedent(source))
    sys.path.insert(0, str(tmp_path))

    def scenario(bench):
        yield from bench.connect()
        assert app("Failing").count == 2
        assert "handler state failed" in caplog.text

    Bench("failing", dpids=(1, 2)).run(scenario)


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


ANNOUNCED = """
from ryu.base import app_manager
from ryu.controller import dpset, ofp_event
from ryu.controller.handler import MAIN_DISPATCHER, set_ev_cls
from ryu.ofproto import ofproto_v1_3

class Announced(app_manager.RyuApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]
    _CONTEXTS = {"dpset": dpset.DPSet}
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen = []

    @set_ev_cls(dpset.EventDP)
    def switch(self, ev):
        self.seen.append("switch")

    @set_ev_cls(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)
    def port(self, ev):
        self.seen.append(ev.msg.desc.port_no)
"""


def test_switch_is_announced_before_changes_of_its_ports(tmp_path, monkeypatch):
    (tmp_path / "announced.py").write_text(ANNOUNCED)
    monkeypatch.syspath_prepend(tmp_path)

    def scenario(bench):
        switch = bench.switches[1]
        early = switch.port_event(9, 0)  # while the description of the ports is on its way
        bench.zone.incoming += [event("SnapshotBegin"), switch.up(), early, event("SnapshotEnd")]
        yield from bench.until(lambda: 9 in app("Announced").seen, "port 9 is announced")
        assert app("Announced").seen == ["switch", 9]

    Bench("announced").run(scenario)


def test_log_can_be_imported_and_set_up(tmp_path):
    bench = recorder(tmp_path)
    lines = ["from ryu import log", "import ryu.log", "log.early_init_log(10)", "log.init_log()", "log.CONF.verbose"]
    with (tmp_path / "recorder.py").open("a") as file:
        file.write("\n".join(lines))
    bench.run(lambda bench: bench.connect())


def logged(bench, caplog, *events):
    """Returns what the application's log has after these events."""

    def scenario(bench):
        bench.zone.incoming.extend(events)
        yield from bench.turns(5)

    bench.run(scenario)
    return [it.getMessage() for it in caplog.records if it.levelname in ("WARNING", "ERROR")]


def test_alerts_have_units(tmp_path, caplog):
    none = (1 << 64) - 1
    alerts = [
        (
            "cpu",
            932,
            800,
            1000,
            "this app uses 0.932 processors, more than 0.8 processors; the limit is 1 processors (limits.cpu)",
        ),
        ("memory", 200 << 20, 150 << 20, none, "this app uses 200 MiB, more than 150 MiB; the limit is none (limits.memory)"),
        (
            *("log-bytes-per-second", 5000, 3277, 4096),
            "this app uses 4.883 KiB per second, more than 3.2 KiB per second; the limit is 4 KiB per second (limits.log-bytes-per-second)",
        ),
        (
            *("flow-mods-per-second", 9, 8, 10),
            "this app uses 9 flow-mods per second, more than 8 flow-mods per second; the limit is 10 flow-mods per second "
            "(limits.flow-mods-per-second)",
        ),
        ("queue-bytes", 0, 800 << 10, 1 << 20, "this app has reached a limit: 1 MiB (limits.queue-bytes)"),
    ]
    events = [event("Alert", limit=limit, used=used, soft=soft, hard=hard) for limit, used, soft, hard, _ in alerts]
    assert logged(recorder(tmp_path), caplog, *events) == [text for *_, text in alerts]


def test_app_of_another_version_learns_what_to_do(tmp_path, caplog):
    (line,) = logged(recorder(tmp_path, wire.V1_0), caplog, Switch(1, wire.V1_3, 1).up())
    assert "supports only 1.0" in line and "--openflow 1.0" in line and "protocols=OpenFlow10" in line


def test_app_of_a_version_that_nobody_speaks_learns_it(tmp_path):
    bench = recorder(tmp_path)
    source = tmp_path / "recorder.py"
    source.write_text(source.read_text().replace("ofproto_v1_3.OFP_VERSION", "2"))
    with pytest.raises(
        ValueError, match="Recorder supports no version .* runs apps of OpenFlow 1.0, 1.2, 1.3, 1.4, 1.5: name one"
    ):
        bench.run(lambda bench: bench.turns(1))


def test_file_without_an_application_is_an_error(tmp_path):
    bench = recorder(tmp_path)
    (tmp_path / "recorder.py").write_text("from ryu.base import app_manager\n")
    with pytest.raises(TypeError, match="recorder defines no application"):
        bench.run(lambda bench: bench.turns(1))


def test_wrong_option_is_one_short_error():
    from rosemary_ryu import finder

    finder.install()
    from os_ken.cmd import manager

    with pytest.raises(ValueError, match="^unrecognized arguments: --no-such-option=5; correct the app's options$"):
        manager.read_options(["--no-such-option=5"])
    with pytest.raises(ValueError, match="wsapi.port.*Invalid Integer.*; correct the app's options$"):
        manager.read_options(["--wsapi-port=none"])
