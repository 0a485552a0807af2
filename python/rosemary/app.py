"""`App`: what an app derives from, and the dispatch of its events."""

from __future__ import annotations

import traceback
from typing import Any, Callable, Sequence

from . import _native
from ._native import (
    Alert,
    Error,
    FlowRemoved,
    FlowsKept,
    FlowsMissing,
    HttpRequest,
    Lost,
    PacketIn,
    Port,
    Ready,
    Refused,
    Reply,
    RequestLost,
    SnapshotBegin,
    SnapshotEnd,
    SwitchDown,
    SwitchUp,
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

    def on_request_lost(self, event: RequestLost, network: Network) -> None:
        """The kernel was restarted before the reply to a request arrived."""

    def on_lost(self, event: Lost, network: Network) -> None:
        """Replies, errors or flow-removed messages were lost."""

    def on_flows_missing(self, event: FlowsMissing, network: Network) -> None:
        """A switch lost flows; the app adds its own again."""

    def on_flows_kept(self, event: FlowsKept, network: Network) -> None:
        """Flows of this app that a switch has."""

    def on_alert(self, event: Alert, network: Network) -> None:
        """This app exceeds a soft limit or has reached a hard one."""

    def on_http_request(self, request: HttpRequest, network: Network) -> Response | None:
        """Answers an HTTP request. The operator grants the app `http.serve`; its routes are then at `/apps/NAME/...`.

        `None` means that the app answers later, with `network.respond(request, response)`.
        """
        return Response(404, "this app publishes no routes\n")

    def on_ready(self, event: Ready, network: Network) -> None:
        """A descriptor that `network.watch` watches is ready."""

    def on_wake(self, network: Network) -> None:
        """The timer set with `network.wake_at` has expired."""

    def on_batch(self, events: Sequence[Any], network: Network) -> int | None:
        """Handles a batch of events, oldest first.

        Returns how many it handled, `None` for all of them; the others come again when there is more room for messages. The
        default calls the callback of each event. An app that handles events together overrides this; `None` in `events`
        is an event that this version does not know.
        """
        callbacks, begin = self._callbacks, network.begin
        number = 0
        for event in events:
            if not begin(number):
                return number
            callback = callbacks.get(type(event))
            if callback is not None:
                callback(event, network)
            number += 1
        return None

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
                RequestLost: self.on_request_lost,
                Lost: self.on_lost,
                FlowsMissing: self.on_flows_missing,
                FlowsKept: self.on_flows_kept,
                Alert: self.on_alert,
                Ready: self.on_ready,
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

    def __call__(self, events: list[Any]) -> None:
        if not events:
            self.on_wake(self.network)
            return
        handled = self.on_batch(events, self.network)
        if handled is not None:
            self.network.set_handled(handled)
