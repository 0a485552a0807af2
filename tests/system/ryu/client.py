"""Uses Ryu's REST interface with ryurest: client.py read|write|clear. Switch 1 is an Open vSwitch with three hosts, and speaks OpenFlow 1.3."""

import sys
import time

from ryurest import RyuSwitch, ryufunc

FLOW = {
    "dpid": 1,
    "cookie": 5,
    "priority": 11111,
    "match": {"in_port": 1},
    "actions": [{"type": "OUTPUT", "port": 2}],
}
GROUP = {
    "dpid": 1,
    "type": "ALL",
    "group_id": 1,
    "buckets": [{"actions": [{"type": "OUTPUT", "port": 1}]}],
}
METER = {
    "dpid": 1,
    "flags": "KBPS",
    "meter_id": 1,
    "bands": [{"type": "DROP", "rate": 1000}],
}


def own_flows(switch):
    """Returns the flows with the priority of FLOW: their actions, matches and cookies."""
    flows = [it for it in switch.get_flows()["1"] if it["priority"] == FLOW["priority"]]
    return [(it["actions"], it["match"], it["cookie"]) for it in flows]


def read(switch):
    """Calls everything that reads, by both of the client's interfaces."""
    assert ryufunc.get_switches() == [1] == switch.get_switches()
    assert "Nicira" in switch.get_stats()["1"]["mfr_desc"]
    assert ryufunc.get_switch_stats(1) == switch.get_stats()
    assert switch.get_flow_stats()["1"][0]["flow_count"] >= 1
    assert isinstance(ryufunc.get_flows(1)["1"], list)
    for one, other, least in [
        (ryufunc.get_table_stats, switch.get_table_stats, 200),
        (ryufunc.get_table_features, switch.get_table_features, 200),
        (ryufunc.get_port_stats, switch.get_port_stats, 3),
        (ryufunc.get_port_description, switch.get_port_description, 3),
        (ryufunc.get_queue_stats, switch.get_queue_stats, 0),
        (ryufunc.get_group_features, switch.get_group_features, 1),
        (ryufunc.get_meter_features, switch.get_meter_features, 1),
    ]:
        for found in (one(1), other()):
            assert isinstance(found, dict) and len(found["1"]) >= least, (one, found)
    ports = {it["port_no"] for it in switch.get_port_description()["1"]}
    assert {1, 2, 3} <= ports, ports
    for empty in [
        switch.get_group_stats,
        switch.get_group_description,
        switch.get_meter_stats,
        switch.get_meter_description,
    ]:
        assert empty() == {"1": []}, empty


def write(switch):
    """Writes a flow, a group, a meter and a port, and reads each of them."""
    assert switch.add_flow(FLOW) and own_flows(switch) == [(["OUTPUT:2"], {"in_port": 1}, 5)]
    other = dict(FLOW, actions=[{"type": "OUTPUT", "port": 3}])
    assert switch.modify_flow(other) and own_flows(switch)[0][0] == ["OUTPUT:3"]
    assert switch.modify_flow_strict(FLOW) and own_flows(switch)[0][0] == ["OUTPUT:2"]
    assert switch.delete_flow_strict(FLOW) and own_flows(switch) == []
    assert ryufunc.add_flow(FLOW) and len(own_flows(switch)) == 1
    assert ryufunc.delete_flow({"dpid": 1, "match": {"in_port": 1}}) and own_flows(switch) == []
    assert not ryufunc.add_flow(dict(FLOW, match={"nonsense": 1})), "refused"
    assert not ryufunc.add_flow(dict(FLOW, dpid=7)), "there is no such switch"

    assert switch.add_group(GROUP)
    assert switch.get_group_stats(1)["1"][0]["group_id"] == 1
    other = dict(GROUP, buckets=[{"actions": [{"type": "OUTPUT", "port": 2}]}])
    assert switch.modify_group(other)
    assert switch.get_group_description()["1"][0]["buckets"][0]["actions"] == ["OUTPUT:2"]
    assert switch.add_meter(METER)
    assert switch.modify_meter(dict(METER, bands=[{"type": "DROP", "rate": 2000}]))
    assert switch.get_meter_description(1)["1"][0]["bands"][0]["rate"] == 2000
    assert switch.get_meter_stats(1)["1"][0]["meter_id"] == 1
    assert ryufunc.modify_port({"dpid": 1, "port_no": 3, "config": 1, "mask": 1})
    is_down = lambda: {it["port_no"]: it["config"] for it in switch.get_port_description()["1"]}[3] == 1
    deadline = time.monotonic() + 10
    while not is_down():
        assert time.monotonic() < deadline, switch.get_port_description()
        time.sleep(0.1)
    assert ryufunc.add_flow(FLOW)


def clear(switch):
    """Deletes what `write` has left."""
    assert switch.delete_meter({"dpid": 1, "meter_id": 1})
    assert switch.get_meter_description() == {"1": []}
    assert switch.delete_group({"dpid": 1, "group_id": 1})
    assert switch.get_group_description() == {"1": []}
    assert switch.delete_flow_all() and own_flows(switch) == []


{"read": read, "write": write, "clear": clear}[sys.argv[1]](RyuSwitch(1))
