"""The events that OpenFlow messages of switches become: `EventOFPPacketIn` and so on.

There is one class for each message class of os-ken, whatever the version.
"""

from __future__ import annotations

import time
from typing import Any

from os_ken import ofproto
from os_ken.controller import event, handler

NAME = "ofp_event"


class EventOFPMsgBase(event.EventBase):
    """A message of a switch: `msg` is the message, `timestamp` the time of arrival in seconds since 1970."""

    def __init__(self, msg: Any) -> None:
        super().__init__()
        self.timestamp = time.time()
        self.msg = msg


class EventOFPStateChange(event.EventBase):
    """The connection of a switch has entered another state."""

    def __init__(self, dp: Any) -> None:
        super().__init__()
        self.datapath = dp
        self.state: str | None = None


class EventOFPPortStateChange(event.EventBase):
    """A port has changed, and `datapath.ports` has its present state."""

    def __init__(self, dp: Any, reason: int, port_no: int) -> None:
        super().__init__()
        self.datapath = dp
        self.reason = reason
        self.port_no = port_no


_OFP_MSG_EVENTS: dict[str, type] = {}


def ofp_msg_to_ev(msg: Any) -> EventOFPMsgBase:
    """Returns the event of a message."""
    return ofp_msg_to_ev_cls(type(msg))(msg)


def ofp_msg_to_ev_cls(msg_cls: type) -> type:
    """Returns the event class of a message class."""
    return _OFP_MSG_EVENTS["Event" + msg_cls.__name__]


def _define_events() -> None:
    for _, parser in ofproto.get_ofp_modules().values():
        for cls in vars(parser).values():
            if not isinstance(cls, type) or not hasattr(cls, "cls_msg_type"):
                continue
            name = "Event" + cls.__name__
            if name not in _OFP_MSG_EVENTS:
                made = type(name, (EventOFPMsgBase,), {"__module__": __name__})
                _OFP_MSG_EVENTS[name] = globals()[name] = made


_define_events()
handler.register_service("os_ken.controller.ofp_handler")
