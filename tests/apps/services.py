"""An app in Python that uses the services, and logs what they answer."""

import os
import select

from rosemary import (
    Action,
    App,
    At,
    AskError,
    Expect,
    FlowMod,
    Hosts,
    Match,
    Stats,
    StorageRefused,
    Topology,
    Unavailable,
    Wanted,
)

ASK_EVERY = 0.05


class Services(App):
    def __init__(self):
        self.topology, self.hosts, self.stats, self.wanted = Topology(), Hosts(), Stats(), Wanted()
        for client in (self.topology, self.hosts, self.wanted):
            self.follow(client)
        flow = FlowMod.add(Match(eth_type=0x88B5), priority=7, cookie=9, apply=[Action.output(1)])
        self.wanted.flow(At.ALL, flow)
        self.last, self.due = {}, 0.0
        self.descriptor = os.open(os.__file__, os.O_RDONLY)  # a file is always ready

    def say(self, network, about, text):
        """Logs what is new."""
        if self.last.get(about) != text:
            self.last[about] = text
            network.info(f"{about}: {text}")

    def on_batch(self, events, network):
        handled = super().on_batch(events, network)
        self.on_wake(network)
        return handled

    def on_snapshot_end(self, event, network):
        network.watch(self.descriptor, select.POLLIN)

    def on_ready(self, event, network):
        network.watch(self.descriptor, 0)
        self.say(network, "descriptor", "ready")

    def on_service_up(self, event, network):
        network.info(f"up: {event.service}")
        self.last.pop(event.service, None)  # what the new process answers is news
        if event.service == "storage":
            storage = network.storage()
            storage.put(b"once", b"a value", Expect.NOTHING)
            storage.list(b"")
            storage.of("another").get(b"key")

    def on_storage(self, event, network):
        try:
            answer = event.result()
        except Unavailable as error:
            self.say(network, "storage", f"Unavailable: {error}")
        except StorageRefused as error:
            network.info(f"refused: {error}")
        else:
            if answer.kind == "value":
                self.say(network, "storage", f"value {answer.value.decode()} of version {answer.version}")
            else:
                network.info(f"storage {answer.kind} {answer.keys if answer.kind == 'keys' else ''}")

    def on_topology(self, event, network):
        graph = self.topology.graph()
        path = graph.path(1, 2)
        hops = [(hop.from_.dpid, hop.to.dpid) for hop in path.hops] if path else None
        switches = sorted(it.dpid for it in graph.switches())
        self.say(network, "topology", f"{event.kind if event.kind == 'unavailable' else ''} {switches} path {hops}")

    def on_hosts(self, event, network):
        for change in event.changes:
            network.info(f"host {change.kind}: {change.now}")

    def on_wake(self, network):
        if network.now() < self.due:
            network.wake_at(self.due)
            return
        self.due = network.now() + ASK_EVERY
        network.wake_at(self.due)
        try:
            network.storage().get(b"once")
        except AskError as error:
            self.say(network, "ask", error)
        try:
            host = self.hosts.by_ip(network, "10.0.0.1")
            self.say(network, "hosts", f"10.0.0.1 is at {host}")
            if host is not None:
                assert self.hosts.by_mac(network, host.mac).dpid == host.dpid
        except Unavailable as error:
            self.say(network, "hosts", f"Unavailable: {error}")
        try:
            switch, port = self.stats.find_switch(network, 1), self.stats.find_port(network, 1, 1)
            counted = port is not None and bool(port.rx_packets)
            self.say(network, "stats", f"flows {switch and bool(switch.flows)}, packets {counted}")
        except Unavailable as error:
            self.say(network, "stats", f"Unavailable: {error}")
