"""Finds the files of modules as a zone would import them, without importing anything."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from rosemary_ryu import sources

_OURS = Path(__file__).parent / "names"

# Names that `finder.install` gives the package `ryu`.
_OF_RYU = ("version", "version_info", "__version__")

# Packages that Rosemary provides; those of a checkout of Ryu are not used in their place.
PROVIDED = ("ryu", "os_ken", "rosemary", "rosemary_ryu")

_NATIVE = (".so", ".abi3.so")

# Bytes of the longest name that is looked up: files have shorter names.
_LONGEST = 240


def _in_ryu(rest: str, path: Iterable[str | Path]) -> Path | None:
    """Returns the file of a module below `ryu` or `os_ken`: ours, that of os-ken, or that of Ryu itself."""
    entries = [*path, *(it for it in sys.path if it)]
    places = [Path(entry, package) for package in ("os_ken", "ryu") for entry in entries]
    return _below([_OURS, *places], rest.split("."))


def find(name: str, path: Iterable[str | Path]) -> Path | None:
    """Returns the file of a module in directories of an import path; those of Ryu also in the interpreter's packages."""
    package, _, rest = name.partition(".")
    if package in ("ryu", "os_ken"):
        return _in_ryu(rest, path) if rest else _OURS
    return _below([Path(it) for it in path if it], name.split("."))


def _below(places: list[Path], parts: list[str]) -> Path | None:
    if len(".".join(parts).encode()) > _LONGEST:
        return None
    for place in places:
        base = place.joinpath(*parts)
        for file in _files(base):
            if file.is_file():
                return file
    # Directories without `__init__.py` are packages, too.
    return next((it for place in places if (it := place.joinpath(*parts)).is_dir()), None)


def _files(base: Path) -> Iterator[Path]:
    yield base / "__init__.py"
    yield base.with_name(base.name + ".py")
    if base.parent.is_dir():
        yield from (it for it in base.parent.glob(base.name + ".*") if it.name.endswith(_NATIVE))


def is_ours(file: Path) -> bool:
    """Whether the file of a module is one of Rosemary's own in `ryu` or `os_ken`."""
    return file.is_relative_to(_OURS)


def lies_beside(top: str, directory: Path, python_path: list[str]) -> bool:
    """Whether a module is found beside an application only, by its first name: a zone does not see it."""
    if top in sys.stdlib_module_names or top in PROVIDED or find(top, [*python_path, *sys.path]) is not None:
        return False
    file = find(top, [directory])
    return file is not None and not file.is_dir()


def is_distributed(top: Path) -> bool:
    """Whether a package, by the file of its first name, was installed there by pip: it is not the application's own."""
    package = top if top.is_dir() else top.parent if top.name == "__init__.py" else top.with_suffix("")
    name = package.name.lower().replace("_", "-")
    return any(it.name.lower().replace("_", "-").startswith(name) for it in package.parent.glob("*.dist-info"))


def provides(package: str, name: str, path: list[str]) -> bool:
    """Whether `from package import name` works, for a package of Ryu."""
    _, _, rest = package.partition(".")
    if not rest and name in _OF_RYU or find(f"{package}.{name}", path) is not None:
        return True
    file = find(package, path) if rest else None
    if file is None or file.is_dir():
        return False
    # Another name of a module may be made in many ways; one that the file never mentions is not there.
    try:
        text = sources.read(file).decode(errors="replace")
    except OSError:
        return False
    return file.name != "__init__.py" or re.search(rf"\b{re.escape(name)}\b|import \*", text) is not None
