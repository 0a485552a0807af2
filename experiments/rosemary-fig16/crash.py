"""Ends its process some seconds after its start, as if all were well."""

import os

from os_ken.base.app_manager import OSKenApp
from os_ken.lib import hub

SECONDS = 10


class Crash(OSKenApp):
    def start(self):
        super().start()
        hub.spawn_after(SECONDS, os._exit, 0)
