"""Takes what there is: all the processor time, 10 MiB of memory and 50 descriptors in a second."""

import os
import time

from os_ken.base.app_manager import OSKenApp
from os_ken.lib import hub


class Greedy(OSKenApp):
    def start(self):
        super().start()
        return hub.spawn(self.take)

    def take(self):
        taken = []
        while True:
            end = time.monotonic() + 0.1
            while time.monotonic() < end:
                pass
            taken.append(b"\x01" * (1 << 20))
            for _ in range(5):
                os.dup(0)
            hub.sleep(0)
