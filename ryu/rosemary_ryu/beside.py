"""Finds what files of applications need that `rosemary ryu` does not grant by itself, before their start.

`python -m rosemary_ryu.beside [--python-path DIR] APP ...` prints a table in JSON, each entry of the first two with the application:

* `modules`: the first module that it imports and that lies beside it, where a zone does not see it. Only imports that always
  run count, not those in functions, `try` and `if`;
* `variables`: the environment variables that it reads by their names;
* `openflow`: the versions that switches must speak, if the applications exclude the preferred one (`versions.py`);
* `web`: the applications with a web interface (`web.py`), `null` if they take too much to examine.

It reads the files and never runs them.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rosemary_ryu import dotted, modules, sources, variables, versions, web


def source_of(app: str, python_path: list[str]) -> Path | None:
    """Returns the file of an application, which is a path or the name of a module; `None` if it is not found."""
    file = Path(app) if app.endswith(".py") else modules.find(app, [*python_path, *sys.path])
    return file if file is not None and file.suffix == ".py" else None


def parsed(file: Path | None) -> ast.Module | None:
    """Returns the syntax tree of a file; `None` for a file that cannot be read or is not Python."""
    if file is None:
        return None
    try:
        return sources.parse(sources.read(file), str(file))
    except (OSError, SyntaxError):
        return None  # its start says so


def variables_read(tree: ast.Module) -> list[str]:
    """Returns the names of the environment variables that a file reads, each once."""
    reads = variables.Reads()
    found = (name for node, scope in dotted.walk(tree) for name in reads.of(node, scope))
    return [name for name in dict.fromkeys(found) if name != variables.ANY]


def module_beside(tree: ast.Module, file: Path, python_path: list[str]) -> str | None:
    """Returns the first module beside an application that it imports."""
    directory = file.absolute().parent
    found = (top for top in _imported(tree) if top != file.stem and modules.lies_beside(top, directory, python_path))
    return next(found, None)


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


def main(arguments: list[str]) -> int:
    """Prints the table, and returns 0."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("apps", nargs="+")
    parser.add_argument("--python-path", action="append", default=[])
    asked = parser.parse_args(arguments)
    try:
        table = _table(asked.apps, asked.python_path)
    except (MemoryError, sources.TooCostly):
        table = {"modules": [], "variables": [], "openflow": [], "web": None}  # such an app is limited in its zone, too
    print(json.dumps(table))
    return 0


def _table(apps: list[str], python_path: list[str]) -> dict[str, Any]:
    files = [(app, source_of(app, python_path)) for app in apps]
    trees = [(app, tree) for app, file in files if (tree := parsed(file)) is not None]
    beside = ((app, module_beside(tree, Path(app), python_path)) for app, tree in trees if app.endswith(".py"))
    read = ((app, name) for app, tree in trees for name in variables_read(tree))
    # Of an application that is not found nothing is known; its start says so.
    served = [app for app, file in files if file is None or web.serves(file, python_path, app.rpartition(".")[0])]
    return {
        "modules": [(app, module) for app, module in beside if module is not None],
        "variables": list(read),
        # An application whose source is not found may support others.
        "openflow": versions.common([tree for _, tree in trees]) if len(trees) == len(files) else [],
        "web": served,
    }


if __name__ == "__main__":
    sources.bound()
    raise SystemExit(main(sys.argv[1:]))
