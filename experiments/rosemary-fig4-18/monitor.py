"""Says every half second how many links it sees, as the topology application of os-ken has them."""

import sys

from os_ken.base.app_manager import OSKenApp, lookup_service_brick
from os_ken.lib import hub


class Monitor(OSKenApp):
    def start(self):
        super().start()
        hub.spawn(self.look)

    def look(self):
        while True:
            topology = lookup_service_brick("switches")
            links = sum(1 for _ in topology.links) if topology else 0
            print(f"LINKS {links}", file=sys.stderr, flush=True)
            hub.sleep(0.5)
