"""Reports its start and reads foreign files. Text appended to this file changes the app."""

import sys

from os_ken.base.app_manager import OSKenApp


class Files(OSKenApp):
    def start(self):
        super().start()
        with open("/etc/shadow", "rb") as secret:
            secret.read(1)
        print("GOT reading /etc/shadow", file=sys.stderr, flush=True)
