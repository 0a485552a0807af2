"""Asks for switches, links and hosts. Importing this module loads the application that knows them."""

from __future__ import annotations

from typing import Any

from os_ken.base import app_manager
from os_ken.topology import event


def get_switch(app: Any, dpid: int | None = None) -> Any:
    """Returns the switch with this datapath id, or all, as a list."""
    return app.send_request(event.EventSwitchRequest(dpid)).switches


def get_all_switch(app: Any) -> Any:
    """Returns all switches."""
    return get_switch(app)


def get_link(app: Any, dpid: int | None = None) -> Any:
    """Returns the links from one switch, or all."""
    return app.send_request(event.EventLinkRequest(dpid)).links


def get_all_link(app: Any) -> Any:
    """Returns all links."""
    return get_link(app)


def get_host(app: Any, dpid: int | None = None) -> Any:
    """Returns the hosts of one switch, or all."""
    return app.send_request(event.EventHostRequest(dpid)).hosts


def get_all_host(app: Any) -> Any:
    """Returns all hosts."""
    return get_host(app)


app_manager.require_app("os_ken.topology.switches", api_style=True)
