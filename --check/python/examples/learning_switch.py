"""A learning switch: remembers behind which port each address is, and installs a flow for each pair of hosts."""

from rosemary import Action, App, FLOOD, FlowMod, Match, PacketIn

__version__ = "1.0.0"

# Flows of pairs that are silent go, so that a host may move.
IDLE_SECONDS = 30


class LearningSwitch(App):
    def __init__(self):
        # The port of each address, for each switch.
        self.ports = {}
        self.flood = [Action.output(FLOOD)]

    def on_snapshot_begin(self, event, network):
        self.ports.clear()

    def on_switch_up(self, event, network):
        self.ports[event.dpid] = {}
        network.info(f"switch {event.dpid:#x} is connected")

    def on_switch_down(self, event, network):
        self.ports.pop(event.dpid, None)

    def on_port(self, event, network):
        # Whoever was behind a port that changes may be elsewhere now.
        ports = self.ports.get(event.dpid, {})
        for address in [address for address, port in ports.items() if port == event.port_no]:
            del ports[address]

    def on_packet_in(self, event: PacketIn, network):
        ports = self.ports.get(event.dpid)
        if ports is None:
            return
        source, destination = event.eth_src, event.eth_dst
        if not source[0] & 1:
            ports[source] = event.in_port
        port = ports.get(destination)
        if port is None:
            network.packet_out_for(event, self.flood)
            return
        forward = [Action.output(port)]
        match = Match(in_port=event.in_port, eth_dst=destination, eth_src=source)
        network.flow_mod(
            event.switch,
            FlowMod.add(match, priority=100, idle_timeout=IDLE_SECONDS, apply=forward),
        )
        network.packet_out_for(event, forward)
