"""Finds out which applications have a web interface: all that import the classes of `ryu.app.wsgi`, or a module that does.

An application cannot have the context `wsgi` without them. Modules are looked up in the import path and beside the
application. Only names that the source states count; a name that an application computes is not known before its start.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from rosemary_ryu import modules, sources

_WSGI = "app.wsgi"  # below `ryu` and `os_ken`

# Modules of one application that are read.
_MOST_MODULES = 200

# Calls that load a module by its name.
_LOADS = frozenset({"require_app", "import_module", "__import__"})


def serves(file: Path, python_path: list[str], package: str = "") -> bool:
    """Whether an application has a web interface. A file that cannot be read has none."""
    path = [*python_path, str(file.absolute().parent)]
    waiting, known = [(file, package)], {file.resolve()}
    while waiting and len(known) <= _MOST_MODULES:
        file, package = waiting.pop()
        for name in _imported(file, package):
            top, _, rest = name.partition(".")
            if top in ("ryu", "os_ken") and (rest == _WSGI or rest.startswith(f"{_WSGI}.")):
                return True
            found = modules.find(name, path)
            if found is not None and _is_applications(found, name) and found.resolve() not in known:
                known.add(found.resolve())
                waiting.append((found, name if found.name == "__init__.py" else name.rpartition(".")[0]))
    return False


def _is_applications(file: Path, name: str) -> bool:
    """Whether a module may be part of an application: of its own, or one of `ryu.app`."""
    if file.suffix != ".py" or modules.is_ours(file):
        return False
    top, *rest = name.split(".")
    return top not in modules.PROVIDED or rest[:1] == ["app"]


def _imported(file: Path, package: str) -> Iterator[str]:
    """Returns the modules that a file imports or loads, `a.b.c` also for `from a.b import c`."""
    try:
        tree = sources.parse(sources.read(file), str(file))
    except (OSError, SyntaxError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node, package)
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and _name_of(node.func) in _LOADS:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parents = package.split(".")
    start = parents[: max(len(parents) - node.level + 1, 0)]
    return ".".join([*start, node.module] if node.module else start)


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
