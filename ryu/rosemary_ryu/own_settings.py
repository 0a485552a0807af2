"""Answers an application's requests about what a switch has once, for this application alone.

| request | answer |
| --- | --- |
| `set_config` | kept; `get_config` returns it. A fragment mode other than "normal" is refused |
| role | granted: an application has its flows for itself. With the role "slave", its changes are refused as a switch would |
| `set_async` | kept, and applied to the events of this application |
| echo | sent as a barrier, so that its round trip is that of the switch |
| features | the switch's answer at its connection |
| hello, and messages that only switches send | dropped |

Other messages pass unchanged.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from rosemary_ryu import wire
from rosemary_ryu.async_filter import AsyncFilter

if TYPE_CHECKING:
    from rosemary_ryu.site import Site

_NOCHANGE, _EQUAL, _MASTER, _SLAVE = 0, 1, 2, 3
_BAD_REQUEST, _IS_SLAVE = 1, 10
_SWITCH_CONFIG_FAILED = 10
_BAD_FLAGS = 0
_BAD_TYPE = 1

_CHANGES = frozenset((wire.PACKET_OUT, wire.FLOW_MOD, wire.GROUP_MOD, 16, 17, wire.METER_MOD))


class OwnSettings:
    """The settings of one application at one switch."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._config: tuple[int, int] | None = None
        self._role, self._generation = _EQUAL, 0
        self._short_id = bytes(2)  # 1.5: the controller's number, which the application chooses
        self._async = AsyncFilter(site.version)
        self._echoes: dict[int, bytes] = {}  # data of echo requests, by the transaction id of their barrier

    @property
    def is_slave(self) -> bool:
        """Whether the application has given up its right to change the switch."""
        return self._role == _SLAVE

    def prepare(self, sent: bytes) -> list[bytes]:
        """Returns the messages to send for one of the application: itself, another, or none if it is answered here."""
        kind, version = sent[1], sent[0]
        if kind == wire.SET_CONFIG:
            return self._set_config(sent)
        if kind == wire.GET_CONFIG_REQUEST and self._config is not None:
            body = struct.pack("!HH", *self._config)
            return self._answered(wire.GET_CONFIG_REPLY, sent, body)
        if kind == wire.ECHO_REQUEST:
            return self._echo(sent)
        if kind == wire.FEATURES_REQUEST:
            return self._answered(wire.FEATURES_REPLY, sent, self._site.features[8:])
        if kind in (wire.HELLO, wire.ECHO_REPLY):
            return []
        if version >= wire.V1_2:
            return self._of_1_2(sent)
        return [sent]

    def _of_1_2(self, sent: bytes) -> list[bytes]:
        kind = sent[1]
        if kind == wire.ROLE_REQUEST and len(sent) >= 24:
            role, generation = struct.unpack_from("!I4xQ", sent, 8)
            if role != _NOCHANGE:
                self._role, self._generation = role, generation
                self._short_id = sent[12:14] if sent[0] == wire.V1_5 else bytes(2)
            body = struct.pack("!I2s2xQ", self._role, self._short_id, self._generation)
            return self._answered(wire.ROLE_REPLY, sent, body)
        if sent[0] == wire.V1_2:
            return [sent]  # it has no filter of asynchronous messages
        if kind == wire.SET_ASYNC:
            wrong = self._async.set(sent)
            if wrong is not None:
                self._site.answer(wire.error(sent[0], wire.xid_of(sent), *wrong, sent))
            return []
        if kind == wire.GET_ASYNC_REQUEST:
            return self._answered(wire.GET_ASYNC_REPLY, sent, self._async.body())
        return [sent]

    def _answered(self, kind: int, request: bytes, body: bytes) -> list[bytes]:
        self._site.answer(wire.message(request[0], kind, wire.xid_of(request), body))
        return []

    def _set_config(self, sent: bytes) -> list[bytes]:
        flags, miss_send_len = struct.unpack_from("!HH", sent, 8)
        if flags & 0b11:
            # 1.0 has no error for that.
            kind, code = (_BAD_REQUEST, _BAD_TYPE) if sent[0] == wire.V1_0 else (_SWITCH_CONFIG_FAILED, _BAD_FLAGS)
            self._site.answer(wire.error(sent[0], wire.xid_of(sent), kind, code, sent))
            return []
        self._config = (flags, miss_send_len)
        return []

    def _echo(self, sent: bytes) -> list[bytes]:
        xid = wire.xid_of(sent)
        if len(self._echoes) >= 64:
            self._echoes.pop(next(iter(self._echoes)))  # never answered
        self._echoes[xid] = sent[8:]
        kind = wire.BARRIER_REQUEST_1_0 if sent[0] == wire.V1_0 else wire.BARRIER_REQUEST
        return [wire.message(sent[0], kind, xid)]

    def echo_reply(self, barrier_reply: bytes) -> bytes:
        """Returns the echo reply in the place of a barrier reply that was an echo, else the barrier reply."""
        data = self._echoes.pop(wire.xid_of(barrier_reply), None)
        if data is None:
            return barrier_reply
        return wire.message(barrier_reply[0], wire.ECHO_REPLY, wire.xid_of(barrier_reply), data)

    def refuses(self, sent: bytes) -> bool:
        """Answers a change of an application in the role "slave" with an error, as a switch does."""
        if self._role != _SLAVE or sent[1] not in _CHANGES:
            return False
        self._site.answer(wire.error(sent[0], wire.xid_of(sent), _BAD_REQUEST, _IS_SLAVE, sent))
        return True

    def wants(self, kind: int, reason: int) -> bool:
        """Whether the application's filter of asynchronous messages lets one of this type and reason pass."""
        return self._async.wants(kind, reason, self.is_slave)
