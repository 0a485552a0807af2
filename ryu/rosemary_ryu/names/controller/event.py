"""Base classes of the events that applications send each other."""

from __future__ import annotations

from typing import Any


class EventBase:
    """An event. Its class decides which handlers receive it."""


class EventRequestBase(EventBase):
    """A request to another application, see `RyuApp.send_request`."""

    def __init__(self) -> None:
        super().__init__()
        self.dst: str | None = None  # name of the application that answers
        self.src: str | None = None
        self.sync = False
        self.reply_q: Any = None


class EventReplyBase(EventBase):
    """The answer to a request."""

    def __init__(self, dst: str | None) -> None:
        super().__init__()
        self.dst = dst
