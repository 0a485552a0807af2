"""Finds the environment variables that an application reads. A zone has only the variables of `env`.

| expression | found as |
| --- | --- |
| `os.environ["NAME"]`, `os.environ.get("NAME")`, `"NAME" in os.environ`, `os.getenv("NAME")` | `NAME` |
| any other use that reads | `os.environ` |

Assignments and deletions are no reads: they act in the process alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rosemary_ryu.dotted import Scope

# Variables that a zone sets itself.
_SET = frozenset({"HOME", "EVENTLET_NO_GREENDNS"})

_MAPPINGS = frozenset({"os.environ", "os.environb"})
_FUNCTIONS = frozenset({"os.getenv", "os.getenvb"})
_READS = frozenset({"get", "__getitem__", "pop", "setdefault"})

ANY = "os.environ"  # stands for variables whose names the source does not have


def why(name: str) -> str:
    """Returns what to do about a read of this variable."""
    named = "NAME" if name == ANY else name
    return (
        f"a zone has no variables of the command's environment; pass it with rosemary ryu --env {named}, "
        f"or add to the app in rosemary.toml: env = {{ {named} = \"VALUE\" }}"
    )


class Reads:
    """Finds the reads of one file. Nodes must come with their parents first, as `dotted.walk` returns them."""

    def __init__(self) -> None:
        self._known: set[int] = set()  # mappings whose use an outer expression decided

    def of(self, node: ast.AST, scope: Scope) -> Iterator[str]:
        """Returns the names that an expression reads."""
        if isinstance(node, ast.Call):
            yield from self._call(node, scope)
        elif isinstance(node, ast.Subscript) and _is(node.value, scope, _MAPPINGS):
            self._known.add(id(node.value))
            if isinstance(node.ctx, ast.Load):
                yield from _named(node.slice)
        elif isinstance(node, ast.Compare) and _is(node.comparators[0], scope, _MAPPINGS):
            self._known.add(id(node.comparators[0]))
            yield from _named(node.left)
        elif isinstance(node, (ast.Attribute, ast.Name)) and id(node) not in self._known:
            if isinstance(node.ctx, ast.Load) and _is(node, scope, _MAPPINGS):
                yield ANY

    def _call(self, node: ast.Call, scope: Scope) -> Iterator[str]:
        function = node.func
        if _is(function, scope, _FUNCTIONS):
            yield from _named(node.args[0] if node.args else None)
        elif isinstance(function, ast.Attribute) and _is(function.value, scope, _MAPPINGS):
            self._known.add(id(function.value))
            if function.attr in _READS:
                yield from _named(node.args[0] if node.args else None)
            elif function.attr not in ("update", "clear", "__setitem__", "__delitem__"):
                yield ANY


def _is(node: ast.AST, scope: Scope, names: frozenset[str]) -> bool:
    return any(name in names for name in scope.names(node))


def _named(node: ast.AST | None) -> Iterator[str]:
    value = node.value if isinstance(node, ast.Constant) else None
    name = value.decode("ascii", "replace") if isinstance(value, bytes) else value
    if not isinstance(name, str):
        yield ANY
    elif name not in _SET:
        yield name
