"""Converts addresses between text and bytes. `mac`, `ipv4` and `ipv6` each have `text_to_bin` and `bin_to_text`.

Each packet of an application takes about ten conversions. The usual forms of an address are converted here, because the package
netaddr takes a third of the time of such an application. netaddr converts the other forms, and raises the errors.
"""

from __future__ import annotations

import socket
from typing import Any

import netaddr


class _MacFormat(netaddr.mac_unix):  # type: ignore[misc]
    """Six groups of two digits, with colons."""

    word_fmt = "%.2x"


class _Mac:
    """Ethernet addresses."""

    def text_to_bin(self, text: Any) -> bytes:
        """Returns the six bytes of an address."""
        if isinstance(text, str) and len(text) == 17 and text[2::3] == ":::::":
            try:
                packed = bytes.fromhex(text.replace(":", ""))
            except ValueError:
                packed = b""
            if len(packed) == 6:
                return packed
        return bytes(netaddr.EUI(text, version=48, dialect=_MacFormat).packed)

    def bin_to_text(self, packed: bytes) -> str:
        """Returns an address as text in lower case."""
        if len(packed) == 6 and isinstance(packed, bytes):
            return packed.hex(":")
        return str(netaddr.EUI(netaddr.strategy.eui48.packed_to_int(packed), version=48, dialect=_MacFormat))


class _Ip:
    """Addresses of one version of IP."""

    def __init__(self, version: int, family: int, strategy: Any) -> None:
        self._version, self._family, self._strategy = version, family, strategy

    def text_to_bin(self, text: Any) -> Any:
        """Returns the bytes of an address, or those of a network's address and mask."""
        if isinstance(text, str):
            try:
                return socket.inet_pton(self._family, text)
            except (OSError, ValueError):
                pass
        try:
            return netaddr.IPAddress(text, version=self._version).packed
        except Exception:
            network = netaddr.IPNetwork(text, version=self._version)
            return network.ip.packed, network.netmask.packed

    def bin_to_text(self, packed: bytes) -> str:
        """Returns an address as text."""
        if len(packed) == 4 and self._version == 4:
            return socket.inet_ntop(socket.AF_INET, packed)
        return str(netaddr.IPAddress(self._strategy.packed_to_int(packed), version=self._version))


mac = _Mac()
ipv4 = _Ip(4, socket.AF_INET, netaddr.strategy.ipv4)
ipv6 = _Ip(6, socket.AF_INET6, netaddr.strategy.ipv6)
