"""Sends every packet out of all other ports, as crates/sdk/c/hub.c does."""

from os_ken.base.app_manager import OSKenApp
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.ofproto import ofproto_v1_3


class Hub(OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def on_features(self, event):
        datapath = event.msg.datapath
        protocol, parser = datapath.ofproto, datapath.ofproto_parser
        actions = [parser.OFPActionOutput(protocol.OFPP_CONTROLLER, protocol.OFPCML_NO_BUFFER)]
        apply = [parser.OFPInstructionActions(protocol.OFPIT_APPLY_ACTIONS, actions)]
        match = parser.OFPMatch()
        datapath.send_msg(parser.OFPFlowMod(datapath, priority=0, match=match, instructions=apply))

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def on_packet_in(self, event):
        message = event.msg
        datapath = message.datapath
        protocol, parser = datapath.ofproto, datapath.ofproto_parser
        datapath.send_msg(
            parser.OFPPacketOut(
                datapath=datapath, buffer_id=protocol.OFP_NO_BUFFER, in_port=message.match["in_port"],
                actions=[parser.OFPActionOutput(protocol.OFPP_FLOOD)], data=message.data,
            )
        )
