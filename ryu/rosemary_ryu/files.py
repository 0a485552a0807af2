"""Finds which files an application opens, as far as its source has their names."""

from __future__ import annotations

import ast
import os.path
from collections.abc import Iterator

from rosemary_ryu.dotted import Scope

# Functions that open a file, by which argument is the mode, and the mode without it.
_OPEN = {
    "open": (1, "r"),
    "io.open": (1, "r"),
    "codecs.open": (1, "r"),
    "gzip.open": (1, "rb"),
    "logging.FileHandler": (1, "a"),
    "logging.handlers.WatchedFileHandler": (1, "a"),
    "logging.handlers.RotatingFileHandler": (1, "a"),
    "logging.handlers.TimedRotatingFileHandler": (None, "a"),
    "os.makedirs": (None, "w"),
    "os.mkdir": (None, "w"),
    "os.listdir": (None, "r"),
}

_JOIN = {"os.path.join", "posixpath.join"}
_SAME = {"os.path.abspath", "os.path.realpath", "os.path.normpath", "str", "pathlib.Path"}
_DIRECTORY = {"os.path.dirname"}

# Directories that no app may read.
_UNREADABLE = ("/proc", "/sys", "/dev", "/app")


class Paths:
    """Evaluates expressions for paths in one file."""

    def __init__(self, tree: ast.Module, file: str) -> None:
        self._file = os.path.abspath(file)
        self._constants: dict[str, ast.expr] = {}
        for node in tree.body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                # A name with two values has none here.
                self._constants[name] = ast.Constant(None) if name in self._constants else node.value

    def value(self, node: ast.AST, scope: Scope, depth: int = 8) -> str | None:
        """Returns the path, or `None` if the source does not have it."""
        if not depth:
            return None
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.Name):
            if node.id == "__file__":
                return self._file
            if scope.hides(node.id):
                return None
            constant = self._constants.get(node.id)
            return self.value(constant, scope, depth - 1) if constant is not None else None
        if isinstance(node, ast.Attribute) and node.attr == "parent":
            path = self.value(node.value, scope, depth - 1)
            return path and os.path.dirname(path)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Div)):
            parts = self._values([node.left, node.right], scope, depth)
            if not parts:
                return None
            return "".join(parts) if isinstance(node.op, ast.Add) else os.path.join(*parts)
        if isinstance(node, ast.Call) and not node.keywords:
            return self._call(node, scope, depth)
        return None

    def _call(self, node: ast.Call, scope: Scope, depth: int) -> str | None:
        names = set(scope.names(node.func))
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("resolve", "absolute") and not node.args:
            return self.value(node.func.value, scope, depth - 1)
        parts = self._values(node.args, scope, depth)
        if not parts:
            return None
        if names & _JOIN:
            return os.path.join(*parts)
        if names & _SAME:
            return parts[0]
        return os.path.dirname(parts[0]) if names & _DIRECTORY else None

    def _values(self, nodes: list[ast.expr], scope: Scope, depth: int) -> list[str] | None:
        found = [self.value(it, scope, depth - 1) for it in nodes]
        return None if None in found else found  # type: ignore[return-value]


def refused(node: ast.Call, scope: Scope, paths: Paths) -> Iterator[tuple[str, str]]:
    """Returns what is wrong with a call that opens a file, and what to do."""
    names = scope.names(node.func)
    keywords = {it.arg: it.value for it in node.keywords}
    if "sqlite3.connect" in names:
        path = paths.value(node.args[0], scope) if node.args else None
        if path != ":memory:":
            yield from _written(path)
        return
    if "logging.basicConfig" in names and "filename" in keywords:
        yield from _written(paths.value(keywords["filename"], scope))
        return
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("read_text", "read_bytes", "write_text", "write_bytes"):
        path = paths.value(node.func.value, scope)
        yield from (_written if node.func.attr.startswith("write") else _read)(path)
        return
    for name in names:
        if name in _OPEN:
            at, mode = _OPEN[name]
            stated = keywords.get("mode") or (node.args[at] if at is not None and len(node.args) > at else None)
            if stated is not None:
                mode = stated.value if isinstance(stated, ast.Constant) and isinstance(stated.value, str) else ""
            first = node.args[0] if node.args else keywords.get("file") or keywords.get("filename")
            path = paths.value(first, scope) if first is not None else None
            if mode:
                yield from (_written if set(mode) & set("wax+") else _read)(path)


def _written(path: str | None) -> Iterator[tuple[str, str]]:
    # Relative names are in the app's /tmp.
    if path is not None and path.startswith("/") and not _is_in(path, "/tmp"):
        yield path, "an app can write only in /tmp, which is its own and is emptied when it ends"


def _read(path: str | None) -> Iterator[tuple[str, str]]:
    if path is None or path.startswith("/tmp") and not os.path.exists(path):
        return
    if not path.startswith("/"):
        yield (
            path,
            "relative names are looked up in the app's own /tmp; for a file of this machine use the absolute path, and grant it: "
            f'"fs.read:{os.path.abspath(path)}" {_WHERE}',
        )
    elif _is_in(path, "/tmp"):
        yield path, "a zone has a /tmp of its own; move the file to another directory and grant it with fs.read:PATH"
    elif any(_is_in(path, it) for it in _UNREADABLE):
        yield path, "no app can read this"
    else:
        yield path, f'grant it: "fs.read:{path}" ' + _WHERE


_WHERE = "among the app's capabilities in rosemary.toml (rosemary ryu APP --print-config prints one)"


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory + "/")
