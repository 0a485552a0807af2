"""Decorators that make methods of an application handlers of events."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

HANDSHAKE_DISPATCHER = "handshake"
CONFIG_DISPATCHER = "config"
MAIN_DISPATCHER = "main"
DEAD_DISPATCHER = "dead"

Handler = TypeVar("Handler", bound=Callable[..., Any])


class _Caller:
    """How a method handles the events of one class."""

    def __init__(self, dispatchers: list[str], ev_source: str | None) -> None:
        self.dispatchers = dispatchers  # states of a switch; an empty list stands for all
        self.ev_source = ev_source  # module that defines the event, if it must be observed there


def _listify(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _mark(ev_cls: Any, dispatchers: Any, observe: bool) -> Callable[[Handler], Handler]:
    def mark(method: Handler) -> Handler:
        callers = method.__dict__.setdefault("callers", {})
        for cls in _listify(ev_cls):
            source = cls.__module__ if observe else None
            callers[cls] = _Caller(_listify(dispatchers), source)
        return method

    return mark


def set_ev_cls(ev_cls: Any, dispatchers: Any = None) -> Callable[[Handler], Handler]:
    """Makes a method a handler of the events of these classes, while the switch is in one of these states."""
    return _mark(ev_cls, dispatchers, observe=True)


def set_ev_handler(ev_cls: Any, dispatchers: Any = None) -> Callable[[Handler], Handler]:
    """The same for the application that itself generates the events."""
    return _mark(ev_cls, dispatchers, observe=False)


def handlers_of(owner: Any) -> list[tuple[Any, dict[Any, _Caller]]]:
    """Returns the handlers among the methods of a class or an instance, sorted by their names as in Ryu."""
    found = []
    for name in dir(owner):
        # A property of the application is not evaluated.
        if isinstance(inspect.getattr_static(owner, name, None), property):
            continue
        method = getattr(owner, name, None)
        callers = getattr(method, "callers", None)
        if isinstance(callers, dict) and (inspect.ismethod(method) or inspect.isfunction(method)):
            found.append((method, callers))
    return found


def register_instance(app: Any) -> None:
    """Registers all handlers of an application with itself."""
    for method, callers in handlers_of(app):
        for ev_cls in callers:
            app.register_handler(ev_cls, method)


def get_dependent_services(cls: type) -> list[str]:
    """Returns the modules of the applications that must run for `cls` to work."""
    services = []
    for _, callers in handlers_of(cls):
        for ev_cls in callers:
            service = getattr(sys.modules[ev_cls.__module__], "_SERVICE_NAME", None)
            if service and cls.__module__ != service:
                services.append(service)
    services.extend(getattr(sys.modules[cls.__module__], "_REQUIRED_APP", []))
    return sorted(set(services))


def register_service(service: str) -> None:
    """Names the application that generates the events of the calling module: it is loaded when they are handled."""
    frame = inspect.currentframe()
    if frame is not None and frame.f_back is not None:
        frame.f_back.f_globals["_SERVICE_NAME"] = service
