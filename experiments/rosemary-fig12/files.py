"""Says that it was started, and reads what is no app's business. What was added behind it changes it."""

import sys

from os_ken.base.app_manager import OSKenApp


class Files(OSKenApp):
    def start(self):
        super().start()
        with open("/etc/shadow", "rb") as secret:
            secret.read(1)
        print("GOT reading /etc/shadow", file=sys.stderr, flush=True)
