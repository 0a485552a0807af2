"""Runs commands like those of `ovs-vsctl`, by Rosemary's service `ovsdb`.

The address of a `VSCtl` selects the database of the configuration. Commands that read are answered from its tables. Commands
that write become wanted rows of the app, which Rosemary repairs, and removes when the app leaves the configuration: a command
changes only rows that the app has made. All changes of one call of `run_command` are stated together.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from os_ken.lib import hub, ip
from os_ken.lib.stringify import StringifyMixin

from rosemary_ryu import databases
from rosemary_ryu.ovs_tables import MAPS, Row, Tables, column_value, has, table_of, value, vsctl_fatal
from rosemary_ryu.zone_hub import ZoneHub

_ROSEMARY = "Rosemary controls this bridge; `rosemary switch adopt` sets its controller and fail mode"
_OPERATOR = "bridges belong to the operator; use ovs-vsctl on the switch"

# Commands of Ryu's library that are refused, with the reason.
_REFUSED = {
    "set-controller": _ROSEMARY,
    "del-controller": _ROSEMARY,
    "set-fail-mode": _ROSEMARY,
    "del-fail-mode": _ROSEMARY,
    "add-br": _OPERATOR,
    "del-br": _OPERATOR,
    "br-set-external-id": _OPERATOR,
    "add-bond": "apps add no bonds; use ovs-vsctl on the switch",
}


def valid_ovsdb_addr(addr: str) -> bool:
    """Whether an address has the form `unix:FILE`, `tcp:IP:PORT` or `ssl:IP:PORT`."""
    # A zone does not see the file of a unix socket: the service connects to it.
    if re.match(r"unix:\S+", addr):
        return True
    match = re.match(r"(tcp|ssl):(\S+):(\d+)", addr)
    if match is None:
        return False
    address = match.group(2)
    if "[" in address:
        return bool(ip.valid_ipv6(address.strip("[").strip("]")))
    return bool(ip.valid_ipv4(address))


class VSCtlCommand(StringifyMixin):  # type: ignore[misc]
    """A command, its arguments and its options as `ovs-vsctl` has them. `result` has the result."""

    def __init__(self, command: str, args: Any = None, options: Any = None) -> None:
        super().__init__()
        self.command = command
        self.args = args or []
        self.options = options or []
        self.result: Any = None

    def has_option(self, option: str) -> bool:
        """Whether the command has an option."""
        return option in self.options


class VSCtl:
    """The database at an address, which the configuration must have as `[[ovsdb]]`."""

    def __init__(self, remote: str) -> None:
        self.remote = remote

    def run_command(self, commands: list[VSCtlCommand], timeout_sec: float | None = None, exception: Any = None) -> None:
        """Runs commands and fills their `result`. Raises an exception after `timeout_sec` seconds."""
        if timeout_sec is None:
            self._run(commands)
            return
        with hub.Timeout(timeout_sec, exception):
            self._run(commands)

    def _run(self, commands: list[VSCtlCommand]) -> None:
        for command in commands:
            if command.command in _REFUSED:
                vsctl_fatal(f"{command.command} is refused: {_REFUSED[command.command]}")
            if command.command not in _READ and command.command not in _WRITE:
                vsctl_fatal(f"{command.command} is not supported")
        try:
            database = ZoneHub.databases.at(self.remote)
            tables = Tables(database)
            writes = [it for it in commands if it.command in _WRITE]
            if writes:
                with database.change() as wanted:
                    made = [(it, _WRITE[it.command](tables, wanted, it)) for it in writes]
                tables = Tables(database)
                for command, result in made:
                    if result is not None:
                        command.result = tables.own(*result)
            for command in commands:
                if command.command in _READ:
                    command.result = _READ[command.command](tables, command)
        except databases.DatabaseError as error:
            vsctl_fatal(str(error))


# -- commands that read


def _init(tables: Tables, command: VSCtlCommand) -> None:
    return None


def _show(tables: Tables, command: VSCtlCommand) -> str:
    lines = []
    for bridge in tables.rows("Bridge"):
        lines.append(f"    Bridge {bridge.name}")
        for port in bridge.ports:
            lines.append(f"        Port {port.name}")
            lines += [f"            Interface {it.name}" for it in port.interfaces]
    return "\n".join(lines)


def _list_br(tables: Tables, command: VSCtlCommand) -> list[str]:
    return sorted(row.name for row in tables.rows("Bridge"))


def _br_exists(tables: Tables, command: VSCtlCommand) -> bool:
    return tables.named("Bridge", command.args[0]) is not None


def _br_to_vlan(tables: Tables, command: VSCtlCommand) -> int:
    tables.bridge(command.args[0])
    return 0


def _br_to_parent(tables: Tables, command: VSCtlCommand) -> Row:
    return tables.bridge(command.args[0])


def _br_get_external_id(tables: Tables, command: VSCtlCommand) -> Any:
    ids = tables.bridge(command.args[0]).external_ids
    if len(command.args) > 1:
        return ids.get(command.args[1])
    return [f"{key}={it}" for key, it in ids.items()]


def _list_ports(tables: Tables, command: VSCtlCommand) -> list[str]:
    bridge = tables.bridge(command.args[0])
    return sorted(port.name for port in bridge.ports if port.name != bridge.name)


def _port_to_br(tables: Tables, command: VSCtlCommand) -> Any:
    port = tables.must_have("Port", command.args[0])
    names = [bridge.name for bridge in tables.rows("Bridge") if port in bridge.ports]
    return names[0] if names else vsctl_fatal(f"the port {port.name} has no bridge")


def _list_ifaces(tables: Tables, command: VSCtlCommand) -> list[str]:
    bridge = tables.bridge(command.args[0])
    names = (it.name for port in bridge.ports for it in port.interfaces)
    return sorted(name for name in names if name != bridge.name)


def _iface_to_br(tables: Tables, command: VSCtlCommand) -> Any:
    found = tables.must_have("Interface", command.args[0])
    names = [bridge.name for bridge in tables.rows("Bridge") for port in bridge.ports if found in port.interfaces]
    return names[0] if names else vsctl_fatal(f"the interface {found.name} has no bridge")


def _get_controller(tables: Tables, command: VSCtlCommand) -> list[str]:
    return sorted({it.target for it in tables.bridge(command.args[0]).controller})


def _get_fail_mode(tables: Tables, command: VSCtlCommand) -> Any:
    modes = tables.bridge(command.args[0]).fail_mode
    return modes[0] if modes else None


def _list(tables: Tables, command: VSCtlCommand) -> list[Row]:
    table = table_of(command.args[0])
    record = command.args[1] if len(command.args) > 1 else None
    return tables.rows(table) if record is None else [tables.must_have(table, record)]


def _find(tables: Tables, command: VSCtlCommand) -> list[Row]:
    conditions = [column_value(it) for it in command.args[1:]]
    rows = tables.rows(table_of(command.args[0]))
    return [row for row in rows if all(has(row, column, text) for column, text in conditions)]


def _get(tables: Tables, command: VSCtlCommand) -> list[Any]:
    table = table_of(command.args[0])
    row = tables.must_have(table, command.args[1])
    results = []
    for name in command.args[2:]:
        column, _, key = name.partition(":")
        found = row.uuid if column == "_uuid" else getattr(row, column, None)
        if isinstance(found, dict) and key:
            found = found.get(key)
        if found is None and not command.has_option("--if-exists"):
            vsctl_fatal(f'{table} does not contain a column whose name matches "{name}"')
        results.append(found)
    return results


def _list_ifaces_verbose(tables: Tables, command: VSCtlCommand) -> list[dict[str, Any]]:
    dpid, name = command.args[0], command.args[1] if len(command.args) > 1 else None
    bridges = [it for it in tables.rows("Bridge") if it.datapath_id == [dpid]]
    bridge = bridges[0] if bridges else vsctl_fatal(f"no bridge id {dpid}")
    found = []
    for interface in (it for port in bridge.ports for it in port.interfaces):
        if name is None or interface.name == name:
            attributes = {it: getattr(interface, it) for it in ("name", "ofport", "type", "external_ids", "options")}
            attributes["ofport"] = attributes["ofport"][0] if attributes["ofport"] else []
            found.append(attributes)
    return sorted(found, key=lambda it: str(it["name"]))


_READ: dict[str, Callable[[Tables, VSCtlCommand], Any]] = {
    "init": _init,
    "show": _show,
    "list-br": _list_br,
    "br-exists": _br_exists,
    "br-to-vlan": _br_to_vlan,
    "br-to-parent": _br_to_parent,
    "br-get-external-id": _br_get_external_id,
    "list-ports": _list_ports,
    "port-to-br": _port_to_br,
    "list-ifaces": _list_ifaces,
    "iface-to-br": _iface_to_br,
    "get-controller": _get_controller,
    "get-fail-mode": _get_fail_mode,
    "list": _list,
    "find": _find,
    "get": _get,
    "list-ifaces-verbose": _list_ifaces_verbose,
}


# -- commands that write: each changes the wanted rows, and returns the table and keys of the rows that are its result

_Wanted = dict[str, databases.Wanted]
_Made = tuple[str, list[str]]


def _key(*parts: Any) -> str:
    """Makes a key of names: letters, digits and underscores."""
    escaped = (re.sub(r"[^A-Za-z0-9]", lambda it: f"_{ord(it.group()):02x}_", str(part)) for part in parts)
    return "_".join(escaped)


def _qos_of(wanted: _Wanted, port: str) -> str | None:
    """Returns the key of the QoS that this app wants for a port."""
    return next((key for key, row in wanted.items() if row.under == ("Port", port, "qos")), None)


def _set_qos(tables: Tables, wanted: _Wanted, command: VSCtlCommand) -> _Made:
    port, kind, max_rate = command.args[0], command.args[1], command.args[2]
    tables.must_have("Port", port)
    key = _qos_of(wanted, port) or _key("qos", port)
    row = wanted.setdefault(key, databases.Wanted("QoS", {}, ("Port", port, "qos")))
    row.columns["type"] = kind
    if max_rate is not None:
        row.columns.setdefault("other_config", {})["max-rate"] = str(max_rate)
    return "QoS", [key]


def _set_queue(tables: Tables, wanted: _Wanted, command: VSCtlCommand) -> _Made:
    port, queues = command.args[0], command.args[1]
    qos = wanted.get(_qos_of(wanted, port) or "")
    if qos is None:
        vsctl_fatal(f"this app has made no QoS for the port {port}; use set-qos first")
        raise AssertionError
    keys = [_key("queue", number, port) for number in range(len(queues))]
    for number, (key, queue) in enumerate(zip(keys, queues, strict=True)):
        qos.columns.setdefault("queues", {})[number] = databases.wanted(key)
        config = wanted.setdefault(key, databases.Wanted("Queue")).columns.setdefault("other_config", {})
        config.update({name: str(queue[name]) for name in ("max-rate", "min-rate") if queue.get(name) is not None})
    return "Queue", keys


def _del_qos(tables: Tables, wanted: _Wanted, command: VSCtlCommand) -> None:
    port = tables.must_have("Port", command.args[0])
    key = _qos_of(wanted, port.name)
    if key is None:
        if port.qos:
            vsctl_fatal(f"the QoS of the port {port.name} is not of this app, which deletes only its own")
        return
    queues = [_key("queue", number, port.name) for number in wanted[key].columns.get("queues", {})]
    for it in [key, *queues]:
        wanted.pop(it, None)


def _add_port(tables: Tables, wanted: _Wanted, command: VSCtlCommand) -> None:
    bridge, name = command.args[0], command.args[1]
    tables.bridge(bridge)
    if tables.named("Port", name) is not None:
        if not command.has_option("--may-exist"):
            vsctl_fatal(f"cannot create a port named {name} because a port named {name} already exists")
        return
    interface = _key("interface", name)
    wanted[interface] = databases.Wanted("Interface", {"name": [name]})
    columns = {"name": [name], "interfaces": [databases.wanted(interface)]}
    row = wanted[_key("port", name)] = databases.Wanted("Port", columns, ("Bridge", bridge, "ports"))
    for setting in command.args[2:]:
        _assign(row, setting, _replaced)


def _del_port(tables: Tables, wanted: _Wanted, command: VSCtlCommand) -> None:
    name = command.args[-1]
    if wanted.pop(_key("port", name), None) is not None:
        wanted.pop(_key("interface", name), None)
    elif tables.named("Port", name) is not None:
        vsctl_fatal(f"the port {name} is not of this app, which deletes only ports that it has added")
    elif not command.has_option("--if-exists"):
        vsctl_fatal(f"no port named {name}")


_Change = Callable[[Any, Any], Any]


def _assign(row: databases.Wanted, setting: str, change: _Change) -> None:
    column, text = column_value(setting)
    given = value(column, text)
    before = row.columns.get(column, type(given)())
    row.columns[column] = change(before if isinstance(before, (list, dict)) else [before], given)


def _replaced(before: Any, given: Any) -> Any:
    return {**before, **given} if isinstance(given, dict) else given


def _added(before: Any, given: Any) -> Any:
    return {**before, **given} if isinstance(given, dict) else [*before, *(it for it in given if it not in before)]


def _removed(before: Any, given: Any) -> Any:
    if isinstance(given, dict):
        return {key: it for key, it in before.items() if given.get(key) != it}
    return [it for it in before if it not in given]


def _own(tables: Tables, wanted: _Wanted, command: VSCtlCommand) -> databases.Wanted:
    """Returns the wanted row that a command changes. An earlier command of the same call may have made it."""
    table, record = table_of(command.args[0]), command.args[1]
    for row in wanted.values():
        if row.table == table and row.columns.get("name") == [record]:
            return row
    found = tables.record(table, record)
    row_key = found.external_ids.get(databases.KEY) if found is not None and tables.is_own(found) else None
    if row_key not in wanted:
        vsctl_fatal(f"{command.command} is refused: the row {record} of {table} is not of this app, or does not exist")
    return wanted[str(row_key)]


def _changed(change: _Change) -> Callable[[Tables, _Wanted, VSCtlCommand], None]:
    def run(tables: Tables, wanted: _Wanted, command: VSCtlCommand) -> None:
        row = _own(tables, wanted, command)
        settings = list(command.args[2:])
        if command.command != "set" and settings:  # COLUMN VALUE...
            settings = [f"{settings[0]}{':' if settings[0] in MAPS else '='}{it}" for it in settings[1:]]
        for setting in settings:
            _assign(row, setting, change)

    return run


def _clear(tables: Tables, wanted: _Wanted, command: VSCtlCommand) -> None:
    row = _own(tables, wanted, command)
    for column in command.args[2:]:
        row.columns[column] = {} if column in MAPS else []


_WRITE: dict[str, Callable[[Tables, _Wanted, VSCtlCommand], _Made | None]] = {
    "set-qos": _set_qos,
    "set-queue": _set_queue,
    "del-qos": _del_qos,
    "add-port": _add_port,
    "del-port": _del_port,
    "set": _changed(_replaced),
    "add": _changed(_added),
    "remove": _changed(_removed),
    "clear": _clear,
}
