"""The listening sockets of a zone.

A zone cannot open sockets. The monitor opens those that the operator names, and the zone receives them with its start.
"""

from __future__ import annotations

import socket
from typing import Any, Protocol


class Listener(Protocol):
    """A listening socket, as the native module describes it."""

    name: str
    host: str
    port: int
    fd: int


_listeners: list[Listener] = []
_open: dict[int, Any] = {}


def provide(listeners: list[Listener]) -> None:
    """Notes the sockets that this zone has received."""
    _listeners[:] = listeners
    _open.clear()


def has_port(port: int) -> bool:
    """Whether this zone has a socket that listens at this port."""
    return any(it.port == port for it in _listeners)


def socket_for(address: Any) -> Any:
    """Returns the socket that listens at the port of `address`, whatever the host.

    The operator decides about the host. Port 0 stands for the only socket of the zone.

    Raises `PermissionError` with the setting that would allow it.
    """
    if not isinstance(address, tuple):
        raise PermissionError(f"a zone cannot listen at {address!r}; only TCP ports can be granted")
    host, port = address[0], int(address[1])
    fitting = [it for it in _listeners if it.port == port] or (_listeners if port == 0 else [])
    if not fitting:
        raise PermissionError(
            f"no permission to listen at port {port}; start it with `rosemary ryu --wsapi-port {port} ...`, "
            f'or add to the app in rosemary.toml: listen = ["wsapi={host or "0.0.0.0"}:{port}"]'
        )
    return _socket(fitting[0])


def _socket(listener: Listener) -> Any:
    if listener.fd not in _open:
        family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM, 0, fileno=listener.fd)
        made.listen = _listens_already  # type: ignore[method-assign]
        _open[listener.fd] = made
    return _open[listener.fd]


def _listens_already(_backlog: int = 0) -> None:
    """Has no effect: the monitor has chosen the backlog, and a zone may not change it."""


def refused_connection(address: Any) -> PermissionError:
    """Returns the error of an attempt to connect to a server."""
    return PermissionError(f"no permission to connect to {address!r}; a zone has no network")
