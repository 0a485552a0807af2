"""A connected switch, as applications see it."""

from __future__ import annotations

import logging
import random
from typing import Any

from os_ken import cfg
from os_ken.controller import ofp_event
from os_ken.controller.handler import DEAD_DISPATCHER, HANDSHAKE_DISPATCHER
from os_ken.ofproto import nx_match, ofproto_protocol, ofproto_v1_0

LOG = logging.getLogger("ryu.controller.controller")

CONF = cfg.CONF
CONF.register_cli_opts(
    [
        cfg.StrOpt("ofp-listen-host", default="", help="address at which Rosemary listens for switches"),
        cfg.IntOpt("ofp-tcp-listen-port", default=None, help="port at which Rosemary listens for switches"),
        cfg.IntOpt("ofp-ssl-listen-port", default=None, help="port at which Rosemary listens for switches with TLS"),
        cfg.StrOpt("ctl-privkey", default=None, help="no effect: Rosemary's configuration has the keys"),
        cfg.StrOpt("ctl-cert", default=None, help="no effect: Rosemary's configuration has the keys"),
        cfg.StrOpt("ca-certs", default=None, help="no effect: Rosemary's configuration has the keys"),
        cfg.StrOpt("ciphers", default=None, help="no effect: Rosemary's configuration has the keys"),
        cfg.ListOpt("ofp-switch-address-list", default=[], help="no effect: switches connect to Rosemary"),
        cfg.IntOpt("ofp-switch-connect-interval", default=1, help="no effect: switches connect to Rosemary"),
    ]
)
CONF.register_opts(
    [
        cfg.FloatOpt("socket-timeout", default=5.0, help="no effect: Rosemary's kernel holds the connections"),
        cfg.FloatOpt("echo-request-interval", default=15.0, help="no effect: Rosemary's kernel sends echo requests"),
        cfg.IntOpt("maximum-unreplied-echo-requests", default=0, help="no effect, as echo-request-interval"),
    ]
)


class Datapath(ofproto_protocol.ProtocolDesc):  # type: ignore[misc]
    """A switch. `id` is its datapath id; `ofproto` and `ofproto_parser` are the modules of its version."""

    def __init__(self, version: int, site: Any, board: Any) -> None:
        super().__init__(version=version)
        self.site = site
        self._board = board
        self.socket = None
        self.address = ("0.0.0.0", 0)  # the kernel holds the connection
        self.is_active = True
        self.id: Any = None  # until the features are known
        self.ports: dict[int, Any] = {}
        self.xid = random.randint(0, self.ofproto.MAX_XID)
        self.flow_format = ofproto_v1_0.NXFF_OPENFLOW10
        self.state: str | None = None
        self.set_state(HANDSHAKE_DISPATCHER)

    def set_state(self, state: str) -> None:
        """Enters a state and sends `EventOFPStateChange`."""
        if self.state == state:
            return
        self.state = state
        brick = self._board.brick()
        if brick is not None:
            ev = ofp_event.EventOFPStateChange(self)
            ev.state = state
            brick.send_event_to_observers(ev, state)

    def close(self) -> None:
        """Has the application forget this connection. The switch is presented again some seconds later."""
        if self.state != DEAD_DISPATCHER:
            self.set_state(DEAD_DISPATCHER)
            self.is_active = False
            self._board.closed(self)

    def ended(self) -> None:
        """Called when the switch has disconnected."""
        self.set_state(DEAD_DISPATCHER)
        self.is_active = False

    def set_xid(self, msg: Any) -> int:
        """Gives a message the next transaction id."""
        self.xid = (self.xid + 1) & self.ofproto.MAX_XID
        msg.set_xid(self.xid)
        return self.xid

    def send_msg(self, msg: Any, close_socket: bool = False) -> bool:
        """Sends a message. Returns false if the switch is not connected any more."""
        if not isinstance(msg, self.ofproto_parser.MsgBase):
            raise AssertionError(f"{type(msg)} is no message of this switch's OpenFlow version")
        if msg.xid is None:
            self.set_xid(msg)
        msg.serialize()
        return self.send(msg.buf, close_socket)

    def send(self, buf: bytes, close_socket: bool = False) -> bool:
        """Sends an encoded message."""
        if self.state == DEAD_DISPATCHER:
            return False
        self.site.send(bytes(buf))
        if close_socket:
            self.close()
        return True

    def send_packet_out(
        self, buffer_id: int = 0xFFFFFFFF, in_port: int | None = None, actions: Any = None, data: Any = None
    ) -> None:
        """Sends a packet-out."""
        if in_port is None:
            in_port = self.ofproto.OFPP_NONE
        self.send_msg(self.ofproto_parser.OFPPacketOut(self, buffer_id, in_port, actions, data))

    def send_flow_mod(
        self,
        rule: Any,
        cookie: int,
        command: int,
        idle_timeout: int,
        hard_timeout: int,
        priority: int | None = None,
        buffer_id: int = 0xFFFFFFFF,
        out_port: int | None = None,
        flags: int = 0,
        actions: Any = None,
    ) -> None:
        """Sends a flow-mod of OpenFlow 1.0 for a `ClsRule`. Rules that need Nicira's extension are refused."""
        if rule.flow_format() != ofproto_v1_0.NXFF_OPENFLOW10:
            raise NotImplementedError("flows in Nicira's extended format are not supported")
        priority = self.ofproto.OFP_DEFAULT_PRIORITY if priority is None else priority
        out_port = self.ofproto.OFPP_NONE if out_port is None else out_port
        match = self.ofproto_parser.OFPMatch(*rule.match_tuple())
        flow_mod = self.ofproto_parser.OFPFlowMod(
            self, match, cookie, command, idle_timeout, hard_timeout, priority, buffer_id, out_port, flags, actions
        )
        self.send_msg(flow_mod)

    def send_flow_del(self, rule: Any, cookie: int, out_port: int | None = None) -> None:
        """Deletes flows of OpenFlow 1.0."""
        self.send_flow_mod(rule, cookie, self.ofproto.OFPFC_DELETE, 0, 0, priority=0, out_port=out_port)

    def send_delete_all_flows(self) -> None:
        """Deletes all flows of this application."""
        self.send_flow_del(nx_match.ClsRule(), 0)

    def send_barrier(self) -> bool:
        """Sends a barrier request."""
        return self.send_msg(self.ofproto_parser.OFPBarrierRequest(self))

    def is_reserved_port(self, port_no: int) -> bool:
        """Whether a number stands for no port of the switch."""
        return bool(port_no > self.ofproto.OFPP_MAX)
