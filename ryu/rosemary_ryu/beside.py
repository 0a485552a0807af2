"""Finds modules that applications import and that lie beside them, where a zone does not see them.

`python -m rosemary_ryu.beside [--python-path DIR] APP.py ...` prints a list in JSON, `[[APP.py, MODULE], ...]`: the first of each.
Only imports that always run count, not those in functions, `try` and `if`. It reads the files and never runs them.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from rosemary_ryu import modules


def module_beside(file: Path, python_path: list[str]) -> str | None:
    """Returns the first module beside an application that it imports; `None` also for what is not Python."""
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError):
        return None  # its start says so
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
    """Prints the modules, and returns 0."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("apps", nargs="+")
    parser.add_argument("--python-path", action="append", default=[])
    asked = parser.parse_args(arguments)
    found = ((app, module_beside(Path(app), asked.python_path)) for app in asked.apps)
    print(json.dumps([pair for pair in found if pair[1] is not None]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
