"""Serves the web interface of applications over Rosemary's own HTTP interface, at `/apps/NAME/...`.

The zone receives each request as an event, if the operator has granted `http.serve`. It needs no listening socket for that.
WebSockets need one: see `rosemary_ryu/listening.py`.
"""

from __future__ import annotations

import io
import logging
import sys
from typing import Any
from urllib.parse import unquote_to_bytes

import eventlet

from rosemary_ryu.zone_hub import ZoneHub

LOG = logging.getLogger("rosemary.ryu")

CAPABILITY = "http.serve"


def is_granted() -> bool:
    """Whether the operator lets this zone publish routes."""
    return CAPABILITY in getattr(ZoneHub.zone, "capabilities", ())


def publish(application: Any) -> None:
    """Serves a WSGI application from now on. Each request has a green thread."""
    zone = ZoneHub.zone

    def requested(request: Any) -> None:
        eventlet.spawn(_serve, zone, application, request)

    method: Any = staticmethod(requested)
    ZoneHub.requested = method


def _serve(zone: Any, application: Any, request: Any) -> None:
    try:
        variables = environ(zone.name, request)
        status, headers, body = call(application, variables)
        response = _Response(status, with_own_paths(headers, variables), body)
        zone.respond(request, response)
    except Exception:
        LOG.exception("%s %s failed", request.method, request.path)
        zone.respond(request, _Response(500, [("content-type", "text/plain")], b"Internal Server Error\n"))


class _Response:
    """An answer, as the zone reads it."""

    def __init__(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body


def with_own_paths(headers: list[tuple[str, str]], variables: dict[str, Any]) -> list[tuple[str, str]]:
    """Makes a `Location` at this address a path: WebOb makes all absolute, and the interface accepts paths alone."""
    own = f"{variables['wsgi.url_scheme']}://{variables.get('HTTP_HOST', '')}"

    def value_of(name: str, value: str) -> str:
        path = value.removeprefix(own)
        return path if name.lower() == "location" and path.startswith("/") else value

    return [(name, value_of(name, value)) for name, value in headers]


def call(application: Any, variables: dict[str, Any]) -> tuple[int, list[tuple[str, str]], bytes]:
    """Calls a WSGI application. Returns status, headers and body."""
    started: list[tuple[int, list[tuple[str, str]]]] = []
    written: list[bytes] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        started.append((int(status.split(" ", 1)[0]), headers))
        return written.append

    parts = application(variables, start_response)
    try:
        written.extend(parts)
    finally:
        close = getattr(parts, "close", None)
        if close is not None:
            close()
    status, headers = started[-1]
    return status, headers, b"".join(written)


def environ(name: str, request: Any) -> dict[str, Any]:
    """Returns the variables of a request (PEP 3333)."""
    server, _, port = (request.header("host") or "localhost").rpartition(":")
    variables: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": f"/apps/{name}",
        "PATH_INFO": unquote_to_bytes(request.path).decode("latin-1"),
        "QUERY_STRING": request.query,
        "SERVER_NAME": server or port,
        "SERVER_PORT": port if server else "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_LENGTH": str(len(request.body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for header, value in request.headers:
        if header == "content-type":
            variables["CONTENT_TYPE"] = value
        else:
            variables["HTTP_" + header.upper().replace("-", "_")] = value
    return variables
