"""`App`: what an app derives from, and the dispatch of its events."""

from __future__ import annotations

import traceback
from typing import Any, Callable, Sequence

from . import _native
from ._native import (
    Alert,
    AppsEvent,
    BrokerEvent,
    Committed,
    DrainEvent,
    Error,
    FlowRemoved,
    FlowsKept,
    FlowsMissing,
    Hosts,
    HostsEvent,
    HttpRequest,
    LearnedHost,
    Lost,
    Notice,
    OvsdbEvent,
    PacketIn,
    Port,
    Ready,
    Refused,
    Reply,
    RequestLost,
    ServiceUp,
    SnapshotBegin,
    SnapshotEnd,
    StorageEvent,
    SwitchDown,
    SwitchUp,
    Topology,
    TopologyEvent,
    Wanted,
)

from .http import Response

Network = _native.Zone
"""Sends messages to switches. Each callback receives it, and may use it until it returns."""


class App:
    """An app: events in, messages out.

    Derive from it, and override the callbacks for the events that the app needs. All of them run on one thread, one after
    the other. Every start begins with a snapshot: the switches and ports that are connected already.

    An exception that a callback raises ends the process; none of the messages of its batch is sent, and the monitor starts
    the app again.
    """

    def configure(self, text: str) -> None:
        """Takes the text of the app's configuration file, empty without one. Called once, before any event."""
        if text.strip():
            raise ValueError("this app takes no configuration; leave `config` out")

    def on_snapshot_begin(self, event: SnapshotBegin, network: Network) -> None:
        """The app forgets the switches that it knew; those that are connected follow."""

    def on_snapshot_end(self, event: SnapshotEnd, network: Network) -> None:
        """The snapshot is complete."""

    def on_switch_up(self, event: SwitchUp, network: Network) -> None:
        """A switch is connected. Its ports follow."""

    def on_switch_down(self, event: SwitchDown, network: Network) -> None:
        """A switch has disconnected."""

    def on_port(self, event: Port, network: Network) -> None:
        """A port was added, changed or deleted."""

    def on_packet_in(self, event: PacketIn, network: Network) -> None:
        """A packet reached the controller."""

    def on_reply(self, event: Reply, network: Network) -> None:
        """A switch answered a request of this app."""

    def on_error(self, event: Error, network: Network) -> None:
        """A switch answered a message of this app with an error."""
        network.warn(f"switch {event.dpid:#018x} sent error {event.type}/{event.code}")

    def on_flow_removed(self, event: FlowRemoved, network: Network) -> None:
        """A switch removed a flow of this app."""

    def on_refused(self, event: Refused, network: Network) -> None:
        """The kernel refused a message of this app."""
        remedy = f"; {event.remedy}" if event.remedy else ""
        network.warn(f"a message was refused: {event.why}{remedy}")

    def on_committed(self, event: Committed, network: Network) -> None:
        """The outcome of a change set of this app. The default logs a set that was not applied."""
        if not event.is_applied:
            at = "" if event.index is None else f", change {event.index}"
            partial = "; changes of it may have been applied" if event.is_partial else ""
            remedy = f"; {event.remedy}" if event.remedy else ""
            network.warn(f"change set {event.commit} was not applied{at}: {event.why}{partial}{remedy}")

    def on_request_lost(self, event: RequestLost, network: Network) -> None:
        """The kernel was restarted before the reply to a request arrived."""

    def on_lost(self, event: Lost, network: Network) -> None:
        """Replies, errors or flow-removed messages were lost."""

    def on_learned_host(self, event: LearnedHost, network: Network) -> None:
        """A switch that sends no packets to a controller has learned a host by itself, or has forgotten it (`is_gone`)."""

    def on_flows_missing(self, event: FlowsMissing, network: Network) -> None:
        """A switch lost flows; the app adds its own again."""

    def on_flows_kept(self, event: FlowsKept, network: Network) -> None:
        """Flows of this app that a switch has."""

    def on_alert(self, event: Alert, network: Network) -> None:
        """This app exceeds a soft limit or has reached a hard one."""

    def on_service_up(self, event: ServiceUp, network: Network) -> None:
        """A service that the app names in its `services` has started, also again. Its earlier requests and watches have ended."""

    def on_storage(self, event: StorageEvent, network: Network) -> None:
        """The storage answered a request of `network.storage()`. `event.result()` raises `Unavailable` if it ended before."""

    def on_broker(self, event: BrokerEvent, network: Network) -> None:
        """The broker answered a request of `network.connect`.

        `event.result()` raises the reason if there is no connection; `network.take(event.request)` returns it.
        """

    def on_apps(self, event: AppsEvent, network: Network) -> None:
        """The service `apps` answered a request for counters, or to limit an app. `event.result()` is the answer."""

    def on_ovsdb(self, event: OvsdbEvent, network: Network) -> None:
        """The service `ovsdb` answered a request about a database of a switch. `event.result()` is the answer."""

    def on_drain(self, event: DrainEvent, network: Network) -> None:
        """The topology service answered a request of `Topology.drain`. `event.result()` raises the reason if it was not done."""

    def on_topology(self, event: TopologyEvent, network: Network) -> None:
        """The graph of a `Topology` that the app follows has changed."""

    def on_hosts(self, event: HostsEvent, network: Network) -> None:
        """The table of `Hosts` that the app follows has changed."""

    def on_wanted(self, notice: Notice, network: Network) -> None:
        """A `Wanted` that the app follows did something, or could not do it. The default logs it."""
        network.info(str(notice))

    def follow(self, client: Topology | Hosts | Wanted) -> None:
        """Passes every event to this client of a service, before the app's own callback. Call it in `__init__` or `configure`.

        The client's news arrives at `on_topology`, `on_hosts` or `on_wanted`.
        """
        if not isinstance(client, (Topology, Hosts, Wanted)):
            raise TypeError(f"an app follows a Topology, Hosts or Wanted, and this is a {type(client).__name__}")
        self.__clients = (*self._clients, client)

    def on_http_request(self, request: HttpRequest, network: Network) -> Response | None:
        """Answers an HTTP request. The operator grants the app `http.serve`; its routes are then at `/apps/NAME/...`.

        `None` means that the app answers later, with `network.respond(request, response)`.
        """
        return Response(404, "this app publishes no routes\n")

    def on_ready(self, event: Ready, network: Network) -> None:
        """A descriptor that `network.watch` watches is ready."""

    def on_timer(self, name: str, network: Network) -> None:
        """The timer of this name has expired, which `network.set_timer` or `network.repeat_timer` set."""

    def on_wake(self, network: Network) -> None:
        """The timer set with `network.wake_at` has expired."""

    def on_batch(self, events: Sequence[Any], network: Network) -> int | None:
        """Handles a batch of events, oldest first.

        Returns how many it handled, `None` for all of them; the others come again when there is more room for messages. The
        default calls the callback of each event. An app that handles events together overrides this; `None` in `events`
        is an event that this version does not know. It calls `pass_on` with each event if it follows a client.
        """
        callbacks, begin, clients = self._callbacks, network.begin, self._clients
        number = 0
        for event in events:
            if not begin(number):
                return number
            if clients and type(event) is not PacketIn:
                self.pass_on(event, network)
            callback = callbacks.get(type(event))
            if callback is not None:
                callback(event, network)
            number += 1
        return None

    def pass_on(self, event: Any, network: Network) -> None:
        """Passes an event to the clients that the app follows, and their news to the app's callbacks."""
        if event is None:
            return
        for client in self._clients:
            news = client.on_event(event, network)
            if isinstance(client, Wanted):
                for notice in news:
                    self.on_wanted(notice, network)
            elif news is not None:
                on_news = self.on_topology if isinstance(client, Topology) else self.on_hosts
                on_news(news, network)

    def _drive(self, network: Network) -> None:
        """Lets the clients work that wait for room or time. The call of the app has cleared their timers."""
        for client in self._clients:
            if isinstance(client, Wanted):
                for notice in client.on_wake(network):
                    self.on_wanted(notice, network)

    @property
    def _clients(self) -> tuple[Topology | Hosts | Wanted, ...]:
        # Without a base class's `__init__`, which an app may forget to call.
        try:
            return self.__clients
        except AttributeError:
            self.__clients: tuple[Topology | Hosts | Wanted, ...] = ()
            return self.__clients

    @property
    def _callbacks(self) -> dict[type, Callable[[Any, Network], None]]:
        try:
            return self.__callbacks
        except AttributeError:
            self.__callbacks = {
                SnapshotBegin: self.on_snapshot_begin,
                SnapshotEnd: self.on_snapshot_end,
                SwitchUp: self.on_switch_up,
                SwitchDown: self.on_switch_down,
                Port: self.on_port,
                PacketIn: self.on_packet_in,
                Reply: self.on_reply,
                Error: self.on_error,
                FlowRemoved: self.on_flow_removed,
                Refused: self.on_refused,
                Committed: self.on_committed,
                RequestLost: self.on_request_lost,
                Lost: self.on_lost,
                LearnedHost: self.on_learned_host,
                FlowsMissing: self.on_flows_missing,
                FlowsKept: self.on_flows_kept,
                Alert: self.on_alert,
                Ready: self.on_ready,
                ServiceUp: self.on_service_up,
                StorageEvent: self.on_storage,
                BrokerEvent: self.on_broker,
                AppsEvent: self.on_apps,
                OvsdbEvent: self.on_ovsdb,
                DrainEvent: self.on_drain,
                HttpRequest: self._answer_http,
            }
            return self.__callbacks

    def _answer_http(self, request: HttpRequest, network: Network) -> None:
        # A client must not be able to end the app.
        try:
            response = self.on_http_request(request, network)
            if response is not None:
                network.respond(request, response)
        except Exception:
            network.warn(f"could not answer an HTTP request: {traceback.format_exc()}")
            network.respond(request, Response(500, "The app could not answer this request.\n"))


class Handler:
    """Calls an app with each list of events, as `Zone.run` expects."""

    def __init__(self, app: App, network: Network) -> None:
        self.on_batch, self.on_wake, self.network = app.on_batch, app.on_wake, network
        self.app = app

    def __call__(self, events: list[Any]) -> None:
        expired, is_wake = self.network.begin_wake()
        for name in expired:
            self.app.on_timer(name, self.network)
        if events:
            handled = self.on_batch(events, self.network)
            if handled is not None:
                self.network.set_handled(handled)
        elif is_wake:
            self.on_wake(self.network)
        self.app._drive(self.network)
