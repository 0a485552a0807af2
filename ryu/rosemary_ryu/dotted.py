"""Finds which dotted name an expression stands for: `ur.urlopen` is `urllib.request.urlopen` after `import urllib.request as ur`.

A scope is a module, class or function. A name that something other than an import binds stands for nothing here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef)


@dataclass
class Scope:
    """Names of a module, class or function."""

    parent: Scope | None = None
    is_class: bool = False
    imported: dict[str, str] = field(default_factory=dict)  # to full dotted names
    others: set[str] = field(default_factory=set)
    stars: list[str] = field(default_factory=list)  # modules of `from X import *`

    def names(self, node: ast.AST) -> list[str]:
        """Returns the dotted names that an expression of the form `a.b.c` may stand for. Several come from `import *`."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return []
        return [".".join([first, *reversed(parts)]) for first in self._first(node.id)]

    def hides(self, name: str) -> bool:
        """Whether a function or class around the place binds the name, so that it is not that of the module."""
        scope: Scope | None = self
        while scope is not None and scope.parent is not None:
            if (scope is self or not scope.is_class) and (name in scope.others or name in scope.imported):
                return True
            scope = scope.parent
        return False

    def _first(self, name: str) -> list[str]:
        scope: Scope | None = self
        stars: list[str] = []
        while scope is not None:
            if scope is self or not scope.is_class:  # functions do not see names of the class around them
                if name in scope.imported:
                    return [scope.imported[name]]
                if name in scope.others:
                    return []
                stars.extend(scope.stars)
            scope = scope.parent
        return [name, *(f"{module}.{name}" for module in stars)]


def walk(tree: ast.Module) -> Iterator[tuple[ast.AST, Scope]]:
    """Returns all nodes, each with its scope, in the order of the text."""
    scope = _bound(Scope(), tree.body)
    # Not by recursion: the source of a stranger may be nested deeply.
    waiting: list[tuple[ast.AST, Scope]] = [(node, scope) for node in reversed(tree.body)]
    while waiting:
        node, scope = waiting.pop()
        yield node, scope
        waiting.extend(reversed(_children(node, scope)))


def _children(node: ast.AST, scope: Scope) -> list[tuple[ast.AST, Scope]]:
    if not isinstance(node, _SCOPES):
        return [(child, scope) for child in ast.iter_child_nodes(node)]
    body = node.body if isinstance(node.body, list) else [node.body]
    inner = _bound(Scope(scope, isinstance(node, ast.ClassDef)), body)
    if isinstance(node, _FUNCTIONS):
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        inner.others.update(it.arg for it in every if it is not None)
    inside = set(map(id, body))  # decorators, defaults and bases are outside
    return [(child, inner if id(child) in inside else scope) for child in ast.iter_child_nodes(node)]


def _bound(scope: Scope, body: Sequence[ast.AST]) -> Scope:
    """Notes the names that statements bind in their own scope."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                # `import a.b` binds `a`.
                first = alias.name.partition(".")[0]
                scope.imported[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module = "." * node.level + (node.module or "")
                if alias.name == "*":
                    scope.stars.append(module)
                else:
                    scope.imported[alias.asname or alias.name] = f"{module}.{alias.name}"
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            scope.others.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            scope.others.add(node.name)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            scope.others.add(node.name)
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))
    return scope
