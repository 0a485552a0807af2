"""Ryu's own applications, unmodified, from the installed package Ryu 4.34."""

import pytest
from bench import Bench, app, frame

from rosemary_ryu import wire

pytest.importorskip("tinyrpc")

A, B, BROADCAST = "00:00:00:00:00:0a", "00:00:00:00:00:0b", "ff:ff:ff:ff:ff:ff"


def output_port(packet_out: bytes) -> int:
    """Returns the port of the first action of a packet-out."""
    if packet_out[0] == wire.V1_0:
        return wire.u16(packet_out, 20)
    return wire.u32(packet_out, 28)


def learning(bench: Bench):
    """Two hosts talk through a learning switch: a flood, then a flow."""
    yield from bench.connect()
    switch = bench.switches[1]
    bench.zone.incoming.append(switch.packet_in(frame(BROADCAST, A), 1))
    yield from bench.until(lambda: switch.packet_outs, "the broadcast is flooded")
    bench.zone.incoming.append(switch.packet_in(frame(A, B), 2))
    yield from bench.until(lambda: len(switch.packet_outs) > 1, "the answer is sent")
    assert output_port(switch.packet_outs[1]) == 1


@pytest.mark.parametrize("name", ["simple_switch_13", "simple_switch_rest_13", "simple_switch_websocket_13"])
def test_switch_learns(name):
    bench = Bench(f"ryu.app.{name}")
    bench.listen()

    def scenario(bench):
        yield from learning(bench)
        assert len(bench.switches[1].flows) == 1

    bench.run(scenario)


def test_switch_of_1_0_learns():
    def scenario(bench):
        yield from learning(bench)
        assert len(bench.switches[1].flows) == 1

    Bench("ryu.app.simple_switch", version=wire.V1_0).run(scenario)


def test_monitor_asks_for_statistics():
    def scenario(bench):
        yield from learning(bench)
        yield from bench.until(lambda: any(it[1] == 18 and it[9] == 4 for it in bench.switches[1].received), "ports", 15)

    Bench("ryu.app.simple_monitor_13").run(scenario)


def test_rest_switch_returns_its_table():
    bench = Bench("ryu.app.simple_switch_rest_13")
    port = bench.listen()

    def scenario(bench):
        yield from learning(bench)
        path = "/simpleswitch/mactable/0000000000000001"
        assert (yield from bench.http(port, "GET", path)) == (200, {A: 1, B: 2})
        put = {"mac": "00:00:00:00:00:0c", "port": 3}
        status, table = yield from bench.http(port, "PUT", path, put)
        assert (status, table["00:00:00:00:00:0c"]) == (200, 3)
        assert (yield from bench.http(port, "GET", "/simpleswitch/mactable/0000000000000002"))[0] == 404
        yield from bench.until(lambda: len(bench.switches[1].flows) == 5, "four more flows")

    bench.run(scenario)


def test_ofctl_rest_reads_and_writes_flows():
    bench = Bench("ryu.app.ofctl_rest")
    port = bench.listen()

    def scenario(bench):
        yield from bench.connect()
        assert (yield from bench.http(port, "GET", "/stats/switches")) == (200, [1])
        flow = {
            "dpid": 1,
            "cookie": 5,
            "priority": 11111,
            "match": {"in_port": 1},
            "actions": [{"type": "OUTPUT", "port": 2}],
        }
        assert (yield from bench.http(port, "POST", "/stats/flowentry/add", flow))[0] == 200
        status, flows = yield from bench.http(port, "GET", "/stats/flow/1")
        assert status == 200
        [read] = flows["1"]
        assert (read["priority"], read["cookie"], read["actions"]) == (11111, 5, ["OUTPUT:2"])
        status, ports = yield from bench.http(port, "GET", "/stats/portdesc/1")
        assert [it["name"] for it in ports["1"]] == ["s1-eth1", "s1-eth2", "s1-eth3", "local"]
        status, description = yield from bench.http(port, "GET", "/stats/desc/1")
        assert description["1"]["mfr_desc"] == "Nicira"
        status, role = yield from bench.http(port, "GET", "/stats/role/1")
        assert role["1"][0]["role"] == "EQUAL"
        assert (yield from bench.http(port, "DELETE", "/stats/flowentry/clear/1"))[0] == 200
        yield from bench.until(lambda: not bench.switches[1].flows, "the flows are deleted")
        assert (yield from bench.http(port, "GET", "/stats/flow/7"))[0] == 404

    bench.run(scenario)


def test_ofctl_rest_of_1_0_reads_and_writes_flows():
    bench = Bench("ryu.app.ofctl_rest", version=wire.V1_0)
    port = bench.listen()

    def scenario(bench):
        yield from bench.connect()
        flow = {"dpid": 1, "match": {"in_port": 1}, "actions": [{"type": "OUTPUT", "port": 2}]}
        assert (yield from bench.http(port, "POST", "/stats/flowentry/add", flow))[0] == 200
        status, flows = yield from bench.http(port, "GET", "/stats/flow/1")
        assert flows["1"][0]["actions"] == ["OUTPUT:2"]
        status, sum_of_all = yield from bench.http(port, "GET", "/stats/aggregateflow/1")
        assert sum_of_all["1"][0] == {"packet_count": 10, "byte_count": 1000, "flow_count": 1}

    bench.run(scenario)


@pytest.mark.parametrize("name", ["rest_topology", "ws_topology"])
def test_topology_finds_links(name):
    bench = Bench(f"ryu.app.{name}", dpids=(1, 2), ports=1)
    bench.zone.options["observe-links"] = "true"
    port = bench.listen()

    def carry_probes(bench):
        """Connects port 1 of both switches."""
        for here, there in ((1, 2), (2, 1)):
            outs, bench.switches[here].packet_outs = bench.switches[here].packet_outs, []
            for out in outs:
                data = out[24 + wire.u16(out, 16) :]
                bench.zone.incoming.append(bench.switches[there].packet_in(data, 1, cookie=0, reason=1))

    def scenario(bench):
        yield from bench.connect()
        switches = app("switches")
        for _ in range(2000):
            carry_probes(bench)
            yield
            if len(switches.links) == 2 and all(it.delay > 0 for it in switches.ports.values()):
                break
        assert len(switches.links) == 2
        assert all(0 < it.delay < 1 for it in switches.ports.values())
        if name == "rest_topology":
            status, links = yield from bench.http(port, "GET", "/v1.0/topology/links")
            assert {(it["src"]["dpid"], it["dst"]["dpid"]) for it in links} == {
                ("0000000000000001", "0000000000000002"),
                ("0000000000000002", "0000000000000001"),
            }
            status, found = yield from bench.http(port, "GET", "/v1.0/topology/switches")
            assert len(found) == 2
            assert found[0]["ports"][0]["name"] == "s1-eth1"

    bench.run(scenario)


def test_firewall_adds_a_rule():
    bench = Bench("ryu.app.rest_firewall")
    port = bench.listen()

    def scenario(bench):
        yield from bench.connect()
        dpid = "0000000000000001"
        status, state = yield from bench.http(port, "GET", "/firewall/module/status")
        assert (status, state) == (200, [{"status": "disable", "switch_id": dpid}])
        yield from bench.http(port, "PUT", f"/firewall/module/enable/{dpid}")
        status, state = yield from bench.http(port, "GET", "/firewall/module/status")
        assert state == [{"status": "enable", "switch_id": dpid}]
        rule = {"nw_src": "10.0.0.1/32", "nw_dst": "10.0.0.2/32", "nw_proto": "ICMP"}
        status, answer = yield from bench.http(port, "POST", f"/firewall/rules/{dpid}", rule)
        assert answer[0]["command_result"][0]["result"] == "success"
        status, rules = yield from bench.http(port, "GET", f"/firewall/rules/{dpid}")
        [read] = rules[0]["access_control_list"][0]["rules"]
        assert read["nw_src"].startswith("10.0.0.1")
        assert (read["nw_proto"], read["actions"]) == ("ICMP", "ALLOW")
        status, answer = yield from bench.http(port, "DELETE", f"/firewall/rules/{dpid}", {"rule_id": "1"})
        assert answer[0]["command_result"][0]["result"] == "success"

    bench.run(scenario)


def test_router_learns_an_address():
    bench = Bench("ryu.app.rest_router")
    port = bench.listen()

    def scenario(bench):
        yield from bench.connect()
        dpid = "0000000000000001"
        status, answer = yield from bench.http(port, "POST", f"/router/{dpid}", {"address": "172.16.20.1/24"})
        assert answer[0]["command_result"][0]["result"] == "success"
        status, state = yield from bench.http(port, "GET", f"/router/{dpid}")
        assert state[0]["internal_network"][0]["address"][0]["address"] == "172.16.20.1/24"

    bench.run(scenario)


def test_qos_adds_a_rule():
    bench = Bench("ryu.app.rest_qos")
    port = bench.listen()

    def scenario(bench):
        yield from bench.connect()
        dpid = "0000000000000001"
        rule = {"match": {"nw_dst": "10.0.0.1", "nw_proto": "UDP", "tp_dst": "5002"}, "actions": {"queue": "1"}}
        status, answer = yield from bench.http(port, "POST", f"/qos/rules/{dpid}", rule)
        assert answer[0]["command_result"][0]["result"] == "success", answer
        status, rules = yield from bench.http(port, "GET", f"/qos/rules/{dpid}")
        assert rules[0]["command_result"][0]["qos"][0]["nw_dst"] == "10.0.0.1"

    bench.run(scenario)


def test_conf_switch_stores_values():
    bench = Bench("ryu.app.rest_conf_switch")
    port = bench.listen()

    def scenario(bench):
        yield from bench.connect()
        path = "/v1.0/conf/switches/0000000000000001/ovsdb_addr"
        assert (yield from bench.http(port, "PUT", path, '"tcp:127.0.0.1:6632"'))[0] in (200, 201)
        status, switches = yield from bench.http(port, "GET", "/v1.0/conf/switches")
        assert switches == ["0000000000000001"]
        assert (yield from bench.http(port, "GET", path)) == (200, "tcp:127.0.0.1:6632")

    bench.run(scenario)


@pytest.mark.parametrize(("name", "version"), [("simple_switch_stp_13", 4), ("simple_switch_stp", 1)])
def test_stp_sends_bpdus(name, version):
    def scenario(bench):
        yield from bench.connect()
        switch = bench.switches[1]
        bpdu = bytes.fromhex("0180c2000000")
        yield from bench.until(lambda: any(bpdu in it for it in switch.packet_outs), "BPDUs are sent", 15)

    Bench(f"ryu.app.{name}", version=version).run(scenario)


@pytest.mark.parametrize(("name", "version"), [("simple_switch_lacp_13", 4), ("simple_switch_lacp", 1)])
def test_lacp_answers(name, version):
    def scenario(bench):
        yield from bench.connect()
        from os_ken.lib.packet import ethernet, packet, slow

        pdu = packet.Packet()
        pdu.add_protocol(ethernet.ethernet("01:80:c2:00:00:02", A, 0x8809))
        lacp = slow.lacp(
            actor_system=A,
            actor_state_activity=1,
            actor_state_aggregation=1,
            actor_state_synchronization=1,
            actor_state_timeout=1,
            partner_system="00:00:00:00:00:00",
        )
        pdu.add_protocol(lacp)
        pdu.serialize()
        switch = bench.switches[1]
        bench.zone.incoming.append(switch.packet_in(bytes(pdu.data), 1))
        yield from bench.until(lambda: any(b"\x88\x09" in it for it in switch.packet_outs), "an answer")

    Bench(f"ryu.app.{name}", version=version).run(scenario)


@pytest.mark.parametrize(("name", "version"), [("simple_switch_igmp_13", 4), ("simple_switch_igmp", 1)])
def test_igmp_queries(name, version):
    bench = Bench(f"ryu.app.{name}", version=version)

    def scenario(bench):
        yield from bench.connect()
        switch = bench.switches[1]
        query = bytes.fromhex("01005e000001")
        yield from bench.until(lambda: any(query in it for it in switch.packet_outs), "a query", 15)

    bench.run(scenario)


def test_example_switch_learns():
    def scenario(bench):
        yield from learning(bench)
        [(_, priority, _)] = bench.switches[1].flows
        assert priority == 2  # 1 in the band from 1 on

    Bench("ryu.app.example_switch_13").run(scenario)
