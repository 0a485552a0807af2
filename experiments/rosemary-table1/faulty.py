"""An os-ken app that misbehaves as the environment variable FAULT says: with the first packet to UDP port 7000, it crashes,
begins to leak with every packet, or begins to delete all flows with every packet."""

import ctypes
import os

from os_ken.base.app_manager import OSKenApp
from os_ken.controller import ofp_event
from os_ken.controller.handler import MAIN_DISPATCHER, set_ev_cls
from os_ken.ofproto import ofproto_v1_3

TRIGGER = (7000).to_bytes(2, "big")


class Faulty(OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.triggered = False
        self.leaked = []

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def on_packet_in(self, event):
        datapath, data = event.msg.datapath, event.msg.data
        protocol, parser = datapath.ofproto, datapath.ofproto_parser
        # UDP over IPv4 without options.
        if data[12:14] == b"\x08\x00" and data[23] == 17 and data[36:38] == TRIGGER:
            self.triggered = True
        if not self.triggered:
            return
        fault = os.environ["FAULT"]
        if fault == "crash":
            ctypes.string_at(0)
        elif fault == "leak":
            self.leaked.append(os.urandom(64 * 1024))
        else:
            datapath.send_msg(
                parser.OFPFlowMod(
                    datapath, command=protocol.OFPFC_DELETE, table_id=protocol.OFPTT_ALL,
                    out_port=protocol.OFPP_ANY, out_group=protocol.OFPG_ANY, match=parser.OFPMatch(),
                )
            )
