"""Tables of a switch's database as rows with attributes, as `ryu.lib.ovs` has them, and the values of columns as text."""

from __future__ import annotations

import logging
import re
import uuid
from typing import Any

from rosemary_ryu import databases

LOG = logging.getLogger("ryu.lib.ovs.vsctl")

# Columns that always have one value, which a row has in the place of a list.
_SCALARS = {
    "Open_vSwitch": {"cur_cfg", "next_cfg"},
    "Bridge": {"name", "datapath_type", "rstp_enable", "stp_enable"},
    "Controller": {"target", "is_connected"},
    "SSL": {"private_key", "certificate", "ca_cert"},
    "Port": {"name"},
    "Interface": {"name", "type"},
    "QoS": {"type"},
    "Mirror": {"name", "select_all"},
    "NetFlow": {"active_timeout", "add_id_to_interface"},
}

# The table of the rows to which a column refers.
_REFERENCES = {
    ("Open_vSwitch", "bridges"): "Bridge",
    ("Open_vSwitch", "ssl"): "SSL",
    ("Bridge", "ports"): "Port",
    ("Bridge", "mirrors"): "Mirror",
    ("Bridge", "netflow"): "NetFlow",
    ("Bridge", "sflow"): "sFlow",
    ("Bridge", "controller"): "Controller",
    ("Port", "interfaces"): "Interface",
    ("Port", "qos"): "QoS",
    ("QoS", "queues"): "Queue",
    ("Mirror", "select_src_port"): "Port",
    ("Mirror", "select_dst_port"): "Port",
    ("Mirror", "output_port"): "Port",
}

_TABLES = ("Open_vSwitch", "Bridge", "Controller", "SSL", "Port", "Interface", "QoS", "Queue", "Mirror", "NetFlow", "sFlow")

# Where the name of a record is found: a table, and its reference to the record if that is another row.
_RECORDS = {
    "Bridge": ("Bridge", None),
    "Port": ("Port", None),
    "Interface": ("Interface", None),
    "Mirror": ("Mirror", None),
    "Controller": ("Bridge", "controller"),
    "NetFlow": ("Bridge", "netflow"),
    "sFlow": ("Bridge", "sflow"),
    "QoS": ("Port", "qos"),
}

MAPS = {"other_config", "external_ids", "options", "status", "statistics", "queues", "rstp_status"}
_INTEGERS = {"tag", "trunks", "dscp", "ofport"}


def vsctl_fatal(msg: str) -> Any:
    """Logs why a command failed, and raises an exception."""
    LOG.error(msg)
    raise Exception(msg)


class Row:
    """A row. Its attributes are the columns; references are rows."""

    def __init__(self, tables: Tables, table: str, row: Any) -> None:
        self.uuid, self.table = row.id, table
        self._tables, self._row = tables, row

    def __getattr__(self, column: str) -> Any:
        value = None if column.startswith("_") else self._row.columns.get(column)
        if value is None:
            raise AttributeError(f"{self.__dict__.get('table')} has no column {column}")
        target = _REFERENCES.get((self.table, column))
        if target is not None:
            value = self._tables.referred(target, value)
        if column in _SCALARS.get(self.table, ()) and len(value) == 1:
            return value[0]
        return dict(value) if isinstance(value, dict) else list(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and self.uuid == other.uuid

    def __hash__(self) -> int:
        return hash(self.uuid)

    def __repr__(self) -> str:
        return f"<{self.table} {self.uuid} {self._row.columns}>"


class Tables:
    """The tables of a database. Each is read once."""

    def __init__(self, database: databases.Database) -> None:
        self.database = database
        self._tables: dict[str, dict[uuid.UUID, Row]] = {}

    def rows(self, table: str) -> list[Row]:
        """Returns the rows of a table."""
        return list(self._table(table).values())

    def _table(self, table: str) -> dict[uuid.UUID, Row]:
        if table not in self._tables:
            self._tables[table] = {row.id: Row(self, table, row) for row in self.database.rows(table)}
        return self._tables[table]

    def referred(self, table: str, value: Any) -> Any:
        """Returns the rows to which a column refers; a row that is gone is left out."""
        rows = self._table(table)
        if isinstance(value, dict):
            return {key: rows[it] for key, it in value.items() if it in rows}
        return [rows[it] for it in value if it in rows]

    def named(self, table: str, name: str) -> Row | None:
        """Returns the row with a name."""
        return next((row for row in self.rows(table) if row.name == name), None)

    def bridge(self, name: str) -> Row:
        """Returns the bridge with a name, or fails."""
        found = self.named("Bridge", name)
        return found if found is not None else vsctl_fatal(f"no bridge named {name}")

    def is_own(self, row: Row) -> bool:
        """Whether this zone wants a row, or did so in an earlier life."""
        return bool(getattr(row, "external_ids", {}).get(databases.OWNER) == self.database.owner)

    def own(self, table: str, keys: list[str]) -> list[Row]:
        """Returns the zone's own rows with these keys, in their order."""
        own = {row.external_ids.get(databases.KEY): row for row in self.rows(table) if self.is_own(row)}
        return [own[key] for key in keys if key in own]

    def record(self, table: str, record: str) -> Row | None:
        """Returns the row that a record names, by its identifier or name."""
        try:
            return self._table(table).get(uuid.UUID(record))
        except ValueError:
            pass
        if table == "Open_vSwitch" and record == ".":
            return next(iter(self.rows(table)), None)
        of, reference = _RECORDS.get(table, (None, None))
        row = self.named(of, record) if of is not None else None
        if row is None or reference is None:
            return row
        referred = getattr(row, reference)
        return referred[0] if len(referred) == 1 else None

    def must_have(self, table: str, record: str) -> Row:
        """Returns the row that a record names, or fails."""
        found = self.record(table, record)
        return found if found is not None else vsctl_fatal(f'no row "{record}" in table {table}')


def table_of(name: str) -> str:
    """Returns the table of a name, which may be shortened."""
    given = name.lower().replace("-", "_")
    exact = [it for it in _TABLES if it.lower() == given]
    found = exact or [it for it in _TABLES if it.lower().startswith(given)]
    if len(found) != 1:
        vsctl_fatal(f'{"multiple table names match" if found else "unknown table"} "{name}"')
    return found[0]


def column_value(setting: str) -> tuple[str, str]:
    """Divides `COLUMN:KEY=VALUE` or `COLUMN=VALUE` into the column and the rest."""
    head = re.match(r"(\w+)[:=](.*)", setting, re.DOTALL)
    return (head.group(1), head.group(2)) if head else vsctl_fatal(f"{setting} has no value; write COLUMN=VALUE")


def value(column: str, text: str) -> Any:
    """Reads the value of a column: a dict or a list."""
    if text.startswith(("{", "[")):
        return vsctl_fatal(f"{text} is not supported; write the values, with commas between them")
    if column in MAPS:
        pairs = (it.partition("=") for it in text.split(","))
        return {_atom("", key): _atom("", it) for key, _, it in pairs}
    return [_atom(column, it) for it in text.split(",")]


def _atom(column: str, text: str) -> Any:
    text = text.strip().strip('"')
    if column not in _INTEGERS:
        return text
    return int(text) if text.lstrip("-").isdigit() else vsctl_fatal(f"{column} is a number, and {text!r} is none")


def has(row: Row, column: str, text: str) -> bool:
    """Whether a column has a value; a map has it if one entry has."""
    found, given = getattr(row, column, None), value(column, text)
    if isinstance(given, dict):
        return isinstance(found, dict) and any(_shown(found.get(key)) == it for key, it in given.items())
    have = found if isinstance(found, list) else [found]
    return sorted(map(_shown, have)) == sorted(map(_shown, given))


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value.uuid) if isinstance(value, Row) else str(value)
