"""Makes port-status messages of the port events of the zone.

The event has the state of a port in the form of OpenFlow 1.3, without the features of the link. These are taken from the
earlier description of the port (OpenFlow 1.0.2 §5.2.1, §5.4.3; OpenFlow 1.3.5 §7.2.1, §7.4.3; OpenFlow 1.4.1 §7.2.1, §7.4.3).

Since 1.4, the features are in a property of the port. The message leaves out properties of other kinds of ports.
"""

from __future__ import annotations

import struct
from typing import Any

from rosemary_ryu import wire

_ADDED, _DELETED = 0, 1
_PORT_1_0 = struct.Struct("!H6s16sIIIIII")
_PORT_1_3 = struct.Struct("!I4x6s2x16sIIIIIIII")
_PORT_1_4 = struct.Struct("!IH2x6s2x16sII")
_ETHERNET = struct.Struct("!HH4xIIIIII")
_OF_ETHERNET = 0  # OFPPDPT_ETHERNET

# Bits of 1.0 that have the same meaning in 1.3, and those of 1.0 alone that are kept from before.
_CONFIG_1_0 = 0x65
_CONFIG_1_0_ALONE = 0x1A
_STATE_1_0 = 0x01
_STATE_1_0_ALONE = 0x300


def port_status(datapath: Any, event: Any) -> bytes | None:
    """Returns the message for an event, or `None` for a port that is new only to the zone."""
    version = datapath.site.version
    is_old = version == wire.V1_0
    number = event.port_no & 0xFFFF if is_old else event.port_no
    known = datapath.ports.get(number)
    if known is not None and event.change == _ADDED and _is_same(known, event):
        return None
    if known is None and event.change == _DELETED:
        return None
    describe = _port_1_0 if is_old else _port_1_3 if version < wire.V1_4 else _port_1_4
    body = describe(number, known, event)
    return wire.message(version, wire.PORT_STATUS, 0, struct.pack("!B7x", event.change) + body)


def _is_same(known: Any, event: Any) -> bool:
    name = known.name if isinstance(known.name, bytes) else known.name.encode()
    address = bytes.fromhex(known.hw_addr.replace(":", ""))
    return name.rstrip(b"\0") == event.name.rstrip(b"\0") and address == bytes(event.hw_addr)


def _port_1_0(number: int, known: Any, event: Any) -> bytes:
    config, state = event.config & _CONFIG_1_0, event.state & _STATE_1_0
    curr = advertised = supported = peer = 0
    if known is not None:
        config |= known.config & _CONFIG_1_0_ALONE
        state |= known.state & _STATE_1_0_ALONE
        curr, advertised, supported, peer = known.curr, known.advertised, known.supported, known.peer
    name = bytes(event.name)[:16]
    return _PORT_1_0.pack(number, event.hw_addr, name, config, state, curr, advertised, supported, peer)


def _port_1_3(number: int, known: Any, event: Any) -> bytes:
    features = (0, 0, 0, 0)
    most = 0
    if known is not None:
        features = (known.curr, known.advertised, known.supported, known.peer)
        most = known.max_speed
    name = bytes(event.name)[:16]
    return _PORT_1_3.pack(number, event.hw_addr, name, event.config, event.state, *features, event.curr_speed, most)


def _port_1_4(number: int, known: Any, event: Any) -> bytes:
    properties = () if known is None else known.properties
    ethernet = next((it for it in properties if it.type == _OF_ETHERNET), None)
    features = (0, 0, 0, 0)
    most = 0
    if ethernet is not None:
        features = (ethernet.curr, ethernet.advertised, ethernet.supported, ethernet.peer)
        most = ethernet.max_speed
    size = _PORT_1_4.size + _ETHERNET.size
    port = _PORT_1_4.pack(number, size, event.hw_addr, bytes(event.name)[:16], event.config, event.state)
    return port + _ETHERNET.pack(_OF_ETHERNET, _ETHERNET.size, *features, event.curr_speed, most)
