"""An app in Python that drains the second switch, and ends the drain when it has begun."""

from rosemary import App, DrainRefused, Topology


class Draining(App):
    def __init__(self):
        self.topology, self.requests, self.was_drained = Topology(), {}, None
        self.follow(self.topology)

    def drain(self, network, on):
        self.requests[self.topology.drain(network, 2, on)] = on

    def on_topology(self, event, network):
        graph = self.topology.graph()
        if graph.switch(2) is None:
            return
        drained = graph.is_drained(2)
        if drained != self.was_drained:
            network.info(f"switch 2 is drained: {drained}")
            if self.was_drained is None:
                self.drain(network, True)
            elif drained:
                self.drain(network, False)
        self.was_drained = drained

    def on_drain(self, event, network):
        on = self.requests.pop(event.request)
        try:
            event.result()
            network.info(f"drain {on}: done")
        except DrainRefused as error:
            network.info(f"drain {on}: DrainRefused: {error}")
