"""The entry of a zone with a Ryu application: `main`."""

from __future__ import annotations

import logging
import os
import warnings
from typing import Any

from rosemary_ryu import __version__, faucet_state, finder, listening

LOG = logging.getLogger("rosemary.ryu")

# Options that take no value.
_FLAGS = {
    "observe-links",
    "verbose",
    "use-stderr",
    "use-syslog",
    "enable-debugger",
    "install-lldp-flow",
    "explicit-drop",
}

# An option that replaces the flows of an earlier life without a gap (`renewal.py`).
_RENEWS = "renew-flows"


def arguments(options: dict[str, str], listeners: list[listening.Listener]) -> list[str]:
    """Returns the options of the zone as those of `ryu-manager`. The web server has the port of the listener `wsapi`."""
    found = [f"--wsapi-port={it.port}" for it in listeners if it.name == "wsapi"]
    for name, value in options.items():
        if name == _RENEWS:
            continue
        if name in _FLAGS:
            is_on = value.lower() in ("", "1", "true", "yes", "on")
            found.append(f"--{name}" if is_on else f"--no{name}")
        else:
            found.append(f"--{name}={value}")
    return found


def main(zone: Any) -> None:
    """Loads and runs the applications of a zone, until the zone is to stop."""
    prepare(zone)
    from os_ken.base.app_manager import AppManager
    from os_ken.cmd import manager

    manager.read_options(arguments(zone.options, zone.listeners))
    names = [module.__name__ for module in zone.load()]
    faucet_state.watch(_state_problem)
    services = manager.start(AppManager.get_instance(), names)
    _run(services)


def _state_problem(text: str | None) -> None:
    """States a problem of this zone in the next turn; `None` ends it."""
    from rosemary_ryu.zone_hub import ZoneHub

    ZoneHub.problems.append(text)


def prepare(zone: Any) -> Any:
    """Makes eventlet and the modules of Ryu run in this zone. Returns the switchboard."""
    os.environ.setdefault("EVENTLET_NO_GREENDNS", "yes")
    # Without it, `~` is looked up in the system's users, which takes a socket.
    os.environ.setdefault("HOME", "/tmp")
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    finder.install()
    with warnings.catch_warnings():
        # eventlet warns everybody that it is in maintenance only.
        warnings.simplefilter("ignore")
        import eventlet
        import eventlet.hubs

    from rosemary_ryu.zone_hub import ZoneHub

    ZoneHub.zone = zone
    eventlet.hubs.use_hub(ZoneHub)
    eventlet.monkey_patch(thread=False)
    listening.provide(zone.listeners)

    from rosemary_ryu import green_asyncio

    green_asyncio.install()

    from rosemary_ryu.databases import Databases
    from rosemary_ryu.numbers import Numbers
    from rosemary_ryu.switchboard import Switchboard

    numbers = Numbers(zone.numbers.band, zone.numbers.groups, zone.numbers.meters)
    board = Switchboard(zone, numbers, _full(), zone.options.get(_RENEWS) == "true")
    ZoneHub.databases = Databases(zone)
    ZoneHub.served = ZoneHub.databases.served
    ZoneHub.arrived = board.arrived
    ZoneHub.send_unsent = board.send_unsent
    ZoneHub.before_run = _once(lambda: zone.loaded(__version__))
    eventlet.spawn(board.run)
    return board


def _full() -> type[Exception]:
    import rosemary

    full: type[Exception] = rosemary.Full
    return full


def _once(call: Any) -> Any:
    """Returns a static method that calls `call` the first time."""
    waiting = [call]

    def run() -> None:
        if waiting:
            waiting.pop()()

    return staticmethod(run)


def _run(services: list[Any]) -> None:
    """Gives control to the zone's loop until the zone is to stop."""
    import eventlet.hubs

    # An application's main thread may end, but the zone goes on: others of the bundle may work.
    eventlet.hubs.get_hub().switch()
    LOG.info("the zone stops")
    del services
