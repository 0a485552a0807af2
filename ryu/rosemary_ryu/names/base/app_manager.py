"""Loads applications, connects them, and carries events between them.

Each application handles its events one after the other, in the order of their arrival, on a green thread of its own. All
of them share the one thread of the zone.

A queue of events has no room for packet-ins beyond `MOST_PACKET_INS` waiting events: they are dropped, and the
application's log has their number. Other events are always kept.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from os_ken import cfg
from os_ken.controller import event
from os_ken.controller.event import EventReplyBase, EventRequestBase
from os_ken.controller.handler import get_dependent_services, handlers_of, register_instance
from os_ken.lib import hub
from os_ken.ofproto import ofproto_protocol

from rosemary_ryu import wire
from rosemary_ryu.mailbox import Mailbox

LOG = logging.getLogger("ryu.base.app_manager")

MOST_PACKET_INS = 4096

_WSGI = "os_ken.app.wsgi"

_IMPORT_SYSTEM = ("importlib", "_frozen_importlib", "rosemary_ryu.finder")

SERVICE_BRICKS: dict[str, RyuApp] = {}

# Names that applications looked up in vain once all had started, for one warning each.
_MISSED: set[str] = set()
_MOST_MISSED = 64

# What to do about an application that is not in this process.
_TOGETHER = (
    "each app that the command line names has a process of its own. For apps that talk to each other, start one file that requires "
    "them, app_manager.require_app('MODULE') for each, with --python-path DIR for their modules"
)


class NoSuchApplication(LookupError):
    """A request to an application that is not in this process. Nobody would answer it."""


def lookup_service_brick(name: str) -> RyuApp | None:
    """Returns the running application with this name."""
    app = SERVICE_BRICKS.get(name)
    if app is None:
        _missed(name, "looked up")
    return app


def _missed(name: str | None, what: str) -> None:
    """Warns once about an application that is not in this process. Before all have started, it may still come."""
    if name and AppManager.get_instance().is_started and name not in _MISSED and len(_MISSED) < _MOST_MISSED:
        _MISSED.add(name)
        LOG.warning("%s was %s, and is not in this process: %s", name, what, _TOGETHER)


def _lookup_service_brick_by_mod_name(module: str) -> RyuApp | None:
    return SERVICE_BRICKS.get(module.rsplit(".", 1)[-1])


def _lookup_service_brick_by_ev_cls(ev_cls: type) -> RyuApp | None:
    return _lookup_service_brick_by_mod_name(ev_cls.__module__)


def register_app(app: RyuApp) -> None:
    """Makes an instance known by its name and registers its handlers."""
    if app.name in SERVICE_BRICKS:
        raise AssertionError(f"two applications have the name {app.name}")
    SERVICE_BRICKS[app.name] = app
    register_instance(app)


def unregister_app(app: RyuApp) -> None:
    """Removes an instance."""
    SERVICE_BRICKS.pop(app.name)


def require_app(app_name: str, api_style: bool = False) -> None:
    """Has an application loaded together with the one that imports the calling module.

    With `api_style`, the module that imports the caller requires it, otherwise the caller itself.
    """
    frame = inspect.currentframe()
    callers: dict[str, dict[str, Any]] = {}
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        # Frames of the import system are between a module and the one that imports it.
        if not name.startswith(_IMPORT_SYSTEM):
            callers.setdefault(name, frame.f_globals)
        frame = frame.f_back
    caller = list(callers.values())[2 if api_style else 1]
    caller.setdefault("_REQUIRED_APP", []).append(app_name)


class _Stop(event.EventBase):
    """Ends the event loop of an application."""


class RyuApp:
    """The base class of applications."""

    _CONTEXTS: dict[str, type] = {}  # objects that are made once and given to `__init__` by these names
    _EVENTS: list[type] = []  # events that the application generates, if other modules define them
    OFP_VERSIONS: list[int] | None = None  # OpenFlow versions that it supports; None stands for all

    @classmethod
    def context_iteritems(cls) -> Iterator[tuple[str, type]]:
        """Returns the contexts that it needs."""
        return iter(cls._CONTEXTS.items())

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.event_handlers: dict[type, list[Any]] = {}
        self.observers: dict[type, dict[str, set[str]]] = {}
        self.threads: list[Any] = []
        self.main_thread: Any = None
        self.events = Mailbox()
        self.logger = logging.getLogger(getattr(type(self), "LOGGER_NAME", self.name))
        self.CONF = cfg.CONF
        self.is_active = True
        self._dropped = 0

    def start(self) -> Any:
        """Called when all applications are instantiated. May return a thread that runs as long as the application."""
        self.threads.append(hub.spawn(self._event_loop))

    def stop(self) -> None:
        """Ends its threads."""
        if self.main_thread:
            hub.kill(self.main_thread)
        self.is_active = False
        self.events.put((_Stop(), None))
        hub.joinall(self.threads)

    def close(self) -> None:
        """Called when the application ends."""

    def set_main_thread(self, thread: Any) -> None:
        """Keeps the thread that `start` returned, so that `stop` ends it."""
        self.main_thread = thread

    def register_handler(self, ev_cls: type, handler: Any) -> None:
        """Has `handler` called with all events of a class that reach this application."""
        self.event_handlers.setdefault(ev_cls, []).append(handler)

    def unregister_handler(self, ev_cls: type, handler: Any) -> None:
        """Reverts `register_handler`."""
        handlers = self.event_handlers[ev_cls]
        handlers.remove(handler)
        if not handlers:
            del self.event_handlers[ev_cls]

    def register_observer(self, ev_cls: type, name: str, states: Iterable[str] | None = None) -> None:
        """Has this application's events of a class sent to the application `name`."""
        self.observers.setdefault(ev_cls, {}).setdefault(name, set()).update(states or ())

    def unregister_observer(self, ev_cls: type, name: str) -> None:
        """Reverts `register_observer`."""
        self.observers.get(ev_cls, {}).pop(name, None)

    def unregister_observer_all_event(self, name: str) -> None:
        """Reverts all calls of `register_observer` for one observer."""
        for observers in self.observers.values():
            observers.pop(name, None)

    def observe_event(self, ev_cls: type, states: Iterable[str] | None = None) -> None:
        """Observes the events of a class at the application that generates them."""
        brick = _lookup_service_brick_by_ev_cls(ev_cls)
        if brick is not None:
            brick.register_observer(ev_cls, self.name, states)

    def unobserve_event(self, ev_cls: type) -> None:
        """Reverts `observe_event`."""
        brick = _lookup_service_brick_by_ev_cls(ev_cls)
        if brick is not None:
            brick.unregister_observer(ev_cls, self.name)

    def get_handlers(self, ev: Any, state: str | None = None) -> list[Any]:
        """Returns the handlers of an event in a state of the switch; without a state, all."""
        ev_cls = type(ev)
        handlers = self.event_handlers.get(ev_cls, [])
        if state is None:
            return handlers
        return [handler for handler in handlers if _handles_in(handler, ev_cls, state)]

    def get_observers(self, ev: Any, state: str | None) -> list[str]:
        """Returns the names of the applications that receive an event."""
        observers = self.observers.get(type(ev))
        if not observers:
            return []
        return [name for name, states in observers.items() if not state or not states or state in states]

    def send_request(self, req: EventRequestBase) -> Any:
        """Sends a request to the application `req.dst` and waits for its reply.

        Raises `NoSuchApplication` if it is not in this process.
        """
        if req.dst not in SERVICE_BRICKS:
            raise NoSuchApplication(
                f"{type(req).__name__} of {self.name} is for {req.dst}, which is not in this process: {_TOGETHER}"
            )
        req.sync = True
        req.reply_q = hub.Queue()
        self.send_event(req.dst, req)
        return req.reply_q.get()

    def reply_to_request(self, req: EventRequestBase, rep: EventReplyBase) -> None:
        """Answers a request of `send_request`, or one that was sent as an event."""
        rep.dst = req.src
        if req.sync:
            req.reply_q.put(rep)
        else:
            self.send_event(rep.dst, rep)

    def send_event(self, name: str | None, ev: Any, state: str | None = None) -> None:
        """Sends an event to the application with this name; without such an application, it is lost."""
        app = SERVICE_BRICKS.get(name) if name else None
        if app is None:
            _missed(name, f"sent {type(ev).__name__} by {self.name}")
            LOG.debug("EVENT LOST %s->%s %s", self.name, name, type(ev).__name__)
            return
        if isinstance(ev, EventRequestBase):
            ev.src = self.name
        app._send_event(ev, state)

    def send_event_to_observers(self, ev: Any, state: str | None = None) -> None:
        """Sends an event to all applications that observe it."""
        for name in self.get_observers(ev, state):
            self.send_event(name, ev, state)

    def _send_event(self, ev: Any, state: str | None) -> None:
        if self.events.qsize() >= MOST_PACKET_INS and type(ev).__name__ == "EventOFPPacketIn":
            if self._dropped == 0:
                LOG.warning("%s does not keep up: packet-ins are dropped", self.name)
            self._dropped += 1
            return
        self.events.put((ev, state))

    def _event_loop(self) -> None:
        while self.is_active or not self.events.empty():
            ev, state = self.events.get()
            if self._dropped and self.events.empty():
                LOG.warning("%s keeps up again: %d packet-ins were dropped", self.name, self._dropped)
                self._dropped = 0
            for handler in self.get_handlers(ev, state):
                try:
                    handler(ev)
                except hub.TaskExit:
                    raise
                except BaseException:
                    # As in Ryu, also `sys.exit()` in a handler ends only the handler.
                    name = getattr(handler, "__name__", handler)
                    LOG.exception("%s: handler %s failed with event %s", self.name, name, type(ev).__name__)


# os-ken's name of the same class.
OSKenApp = RyuApp


def _handles_in(handler: Any, ev_cls: type, state: str) -> bool:
    """Whether a handler wants events of a class in a state. A handler without a decorator wants all."""
    caller = getattr(handler, "callers", {}).get(ev_cls)
    return caller is None or not caller.dispatchers or state in caller.dispatchers


def _application_class(module: ModuleType) -> type | None:
    """Returns the application that a module defines: the first by name, as in Ryu."""
    for name in sorted(vars(module)):
        value = vars(module)[name]
        if isinstance(value, type) and issubclass(value, RyuApp) and value.__module__ == module.__name__:
            return value
    return None


def _imports_wsgi(module: ModuleType) -> bool:
    """Whether a module uses the classes for web interfaces."""
    return any(getattr(value, "__module__", None) == _WSGI for value in vars(module).values())


class AppManager:
    """Loads and starts the applications of this zone."""

    _instance: AppManager | None = None

    @staticmethod
    def get_instance() -> AppManager:
        """Returns the only instance."""
        if AppManager._instance is None:
            AppManager._instance = AppManager()
        return AppManager._instance

    @staticmethod
    def run_apps(app_lists: Iterable[str]) -> None:
        """Loads and starts applications, and returns when all their main threads have ended."""
        manager = AppManager.get_instance()
        manager.load_apps(app_lists)
        contexts = manager.create_contexts()
        services = manager.instantiate_apps(**contexts)
        try:
            hub.joinall(services)
        finally:
            manager.close()

    def __init__(self) -> None:
        self.applications_cls: dict[str, type] = {}
        self.applications: dict[str, RyuApp] = {}
        self.contexts_cls: dict[str, type] = {}
        self.contexts: dict[str, Any] = {}
        self.is_started = False  # whether all applications have started
        # Contexts that no application names: one imports the classes for web interfaces and may rely on another's context.
        self.undeclared: set[str] = set()

    def load_app(self, name: str) -> type | None:
        """Imports a module and returns its application class."""
        module = sys.modules.get(name) or importlib.import_module(name)
        return _application_class(module)

    def load_apps(self, app_lists: Iterable[str]) -> None:
        """Loads applications by the names of their modules, and those that they require."""
        waiting = [name for names in app_lists for name in names.split(",")]
        while waiting:
            module = sys.modules.get(waiting[0]) or importlib.import_module(waiting[0])
            waiting.pop(0)
            name = module.__name__  # of `ryu.X`, the one name that it has
            if name in self.applications_cls or name in self._context_modules():
                continue
            LOG.info("loading app %s", name)
            cls = self.load_app(name)
            if cls is None:
                continue
            self.applications_cls[name] = cls
            waiting.extend(self._required_by(cls))

    def _context_modules(self) -> set[str]:
        return {cls.__module__ for cls in self.contexts_cls.values()}

    def _required_by(self, cls: type) -> list[str]:
        """Notes the contexts of an application, and returns the modules that it and they require."""
        services: list[str] = []
        contexts = dict(cls.context_iteritems())  # type: ignore[attr-defined]
        if "wsgi" not in contexts and _imports_wsgi(sys.modules[cls.__module__]):
            # `rest_conf_switch` does not name it, and relies on another application that does.
            if "wsgi" not in self.contexts_cls:
                self.undeclared.add("wsgi")
            contexts["wsgi"] = sys.modules[_WSGI].WSGIApplication
        else:
            self.undeclared -= contexts.keys()
        for key, context in contexts.items():
            if self.contexts_cls.setdefault(key, context) is not context:
                raise AssertionError(f"two applications need different contexts by the name {key}")
            if issubclass(context, RyuApp):
                services.extend(get_dependent_services(context))
        services.extend(get_dependent_services(cls))
        return services

    def create_contexts(self) -> dict[str, Any]:
        """Makes the contexts of all loaded applications."""
        for key, cls in self.contexts_cls.items():
            LOG.info("creating context %s", key)
            self.contexts[key] = self._instantiate(cls) if issubclass(cls, RyuApp) else cls()
        return self.contexts

    def instantiate_apps(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Instantiates and starts all loaded applications, and returns their main threads."""
        for name, cls in list(self.applications_cls.items()):
            LOG.info("instantiating app %s of %s", name, cls.__name__)
            self._instantiate(cls, *args, **kwargs)
        self._update_bricks()
        threads = []
        for app in list(self.applications.values()):
            thread = app.start()
            if thread is not None:
                app.set_main_thread(thread)
                threads.append(thread)
        self.is_started = True
        return threads

    def instantiate(self, cls: type, *args: Any, **kwargs: Any) -> RyuApp:
        """Instantiates an application while others run. The caller starts it."""
        app = self._instantiate(cls, *args, **kwargs)
        self._update_bricks()
        return app

    def _instantiate(self, cls: type, *args: Any, **kwargs: Any) -> RyuApp:
        versions = getattr(cls, "OFP_VERSIONS", None)
        if versions is not None:
            try:
                ofproto_protocol.set_app_supported_versions(versions)
            except AssertionError:
                raise ValueError(
                    f"{cls.__name__} supports no version of OpenFlow that the other apps of this process support, too; Rosemary "
                    f"runs apps of OpenFlow {', '.join(wire.SPOKEN.values())}: name one of them in OFP_VERSIONS of each app"
                ) from None
        app = cls(*args, **{key: it for key, it in kwargs.items() if key not in self.undeclared or _accepts(cls, key)})
        register_app(app)
        self.applications[app.name] = app
        return app

    def _update_bricks(self) -> None:
        """Connects each handler with the application that generates its events."""
        for app in SERVICE_BRICKS.values():
            for _, callers in handlers_of(app):
                for ev_cls, caller in callers.items():
                    if caller.ev_source:
                        _observe(app, ev_cls, caller)

    @staticmethod
    def report_bricks() -> None:
        """Logs which application generates and handles which events."""
        for name, app in SERVICE_BRICKS.items():
            provided = [cls.__name__ for cls in app.observers]
            LOG.debug("%s generates %s and handles %s", name, provided, [it.__name__ for it in app.event_handlers])

    def uninstantiate(self, name: str) -> None:
        """Stops and removes an application."""
        app = self.applications.pop(name)
        unregister_app(app)
        for other in SERVICE_BRICKS.values():
            other.unregister_observer_all_event(name)
        app.stop()
        app.close()

    def close(self) -> None:
        """Stops all applications."""
        self.is_started = False
        for name in list(self.applications):
            self.uninstantiate(name)
        for context in self.contexts.values():
            close = getattr(context, "close", None)
            if callable(close):
                close()
        self.contexts.clear()


def _accepts(cls: type, name: str) -> bool:
    """Whether the constructor of an application has a parameter of this name, or takes any."""
    parameters = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
    return name in parameters or any(it.kind is it.VAR_KEYWORD for it in parameters.values())


def _observe(app: RyuApp, ev_cls: type, caller: Any) -> None:
    """Registers an application at those that generate events of a class."""
    brick = _lookup_service_brick_by_mod_name(caller.ev_source)
    if brick is not None:
        brick.register_observer(ev_cls, app.name, caller.dispatchers)
    generators = [other for other in SERVICE_BRICKS.values() if ev_cls in other._EVENTS]
    for other in generators:
        other.register_observer(ev_cls, app.name, caller.dispatchers)
    if brick is None and not generators and _is_of_others(ev_cls):
        LOG.info(
            "%s handles %s, which no app of this process has in its _EVENTS: %s", app.name, ev_cls.__qualname__, _TOGETHER
        )


def _is_of_others(ev_cls: type) -> bool:
    """Whether a class of events is made to reach observers, by a module that belongs to no application of this process.

    Requests, replies, and events between two applications that know each other are sent by the receiver's name.
    """
    own = {type(app).__module__.partition(".")[0] for app in SERVICE_BRICKS.values()}
    is_sent_by_name = issubclass(ev_cls, (EventRequestBase, EventReplyBase))
    return not is_sent_by_name and ev_cls.__module__.partition(".")[0] not in own | {"os_ken"}
