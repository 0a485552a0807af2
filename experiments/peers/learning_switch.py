"""A learning switch for os-ken: it does what Rosemary's does, for OpenFlow 1.0 and 1.3.

Floods what it does not know, and installs a flow for every pair that talks: in-port and both addresses,
60 seconds idle. Where the switch keeps the packet, the flow-mod sends it.
"""

from os_ken.base.app_manager import OSKenApp
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.ofproto import ofproto_v1_0, ofproto_v1_3


class LearningSwitch(OSKenApp):
    OFP_VERSIONS = [ofproto_v1_0.OFP_VERSION, ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.ports = {}

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def on_features(self, event):
        datapath = event.msg.datapath
        protocol, parser = datapath.ofproto, datapath.ofproto_parser
        self.ports[datapath.id] = {}
        if protocol.OFP_VERSION == ofproto_v1_0.OFP_VERSION:
            return
        actions = [parser.OFPActionOutput(protocol.OFPP_CONTROLLER, protocol.OFPCML_NO_BUFFER)]
        apply = [parser.OFPInstructionActions(protocol.OFPIT_APPLY_ACTIONS, actions)]
        miss = parser.OFPMatch()
        datapath.send_msg(parser.OFPFlowMod(datapath, priority=0, match=miss, instructions=apply))

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def on_packet_in(self, event):
        message = event.msg
        datapath, data = message.datapath, message.data
        protocol, parser = datapath.ofproto, datapath.ofproto_parser
        old = protocol.OFP_VERSION == ofproto_v1_0.OFP_VERSION
        in_port = message.in_port if old else message.match["in_port"]
        eth_dst, eth_src = data[:6], data[6:12]
        if data[12:14] == b"\x88\xcc":
            return
        ports = self.ports.setdefault(datapath.id, {})
        ports[eth_src] = in_port
        out_port = ports.get(eth_dst, protocol.OFPP_FLOOD)
        actions = [parser.OFPActionOutput(out_port)]
        kept = message.buffer_id != protocol.OFP_NO_BUFFER
        if out_port != protocol.OFPP_FLOOD:
            common = {"datapath": datapath, "priority": 1, "idle_timeout": 60, "buffer_id": message.buffer_id}
            if old:
                match = parser.OFPMatch(in_port=in_port, dl_dst=eth_dst, dl_src=eth_src)
                flow = parser.OFPFlowMod(match=match, cookie=0, command=0, actions=actions, **common)
            else:
                dst, src = (":".join(f"{byte:02x}" for byte in address) for address in (eth_dst, eth_src))
                match = parser.OFPMatch(in_port=in_port, eth_dst=dst, eth_src=src)
                apply = [parser.OFPInstructionActions(protocol.OFPIT_APPLY_ACTIONS, actions)]
                flow = parser.OFPFlowMod(match=match, instructions=apply, **common)
            datapath.send_msg(flow)
            if kept:
                return
        datapath.send_msg(
            parser.OFPPacketOut(
                datapath=datapath, buffer_id=message.buffer_id, in_port=in_port, actions=actions,
                data=None if kept else data,
            )
        )
