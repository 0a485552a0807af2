"""Lists what an application uses that is not supported: `python -m rosemary_ryu.check APP ...`.

Reads the source, and that of the modules beside it, and never runs them. A file without findings may still fail; a finding
names the line and what to do.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rosemary_ryu import dotted, files, modules, sources, unsupported, variables, versions, web
from rosemary_ryu.dotted import Scope

# Most further lines of a finding that are printed.
_MOST_LINES = 8

_TOO_COSTLY = f"cannot be examined in {sources.MOST_SECONDS} s and {sources.MOST_MEMORY >> 30} GiB; divide it into smaller modules"

_OF_IMPORTS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


@dataclass(frozen=True)
class Finding:
    """Something that is not supported, at its first use in a file."""

    file: str
    line: int
    what: str
    why: str
    further: tuple[int, ...] = ()  # the other lines with the same use

    def __str__(self) -> str:
        shown = [*map(str, self.further[:_MOST_LINES]), *(["..."] if len(self.further) > _MOST_LINES else [])]
        also = f" (also in line {', '.join(shown)})" if shown else ""
        return sources.shown(f"{self.file}:{self.line}: {self.what}: {self.why}{also}")


@dataclass
class _Place:
    """Where a source is, and the modules that it may import."""

    file: str
    is_app: bool  # otherwise a module that an application imports
    python_path: list[str]
    package: str = ""  # of a module in a package
    local: dict[str, Path] = field(default_factory=dict)  # modules found beside the file or in `python_path`

    @property
    def directory(self) -> Path:
        return Path(self.file).absolute().parent


def check(source: str, file: str, python_path: list[str] | None = None) -> list[Finding]:
    """Returns the findings in the source of an application, in the order of their lines.

    Raises `SyntaxError` if it is not Python of this version.
    """
    return _check(source, _Place(file, True, python_path or []))


def _check(source: str, place: _Place) -> list[Finding]:
    tree = sources.parse(source, place.file)
    lines: dict[tuple[str, str], set[int]] = {}
    for line, what, why in _walk(tree, place):
        lines.setdefault((what, why), set()).add(line)
    found = [Finding(place.file, first, *use, tuple(rest)) for use, at in lines.items() for first, *rest in [sorted(at)]]
    return sorted(found, key=lambda it: (it.line, it.what))


def _walk(tree: ast.Module, place: _Place) -> Iterator[tuple[int, str, str]]:
    paths = files.Paths(tree, place.file)
    optional = _optional_imports(tree)
    imported: set[str] = set()  # entries of the table that an import has; their uses would be repetitions
    uses: list[tuple[int, str, str]] = []
    reads = variables.Reads()
    for node, scope in dotted.walk(tree):
        for name in reads.of(node, scope):
            what = name if name == variables.ANY else f"os.environ[{name!r}]"
            yield node.lineno, what, variables.why(name)  # type: ignore[attr-defined]
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for found in _import(node, place, id(node) in optional):
                imported.add(found[1])
                yield found
        elif isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load):
            for name in scope.names(node):
                entry = unsupported.entry(name)
                # `import a.b` makes `a`, which need not be `a.b`.
                if entry is not None and "." in name:
                    uses.append((node.lineno, *entry))
            why = unsupported.attribute(node.attr) if isinstance(node, ast.Attribute) else None
            if why is not None:
                yield node.lineno, node.attr, why
        elif isinstance(node, ast.Call):
            for path, why in files.refused(node, scope, paths):
                yield node.lineno, path, why
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            yield from _versions(node, scope)
    yield from (use for use in uses if use[1] not in imported)
    if place.is_app and not any(isinstance(node, ast.ClassDef) for node in ast.walk(tree)):
        yield 1, "no class", "an app is a class that derives from ryu.base.app_manager.RyuApp; without one nothing runs"


def _optional_imports(tree: ast.Module) -> set[int]:
    """Returns the imports, by identity, that the application tries and goes on without."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any(_catches_imports(it) for it in node.handlers):
            found.update(id(inner) for statement in node.body for inner in ast.walk(statement))
    return found


def _catches_imports(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(it, ast.Name) and it.id in _OF_IMPORTS for it in ast.walk(handler.type))


def _import(node: ast.Import | ast.ImportFrom, place: _Place, is_optional: bool) -> Iterator[tuple[int, str, str]]:
    if isinstance(node, ast.Import):
        names = [(alias.name, "") for alias in node.names]
    else:
        module = _absolute(node, place)
        if module is None:
            yield (
                node.lineno,
                "." * node.level + (node.module or ""),
                "a file is in no package; import the module by its name alone",
            )
            return
        names = [(module, "" if alias.name == "*" else alias.name) for alias in node.names]
    for module, name in names:
        entry = unsupported.entry(f"{module}.{name}" if name else module)
        if is_optional:
            continue  # the app goes on without it
        if entry is not None:
            yield node.lineno, *entry
        else:
            yield from ((node.lineno, what, why) for what, why in _missing(module, name, place))


def _absolute(node: ast.ImportFrom, place: _Place) -> str | None:
    if not node.level:
        return node.module or ""
    parents = place.package.split(".") if place.package else []
    if node.level > len(parents):
        return None
    start = parents[: len(parents) - node.level + 1]
    return ".".join([*start, node.module] if node.module else start)


def _missing(module: str, name: str, place: _Place) -> Iterator[tuple[str, str]]:
    """Returns why a module cannot be imported in the zone, and notes modules of the application's own."""
    top = module.partition(".")[0]
    if top in ("ryu", "os_ken"):
        if modules.find(module, place.python_path) is None:
            yield module, needs_ryu(module)
        elif name and not modules.provides(module, name, place.python_path):
            yield f"{module}.{name}", needs_ryu(f"{module}.{name}")
        return
    if top in sys.stdlib_module_names or top == "rosemary":
        return
    granted = modules.find(top, place.python_path)
    installed = modules.find(top, sys.path) if granted is None else None
    if installed is not None:
        return
    beside = modules.find(top, [place.directory]) if granted is None else granted
    if beside is None:
        yield top, f"it is not installed; type: {install(top)}, or name the directory that contains it with --python-path DIR"
        return
    if modules.is_distributed(beside):
        return
    for part in {module, f"{module}.{name}" if name else module}:
        file = modules.find(part, [*place.python_path, place.directory])
        if file is not None and file.suffix == ".py":
            place.local[part] = file
    if granted is None and place.is_app:
        root = place.directory
        first = "move it out of /tmp, as a zone has its own, and name" if root.is_relative_to("/tmp") else "name"
        yield top, f"an app does not see the files beside it; {first} the directory with --python-path {root}"


def needs_ryu(module: str) -> str:
    """Returns what to do about a module that Rosemary does not provide."""
    if module.split(".")[1:2] == ["app"]:
        return (
            f"it is part of Ryu itself; type: {install('--no-deps ryu==4.34')} (docs/ryu.md has the constraint that it needs)"
        )
    return "neither Rosemary nor os-ken has this module; remove the import"


def install(package: str) -> str:
    """Returns the command that installs a package for apps."""
    pip = Path(sys.prefix, "bin", "pip")
    return f"{pip} install {package}" if pip.exists() else f"pip --python {sys.prefix} install {package}"


def _versions(node: ast.Assign | ast.AnnAssign, scope: Scope) -> Iterator[tuple[int, str, str]]:
    """Looks for an application that supports none of Rosemary's versions of OpenFlow."""
    named = versions.named(node, scope)
    if named and not named & versions.SUPPORTED:
        yield node.lineno, f"OpenFlow {', '.join(sorted(named))}", f"apps may support {', '.join(sorted(versions.SUPPORTED))}"


def _findings(file: Path, shown: str, python_path: list[str], package: str) -> list[Finding]:
    """Returns the findings in a file, and in the modules of its own that it imports."""
    first = _Place(shown, True, python_path, package)
    found = _check(sources.text(file), first)
    waiting, known = list(first.local.items()), {file.resolve()}
    while waiting:
        module, path = waiting.pop(0)
        if path.resolve() in known:
            continue
        known.add(path.resolve())
        inside = module if path.name == "__init__.py" else module.rpartition(".")[0]
        # Modules that it imports are looked up where the application's are.
        place = _Place(str(path), False, [*python_path, str(first.directory)], inside)
        try:
            found.extend(_check(sources.text(path), place))
        except SyntaxError as error:
            found.append(Finding(str(path), error.lineno or 1, *_not_python(error)))
        except (OSError, UnicodeDecodeError) as error:
            found.append(Finding(str(path), 1, "cannot be read", str(error)))
        waiting.extend(place.local.items())
    return found


def _not_python(error: SyntaxError) -> tuple[str, str]:
    return f"not Python {sys.version_info[0]}.{sys.version_info[1]}", error.msg


def _file_of(app: str, python_path: list[str]) -> tuple[Path, str]:
    """Returns the file of an application, which is a path or the name of a module, and its package."""
    if app.endswith(".py") or "/" in app or Path(app).exists():
        return Path(app), ""
    file = modules.find(app, [*python_path, *sys.path])
    if file is None or file.suffix != ".py":
        hint = (
            needs_ryu(app)
            if app.startswith(("ryu.", "os_ken."))
            else f"it is neither a file nor a module that is installed; type: {install(app)}"
        )
        raise FileNotFoundError(hint)
    return file, app if file.name == "__init__.py" else app.rpartition(".")[0]


def main(arguments: list[str]) -> int:
    """Checks applications, prints what it finds, and returns 0 if that is nothing, 1 if it is something, 2 for unreadable files."""
    parser = argparse.ArgumentParser(
        prog="rosemary ryu check",
        description="Lists what apps of Ryu use that is not supported, without running them.",
        epilog="Exit status: 0 without findings, 1 with findings, 2 if an app cannot be read.",
        allow_abbrev=False,
    )
    parser.add_argument("apps", metavar="APP", nargs="+", help="a file (app.py), or the name of a module (ryu.app.NAME)")
    parser.add_argument(
        "--python-path",
        metavar="DIR",
        action="append",
        default=[],
        help="a directory with modules of the apps, as of rosemary ryu",
    )
    try:
        given = parser.parse_args(arguments)
    except SystemExit as exit:
        return int(exit.code or 0)
    status = 0
    printed: set[Finding] = set()  # apps may share modules
    served: dict[Path, str] = {}
    for app in given.apps:
        try:
            file, package = _file_of(app, given.python_path)
            shown = app if str(file) == app else str(file)
            findings = _findings(file, shown, given.python_path, package)
            if web.serves(file, given.python_path, package):
                served.setdefault(file, app)
        except (OSError, UnicodeDecodeError) as error:
            print(sources.shown(f"{app}: cannot be read: {error}"), file=sys.stderr)
            return 2
        except (MemoryError, sources.TooCostly):
            print(sources.shown(f"{app}: {_TOO_COSTLY}"), file=sys.stderr)
            return 2
        except SyntaxError as error:
            print(Finding(str(file), error.lineno or 1, *_not_python(error)))
            status = 1
            continue
        for finding in dict.fromkeys(findings):
            if finding not in printed:
                print(finding)
        printed.update(findings)
        if findings:
            status = 1
        else:
            print(sources.shown(f"{app}: nothing is known that would not work"))
    if len(served) > 1:
        print(sources.shown(_about_ports(list(served.values()))))
    return status


def _about_ports(apps: list[str]) -> str:
    """Says at which ports `rosemary ryu` serves several applications with a web interface, and why."""
    ports = ["PORT", *(f"PORT + {number}" for number in range(1, len(apps)))]
    return (
        "each app has a process, contexts and a port of its own, so that it can fail alone; with --wsapi-port PORT: "
        f"{', '.join(f'{app} at {port}' for app, port in zip(apps, ports, strict=True))}; for one port, start one file that "
        "requires the apps with app_manager.require_app (docs/ryu.md)"
    )


if __name__ == "__main__":
    sources.bound()
    sys.exit(main(sys.argv[1:]))
