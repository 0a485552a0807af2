"""A learning switch of OpenFlow 1.3 that handles batches and encodes its flow-mods itself: `rosemary.App.on_batch`."""

import struct

from rosemary import FLOOD, Action, App, PacketIn, SnapshotBegin

# OpenFlow 1.3.5 §7.3.4.1: a flow-mod with a match of in-port and both addresses, and one output.
FLOW_MOD = struct.Struct("!BBHI QQ BBHHH III H2x HH II I6s I6s HH4x HHIH6x")
SIZE = FLOW_MOD.size
IDLE_SECONDS = 60
NO_BUFFER = 0xFFFF_FFFF
ANY = 0xFFFF_FFFF


class LearningSwitch(App):
    def __init__(self):
        self.ports = {}

    def on_batch(self, events, network):
        send, pack, begin, all_ports = network.send, FLOW_MOD.pack, network.begin, self.ports
        priority = network.numbers.band[0]
        flood = [Action.output(FLOOD)]
        for number, event in enumerate(events):
            if not begin(number):
                return number
            if type(event) is not PacketIn:
                if type(event) is SnapshotBegin:
                    all_ports.clear()
                continue
            dpid, in_port, data, buffer_id = event.dpid, event.in_port, event.data, event.buffer_id
            ports = all_ports.get(dpid)
            if ports is None:
                ports = all_ports[dpid] = {}
            destination, source = data[:6], data[6:12]
            ports[source] = in_port
            port = ports.get(destination)
            if port is None:
                network.packet_out_for(event, flood)
                continue
            if buffer_id is None:
                buffer = NO_BUFFER
                network.packet_out_for(event, [Action.output(port)])
            else:
                buffer = buffer_id  # the flow-mod sends the packet
            send(dpid, event.epoch, pack(
                4, 14, SIZE, number, 0, 0, 0, 0, IDLE_SECONDS, 0, priority, buffer, ANY, ANY, 0,
                1, 32, 0x8000_0004, in_port, 0x8000_0606, destination, 0x8000_0806, source,
                4, 24, 0, 16, port, 0,
            ))
        return None
