"""Finds switches, links and hosts: the application `switches`.

With the option `observe-links` it sends LLDP frames through every port, once in 0.9 s per port, and learns a link from
each that arrives at another switch. A link that no frame has confirmed for 10 s is gone.
"""

from __future__ import annotations

import time
from typing import Any

from os_ken import cfg
from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.controller.handler import DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib import hub
from os_ken.lib.mac import DONTCARE_STR
from os_ken.lib.packet import ether_types, ethernet, lldp
from os_ken.ofproto import ofproto_v1_0, ofproto_v1_2, ofproto_v1_3, ofproto_v1_4
from os_ken.topology import event

from rosemary_ryu.topology import Host, HostState, Link, LLDPPacket, Port, PortData, Switch

__all__ = ["Host", "HostState", "Link", "LLDPPacket", "Port", "PortData", "Switch", "Switches"]

CONF = cfg.CONF
CONF.register_cli_opts(
    [
        cfg.BoolOpt("observe-links", default=False, help="find links"),
        cfg.BoolOpt("install-lldp-flow", default=True, help="add a flow that sends LLDP frames to the controller"),
        cfg.BoolOpt("explicit-drop", default=True, help="drop LLDP frames from the buffer of the switch"),
    ]
)

_IGNORED = (ether_types.ETH_TYPE_LLDP, ether_types.ETH_TYPE_CFM)


class Switches(app_manager.RyuApp):
    """Knows the topology."""

    OFP_VERSIONS = [it.OFP_VERSION for it in (ofproto_v1_0, ofproto_v1_2, ofproto_v1_3, ofproto_v1_4)]
    _EVENTS = [
        event.EventSwitchEnter,
        event.EventSwitchLeave,
        event.EventSwitchReconnected,
        event.EventPortAdd,
        event.EventPortDelete,
        event.EventPortModify,
        event.EventLinkAdd,
        event.EventLinkDelete,
        event.EventHostAdd,
        event.EventHostMove,
    ]

    DEFAULT_TTL = 120
    LLDP_PACKET_LEN = len(LLDPPacket.lldp_packet(0, 0, DONTCARE_STR, 0))
    LLDP_SEND_GUARD = 0.05
    LLDP_SEND_PERIOD_PER_PORT = 0.9
    TIMEOUT_CHECK_PERIOD = 5.0
    LINK_TIMEOUT = TIMEOUT_CHECK_PERIOD * 2

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.name = "switches"
        self.dps: dict[int, Any] = {}
        self.port_state: dict[int, dict[int, Any]] = {}
        self.ports: dict[Port, PortData] = {}
        self.links: dict[Link, float] = {}  # with the time of the last confirmation
        self.hosts = HostState()
        self.link_discovery = self.CONF.observe_links
        if self.link_discovery:
            self.install_flow = self.CONF.install_lldp_flow
            self.explicit_drop = self.CONF.explicit_drop
            self.lldp_event = hub.Event()
            self.threads.append(hub.spawn(self.lldp_loop))
            self.threads.append(hub.spawn(self.link_loop))

    # -- switches and ports

    @set_ev_cls(ofp_event.EventOFPStateChange, [MAIN_DISPATCHER, DEAD_DISPATCHER])
    def state_change_handler(self, ev: Any) -> None:
        """Notes that a switch has connected or disconnected."""
        if ev.state == MAIN_DISPATCHER:
            self._entered(ev.datapath)
        else:
            self._left(ev.datapath)

    def _entered(self, dp: Any) -> None:
        earlier: Any = self.dps.get(dp.id)
        self.dps[dp.id] = dp
        if earlier is not None:
            earlier.close()
            self.send_event_to_observers(event.EventSwitchReconnected(self._get_switch(dp.id)))
            return
        self.port_state[dp.id] = dict(dp.ports)
        switch = self._get_switch(dp.id)
        self.send_event_to_observers(event.EventSwitchEnter(switch))
        if self.link_discovery:
            if self.install_flow:
                self._add_lldp_flow(dp)
            for port in switch.ports:
                self._port_added(port)
            self.lldp_event.set()

    def _left(self, dp: Any) -> None:
        if dp.id is None or self.dps.get(dp.id) is not dp:
            return
        switch = self._get_switch(dp.id)
        del self.dps[dp.id], self.port_state[dp.id]
        self.send_event_to_observers(event.EventSwitchLeave(switch))
        for port in switch.ports:
            self._port_gone(port)

    @set_ev_cls(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)
    def port_status_handler(self, ev: Any) -> None:
        """Notes the change of a port."""
        msg = ev.msg
        dp, ofpport, ofproto = msg.datapath, msg.desc, msg.datapath.ofproto
        known = self.port_state.get(dp.id)
        if known is None:
            return
        port = Port(dp.id, ofproto, ofpport)
        if msg.reason == ofproto.OFPPR_DELETE:
            known.pop(ofpport.port_no, None)
            self.send_event_to_observers(event.EventPortDelete(port))
            self._port_gone(port)
            return
        known[ofpport.port_no] = ofpport
        added = msg.reason == ofproto.OFPPR_ADD
        self.send_event_to_observers(event.EventPortAdd(port) if added else event.EventPortModify(port))
        if self.link_discovery and not port.is_reserved():
            self._port_added(port)
            if port.is_down():
                self._link_down(port)
            self.lldp_event.set()

    def _port_added(self, port: Port) -> None:
        data = LLDPPacket.lldp_packet(port.dpid, port.port_no, port.hw_addr, self.DEFAULT_TTL)
        known = self.ports.setdefault(port, PortData(port.is_down(), data))
        known.is_down, known.timestamp = port.is_down(), None  # probed at once

    def _port_gone(self, port: Port) -> None:
        if self.ports.pop(port, None) is not None:
            self._link_down(port)
            self.lldp_event.set()

    def _link_down(self, port: Port) -> None:
        """Removes the links at a port, in both directions."""
        for link in [link for link in self.links if port in (link.src, link.dst)]:
            del self.links[link]
            self.send_event_to_observers(event.EventLinkDelete(link))

    def _get_switch(self, dpid: int) -> Any:
        dp = self.dps.get(dpid)
        if dp is None:
            return None
        switch = Switch(dp)
        for ofpport in self.port_state[dpid].values():
            switch.add_port(ofpport)
        return switch

    def _get_port(self, dpid: int, port_no: int) -> Port | None:
        dp, ofpport = self.dps.get(dpid), self.port_state.get(dpid, {}).get(port_no)
        if dp is None or ofpport is None:
            return None
        port = Port(dpid, dp.ofproto, ofpport)
        return None if port.is_reserved() else port

    def _is_edge_port(self, port: Port) -> bool:
        return all(port not in (link.src, link.dst) for link in self.links)

    # -- links

    def _add_lldp_flow(self, dp: Any) -> None:
        parser, ofproto = dp.ofproto_parser, dp.ofproto
        if ofproto.OFP_VERSION == ofproto_v1_0.OFP_VERSION:
            match = parser.OFPMatch(dl_type=ether_types.ETH_TYPE_LLDP, dl_dst=lldp.LLDP_MAC_NEAREST_BRIDGE)
            actions = [parser.OFPActionOutput(ofproto.OFPP_CONTROLLER, self.LLDP_PACKET_LEN)]
            dp.send_msg(parser.OFPFlowMod(dp, match, 0, ofproto.OFPFC_ADD, priority=0xFFFF, actions=actions))
            return
        match = parser.OFPMatch(eth_type=ether_types.ETH_TYPE_LLDP, eth_dst=lldp.LLDP_MAC_NEAREST_BRIDGE)
        actions = [parser.OFPActionOutput(ofproto.OFPP_CONTROLLER, ofproto.OFPCML_NO_BUFFER)]
        instructions = [parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, actions)]
        dp.send_msg(parser.OFPFlowMod(datapath=dp, match=match, priority=0xFFFF, instructions=instructions))

    def send_lldp_packet(self, port: Port) -> None:
        """Sends a probe through a port."""
        data, dp = self.ports.get(port), self.dps.get(port.dpid)
        if data is None or dp is None:
            return
        data.lldp_sent()
        if data.is_down:
            return
        parser, ofproto = dp.ofproto_parser, dp.ofproto
        is_old = ofproto.OFP_VERSION == ofproto_v1_0.OFP_VERSION
        in_port = ofproto.OFPP_NONE if is_old else ofproto.OFPP_CONTROLLER
        actions = [parser.OFPActionOutput(port.port_no)]
        dp.send_msg(parser.OFPPacketOut(dp, 0xFFFFFFFF, in_port, actions, data.lldp_data))

    def lldp_loop(self) -> None:
        """Probes the ports one after the other, new ones first."""
        while self.is_active:
            self.lldp_event.clear()
            now, due, soonest = time.time(), [], None
            for port, data in list(self.ports.items()):
                at = 0.0 if data.timestamp is None else data.timestamp + self.LLDP_SEND_PERIOD_PER_PORT
                if at <= now:
                    due.append((at, port))
                elif soonest is None or at < soonest:
                    soonest = at
            for at, port in sorted(due, key=lambda it: it[0]):
                self.send_lldp_packet(port)
                if at:
                    hub.sleep(self.LLDP_SEND_GUARD)
            if due:
                soonest = 0.0  # the times have changed: look again
            self.lldp_event.wait(timeout=None if soonest is None else max(0.0, soonest - time.time()))

    def link_loop(self) -> None:
        """Removes links that are not confirmed any more."""
        while self.is_active:
            hub.sleep(self.TIMEOUT_CHECK_PERIOD)
            oldest = time.time() - self.LINK_TIMEOUT
            for link in [link for link, at in self.links.items() if at < oldest]:
                del self.links[link]
                self.send_event_to_observers(event.EventLinkDelete(link))

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def lldp_packet_in_handler(self, ev: Any) -> None:
        """Learns a link from a probe."""
        if not self.link_discovery:
            return
        msg = ev.msg
        try:
            src_dpid, src_port_no = LLDPPacket.lldp_parse(msg.data)
        except LLDPPacket.LLDPUnknownFormat:
            return
        src, dst = self._get_port(src_dpid, src_port_no), self._get_port(msg.datapath.id, _in_port(msg))
        if src is None or dst is None or src.dpid == dst.dpid:
            return
        if src in self.ports:
            self.ports[src].lldp_received()
        link = Link(src, dst)
        is_new = link not in self.links
        self.links[link] = time.time()
        if is_new:
            self.send_event_to_observers(event.EventLinkAdd(link))
            for mac in [host.mac for host in self.hosts.values() if not self._is_edge_port(host.port)]:
                del self.hosts[mac]
        if Link(dst, src) not in self.links and dst in self.ports:
            self.ports[dst].timestamp = None  # the other direction is likely up, too
            self.lldp_event.set()
        if self.explicit_drop:
            self._drop_packet(msg)

    @staticmethod
    def _drop_packet(msg: Any) -> None:
        """Frees the buffer of a packet in the switch."""
        if msg.buffer_id != 0xFFFFFFFF:
            dp = msg.datapath
            dp.send_msg(dp.ofproto_parser.OFPPacketOut(dp, msg.buffer_id, _in_port(msg), [], None))

    # -- hosts

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def host_discovery_packet_in_handler(self, ev: Any) -> None:
        """Learns a host from a packet."""
        msg = ev.msg
        frame, payload_type, payload = ethernet.ethernet.parser(msg.data)
        if frame.ethertype in _IGNORED:
            return
        port = self._get_port(msg.datapath.id, _in_port(msg))
        if port is None or not self._is_edge_port(port):
            return
        host = self.hosts.get(frame.src)
        if host is None:
            host = Host(frame.src, port)
            self.hosts.add(host)
            self.send_event_to_observers(event.EventHostAdd(host))
        elif host.port != port:
            earlier, host = host, Host(frame.src, port)
            self.hosts[frame.src] = host
            self.send_event_to_observers(event.EventHostMove(src=earlier, dst=host))
        if frame.ethertype == ether_types.ETH_TYPE_ARP:
            host.note_address(ipv4=payload_type.parser(payload)[0].src_ip)
        elif frame.ethertype == ether_types.ETH_TYPE_IP:
            host.note_address(ipv4=payload_type.parser(payload)[0].src)
        elif frame.ethertype == ether_types.ETH_TYPE_IPV6:
            host.note_address(ipv6=payload_type.parser(payload)[0].src)

    # -- requests

    @set_ev_cls(event.EventSwitchRequest)
    def switch_request_handler(self, req: Any) -> None:
        """Answers with switches."""
        dpids = list(self.dps) if req.dpid is None else [req.dpid]
        switches = [self._get_switch(dpid) for dpid in dpids if dpid in self.dps]
        self.reply_to_request(req, event.EventSwitchReply(req.src, switches))

    @set_ev_cls(event.EventLinkRequest)
    def link_request_handler(self, req: Any) -> None:
        """Answers with links."""
        links: Any = self.links
        if req.dpid is not None:
            links = [link for link in self.links if link.src.dpid == req.dpid]
        self.reply_to_request(req, event.EventLinkReply(req.src, req.dpid, links))

    @set_ev_cls(event.EventHostRequest)
    def host_request_handler(self, req: Any) -> None:
        """Answers with hosts."""
        hosts = list(self.hosts.values()) if req.dpid is None else self.hosts.get_by_dpid(req.dpid)
        self.reply_to_request(req, event.EventHostReply(req.src, req.dpid, hosts))


def _in_port(msg: Any) -> int:
    """Returns the port by which a packet came in."""
    if msg.datapath.ofproto.OFP_VERSION == ofproto_v1_0.OFP_VERSION:
        return int(msg.in_port)
    return int(msg.match["in_port"])
