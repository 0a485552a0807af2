"""Denies packets to and from 10.0.0.2: flows that drop, above those of others."""

from os_ken.base.app_manager import OSKenApp
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, set_ev_cls
from os_ken.ofproto import ofproto_v1_3

DENIED = "10.0.0.2"


class Firewall(OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def on_features(self, event):
        datapath = event.msg.datapath
        parser = datapath.ofproto_parser
        for field in ["ipv4_src", "ipv4_dst"]:
            match = parser.OFPMatch(eth_type=0x0800, **{field: DENIED})
            flow = parser.OFPFlowMod(datapath, priority=50_000, match=match, instructions=[])
            datapath.send_msg(flow)
