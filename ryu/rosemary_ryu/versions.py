"""Finds the versions of OpenFlow that the source of an application names in `OFP_VERSIONS`."""

from __future__ import annotations

import ast
import re

from rosemary_ryu import dotted, wire
from rosemary_ryu.dotted import Scope

NAMES = {1: "1.0", 2: "1.1", 3: "1.2", 4: "1.3", 5: "1.4", 6: "1.5"}
SUPPORTED = frozenset(wire.SPOKEN.values())

# The version that the controller chooses if a switch offers it and the configuration names none.
PREFERRED = "1.3"

_MODULE = re.compile(r"\bofproto_v(\d_\d)\b")


def named(node: ast.AST, scope: Scope) -> set[str]:
    """Returns the versions that an assignment to `OFP_VERSIONS` names; none for another node or a value that is computed."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
        return set()
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if not any(isinstance(it, ast.Name) and it.id == "OFP_VERSIONS" for it in targets):
        return set()
    versions: set[str] = set()
    for it in ast.walk(node.value):
        if isinstance(it, ast.Constant) and isinstance(it.value, int) and it.value in NAMES:
            versions.add(NAMES[it.value])
        elif isinstance(it, (ast.Attribute, ast.Name)):
            found = (_MODULE.search(name) for name in scope.names(it))
            versions.update(match[1].replace("_", ".") for match in found if match)
    return versions


def common(trees: list[ast.Module]) -> list[str]:
    """Returns the versions that switches must speak for these applications, sorted.

    The list has the supported versions that all applications name. It is empty if the preferred version is among them.
    """
    left = set(SUPPORTED)
    for tree in trees:
        for node, scope in dotted.walk(tree):
            versions = named(node, scope)
            if versions:
                left &= versions
    return [] if PREFERRED in left else sorted(left)
