"""Turns the events of the zone into those of Ryu, and sends the applications' messages.

Works on a green thread of its own: the zone hands over a batch, and this thread passes it on while the applications wait.
A switch that is connected when the application starts is presented as one that has just connected.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import eventlet
from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.controller.controller import Datapath
from os_ken.controller.handler import CONFIG_DISPATCHER
from os_ken.ofproto import ofproto_parser, ofproto_protocol

from rosemary_ryu import incoming, ports, refusals, wire
from rosemary_ryu.mailbox import Mailbox
from rosemary_ryu.numbers import Numbers
from rosemary_ryu.renewal import Renewal
from rosemary_ryu.site import Site

LOG = logging.getLogger("rosemary.ryu")

# A switch that an application has closed is presented again after this time, as a real one reconnects.
SECONDS_UNTIL_RECONNECTED = 5.0

# Changes of ports that wait for the description of the ports.
MOST_EARLY_PORTS = 4096

# Messages that wait for room in the ring. The application waits beyond that.
MOST_UNSENT = 4096

_VERSION_NAMES = {1: "1.0", 2: "1.1", 3: "1.2", 4: "1.3", 5: "1.4", 6: "1.5"}

# Versions in which the flows of an earlier life can be replaced without a gap.
_RENEWED = (wire.V1_2, wire.V1_3, wire.V1_4)

# Units of limits, by which the amounts of an alert become those of the configuration.
_BYTES = ("memory", "queue-bytes")
_BYTES_PER_SECOND = ("log-bytes-per-second",)
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_NO_LIMIT = (1 << 64) - 1


class Zone(Protocol):
    """The part of the native module that this file uses."""

    def send(self, dpid: int, epoch: int, message: bytes) -> None:
        """Sends a message, or raises the exception `Full` of the native module."""


class Switchboard:
    """The switches of one zone."""

    def __init__(self, zone: Zone, numbers: Numbers, full: type[Exception], renews: bool = False) -> None:
        self._zone, self._numbers, self._full = zone, numbers, full
        self._renews = renews  # whether the flows of an earlier life are replaced without a gap
        self._in_snapshot = False
        self._inbox = Mailbox()
        self._datapaths: dict[int, Datapath] = {}
        self._ups: dict[int, Any] = {}  # by datapath id, the event with which the switch came
        self._unsent: deque[tuple[int, int, bytes]] = deque()
        self._handlers: dict[str, Callable[[Any], None]] = {
            "PacketIn": self._packet_in,
            "Reply": self._message,
            "Error": self._message,
            "FlowRemoved": self._message,
            "Port": self._port,
            "SwitchUp": self._switch_up,
            "SwitchDown": self._switch_down,
            "SnapshotBegin": self._snapshot_begin,
            "SnapshotEnd": self._snapshot_end,
            "FlowsMissing": self._flows_missing,
            "FlowsKept": self._flows_kept,
            "Refused": self._refused,
            "RequestLost": self._request_lost,
            "Lost": self._lost,
            "Alert": self._alert,
        }

    # -- called by the zone's loop, outside of green threads

    def arrived(self, event: Any) -> None:
        """Notes an event; the switchboard's thread handles it."""
        self._inbox.put(event)

    def send_unsent(self) -> bool:
        """Sends messages that found no room earlier. Returns whether all are sent."""
        while self._unsent:
            try:
                self._zone.send(*self._unsent[0])
            except self._full:
                return False
            self._unsent.popleft()
        return True

    # -- called by applications

    @staticmethod
    def brick() -> Any:
        """Returns the application that sends the events of `ofp_event`, if an application needs them."""
        return app_manager.SERVICE_BRICKS.get(ofp_event.NAME)

    def closed(self, datapath: Datapath) -> None:
        """An application has closed a connection."""
        for dpid, current in list(self._datapaths.items()):
            if current is datapath:
                del self._datapaths[dpid]
                eventlet.spawn_after(SECONDS_UNTIL_RECONNECTED, self._present_again, dpid, self._ups.get(dpid))

    def _present_again(self, dpid: int, up: Any) -> None:
        if up is not None and self._ups.get(dpid) is up and dpid not in self._datapaths:
            self._inbox.put(up)

    def post(self, dpid: int, epoch: int, message: bytes) -> None:
        """Sends a message, behind those that wait for room."""
        if not self._unsent:
            try:
                self._zone.send(dpid, epoch, message)
                return
            except self._full:
                pass
        self._unsent.append((dpid, epoch, message))
        while len(self._unsent) > MOST_UNSENT:
            eventlet.sleep(0.001)  # the application waits, as it does in Ryu for a switch that does not read

    # -- the thread

    def run(self) -> None:
        """Handles events for ever."""
        while True:
            event = self._inbox.get()
            try:
                if type(event) is tuple:
                    self._deliver(*event)
                    continue
                handle = self._handlers.get(type(event).__name__)
                if handle is not None:
                    handle(event)
            except Exception:
                # A switch may send anything, and the parser of os-ken raises what it likes.
                LOG.exception("an event was not delivered: %s", type(event).__name__)

    def _deliver(self, datapath: Datapath, raw: bytes) -> None:
        """Sends a message as an event to the applications that observe it, and to the handlers of the framework."""
        brick = self.brick()
        if brick is None:
            return
        version, kind, size, xid = wire._HEADER.unpack_from(raw)
        msg = ofproto_parser.msg(datapath, version, kind, size, xid, raw)
        if msg is None:
            return
        incoming.parsed(datapath.site, msg)
        ev, state = ofp_event.ofp_msg_to_ev(msg), datapath.state
        brick.send_event_to_observers(ev, state)
        for handler in brick.get_handlers(ev, state):
            handler(ev)
        if datapath.state != state:
            # `dpset` announces the switch now. Applications must not receive changes of its ports before that.
            eventlet.sleep(0)

    def _current(self, event: Any) -> Datapath | None:
        """Returns the datapath of an event, if the application has not closed it."""
        return self._datapaths.get(event.dpid)

    def _message(self, event: Any) -> None:
        datapath = self._current(event)
        if datapath is not None:
            renewal = datapath.site.renewal
            if renewal is not None and renewal.takes(wire.xid_of(event.message), event.message):
                return
            message = incoming.raw(datapath.site, event.message)
            if message is not None:
                self._deliver(datapath, message)
            if datapath.site.early_ports and datapath.state != CONFIG_DISPATCHER:
                early, datapath.site.early_ports = datapath.site.early_ports, []
                for change in early:
                    self._port(change)

    def _packet_in(self, event: Any) -> None:
        datapath = self._datapaths.get(event.dpid)
        if datapath is None:
            return
        if datapath.site.version < wire.V1_3 or incoming.wants_packet(datapath.site, event):
            self._deliver(datapath, event.message)

    def _port(self, event: Any) -> None:
        datapath = self._current(event)
        if datapath is None:
            return
        if datapath.state == CONFIG_DISPATCHER:  # the description of the ports is on its way
            if len(datapath.site.early_ports) < MOST_EARLY_PORTS:
                datapath.site.early_ports.append(event)
            return
        raw = ports.port_status(datapath, event)
        if raw is not None:
            message = incoming.raw(datapath.site, raw)
            if message is not None:
                self._deliver(datapath, message)

    def _switch_up(self, event: Any) -> None:
        dpid, version = event.dpid, event.version
        known = self._datapaths.pop(dpid, None)
        if known is not None:
            known.ended()
        if version not in ofproto_protocol.ProtocolDesc().supported_ofp_version:
            wanted = sorted(ofproto_protocol.ProtocolDesc().supported_ofp_version)
            names = ", ".join(_VERSION_NAMES.get(it, hex(it)) for it in wanted)
            # os-ken refuses apps that support none of these.
            spoken = next(wire.SPOKEN[it] for it in wanted if it in wire.SPOKEN)
            remedy = (
                f"Start Rosemary with --openflow {spoken}, and have the switch speak it; with Open vSwitch: "
                f"ovs-vsctl set bridge BRIDGE protocols=OpenFlow{spoken.replace('.', '')}"
            )
            LOG.error(
                "switch %016x speaks OpenFlow %s, but this app supports only %s; it does not see this switch. %s",
                dpid,
                _VERSION_NAMES.get(version, version),
                names,
                remedy,
            )
            return
        self._ups[dpid] = event
        epoch = event.epoch

        def post(message: bytes) -> None:
            self.post(dpid, epoch, message)

        def answer(message: bytes) -> None:
            self._inbox.put((datapath, message))

        # A switch that was connected before this life may have flows of an earlier one.
        renews = self._renews and self._in_snapshot and version in _RENEWED
        renewal = Renewal(post, eventlet.spawn_after, version=version) if renews else None
        site = Site(version, event.features, self._numbers, post, answer, renewal)
        datapath = Datapath(version, site, self)
        self._datapaths[dpid] = datapath
        self._deliver(datapath, wire.message(version, wire.HELLO, 0))
        self._deliver(datapath, event.features)

    def _switch_down(self, event: Any) -> None:
        up = self._ups.get(event.dpid)
        if up is not None and up.epoch == event.epoch:
            del self._ups[event.dpid]
            datapath = self._datapaths.pop(event.dpid, None)
            if datapath is not None:
                datapath.ended()

    def _snapshot_end(self, event: Any) -> None:
        self._in_snapshot = False

    def _snapshot_begin(self, event: Any) -> None:
        self._in_snapshot = True
        self._ups.clear()
        datapaths, self._datapaths = self._datapaths, {}
        for datapath in datapaths.values():
            datapath.ended()

    def _flows_missing(self, event: Any) -> None:
        """Presents the switch as one that has reconnected: applications put their flows back then."""
        up = self._ups.get(event.dpid)
        if up is not None and event.dpid in self._datapaths:
            LOG.warning("switch %016x has lost its flows; it is presented to the app again", event.dpid)
            self._switch_up(up)

    def _flows_kept(self, event: Any) -> None:
        datapath = self._current(event)
        if datapath is not None and datapath.site.version == wire.V1_0:
            datapath.site.known_flows.note_kept(event.message)

    def _refused(self, event: Any) -> None:
        datapath = self._current(event)
        if event.reason == refusals.BUFFER and datapath is not None and datapath.site.add_without_buffer(event.xid):
            LOG.debug("switch %016x: another app has sent the buffered packet of a flow-mod", event.dpid)
        else:
            remedy = f"; {event.remedy}" if event.remedy else ""
            LOG.warning("Rosemary refused a message to switch %016x: %s%s", event.dpid, event.why, remedy)
        if datapath is not None:
            site = datapath.site
            about = site.as_sent(event.xid, event.message)
            self._deliver(datapath, refusals.as_error(site.version, event.xid, event.reason, about))

    def _request_lost(self, event: Any) -> None:
        LOG.warning("switch %016x: a request is not answered any more: %s", event.dpid, event.why)

    def _lost(self, event: Any) -> None:
        LOG.warning("%d replies, errors or removed flows did not reach this app", event.count)

    def _alert(self, event: Any) -> None:
        key, bound = event.limit, min(event.soft, event.hard)
        if event.used > bound:
            used, hard = _amount(key, event.used), _amount(key, event.hard)
            LOG.warning("this app uses %s, more than %s; the limit is %s (limits.%s)", used, _amount(key, bound), hard, key)
        else:
            LOG.warning("this app has reached a limit: %s (limits.%s)", _amount(key, event.hard), key)


def _amount(limit: str, amount: int) -> str:
    """Returns an amount of a limited resource with its unit."""
    if amount == _NO_LIMIT:
        return "none"
    if limit == "cpu":
        return f"{amount / 1000:g} processors"
    if limit in _BYTES or limit in _BYTES_PER_SECOND:
        unit, name = next((it for it in _UNITS if amount >= it[0]), (1, "bytes"))
        return f"{amount / unit:.4g} {name}" + (" per second" if limit in _BYTES_PER_SECOND else "")
    kind, per, second = limit.partition("-per-")
    return f"{amount} {kind} per {second}" if per else f"{amount} {limit}"
