"""A fake of the service `ovsdb`: a database in memory, and the classes of the native module for it."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import fake

OWNER = "000000000001/test"

ADDRESS = "tcp:127.0.0.1:6640"


class OvsdbRefused(Exception):
    """A request was refused."""


class Unavailable(Exception):
    """The service does not run."""


class AskError(Exception):
    """A request was not sent."""


@dataclass(frozen=True)
class Ref:
    """A reference to a row by its name."""

    kind: str
    name: str

    @staticmethod
    def wanted(key: str) -> Ref:
        return Ref("wanted", key)

    @staticmethod
    def port(name: str) -> Ref:
        return Ref("port", name)


@dataclass
class WantedRow:
    """A wanted row."""

    table: str
    key: str
    columns: dict[str, Any]
    under: tuple[str, str, str] | None = None

    def __init__(self, table: str, key: str, columns: Any = None, *, under: Any = None) -> None:
        self.table, self.key, self.columns, self.under = table, key, dict(columns or {}), under


@dataclass
class DatabaseRow:
    """A row."""

    id: uuid.UUID
    columns: dict[str, Any]

    def one(self, column: str) -> Any:
        value = self.columns.get(column)
        return value[0] if isinstance(value, list) and len(value) == 1 else None

    def entry(self, column: str, key: Any) -> Any:
        return self.columns.get(column, {}).get(key)


def _names(columns: dict[str, Any]) -> set[str]:
    """Returns the keys of wanted rows to which columns refer."""
    values = [it for value in columns.values() for it in (value.values() if isinstance(value, dict) else value)]
    return {it.name for it in values if isinstance(it, Ref) and it.kind == "wanted"}


def install() -> None:
    """Gives the fake native module these classes."""
    native = sys.modules["rosemary"]
    for it in (OvsdbRefused, Unavailable, AskError, Ref, WantedRow):
        setattr(native, it.__name__, it)


@dataclass
class Service:
    """The service with one database, which has a bridge `s1` with two ports."""

    zone: fake.Zone
    tables: dict[str, dict[uuid.UUID, dict[str, Any]]] = field(default_factory=dict)
    refuses: Callable[[WantedRow], str | None] = lambda row: None
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    is_named: bool = True
    is_silent: bool = False

    def __post_init__(self) -> None:
        install()
        zone: Any = self.zone
        zone.databases, zone.database_rows, zone.want_rows = self.databases, self.database_rows, self.want_rows
        interfaces = {
            f"s1-eth{it}": self.add("Interface", name=[f"s1-eth{it}"], type=[""], ofport=[it], options={}) for it in (1, 2)
        }
        gre = self.add(
            "Interface", name=["gre0"], type=["gre"], ofport=[3], options={"remote_ip": "192.0.2.9", "local_ip": "192.0.2.1"}
        )
        local = self.add("Interface", name=["s1"], type=["internal"], ofport=[65534], options={})
        interfaces |= {"gre0": gre, "s1": local}
        ports = [self.add("Port", name=[name], interfaces=[it], qos=[]) for name, it in interfaces.items()]
        controller = self.add("Controller", target=["tcp:127.0.0.1:6653"], is_connected=[True])
        self.add("Bridge", name=["s1"], datapath_id=["0000000000000001"], ports=ports, controller=[controller], fail_mode=[])

    def add(self, table: str, **columns: Any) -> uuid.UUID:
        row = uuid.uuid4()
        self.tables.setdefault(table, {})[row] = {"external_ids": {}, **columns}
        return row

    def all(self, table: str) -> list[dict[str, Any]]:
        return list(self.tables.get(table, {}).values())

    def named(self, table: str, name: str) -> dict[str, Any]:
        return next(it for it in self.all(table) if it["name"] == [name])

    def own(self, table: str) -> list[dict[str, Any]]:
        return [it for it in self.all(table) if it["external_ids"].get("rosemary-owner") == OWNER]

    def answer(self, *request: Any, **fields: Any) -> int:
        self.asked.append(request)
        if not self.is_named:
            raise AskError("the app does not name the service ovsdb")
        number = len(self.asked)
        if not self.is_silent:
            answer = SimpleNamespace(**fields)
            self.zone.incoming.append(fake.event("OvsdbEvent", request=number, result=lambda: answer))
        return number

    def databases(self) -> int:
        database = SimpleNamespace(name="edge", address=ADDRESS, connected=True, why="")
        return self.answer("databases", kind="databases", owner=OWNER, databases=[database])

    def database_rows(self, database: str, table: str, after: Any = None) -> int:
        # Each answer has one row.
        rows = sorted(self.tables.get(table, {}).items())
        rows = [(it, columns) for it, columns in rows if after is None or it > after]
        first = [DatabaseRow(it, columns) for it, columns in rows[:1]]
        return self.answer("rows", table, kind="rows", rows=first, more=len(rows) > 1)

    def want_rows(self, database: str, rows: list[WantedRow]) -> int:
        refused = [(row.key, why) for row in rows if (why := self.refuses(row))]
        depends = [
            (row.key, "it refers to a refused row") for row in rows if _names(row.columns) & {key for key, _ in refused}
        ]
        refused += depends
        wanted = {row.key: row for row in rows if row.key not in dict(refused)}
        ids = {}
        for table in self.tables.values():
            for it, columns in list(table.items()):
                if columns["external_ids"].get("rosemary-owner") == OWNER:
                    key = columns["external_ids"]["rosemary-key"]
                    if key in wanted:
                        ids[key] = it
                    else:
                        del table[it]
                        self._forget(it)
        for key, row in wanted.items():
            if key not in ids:
                ids[key] = self.add(row.table, name=[], external_ids={"rosemary-owner": OWNER, "rosemary-key": key})
        for key, row in wanted.items():
            mine = self.tables[row.table][ids[key]]
            mine.update({name: self._value(value, ids) for name, value in row.columns.items()})
            if row.under is not None:
                table, name, column = row.under
                references = self.named(table, name)[column]
                if ids[key] not in references:
                    references.append(ids[key])
        return self.answer("want", rows, kind="wanted", done=True, refused=refused)

    def _forget(self, row: uuid.UUID) -> None:
        for table in self.tables.values():
            for columns in table.values():
                for name, value in columns.items():
                    if isinstance(value, list) and row in value:
                        columns[name] = [it for it in value if it != row]

    @staticmethod
    def _value(value: Any, ids: dict[str, uuid.UUID]) -> Any:
        def atom(it: Any) -> Any:
            return ids[it.name] if isinstance(it, Ref) else it

        if isinstance(value, dict):
            return {key: atom(it) for key, it in value.items()}
        return [atom(it) for it in (value if isinstance(value, list) else [value])]
