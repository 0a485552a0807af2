"""Which flow-mods may concern the same flow, with messages that os-ken encodes."""

import pytest
from os_ken.ofproto import ofproto_v1_0, ofproto_v1_0_parser, ofproto_v1_3, ofproto_v1_3_parser
from os_ken.ofproto.ofproto_protocol import ProtocolDesc

from rosemary_ryu import wire
from rosemary_ryu.buffered import MOST_BUFFERED, Buffered
from rosemary_ryu.covering import may_concern

V1_0 = ofproto_v1_0, ofproto_v1_0_parser
V1_3 = ofproto_v1_3, ofproto_v1_3_parser


def flow_mod(command, priority=1, table=0, xid=1, version=V1_3, **match):
    ofproto, parser = version
    datapath = ProtocolDesc(ofproto.OFP_VERSION)
    match = parser.OFPMatch(**match)
    if version is V1_3:
        made = parser.OFPFlowMod(datapath, command=command, priority=priority, table_id=table, match=match, instructions=[])
    else:
        made = parser.OFPFlowMod(datapath, match, cookie=0, command=command, priority=priority, actions=[])
    made.set_xid(xid)
    made.serialize()
    return bytes(made.buf)


def concern(one, other):
    found = may_concern(one, other)
    assert may_concern(other, one) == found
    return found


@pytest.mark.parametrize("later", [wire.ADD, wire.MODIFY_STRICT, wire.DELETE_STRICT])
def test_strict_command_concerns_the_same_flow(later):
    added = flow_mod(wire.ADD, in_port=3)
    assert concern(added, flow_mod(later, in_port=3))
    assert not concern(added, flow_mod(later, in_port=3, priority=2))
    assert not concern(added, flow_mod(later, in_port=4))
    assert not concern(added, flow_mod(later, in_port=3, eth_type=0x800))
    assert not concern(added, flow_mod(later, in_port=3, table=1))


@pytest.mark.parametrize("later", [wire.MODIFY, wire.DELETE])
def test_other_command_concerns_covered_flows(later):
    added = flow_mod(wire.ADD, in_port=3, eth_type=0x800, ipv4_dst=("10.1.0.0", "255.255.0.0"))
    assert concern(added, flow_mod(later))
    assert concern(added, flow_mod(later, in_port=3, priority=9))
    assert concern(added, flow_mod(later, eth_type=0x800, ipv4_dst=("10.0.0.0", "255.0.0.0")))
    assert not concern(added, flow_mod(later, eth_type=0x800, ipv4_dst=("11.0.0.0", "255.0.0.0")))
    assert not concern(added, flow_mod(later, eth_type=0x800, ipv4_dst="10.1.0.1")), "the flow is wider"
    assert not concern(added, flow_mod(later, in_port=3, eth_type=0x800, ip_proto=6))


def test_deletion_in_all_tables_concerns_each():
    added = flow_mod(wire.ADD, in_port=3, table=4)
    assert concern(added, flow_mod(wire.DELETE, table=0xFF))
    assert concern(added, flow_mod(wire.DELETE_STRICT, table=0xFF, in_port=3))
    assert not concern(added, flow_mod(wire.DELETE_STRICT, table=0xFF, in_port=4))


def test_two_modifications_concern_each_other_unless_disjoint():
    wide = flow_mod(wire.MODIFY, in_port=3)
    assert concern(wide, flow_mod(wire.MODIFY, eth_type=0x800))
    assert not concern(wide, flow_mod(wire.MODIFY, in_port=4, eth_type=0x800))


def test_openflow_1_0_has_wildcards():
    added = flow_mod(wire.ADD, version=V1_0, in_port=3, dl_type=0x800, nw_dst="10.1.0.0", nw_dst_mask=16)
    assert concern(added, flow_mod(wire.DELETE, version=V1_0))
    assert concern(added, flow_mod(wire.DELETE, version=V1_0, dl_type=0x800, nw_dst="10.0.0.0", nw_dst_mask=8))
    assert not concern(added, flow_mod(wire.DELETE, version=V1_0, dl_type=0x800, nw_dst="11.0.0.0", nw_dst_mask=8))
    assert not concern(added, flow_mod(wire.DELETE, version=V1_0, in_port=4))
    assert not concern(added, flow_mod(wire.ADD, version=V1_0, in_port=3, dl_type=0x800))


def test_remembered_flow_mods_are_bounded_and_forgotten_once():
    buffered = Buffered()
    for number in range(MOST_BUFFERED + 1):
        buffered.keep(flow_mod(wire.ADD, xid=number, in_port=number + 1))
    assert buffered.take(0) is None, "the oldest is forgotten"
    buffered.forget(flow_mod(wire.ADD, in_port=2))
    assert buffered.take(1) is None
    buffered.forget(flow_mod(wire.DELETE, in_port=3))
    assert buffered.take(2) is None
    kept = buffered.take(3)
    assert wire.xid_of(kept) == 3
    assert buffered.take(3) is None
    # A wide modification that is remembered gives way to an addition that it would change.
    buffered.keep(flow_mod(wire.MODIFY, xid=1000))
    buffered.forget(flow_mod(wire.ADD, in_port=900))
    assert buffered.take(1000) is None
    assert buffered.take(4) is not None
