"""Remembers flow-mods that name a buffer of the switch, in case another application has used the buffer up.

Such a flow-mod is sent again without its buffer. One is forgotten when a later flow-mod may concern the same flow, because it would
undo that.
"""

from __future__ import annotations

from rosemary_ryu import wire
from rosemary_ryu.covering import flow_of, may_concern, names_one_flow

# The most flow-mods that are remembered.
MOST_BUFFERED = 256


class Buffered:
    """The flow-mods of one connection, by their transaction ids."""

    def __init__(self) -> None:
        self._kept: dict[int, bytes] = {}
        # Those that concern one flow, by it. Applications add flows again and again, so that must not take a search.
        self._by_flow: dict[tuple[int, int, bytes], int] = {}

    def keep(self, flow_mod: bytes) -> None:
        """Remembers a flow-mod."""
        if len(self._kept) >= MOST_BUFFERED:
            self.take(next(iter(self._kept)))
        xid = wire.xid_of(flow_mod)
        self.take(xid)
        self._kept[xid] = flow_mod
        if names_one_flow(flow_mod):
            self._by_flow[flow_of(flow_mod)] = xid

    def take(self, xid: int) -> bytes | None:
        """Returns a flow-mod, and forgets it."""
        flow_mod = self._kept.pop(xid, None)
        if flow_mod is not None and names_one_flow(flow_mod):
            flow = flow_of(flow_mod)
            if self._by_flow.get(flow) == xid:
                del self._by_flow[flow]
        return flow_mod

    def forget(self, later: bytes) -> None:
        """Forgets the flow-mods that may concern a flow of this one."""
        if not self._kept:
            return
        if names_one_flow(later) and len(self._by_flow) == len(self._kept):
            xid = self._by_flow.get(flow_of(later))
            if xid is not None:
                self.take(xid)
            return
        for xid in [xid for xid, it in self._kept.items() if may_concern(it, later)]:
            self.take(xid)
