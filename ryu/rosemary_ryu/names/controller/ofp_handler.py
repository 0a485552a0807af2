"""Follows the connections of switches, for all other applications of the zone.

```text
handshake --hello--> config --features (1.0), port descriptions (1.3)--> main --> dead
```
"""

from __future__ import annotations

from typing import Any

from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.controller.handler import (
    CONFIG_DISPATCHER,
    HANDSHAKE_DISPATCHER,
    MAIN_DISPATCHER,
    set_ev_handler,
)

_WITHOUT_PORT_DESCRIPTIONS = 4  # versions below have the ports in the features


class OFPHandler(app_manager.RyuApp):
    """The application that sends the events of `ofp_event`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.name = ofp_event.NAME

    @set_ev_handler(ofp_event.EventOFPHello, HANDSHAKE_DISPATCHER)
    def hello_handler(self, ev: Any) -> None:
        """The kernel has agreed on the version."""
        ev.msg.datapath.set_state(CONFIG_DISPATCHER)

    @set_ev_handler(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def switch_features_handler(self, ev: Any) -> None:
        """Notes the ports, or asks for them."""
        datapath = ev.msg.datapath
        datapath.id = ev.msg.datapath_id
        if datapath.ofproto.OFP_VERSION < _WITHOUT_PORT_DESCRIPTIONS:
            datapath.ports = ev.msg.ports
            datapath.set_state(MAIN_DISPATCHER)
        else:
            datapath.ports = {}
            datapath.send_msg(datapath.ofproto_parser.OFPPortDescStatsRequest(datapath, 0))

    @set_ev_handler(ofp_event.EventOFPPortDescStatsReply, CONFIG_DISPATCHER)
    def multipart_reply_handler(self, ev: Any) -> None:
        """Notes the ports."""
        datapath = ev.msg.datapath
        datapath.ports.update({port.port_no: port for port in ev.msg.body})
        if not ev.msg.flags & datapath.ofproto.OFPMPF_REPLY_MORE:
            datapath.set_state(MAIN_DISPATCHER)

    @set_ev_handler(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)
    def port_status_handler(self, ev: Any) -> None:
        """Notes the change of a port."""
        msg = ev.msg
        datapath, ofproto, port_no = msg.datapath, msg.datapath.ofproto, msg.desc.port_no
        if msg.reason == ofproto.OFPPR_DELETE:
            datapath.ports.pop(port_no, None)
        else:
            datapath.ports[port_no] = msg.desc
        change = ofp_event.EventOFPPortStateChange(datapath, msg.reason, port_no)
        self.send_event_to_observers(change, datapath.state)
