"""The databases of switches, by the service `ovsdb`: reads tables, and keeps the rows that this zone wants there.

A green thread sends a request and waits for the answer, which the loop of the zone brings (`served`). The service takes all
wanted rows of a database at once, so this module keeps them: a change is made on a copy, and counts once the service has
accepted it. The rows of an earlier life are read from the database before the first change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import eventlet
import eventlet.event
import eventlet.semaphore

LOG = logging.getLogger("rosemary.ryu")

OWNER, KEY = "rosemary-owner", "rosemary-key"

# Columns of tables that the rows of an earlier life keep: the columns that commands write, if they are not empty.
KEPT = {
    "QoS": ("type", "other_config", "queues"),
    "Queue": ("dscp", "other_config"),
    "Port": ("name", "interfaces", "tag", "trunks", "vlan_mode", "bond_mode", "lacp", "other_config"),
    "Interface": ("name", "type", "options"),
}

# Columns of other rows that refer to wanted rows.
_PARENTS = {"QoS": ("Port", "qos"), "Port": ("Bridge", "ports")}

# The settings with which an app may use databases.
_REMEDY = (
    'add services = ["ovsdb"] and the capability "ovsdb.read" to its [[app]], '
    "and an [[ovsdb]] for the database (docs/ovsdb.md)"
)


class DatabaseError(Exception):
    """A database cannot be used, or lacks a wanted row."""


@dataclass
class Wanted:
    """A wanted row. References in `columns` are `uuid.UUID`, `wanted(key)` or `port(name)`."""

    table: str
    columns: dict[str, Any] = field(default_factory=dict)
    under: tuple[str, str, str] | None = None

    def copy(self) -> Wanted:
        """Returns a row whose changes leave this one as it is."""
        columns = {name: type(it)(it) if isinstance(it, (list, dict)) else it for name, it in self.columns.items()}
        return Wanted(self.table, columns, self.under)


def wanted(key: str) -> Any:
    """Returns a reference to the wanted row with this key."""
    return _sdk().Ref.wanted(key)


def _sdk() -> Any:
    import rosemary

    return rosemary


class Database:
    """One database of the configuration."""

    def __init__(self, databases: Databases, name: str, owner: str) -> None:
        self.name, self.owner = name, owner
        self._databases = databases
        self._wanted: dict[str, Wanted] | None = None
        self._changing = eventlet.semaphore.Semaphore()

    def rows(self, table: str) -> list[Any]:
        """Returns all rows of a table."""
        rows: list[Any] = []
        after = None
        while True:
            answer = self._databases.ask(self._databases.zone.database_rows, self.name, table, after)
            rows += answer.rows
            if not answer.more or not answer.rows:
                return rows
            after = answer.rows[-1].id

    def is_own(self, row: Any) -> bool:
        """Whether this zone wants a row, or did so in an earlier life."""
        return bool(row.entry("external_ids", OWNER) == self.owner)

    @contextmanager
    def change(self) -> Any:
        """Yields the wanted rows by their keys, to be changed, and brings the change about at the end.

        Raises `DatabaseError` if the database lacks one of the rows; it then has those of before.
        """
        with self._changing:
            if self._wanted is None:
                self._wanted = self._of_earlier_life()
            before = self._wanted
            now = {key: row.copy() for key, row in before.items()}
            yield now
            if now == before:
                return
            try:
                self._state(now)
            except DatabaseError:
                self._state(before, is_repair=True)
                raise
            self._wanted = now

    def restate(self) -> None:
        """States the rows again: the service has restarted."""
        with self._changing:
            if self._wanted is not None:
                self._state(self._wanted, is_repair=True)

    def _state(self, rows: dict[str, Wanted], is_repair: bool = False) -> None:
        rosemary = _sdk()
        made = [rosemary.WantedRow(row.table, key, row.columns, under=row.under) for key, row in rows.items()]
        try:
            answer = self._databases.ask(self._databases.zone.want_rows, self.name, made)
        except DatabaseError as error:
            if not is_repair:
                raise
            LOG.error("the rows in the database %s were not stated again: %s", self.name, error)
            return
        if is_repair:
            return
        refused = [f"{key}: {why}" for key, why in answer.refused]
        if refused:
            raise DatabaseError(f"the database {self.name} lacks rows of this app: " + "; ".join(refused))
        if not answer.done:
            raise DatabaseError(f"the database {self.name} is not connected")

    def _of_earlier_life(self) -> dict[str, Wanted]:
        tables = {table: self.rows(table) for table in (*KEPT, "Bridge")}
        keys = {row.id: row.entry("external_ids", KEY) for table in KEPT for row in tables[table] if self.is_own(row)}

        def kept(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: kept(it) for key, it in value.items()}
            if isinstance(value, list):
                return [kept(it) for it in value]
            return wanted(keys[value]) if value in keys else value

        found = {}
        for table, columns in KEPT.items():
            for row in tables[table]:
                if row.id not in keys:
                    continue
                filled = {name: kept(row.columns[name]) for name in columns if row.columns.get(name)}
                found[keys[row.id]] = Wanted(table, filled, self._parent(table, row, tables))
        return found

    @staticmethod
    def _parent(table: str, row: Any, tables: dict[str, list[Any]]) -> tuple[str, str, str] | None:
        of, column = _PARENTS.get(table, ("", ""))
        parents = (it for it in tables.get(of, ()) if row.id in it.columns.get(column, ()))
        name = next((it.one("name") for it in parents), None)
        return (of, name, column) if isinstance(name, str) else None


class Databases:
    """All databases, for the green threads of one zone."""

    def __init__(self, zone: Any) -> None:
        self.zone = zone
        self._waiting: dict[int, eventlet.event.Event] = {}
        self._known: dict[str, Database] = {}

    def at(self, address: str) -> Database:
        """Returns the database that the configuration has at an address."""
        answer = self.ask(self.zone.databases)
        wanted_address = _normal(address)
        found = [it for it in answer.databases if _normal(it.address) == wanted_address]
        if not found:
            raise DatabaseError(
                f"the configuration has no database at {address}; add [[ovsdb]] with name and address = {address!r}"
            )
        name = found[0].name
        if not found[0].connected:
            raise DatabaseError(f"the database {name} at {address} is not connected: {found[0].why}")
        if name not in self._known:
            self._known[name] = Database(self, name, answer.owner)
        return self._known[name]

    def ask(self, request: Callable[..., int], *arguments: Any) -> Any:
        """Sends a request with these arguments and waits for its answer."""
        rosemary = _sdk()
        try:
            number = request(*arguments)
        except rosemary.AskError as error:
            raise DatabaseError(f"{error}; if this app is to use databases of switches, {_REMEDY}") from error
        waiting = self._waiting[number] = eventlet.event.Event()
        try:
            return waiting.wait()
        except (rosemary.OvsdbRefused, rosemary.Unavailable) as error:
            raise DatabaseError(str(error)) from error
        finally:
            self._waiting.pop(number, None)

    def served(self, event: Any) -> None:
        """Takes an answer of the service, or the news that a service has started. Called by the zone's loop."""
        if type(event).__name__ == "ServiceUp":
            if event.service == "ovsdb":
                eventlet.spawn(self._restate, list(self._known.values()))
            return
        waiting = self._waiting.pop(event.request, None)
        if waiting is None:
            return  # an answer to a part, or to a request whose time is over
        try:
            answer = event.result()
        except Exception as error:
            waiting.send_exception(error)
        else:
            waiting.send(answer)

    @staticmethod
    def _restate(databases: Iterable[Database]) -> None:
        for database in databases:
            database.restate()


def _normal(address: str) -> str:
    """Returns an address in the form in which two of them are compared."""
    kind, _, rest = address.partition(":")
    if kind in ("tcp", "ssl") and not rest.rpartition("]")[2].count(":"):
        return f"{kind}:{rest}:6640"
    return address
