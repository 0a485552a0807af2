"""One connection of a switch, as one application sees it: what the application has sent, and what is kept for it alone."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from rosemary_ryu import flows_1_0, outgoing, wire
from rosemary_ryu.buffered import Buffered
from rosemary_ryu.flows_1_0 import KnownFlows
from rosemary_ryu.numbers import Numbers
from rosemary_ryu.own_settings import OwnSettings
from rosemary_ryu.renewal import Renewal
from rosemary_ryu.table_miss import TableMiss

LOG = logging.getLogger("rosemary.ryu")

# Messages that are remembered, to quote them in errors as the application sent them.
MOST_REMEMBERED = 256

# Requests for statistics whose reply needs an addition.
MOST_EXPECTED = 256

_BAD_REQUEST, _EPERM = 1, 5


def _make_room(expected: dict[int, Any]) -> None:
    """Forgets the oldest request: its reply may never come, as after an error or a refusal."""
    if len(expected) >= MOST_EXPECTED:
        del expected[next(iter(expected))]


class Site:
    """The state of one connection.

    `post` sends a message to the switch, `answer` delivers one to the application as if the switch had sent it. `renewal`
    replaces the flows of an earlier life.
    """

    def __init__(
        self,
        version: int,
        features: bytes,
        numbers: Numbers,
        post: Callable[[bytes], None],
        answer: Callable[[bytes], None],
        renewal: Renewal | None = None,
    ) -> None:
        self.version, self.features, self.numbers = version, features, numbers
        self.answer = answer
        self.renewal = renewal
        self._post = post
        self._prepare = flows_1_0.prepare if version == wire.V1_0 else outgoing.prepare
        self.miss = TableMiss(version)
        self.settings = OwnSettings(self)
        self.known_flows = KnownFlows()
        self.early_ports: list[Any] = []  # changes of ports before their description has arrived
        self.groups: set[int] = set()
        self.meters: set[int] = set()
        self._remembered: dict[int, bytes] = {}
        self._buffered = Buffered()
        self._expected_miss: dict[int, None] = {}
        self._expected_aggregates: dict[int, list[bytes]] = {}

    def send(self, sent: bytes) -> None:
        """Sends a message of the application."""
        if self.settings.is_slave and self.settings.refuses(sent):
            return
        try:
            messages = self._prepare(self, sent)
        except LookupError as error:
            LOG.error("a message was not sent: %s", error)
            self.answer(wire.error(self.version, wire.xid_of(sent), _BAD_REQUEST, _EPERM, sent))
            return
        if sent[1] != wire.PACKET_OUT:
            self._remember(sent)
        for message in messages:
            if message[1] == wire.FLOW_MOD:
                message = self._note_buffer(message)
            if self.renewal is None or self.renewal.passes(message):
                self._post(message)

    def send_prepared(self, message: bytes) -> None:
        """Sends a message that has its numbers on the switch."""
        self._post(message)

    def _remember(self, sent: bytes) -> None:
        remembered = self._remembered
        if len(remembered) >= MOST_REMEMBERED:
            del remembered[next(iter(remembered))]
        remembered[wire.xid_of(sent)] = sent[:64]

    def _note_buffer(self, flow_mod: bytes) -> bytes:
        """Remembers a flow-mod that names a buffer, without it. Returns the message to send.

        A deletion is sent without its buffer, which means nothing there. Flow-mods from before a later change of the same
        flows are forgotten, because they would undo it if they were sent again.
        """
        is_old = self.version == wire.V1_0
        at = wire.FM10_BUFFER if is_old else wire.FM_BUFFER
        command = wire.u16(flow_mod, wire.FM10_COMMAND) if is_old else flow_mod[wire.FM_COMMAND]
        self._buffered.forget(flow_mod)
        if wire.u32(flow_mod, at) == wire.NO_BUFFER:
            return flow_mod
        copy = bytearray(flow_mod)
        wire.put_u32(copy, at, wire.NO_BUFFER)
        if command in (wire.DELETE, wire.DELETE_STRICT):
            return bytes(copy)
        self._buffered.keep(bytes(copy))
        return flow_mod

    def add_without_buffer(self, xid: int) -> bool:
        """Sends a refused flow-mod again without its buffer, which another application has used up.

        A switch adds such a flow, too, and reports the unknown buffer.
        """
        flow_mod = self._buffered.take(xid)
        if flow_mod is not None:
            self._post(flow_mod)
        return flow_mod is not None

    def as_sent(self, xid: int, quote: bytes) -> bytes:
        """Returns the beginning of a message as the application sent it, or `quote` if it is not remembered."""
        return self._remembered.get(xid, quote)

    def expect_miss(self, xid: int) -> None:
        """Notes that the reply to a request for flows includes the table-miss entry."""
        _make_room(self._expected_miss)
        self._expected_miss[xid] = None

    def takes_miss(self, xid: int) -> bool:
        """Whether this last part of a reply includes the table-miss entry."""
        return self._expected_miss.pop(xid, False) is None and self.miss.entry is not None

    def expect_aggregate(self, xid: int) -> None:
        """Notes that the flows in the reply to a request are to be added up."""
        _make_room(self._expected_aggregates)
        self._expected_aggregates[xid] = []

    def aggregated(self, reply: bytes) -> bytes | None:
        """Returns the aggregate reply in the place of the last part of one with flows, `None` for the other parts.

        Other replies are returned unchanged.
        """
        parts = self._expected_aggregates.get(wire.xid_of(reply))
        if parts is None or reply[1] != wire.STATS_REPLY_1_0:
            return reply
        parts.append(reply)
        if wire.u16(reply, 10) & 1:
            return None
        del self._expected_aggregates[wire.xid_of(reply)]
        return wire.message(self.version, wire.STATS_REPLY_1_0, wire.xid_of(reply), flows_1_0.aggregate(parts))
