"""Refuses connections to OVSDB: a zone has no network, and Rosemary does not speak this protocol.

Applications that use it only on request, such as `rest_qos`, run without these requests.
"""

from __future__ import annotations

from typing import Any

from os_ken import exception


class OVSBridgeNotFound(exception.OSKenException):  # type: ignore[misc]
    """No connection to the database of the switch."""

    message = "no bridge for datapath_id %(datapath_id)s: OVSDB is not supported"


class OVSBridge:
    """A bridge that would be configured through OVSDB."""

    def __init__(self, CONF: Any, datapath_id: int, ovsdb_addr: str, *args: Any, **kwargs: Any) -> None:
        self.datapath_id, self.ovsdb_addr = datapath_id, ovsdb_addr

    def init(self) -> None:
        """Raises `OVSBridgeNotFound`."""
        raise OVSBridgeNotFound(datapath_id=self.datapath_id)

    def __getattr__(self, name: str) -> Any:
        raise OVSBridgeNotFound(datapath_id=self.__dict__.get("datapath_id"))
