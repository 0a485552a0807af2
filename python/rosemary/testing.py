"""A network for tests of apps: it records the messages that an app sends, and needs no Rosemary."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import Expect


class Sent(NamedTuple):
    """A message that the app sent: the name of the call, and its arguments."""

    call: str
    arguments: tuple[Any, ...]


class RecordingNetwork:
    """Stands for `network` in the callbacks of an app. `sent` has the messages, and `lines` the log."""

    def __init__(self, now: float = 0.0) -> None:
        self.sent: list[Sent] = []
        self.lines: list[tuple[str, str]] = []
        self.incidents: list[tuple[str, str]] = []
        self.problem: str | None = None
        """The problem that the app stated last."""
        self.stopped: list[int | None] = []
        self.connections: dict[int, Any] = {}
        """What `take` returns, by the number of the request; a test adds them."""
        self.wake_time: float | None = None
        self.timers: dict[str, tuple[float, float | None]] = {}
        """The timers with names: when each expires, and its period."""
        self.time = now
        self._xid = 0

    def _record(self, call: str, *arguments: Any) -> int:
        self._xid += 1
        self.sent.append(Sent(call, arguments))
        return self._xid

    def flow_mod(self, to, flow_mod) -> int:
        return self._record("flow_mod", to, flow_mod)

    def packet_out(self, to, actions, data, in_port=None) -> int:
        return self._record("packet_out", to, actions, data, in_port)

    def packet_out_for(self, packet_in, actions) -> int:
        return self._record("packet_out_for", packet_in, actions)

    def group_mod(self, to, command, group_id, buckets=(), group_type="all") -> int:
        return self._record("group_mod", to, command, group_id, buckets, group_type)

    def meter_mod(self, to, command, meter_id, bands=(), flags=("kbps",)) -> int:
        return self._record("meter_mod", to, command, meter_id, bands, flags)

    def commit(self, to, changes) -> int:
        return self._record("commit", to, list(changes))

    def barrier(self, to) -> int:
        return self._record("barrier", to)

    def request(self, to, what, matching=None, port=None) -> int:
        return self._record("request", to, what, matching, port)

    def respond(self, request, response) -> None:
        self._record("respond", request, response)

    def storage(self) -> RecordingStorage:
        return RecordingStorage(self)

    def connect(self, host: str, port: int) -> int:
        return self._record("connect", host, port)

    def take(self, request: int) -> Any:
        return self.connections.pop(request, None)

    def app_counters(self) -> int:
        return self._record("app_counters")

    def limit_app(self, app: str, measure, seconds: int, why: str) -> int:
        return self._record("limit_app", app, measure, seconds, why)

    def release_app(self, app: str) -> int:
        return self._record("release_app", app)

    def databases(self) -> int:
        return self._record("databases")

    def database_rows(self, database: str, table: str, after=None) -> int:
        return self._record("database_rows", database, table, after)

    def want_rows(self, database: str, rows) -> int:
        return self._record("want_rows", database, list(rows))

    def watch_database(self, database: str) -> int:
        return self._record("watch_database", database)

    def begin(self, number: int) -> bool:
        return True

    def stop(self, number: int | None = None) -> None:
        self.stopped.append(number)

    def now(self) -> float:
        return self.time

    def wake_at(self, seconds: float) -> None:
        self.wake_time = seconds if self.wake_time is None else min(self.wake_time, seconds)

    def set_timer(self, name: str, seconds: float) -> None:
        self.timers[name] = (seconds, None)

    def repeat_timer(self, name: str, seconds: float) -> None:
        self.timers[name] = (self.time + seconds, seconds)

    def cancel_timer(self, name: str) -> bool:
        return self.timers.pop(name, None) is not None

    def begin_wake(self) -> tuple[list[str], bool]:
        expired = sorted((it for it in self.timers.items() if it[1][0] <= self.time), key=lambda it: it[1][0])
        for name, (at, every) in expired:
            if every is None:
                del self.timers[name]
            else:
                self.timers[name] = (max(at, self.time - every) + every, every)
        is_due = self.wake_time is not None and self.wake_time <= self.time
        return [name for name, _ in expired], is_due or not expired

    def incident(self, summary: str, evidence: str) -> None:
        self.incidents.append((summary, evidence))

    def set_problem(self, text: str | None) -> None:
        self.problem = text or None

    def error(self, text: str) -> None:
        self.lines.append(("error", text))

    def warn(self, text: str) -> None:
        self.lines.append(("warn", text))

    def info(self, text: str) -> None:
        self.lines.append(("info", text))

    def debug(self, text: str) -> None:
        self.lines.append(("debug", text))


class RecordingStorage:
    """Stands for `network.storage()`. Each call returns the number of its request, for a `StorageEvent`."""

    def __init__(self, network: RecordingNetwork, namespace: str = "") -> None:
        self._network, self._namespace = network, namespace

    def of(self, app: str) -> RecordingStorage:
        return RecordingStorage(self._network, app)

    def _record(self, call: str, *arguments: Any) -> int:
        return self._network._record(f"storage.{call}", self._namespace, *arguments)

    def get(self, key: bytes) -> int:
        return self._record("get", key)

    def put(self, key: bytes, value: bytes, expect: Expect = Expect.ANYTHING) -> int:
        return self._record("put", key, value, expect)

    def delete(self, key: bytes, expect: Expect = Expect.ANYTHING) -> int:
        return self._record("delete", key, expect)

    def list(self, prefix: bytes, after: bytes | None = None) -> int:
        return self._record("list", prefix, after)

    def watch(self, prefix: bytes) -> int:
        return self._record("watch", prefix)

    def unwatch(self, watch: int) -> int:
        return self._record("unwatch", watch)
