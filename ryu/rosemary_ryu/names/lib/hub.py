"""Green threads, timers, queues and servers for applications.

Everything runs on the one thread of the zone. A server accepts on a socket that Rosemary has opened, see
`rosemary_ryu/listening.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import eventlet
import eventlet.event
import eventlet.queue
import eventlet.semaphore
import eventlet.timeout
import eventlet.wsgi
import greenlet
from eventlet import websocket

from rosemary_ryu import listening

LOG = logging.getLogger("ryu.lib.hub")

HUB_TYPE = "eventlet"

getcurrent = eventlet.getcurrent
sleep = eventlet.sleep
Queue = eventlet.queue.LightQueue
QueueEmpty = eventlet.queue.Empty
Semaphore = eventlet.semaphore.Semaphore
BoundedSemaphore = eventlet.semaphore.BoundedSemaphore
TaskExit = greenlet.GreenletExit
Timeout = eventlet.timeout.Timeout
HubEvent = eventlet.event.Event
WebSocketWSGI = websocket.WebSocketWSGI


def patch(thread: bool = True) -> None:
    """Makes the standard library's sockets, sleeps and, with `thread`, threads green."""
    eventlet.monkey_patch(thread=thread)


def _logged(func: Callable[..., Any], raise_error: bool) -> Callable[..., Any]:
    """Wraps the function of a thread: its failure is logged and, with `raise_error`, reaches those who join it."""

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return func(*args, **kwargs)
        except TaskExit:
            return None
        except BaseException:
            if raise_error:
                raise
            LOG.exception("a thread failed")
            return None

    return run


def spawn(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Starts a green thread."""
    raise_error = kwargs.pop("raise_error", False)
    return eventlet.spawn(_logged(func, raise_error), *args, **kwargs)


def spawn_after(seconds: float, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Starts a green thread later."""
    raise_error = kwargs.pop("raise_error", False)
    return eventlet.spawn_after(seconds, _logged(func, raise_error), *args, **kwargs)


def kill(thread: Any) -> None:
    """Ends a green thread."""
    thread.kill()


def joinall(threads: Iterable[Any]) -> None:
    """Waits until all these threads have ended."""
    for thread in threads:
        try:
            thread.wait()
        except TaskExit:
            pass


class Event:
    """A flag that threads can wait for."""

    def __init__(self) -> None:
        self._is_set = False
        self._change = eventlet.event.Event()

    def is_set(self) -> bool:
        """Whether the flag is set."""
        return self._is_set

    def set(self) -> None:
        """Sets the flag and wakes all who wait for it."""
        self._is_set = True
        change, self._change = self._change, eventlet.event.Event()
        change.send()

    def clear(self) -> None:
        """Clears the flag."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the flag is set, at most `timeout` seconds, and returns whether it is set."""
        with eventlet.timeout.Timeout(timeout, False):
            while not self._is_set:
                self._change.wait()
        return self._is_set


def listen(addr: tuple[str, int], *_args: Any, **_kwargs: Any) -> Any:
    """Returns the listening socket that Rosemary has opened for this port."""
    return listening.socket_for(addr)


def connect(addr: Any, *_args: Any, **_kwargs: Any) -> Any:
    """Refuses: a zone has no network."""
    raise listening.refused_connection(addr)


class LoggingWrapper:
    """Writes lines to the log."""

    def write(self, message: str) -> None:
        """Logs one line."""
        LOG.info(message.rstrip("\n"))


# Clients of a web server at a time. A zone watches at most 256 descriptors, its listening sockets among them.
MOST_CLIENTS = 200


class StreamServer:
    """Accepts connections and handles each on a green thread."""

    def __init__(
        self,
        listen_info: tuple[str, int],
        handle: Any = None,
        backlog: int | None = None,
        spawn: str = "default",
        **ssl_args: Any,
    ) -> None:
        if ssl_args:
            raise NotImplementedError("a zone holds no TLS keys; have a proxy in front of the port terminate TLS")
        self.server = listening.socket_for(listen_info)
        self.handle = handle

    def serve_forever(self) -> None:
        """Accepts connections for ever."""
        while True:
            connection, address = self.server.accept()
            spawn(self.handle, connection, address)


class StreamClient:
    """Connects to a server: not in a zone, which has no network."""

    def __init__(self, addr: tuple[str, int], timeout: float | None = None, **ssl_args: Any) -> None:
        self.addr = addr

    def connect(self) -> None:
        """Returns `None`, as for an unreachable server, after it has logged the reason."""
        LOG.error("%s", listening.refused_connection(self.addr))

    def connect_loop(self, handle: Callable[..., Any], interval: float) -> None:
        """Tries once."""
        self.connect()

    def stop(self) -> None:
        """Has no effect."""


class WSGIServer(StreamServer):
    """Serves a WSGI application."""

    def serve_forever(self) -> None:
        """Answers requests for ever."""
        eventlet.wsgi.server(self.server, self.handle, LoggingWrapper(), max_size=MOST_CLIENTS)
