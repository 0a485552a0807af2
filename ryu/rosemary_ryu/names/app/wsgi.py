"""Serves the REST and WebSocket interfaces of applications: the context `wsgi`.

The port is that of the option `wsapi-port`. The monitor has opened it (see `rosemary_ryu/listening.py`). With the capability
`http.serve`, Rosemary also serves them at `/apps/NAME/...` (see `rosemary_ryu/published.py`).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from types import MethodType
from typing import Any, TypeVar

import webob.dec
import webob.exc
from os_ken import cfg
from os_ken.lib import hub
from routes import Mapper
from routes.util import URLGenerator
from tinyrpc.client import RPCClient
from tinyrpc.dispatch import RPCDispatcher
from tinyrpc.dispatch import public as rpc_public
from tinyrpc.protocols.jsonrpc import JSONRPCProtocol
from tinyrpc.server import RPCServer
from tinyrpc.transports import ClientTransport, ServerTransport
from webob.request import Request as webob_Request
from webob.response import Response as webob_Response

from rosemary_ryu import listening, published

__all__ = ["ControllerBase", "Request", "Response", "WSGIApplication", "route", "rpc_public", "websocket"]

LOG = logging.getLogger("ryu.app.wsgi")

DEFAULT_WSGI_HOST = "0.0.0.0"
DEFAULT_WSGI_PORT = 8080

# Patterns for the parameters of routes.
HEX_PATTERN = r"0x[0-9a-z]+"
DIGIT_PATTERN = r"[1-9][0-9]*"

CONF = cfg.CONF
CONF.register_cli_opts(
    [
        cfg.StrOpt("wsapi-host", default=DEFAULT_WSGI_HOST, help="address of the web server"),
        cfg.IntOpt("wsapi-port", default=DEFAULT_WSGI_PORT, help="port of the web server"),
    ]
)

Method = TypeVar("Method", bound=Callable[..., Any])


def route(
    name: str, path: str, methods: list[str] | None = None, requirements: dict[str, str] | None = None
) -> Callable[[Method], Method]:
    """Makes a method of a controller answer the requests for a path."""

    def mark(method: Method) -> Method:
        info = {"name": name, "path": path, "methods": methods, "requirements": requirements}
        method.routing_info = info  # type: ignore[attr-defined]
        return method

    return mark


class Request(webob_Request):  # type: ignore[misc]
    """A request, in UTF-8."""

    DEFAULT_CHARSET = "UTF-8"

    def __init__(self, environ: Any, charset: str = DEFAULT_CHARSET, *args: Any, **kwargs: Any) -> None:
        super().__init__(environ, *args, charset=charset, **kwargs)


class Response(webob_Response):  # type: ignore[misc]
    """A response, in UTF-8."""

    DEFAULT_CHARSET = "UTF-8"

    def __init__(self, *args: Any, charset: str | None = DEFAULT_CHARSET, **kwargs: Any) -> None:
        body = kwargs.get("body")
        if isinstance(body, str):  # WebOb accepts only bytes, and applications pass the text of JSON
            kwargs["body"] = body.encode(charset or "utf-8")
        if kwargs.get("content_type") == "application/json" and charset:
            super().__init__(*args, **kwargs)
            return
        super().__init__(*args, charset=charset, **kwargs)


class _Upgraded(Response):
    """The response of a connection that has become a WebSocket: eventlet's server writes nothing any more."""

    def __call__(self, environ: Any, start_response: Any) -> Any:
        return []


def websocket(name: str, path: str) -> Callable[[Any], Any]:
    """Makes a method of a controller serve a WebSocket at a path."""

    def mark(method: Any) -> Any:
        def serve(self: Any, req: Any, **_: Any) -> Any:
            upgrade = hub.WebSocketWSGI(WebSocketRegistrationWrapper(method, self))
            upgrade(req.environ, req.start_response)
            return _Upgraded()

        serve.routing_info = {  # type: ignore[attr-defined]
            "name": name,
            "path": path,
            "methods": None,
            "requirements": None,
        }
        return serve

    return mark


class WebSocketRegistrationWrapper:
    """Serves one WebSocket, known to the manager of all while it is open."""

    def __init__(self, func: Any, controller: Any) -> None:
        self._controller = controller
        self._method = MethodType(func, controller)

    def __call__(self, ws: Any) -> None:
        manager = self._controller.parent.websocketmanager
        manager.add_connection(ws)
        try:
            self._method(ws)
        finally:
            manager.delete_connection(ws)


class WebSocketManager:
    """The open WebSockets of a server."""

    def __init__(self) -> None:
        self._connections: list[Any] = []

    def add_connection(self, ws: Any) -> None:
        """Adds a connection."""
        self._connections.append(ws)

    def delete_connection(self, ws: Any) -> None:
        """Removes a connection."""
        self._connections.remove(ws)

    def broadcast(self, msg: str) -> None:
        """Sends a message through all."""
        for connection in list(self._connections):
            connection.send(msg)


class ControllerBase:
    """Answers requests. An instance serves one request."""

    special_vars = ["action", "controller"]

    def __init__(self, req: Any, link: Any, data: Any, **config: Any) -> None:
        self.req, self.link, self.data = req, link, data
        self.parent: Any = None
        for name, value in config.items():
            setattr(self, name, value)

    def __call__(self, req: Any) -> Any:
        variables = self.req.urlvars
        before = getattr(self, "__before__", None)
        if before is not None:
            before()
        arguments = {name: value for name, value in variables.items() if name not in self.special_vars}
        return getattr(self, variables.get("action", "index"))(req, **arguments)


class wsgify_hack(webob.dec.wsgify):  # type: ignore[misc]
    """Also gives the function `start_response`, which a WebSocket needs."""

    def __call__(self, environ: Any, start_response: Any) -> Any:
        self.kwargs["start_response"] = start_response
        return super().__call__(environ, start_response)


class WSGIApplication:
    """Knows the controllers by their paths."""

    def __init__(self, **config: Any) -> None:
        self.config = config
        self.mapper = Mapper()
        self.registory: dict[str, Any] = {}
        self._wsmanager = WebSocketManager()

    @property
    def websocketmanager(self) -> WebSocketManager:
        """The open WebSockets."""
        return self._wsmanager

    @wsgify_hack
    def __call__(self, req: Any, start_response: Any) -> Any:
        match = self.mapper.match(environ=req.environ)
        if not match:
            return webob.exc.HTTPNotFound()
        req.start_response = start_response
        req.urlvars = match
        cls = match["controller"]
        link = URLGenerator(self.mapper, req.environ)
        controller = cls(req, link, self.registory.get(cls.__name__), **self.config)
        controller.parent = self
        return controller(req)

    def register(self, controller: type, data: Any = None) -> None:
        """Adds a controller. Its instances receive `data`."""
        for name, method in inspect.getmembers(controller, callable):
            info = getattr(method, "routing_info", None)
            if info is None:
                continue
            conditions = {"method": info["methods"]} if info.get("methods") else {}
            self.mapper.connect(
                info["name"],
                info["path"],
                controller=controller,
                requirements=info.get("requirements") or {},
                action=name,
                conditions=conditions,
            )
        if data:
            self.registory[controller.__name__] = data


class WebSocketDisconnectedError(Exception):
    """The client has closed the connection."""


class WebSocketServerTransport(ServerTransport):  # type: ignore[misc]
    """Receives remote procedure calls through a WebSocket."""

    def __init__(self, ws: Any) -> None:
        self.ws = ws

    def receive_message(self) -> tuple[Any, Any]:
        """Waits for a call."""
        message = self.ws.wait()
        if message is None:
            raise WebSocketDisconnectedError
        return None, message

    def send_reply(self, context: Any, reply: Any) -> None:
        """Sends the answer."""
        self.ws.send(reply.decode() if isinstance(reply, bytes) else str(reply))


class WebSocketRPCServer(RPCServer):  # type: ignore[misc]
    """Serves remote procedure calls of one WebSocket with the methods of an object."""

    def __init__(self, ws: Any, rpc_callback: Any) -> None:
        dispatcher = RPCDispatcher()
        dispatcher.register_instance(rpc_callback)
        super().__init__(WebSocketServerTransport(ws), JSONRPCProtocol(), dispatcher)

    def serve_forever(self) -> None:
        """Answers calls until the client closes the connection."""
        try:
            super().serve_forever()
        except WebSocketDisconnectedError:
            return

    def _spawn(self, func: Any, *args: Any, **kwargs: Any) -> None:
        hub.spawn(func, *args, **kwargs)


class WebSocketClientTransport(ClientTransport):  # type: ignore[misc]
    """Sends remote procedure calls through a WebSocket."""

    def __init__(self, ws: Any, queue: Any) -> None:
        self.ws, self.queue = ws, queue

    def send_message(self, message: Any, expect_reply: bool = True) -> Any:
        """Sends a call and waits for its answer."""
        self.ws.send(message.decode() if isinstance(message, bytes) else str(message))
        return self.queue.get() if expect_reply else None


class WebSocketRPCClient(RPCClient):  # type: ignore[misc]
    """Calls methods of the client of a WebSocket."""

    def __init__(self, ws: Any) -> None:
        self.ws = ws
        self.queue = hub.Queue()
        super().__init__(JSONRPCProtocol(), WebSocketClientTransport(ws, self.queue))

    def serve_forever(self) -> None:
        """Receives answers until the client closes the connection."""
        while True:
            message = self.ws.wait()
            if message is None:
                break
            self.queue.put(message)


class WSGIServer(hub.WSGIServer):
    """The web server of a zone."""

    def __init__(self, application: WSGIApplication, **config: Any) -> None:
        super().__init__((CONF.wsapi_host, CONF.wsapi_port), application, **config)

    def __call__(self) -> None:
        self.serve_forever()


def start_service(app_mgr: Any) -> WSGIServer | None:
    """Returns the server of the applications of this zone, if one has the context `wsgi`."""
    for context in app_mgr.contexts.values():
        if type(context) is WSGIApplication:
            if published.is_granted():
                published.publish(context)
                if not listening.has_port(CONF.wsapi_port):
                    return None
            elif "wsgi" in app_mgr.undeclared and not listening.has_port(CONF.wsapi_port):
                LOG.info("no web server: no app has the context wsgi, and port %d is not granted", CONF.wsapi_port)
                return None
            return WSGIServer(context)
    return None
