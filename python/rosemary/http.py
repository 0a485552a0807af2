"""Answers to HTTP requests: `Response`."""

from __future__ import annotations

import json as _json
from typing import Any, Iterable


class Response:
    """An app's answer to an HTTP request.

    `body` is text or bytes. A browser runs no script of it and loads nothing for it.
    """

    def __init__(
        self,
        status: int = 200,
        body: str | bytes = b"",
        media_type: str = "text/plain; charset=utf-8",
        headers: Iterable[tuple[str, str]] = (),
    ) -> None:
        self.status = status
        self.headers = [("content-type", media_type), *headers]
        self.body = body.encode() if isinstance(body, str) else bytes(body)

    @classmethod
    def html(cls, body: str, status: int = 200) -> Response:
        """Makes an answer of HTML."""
        return cls(status, body, "text/html; charset=utf-8")

    @classmethod
    def json(cls, value: Any, status: int = 200) -> Response:
        """Makes an answer of a value in JSON."""
        return cls(status, _json.dumps(value), "application/json")

    def __repr__(self) -> str:
        return f"Response({self.status}, {len(self.body)} bytes)"
