"""Keeps the connected switches and their ports: the context `dpset`."""

from __future__ import annotations

import logging
from typing import Any

from os_ken import exception
from os_ken.base import app_manager
from os_ken.controller import event, handler, ofp_event
from os_ken.controller.handler import set_ev_cls

LOG = logging.getLogger("ryu.controller.dpset")

DPSET_EV_DISPATCHER = "dpset"


class EventDPBase(event.EventBase):
    """An event about a switch."""

    def __init__(self, dp: Any) -> None:
        super().__init__()
        self.dp = dp


class EventDP(EventDPBase):
    """A switch has connected (`enter`) or disconnected."""

    def __init__(self, dp: Any, enter_leave: bool) -> None:
        super().__init__(dp)
        self.enter = enter_leave
        self.ports: list[Any] = []


class EventDPReconnected(EventDPBase):
    """A switch has connected before its earlier connection ended."""

    def __init__(self, dp: Any) -> None:
        super().__init__(dp)
        self.ports: list[Any] = []


class EventPortBase(EventDPBase):
    """An event about a port."""

    def __init__(self, dp: Any, port: Any) -> None:
        super().__init__(dp)
        self.port = port


class EventPortAdd(EventPortBase):
    """A port was added."""


class EventPortDelete(EventPortBase):
    """A port was deleted."""


class EventPortModify(EventPortBase):
    """A port has changed."""


class PortState(dict[int, Any]):
    """The ports of a switch by their numbers."""

    def add(self, port_no: int, port: Any) -> None:
        """Adds a port."""
        self[port_no] = port

    def remove(self, port_no: int) -> None:
        """Removes a port."""
        del self[port_no]

    def modify(self, port_no: int, port: Any) -> None:
        """Replaces a port."""
        self[port_no] = port


class DPSet(app_manager.RyuApp):
    """The connected switches."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.name = "dpset"
        self.dps: dict[int, Any] = {}
        self.port_state: dict[int, PortState] = {}

    def get(self, dp_id: int) -> Any:
        """Returns the switch with this datapath id, or `None`."""
        return self.dps.get(dp_id)

    def get_all(self) -> list[tuple[int, Any]]:
        """Returns all switches with their datapath ids."""
        return list(self.dps.items())

    def get_port(self, dpid: int, port_no: int) -> Any:
        """Returns a port. Raises `PortNotFound`."""
        try:
            return self.port_state[dpid][port_no]
        except KeyError:
            raise exception.PortNotFound(dpid=dpid, port=port_no, network_id=None) from None

    def get_ports(self, dpid: int) -> list[Any]:
        """Returns the ports of a switch. Raises `KeyError`."""
        return list(self.port_state[dpid].values())

    @set_ev_cls(ofp_event.EventOFPStateChange, [handler.MAIN_DISPATCHER, handler.DEAD_DISPATCHER])
    def dispatcher_change(self, ev: Any) -> None:
        """Notes that a switch has connected or disconnected."""
        if ev.state == handler.MAIN_DISPATCHER:
            self._register(ev.datapath)
        else:
            self._unregister(ev.datapath)

    def _register(self, dp: Any) -> None:
        earlier = self.dps.get(dp.id)
        self.dps[dp.id] = dp
        if earlier is not None:
            earlier.close()
            again = EventDPReconnected(dp)
            again.ports = list(self.port_state.get(dp.id, {}).values())
            self.send_event_to_observers(again)
            return
        self.port_state[dp.id] = PortState(dp.ports)
        entered = EventDP(dp, True)
        entered.ports = list(dp.ports.values())
        self.send_event_to_observers(entered)

    def _unregister(self, dp: Any) -> None:
        if self.dps.get(dp.id) is not dp:
            return
        left = EventDP(dp, False)
        left.ports = list(self.port_state.pop(dp.id, {}).values())
        del self.dps[dp.id]
        self.send_event_to_observers(left)

    @set_ev_cls(ofp_event.EventOFPPortStatus, handler.MAIN_DISPATCHER)
    def port_status_handler(self, ev: Any) -> None:
        """Notes the change of a port."""
        msg = ev.msg
        dp, port, ofproto = msg.datapath, msg.desc, msg.datapath.ofproto
        known = self.port_state.setdefault(dp.id, PortState())
        made: EventPortBase
        if msg.reason == ofproto.OFPPR_ADD:
            known.add(port.port_no, port)
            made = EventPortAdd(dp, port)
        elif msg.reason == ofproto.OFPPR_DELETE:
            known.pop(port.port_no, None)
            made = EventPortDelete(dp, port)
        else:
            known.modify(port.port_no, port)
            made = EventPortModify(dp, port)
        self.send_event_to_observers(made)


handler.register_service("os_ken.controller.dpset")
