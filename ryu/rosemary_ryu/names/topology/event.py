"""Events and requests about the topology."""

from __future__ import annotations

from typing import Any

from os_ken.controller import event, handler


class EventSwitchBase(event.EventBase):
    """An event about a switch."""

    def __init__(self, switch: Any) -> None:
        super().__init__()
        self.switch = switch

    def __str__(self) -> str:
        return f"{type(self).__name__}<dpid={self.switch.dp.id}, {len(self.switch.ports)} ports>"


class EventSwitchEnter(EventSwitchBase):
    """A switch has connected."""


class EventSwitchLeave(EventSwitchBase):
    """A switch has disconnected."""


class EventSwitchReconnected(EventSwitchBase):
    """A switch has connected before its earlier connection ended."""


class EventPortBase(event.EventBase):
    """An event about a port."""

    def __init__(self, port: Any) -> None:
        super().__init__()
        self.port = port

    def __str__(self) -> str:
        return f"{type(self).__name__}<{self.port}>"


class EventPortAdd(EventPortBase):
    """A port was added."""


class EventPortDelete(EventPortBase):
    """A port was deleted."""


class EventPortModify(EventPortBase):
    """A port has changed."""


class EventLinkBase(event.EventBase):
    """An event about a link in one direction."""

    def __init__(self, link: Any) -> None:
        super().__init__()
        self.link = link

    def __str__(self) -> str:
        return f"{type(self).__name__}<{self.link}>"


class EventLinkAdd(EventLinkBase):
    """A link was found."""


class EventLinkDelete(EventLinkBase):
    """A link is gone."""


class EventHostBase(event.EventBase):
    """An event about a host."""

    def __init__(self, host: Any) -> None:
        super().__init__()
        self.host = host

    def __str__(self) -> str:
        return f"{type(self).__name__}<{self.host}>"


class EventHostAdd(EventHostBase):
    """A host was found."""


class EventHostDelete(EventHostBase):
    """A host is gone. Never sent, as in Ryu."""


class EventHostMove(event.EventBase):
    """A host is at another port."""

    def __init__(self, src: Any, dst: Any) -> None:
        super().__init__()
        self.src = src
        self.dst = dst

    def __str__(self) -> str:
        return f"{type(self).__name__}<src={self.src}, dst={self.dst}>"


class _Request(event.EventRequestBase):
    """A request about one switch, or about all with `dpid=None`."""

    def __init__(self, dpid: int | None = None) -> None:
        super().__init__()
        self.dst = "switches"
        self.dpid = dpid

    def __str__(self) -> str:
        return f"{type(self).__name__}<src={self.src}, dpid={self.dpid}>"


class EventSwitchRequest(_Request):
    """Requests switches."""


class EventLinkRequest(_Request):
    """Requests links."""


class EventHostRequest(_Request):
    """Requests hosts."""


class EventSwitchReply(event.EventReplyBase):
    """The requested switches."""

    def __init__(self, dst: str | None, switches: list[Any]) -> None:
        super().__init__(dst)
        self.switches = switches


class EventLinkReply(event.EventReplyBase):
    """The requested links."""

    def __init__(self, dst: str | None, dpid: int | None, links: Any) -> None:
        super().__init__(dst)
        self.dpid = dpid
        self.links = links


class EventHostReply(event.EventReplyBase):
    """The requested hosts."""

    def __init__(self, dst: str | None, dpid: int | None, hosts: list[Any]) -> None:
        super().__init__(dst)
        self.dpid = dpid
        self.hosts = hosts


handler.register_service("os_ken.topology.switches")
