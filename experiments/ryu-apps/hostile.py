"""A Ryu app that misbehaves from a moment on, as the environment says, also after each restart.

FAULT is `none`, `exit`, `loop`, `leak` or `flood`; FAULT_AT is the moment, in seconds since 1970.
"""

import os
import time

from os_ken.base.app_manager import OSKenApp
from os_ken.controller import ofp_event
from os_ken.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib import hub
from os_ken.ofproto import ofproto_v1_3

CHUNK = 64 << 20
MOST = 10_000_000_000


class Hostile(OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.datapath = None

    def start(self):
        super().start()
        return hub.spawn(self.misbehave)

    @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])
    def on_switch(self, event):
        self.datapath = event.datapath if event.state == MAIN_DISPATCHER else None

    def misbehave(self):
        hub.sleep(max(float(os.environ["FAULT_AT"]) - time.time(), 0.2))
        fault = os.environ["FAULT"]
        if fault == "exit":
            os._exit(1)
        elif fault == "loop":
            while True:
                pass
        elif fault == "leak":
            self.leak()
        elif fault == "flood":
            self.flood()

    @staticmethod
    def leak():
        taken = []
        while len(taken) * CHUNK < MOST:
            taken.append(b"\x01" * CHUNK)
            hub.sleep(0)
        while True:
            hub.sleep(60)

    def flood(self):
        number = 0
        while True:
            datapath = self.datapath
            if datapath is None:
                hub.sleep(0.1)
                continue
            # Not about the hosts of the generator, which would check such a flow.
            parser = datapath.ofproto_parser
            match = parser.OFPMatch(eth_type=0x0800, ipv4_dst=f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}")
            datapath.send_msg(parser.OFPFlowMod(datapath, priority=1, match=match, instructions=[]))
            number = (number + 1) & 0xFFFFFF
            hub.sleep(0)
