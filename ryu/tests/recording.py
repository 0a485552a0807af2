"""An application that records its events, and messages for it to send."""

import sys
import textwrap

from bench import Bench
from fake import Numbers

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
