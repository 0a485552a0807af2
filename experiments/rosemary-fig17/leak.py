"""Takes memory and keeps it: 160 MB in a second, until it has 2 GB."""

from os_ken.base.app_manager import OSKenApp
from os_ken.lib import hub

CHUNK = 16 << 20
MOST = 2_000_000_000


class Leak(OSKenApp):
    def start(self):
        super().start()
        return hub.spawn(self.leak)

    def leak(self):
        taken = []
        while len(taken) * CHUNK < MOST:
            taken.append(b"\x01" * CHUNK)
            hub.sleep(0.1)
        while True:
            hub.sleep(60)
