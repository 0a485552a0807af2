"""Tests the variables and answers of web interfaces that Rosemary's HTTP interface serves."""

from __future__ import annotations

from typing import Any

import pytest

from rosemary_ryu import published


class Request:
    """A request, as the native module makes it."""

    method = "POST"
    path = "/a%20b/%C3%A4"
    query = "x=1"
    headers = [("host", "127.0.0.1:8182"), ("content-type", "application/json"), ("x-own", "y")]
    body = b"{}"

    def header(self, name: str) -> str | None:
        return dict(self.headers).get(name)


def test_variables_are_those_of_wsgi() -> None:
    variables = published.environ("web", Request())
    assert variables["SCRIPT_NAME"] == "/apps/web"
    assert variables["PATH_INFO"] == "/a b/\u00c3\u00a4"
    assert (variables["SERVER_NAME"], variables["SERVER_PORT"]) == ("127.0.0.1", "8182")
    assert (variables["CONTENT_TYPE"], variables["HTTP_X_OWN"]) == ("application/json", "y")
    assert variables["wsgi.input"].read() == b"{}"


def test_answer_has_all_parts_and_is_closed() -> None:
    closed = []

    class Parts:
        def __iter__(self) -> Any:
            return iter([b"b", b"c"])

        def close(self) -> None:
            closed.append(True)

    def application(_: Any, start_response: Any) -> Any:
        start_response("201 Created", [("x", "y")])(b"a")
        return Parts()

    assert published.call(application, {}) == (201, [("x", "y")], b"abc")
    assert closed == [True]


def test_failing_application_is_status_500(monkeypatch: pytest.MonkeyPatch) -> None:
    class Zone:
        name = "web"
        answers: list[Any] = []

        def respond(self, _: Any, response: Any) -> None:
            self.answers.append(response)

    def application(_: Any, start_response: Any) -> Any:
        raise KeyError("nothing")

    zone = Zone()
    published._serve(zone, application, Request())
    assert [answer.status for answer in zone.answers] == [500]


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("http://127.0.0.1:8182/apps/web/x?y", "/apps/web/x?y"),
        ("http://127.0.0.1:8182.attacker.example/", "http://127.0.0.1:8182.attacker.example/"),
        ("http://attacker.example/", "http://attacker.example/"),
        ("/x", "/x"),
    ],
)
def test_location_at_this_address_becomes_a_path(location: str, expected: str) -> None:
    variables = published.environ("web", Request())
    found = published.with_own_paths([("Location", location), ("x-a", "http://127.0.0.1:8182/x")], variables)
    assert found == [("Location", expected), ("x-a", "http://127.0.0.1:8182/x")]
