"""Decides which file an import of `ryu.*` or `os_ken.*` loads.

| import | loads |
| --- | --- |
| `os_ken.X` or `ryu.X` with a file `names/X.py` | that file, under the name `os_ken.X` |
| another `os_ken.X` | the package os-ken; if it has no such file, as `ryu.X` |
| another `ryu.X` | the module `os_ken.X` itself; if os-ken has no such file, Ryu's own, if Ryu is installed |

A module has one object, whatever name it is imported by: `ryu.lib.hub is os_ken.lib.hub`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

_OURS = Path(__file__).parent / "names"

# Names that Ryu has and os-ken has renamed: module, Ryu's name, os-ken's name.
_RENAMED = (
    ("os_ken.exception", "RyuException", "OSKenException"),
    ("os_ken.lib.ofctl_string", "nxm_field_name_to_ryu", "nxm_field_name_to_os_ken"),
    ("os_ken.lib.ofctl_string", "ofp_ofctl_field_name_to_ryu", "ofp_ofctl_field_name_to_os_ken"),
)

# The release of Ryu whose names are provided.
_RYU_VERSION = "4.34"


def _own_modules() -> dict[str, Path]:
    """Returns our modules by their names below `os_ken`."""
    files = _OURS.rglob("*.py")
    return {".".join(file.relative_to(_OURS).with_suffix("").parts): file for file in files}


class _Alias(Loader):
    """Loads a module that exists under another name."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Returns the module itself, so that both names have one object."""
        module = importlib.import_module(self._target)
        self._spec = module.__spec__
        for target, new, old in _RENAMED:
            if target == self._target and not hasattr(module, new) and hasattr(module, old):
                setattr(module, new, getattr(module, old))
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Gives the module its own specification back, which the import system has replaced."""
        module.__spec__ = self._spec


class Finder(MetaPathFinder):
    """The import finder. It must be the first of `sys.meta_path`."""

    def __init__(self) -> None:
        self._own = _own_modules()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Returns where a module is, or `None` if this finder does not know it."""
        package, _, rest = name.partition(".")
        if package == "os_ken" and rest:
            return self._os_ken(name, rest, path)
        if package == "ryu":
            return self._ryu(name, rest)
        return None

    def _os_ken(self, name: str, rest: str, path: Sequence[str] | None) -> ModuleSpec | None:
        if rest in self._own:
            return importlib.util.spec_from_file_location(name, self._own[rest])
        spec = PathFinder.find_spec(name, path)
        if spec is None and _in_installed_ryu(f"ryu.{rest}", rest) is not None:
            # `from ryu.app import simple_switch_13` asks for it below the one name that `ryu.app` has.
            return ModuleSpec(name, _Alias(f"ryu.{rest}"))
        return spec

    def _ryu(self, name: str, rest: str) -> ModuleSpec | None:
        if not rest:
            return ModuleSpec(name, _Alias("os_ken"), is_package=True)
        if rest in self._own or self._is_in_os_ken(rest):
            return ModuleSpec(name, _Alias(f"os_ken.{rest}"))
        return _in_installed_ryu(name, rest)

    @staticmethod
    def _is_in_os_ken(rest: str) -> bool:
        """Whether the package os-ken has a module below its root."""
        parent, _, _ = f"os_ken.{rest}".rpartition(".")
        try:
            places = importlib.import_module(parent).__path__
        except (ImportError, AttributeError):
            return False
        return PathFinder.find_spec(f"os_ken.{rest}", places) is not None


def _in_installed_ryu(name: str, rest: str) -> ModuleSpec | None:
    """Returns the module of the package Ryu itself, if that is installed."""
    *folders, last = rest.split(".")
    places = [str(Path(entry, "ryu", *folders)) for entry in sys.path if entry]
    # `PathFinder` looks for the last part of a name.
    return PathFinder.find_spec(name, places) if last else None


def install() -> None:
    """Makes `ryu.*` and `os_ken.*` importable. A second call has no effect."""
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, Finder())
    ryu = importlib.import_module("ryu")
    ryu.version = _RYU_VERSION  # type: ignore[attr-defined]
    ryu.__version__ = _RYU_VERSION  # type: ignore[attr-defined]
    ryu.version_info = tuple(int(part) for part in _RYU_VERSION.split("."))  # type: ignore[attr-defined]
