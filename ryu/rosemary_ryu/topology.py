"""What `topology.switches` knows: ports, switches, links and hosts, and the LLDP frames that find links."""

from __future__ import annotations

import struct
import time
from typing import Any

from os_ken.exception import OSKenException
from os_ken.lib.dpid import dpid_to_str, str_to_dpid
from os_ken.lib.packet import ether_types, ethernet, lldp, packet
from os_ken.lib.port_no import port_no_to_str


class Port:
    """A port of a switch."""

    def __init__(self, dpid: int, ofproto: Any, ofpport: Any) -> None:
        self.dpid = dpid
        self._ofproto = ofproto
        self._config, self._state = ofpport.config, ofpport.state
        self.port_no, self.hw_addr, self.name = ofpport.port_no, ofpport.hw_addr, ofpport.name

    def is_reserved(self) -> bool:
        """Whether it is no port of the network."""
        return bool(self.port_no > self._ofproto.OFPP_MAX)

    def is_down(self) -> bool:
        """Whether it is switched off or has no link."""
        return bool(self._state & self._ofproto.OFPPS_LINK_DOWN or self._config & self._ofproto.OFPPC_PORT_DOWN)

    def is_live(self) -> bool:
        """Whether packets can leave by it."""
        return not self.is_down()

    def to_dict(self) -> dict[str, Any]:
        """Returns it as JSON."""
        name = self.name.decode("utf-8", "replace") if isinstance(self.name, bytes) else self.name
        number = port_no_to_str(self.port_no)
        return {"dpid": dpid_to_str(self.dpid), "port_no": number, "hw_addr": self.hw_addr, "name": name}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Port) and (self.dpid, self.port_no) == (other.dpid, other.port_no)

    def __hash__(self) -> int:
        return hash((self.dpid, self.port_no))

    def __str__(self) -> str:
        return f"Port<dpid={self.dpid}, port_no={self.port_no}, {'LIVE' if self.is_live() else 'DOWN'}>"


class Switch:
    """A switch and its ports."""

    def __init__(self, dp: Any) -> None:
        self.dp = dp
        self.ports: list[Port] = []

    def add_port(self, ofpport: Any) -> None:
        """Adds a port of the network."""
        port = Port(self.dp.id, self.dp.ofproto, ofpport)
        if not port.is_reserved():
            self.ports.append(port)

    def del_port(self, ofpport: Any) -> None:
        """Removes a port."""
        self.ports.remove(Port(self.dp.id, self.dp.ofproto, ofpport))

    def to_dict(self) -> dict[str, Any]:
        """Returns it as JSON."""
        return {"dpid": dpid_to_str(self.dp.id), "ports": [port.to_dict() for port in self.ports]}

    def __str__(self) -> str:
        return f"Switch<dpid={self.dp.id}, {' '.join(map(str, self.ports))}>"


class Link:
    """A link in one direction."""

    def __init__(self, src: Port, dst: Port) -> None:
        self.src, self.dst = src, dst

    def to_dict(self) -> dict[str, Any]:
        """Returns it as JSON."""
        return {"src": self.src.to_dict(), "dst": self.dst.to_dict()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Link) and (self.src, self.dst) == (other.src, other.dst)

    def __hash__(self) -> int:
        return hash((self.src, self.dst))

    def __str__(self) -> str:
        return f"Link: {self.src} to {self.dst}"


class Host:
    """A host and the port by which it was seen."""

    def __init__(self, mac: str, port: Port) -> None:
        self.mac, self.port = mac, port
        self.ipv4: list[str] = []
        self.ipv6: list[str] = []

    def to_dict(self) -> dict[str, Any]:
        """Returns it as JSON."""
        return {"mac": self.mac, "ipv4": self.ipv4, "ipv6": self.ipv6, "port": self.port.to_dict()}

    def note_address(self, ipv4: str | None = None, ipv6: str | None = None) -> None:
        """Notes an address that it uses, as the last of the list."""
        for addresses, address in ((self.ipv4, ipv4), (self.ipv6, ipv6)):
            if address is not None:
                if address in addresses:
                    addresses.remove(address)
                addresses.append(address)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Host) and (self.mac, self.port) == (other.mac, other.port)

    def __hash__(self) -> int:
        return hash((self.mac, self.port))

    def __str__(self) -> str:
        return f"Host<mac={self.mac}, port={self.port}, {','.join(self.ipv4 + self.ipv6)}>"


class HostState(dict[str, Host]):
    """Hosts by their hardware addresses."""

    def add(self, host: Host) -> None:
        """Adds a host, unless it is known."""
        self.setdefault(host.mac, host)

    def get_by_dpid(self, dpid: int) -> list[Host]:
        """Returns the hosts at a switch."""
        return [host for host in self.values() if host.port.dpid == dpid]


class PortData:
    """How a port is probed. `delay` is the time that the last probe took to the next switch, in seconds."""

    def __init__(self, is_down: bool, lldp_data: bytes) -> None:
        self.is_down, self.lldp_data = is_down, lldp_data
        self.timestamp: float | None = None
        self.sent = 0
        self.delay = 0.0

    def lldp_sent(self) -> None:
        """Notes that a probe was sent."""
        self.timestamp = time.time()
        self.sent += 1

    def lldp_received(self) -> None:
        """Notes that the probe has arrived at the other end."""
        self.sent = 0
        if self.timestamp is not None:
            self.delay = time.time() - self.timestamp

    def lldp_dropped(self) -> int:
        """Returns how many probes in a row did not arrive."""
        return self.sent


class LLDPPacket:
    """The probes: LLDP frames that name the datapath and port by which they leave."""

    CHASSIS_ID_PREFIX = "dpid:"

    class LLDPUnknownFormat(OSKenException):  # type: ignore[misc]
        """Not a probe."""

        message = "%(msg)s"

    @staticmethod
    def lldp_packet(dpid: int, port_no: int, dl_addr: str, ttl: int) -> bytes:
        """Makes a probe."""
        chassis = (LLDPPacket.CHASSIS_ID_PREFIX + dpid_to_str(dpid)).encode("ascii")
        probe = packet.Packet()
        probe.add_protocol(ethernet.ethernet(lldp.LLDP_MAC_NEAREST_BRIDGE, dl_addr, ether_types.ETH_TYPE_LLDP))
        tlvs = (
            lldp.ChassisID(subtype=lldp.ChassisID.SUB_LOCALLY_ASSIGNED, chassis_id=chassis),
            lldp.PortID(subtype=lldp.PortID.SUB_PORT_COMPONENT, port_id=struct.pack("!I", port_no)),
            lldp.TTL(ttl=ttl),
            lldp.End(),
        )
        probe.add_protocol(lldp.lldp(tlvs))
        probe.serialize()
        return bytes(probe.data)

    @staticmethod
    def lldp_parse(data: bytes) -> tuple[int, int]:
        """Returns the datapath and port of a probe. Raises `LLDPUnknownFormat` for every other packet."""
        try:
            _, found = list(packet.Packet(data))[:2]
            chassis, port = found.tlvs[:2]
            if chassis.subtype != lldp.ChassisID.SUB_LOCALLY_ASSIGNED:
                raise ValueError("chassis")
            name = chassis.chassis_id.decode("ascii")
            if not name.startswith(LLDPPacket.CHASSIS_ID_PREFIX) or port.subtype != lldp.PortID.SUB_PORT_COMPONENT:
                raise ValueError("port")
            dpid = str_to_dpid(name[len(LLDPPacket.CHASSIS_ID_PREFIX) :])
            return dpid, struct.unpack("!I", port.port_id)[0]
        except Exception as error:  # the packet may be anything
            raise LLDPPacket.LLDPUnknownFormat(msg=f"not a probe: {error}") from None
