"""An app of Ryu with a web interface and WebSockets, for attacks on them."""

from ryu.app.wsgi import ControllerBase, Response, WSGIApplication, route, websocket
from ryu.base import app_manager

LARGE = bytes(1 << 20)


class Web(app_manager.RyuApp):
    _CONTEXTS = {"wsgi": WSGIApplication}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        kwargs["wsgi"].register(Pages)


class Pages(ControllerBase):
    @route("hello", "/hello")
    def hello(self, req, **_):
        return Response(body=b"hello\n")

    @route("large", "/large")
    def large(self, req, **_):
        return Response(body=LARGE)

    @route("body", "/body")
    def body(self, req, **_):
        return Response(body=b"%d bytes\n" % len(req.body))

    @websocket("echo", "/echo")
    def echo(self, ws):
        while (message := ws.wait()) is not None:
            ws.send(message)

    @websocket("flood", "/flood")
    def flood(self, ws):
        while True:
            ws.send("x" * 65536)
