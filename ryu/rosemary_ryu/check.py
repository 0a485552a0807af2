"""Lists what an application uses that is not supported: `python -m rosemary_ryu.check FILE ...`.

Reads the source and never runs it. A file without findings may still fail; a finding names the line and what to do.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Modules that cannot work in a zone, by the beginning of their names below `ryu` or `os_ken`.
_MODULES = {
    "services.protocols.bgp": "BGP needs sockets, and a zone has none",
    "services.protocols.vrrp": "VRRP needs raw sockets, and a zone has none",
    "services.protocols.zebra": "Zebra needs sockets, and a zone has none",
    "services.protocols.ovsdb": "OVSDB is not supported",
    "lib.ovs": "OVSDB is not supported; requests that need it fail",
    "lib.of_config": "OF-Config needs a connection to the switch, and a zone has no network",
    "lib.snortlib": "Snort's socket is outside of the zone",
    "lib.bmp": "BMP needs sockets that the app opens",
    "lib.netconf": "NETCONF needs a connection, and a zone has no network",
    "contrib": "this module is not provided",
}

# Modules of the standard library that a zone refuses.
_REFUSED = {
    "subprocess": "a zone starts no processes",
    "multiprocessing": "a zone starts no processes",
    "pty": "a zone starts no processes",
    "requests": "a zone has no network; grant net.connect to an app of Rosemary's own interface instead",
    "paramiko": "a zone has no network",
    "ncclient": "a zone has no network",
    "pymysql": "a zone has no network",
    "psycopg2": "a zone has no network",
    "redis": "a zone has no network",
    "pika": "a zone has no network",
    "kafka": "a zone has no network",
    "scapy": "a zone has no raw sockets; use ryu.lib.packet",
}

_CALLS = {
    "os.system": "a zone starts no processes",
    "os.popen": "a zone starts no processes",
    "os.fork": "a zone starts no processes",
    "socket.create_connection": "a zone has no network",
    "urllib.request.urlopen": "a zone has no network",
    "hub.connect": "a zone has no network",
    "hub.StreamClient": "a zone has no network",
}

_VERSIONS = {"ofproto_v1_2": "1.2", "ofproto_v1_4": "1.4", "ofproto_v1_5": "1.5", "ofproto_v1_1": "1.1"}

_NAMES = {
    "send_nxt_set_flow_format": "Nicira's extension is refused",
    "NXTFlowMod": "Nicira's extension is refused",
    "NXActionLearn": "the action `learn` writes flows past every check and is refused",
    "NXActionResubmit": "Nicira's actions are refused unless the app has the capability experimenter",
    "NXActionResubmitTable": "Nicira's actions are refused unless the app has the capability experimenter",
    "NXActionCT": "Nicira's actions are refused unless the app has the capability experimenter",
    "NXActionRegLoad": "Nicira's actions are refused unless the app has the capability experimenter",
}


@dataclass(frozen=True)
class Finding:
    """One use of something that is not supported."""

    file: str
    line: int
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}: {self.why}"


def check(source: str, file: str) -> list[Finding]:
    """Returns the findings in the source of an application, in the order of their lines.

    Raises `SyntaxError` if it is not Python of this version.
    """
    tree = ast.parse(source, file)
    found = {Finding(file, line, what, why) for line, what, why in _walk(tree)}
    return sorted(found, key=lambda it: (it.line, it.what))


def _walk(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module(node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from _module(node.lineno, node.module)
            for alias in node.names:
                yield from _module(node.lineno, f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Call):
            name = _dotted(node.func)
            if name in _CALLS:
                yield node.lineno, name, _CALLS[name]
        elif isinstance(node, ast.Assign):
            yield from _versions(node)
        elif isinstance(node, ast.Attribute) and node.attr in _NAMES:
            yield node.lineno, node.attr, _NAMES[node.attr]


def _module(line: int, name: str) -> Iterator[tuple[int, str, str]]:
    package, _, rest = name.partition(".")
    if package in ("ryu", "os_ken"):
        for start, why in _MODULES.items():
            if rest == start or rest.startswith(start + "."):
                yield line, f"{package}.{start}", why
    elif package in _REFUSED:
        yield line, package, _REFUSED[package]


def _versions(node: ast.Assign) -> Iterator[tuple[int, str, str]]:
    """Looks for an application that supports neither OpenFlow 1.0 nor 1.3."""
    if not any(isinstance(target, ast.Name) and target.id == "OFP_VERSIONS" for target in node.targets):
        return
    named = {_dotted(it) for it in ast.walk(node.value) if isinstance(it, ast.Attribute)}
    modules = {name.rsplit(".", 2)[-2] for name in named if name.endswith(".OFP_VERSION")}
    if modules and not modules & {"ofproto_v1_0", "ofproto_v1_3"}:
        versions = ", ".join(sorted(_VERSIONS.get(it, it) for it in modules))
        yield node.lineno, f"OpenFlow {versions}", "Rosemary speaks OpenFlow 1.0 and 1.3"


def _dotted(node: ast.AST) -> str:
    """Returns `a.b.c` for an expression of that form, else an empty string."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def main(files: list[str]) -> int:
    """Checks files, prints what it finds, and returns 0 if that is nothing, 1 if it is something, 2 for unreadable files."""
    if not files:
        print("usage: rosemary ryu check APP.py ...", file=sys.stderr)
        return 2
    status = 0
    for file in files:
        try:
            findings = check(Path(file).read_text(encoding="utf-8"), file)
        except (OSError, UnicodeDecodeError) as error:
            print(f"{file}: cannot be read: {error}", file=sys.stderr)
            return 2
        except SyntaxError as error:
            print(f"{file}:{error.lineno}: not Python {sys.version_info[0]}.{sys.version_info[1]}: {error.msg}")
            status = 1
            continue
        for finding in findings:
            print(finding)
        if findings:
            status = 1
        else:
            print(f"{file}: nothing is known that would not work")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
