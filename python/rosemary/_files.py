"""Logs which setting would let the app read a file that it could not open.

A zone hides files that are not granted, so Python says that they are missing. The monitor itself logs refused writing.
"""

from __future__ import annotations

import builtins
import errno
import io
import os.path
import sys
from typing import Any

from . import _native

_MOST_PATHS = 20
_GRANT = "fs.read:"

# Directories whose files no setting grants, and that libraries try.
_WITHOUT_ADVICE = ("/proc", "/sys", "/dev", "/app")

_WARN = 2


class Open:
    """`open`, with a line in the log for each of the first paths that fail.

    A class, not a function: as an attribute of a class, a function would become a method.
    """

    def __init__(self, zone: _native.Zone) -> None:
        self._open, self._zone = io.open, zone
        self._known: set[str] = set()
        self.__doc__ = io.open.__doc__

    def __call__(self, file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
        try:
            return self._open(file, mode, *args, **kwargs)
        except OSError as error:
            try:
                self._explain(file, mode, error.errno)
            except Exception:
                pass  # the app is to see its own error
            raise

    def _explain(self, file: Any, mode: str, number: int | None) -> None:
        if isinstance(file, int) or set(mode) & set("wax+") or len(self._known) >= _MOST_PATHS:
            return
        path = os.fsdecode(file).encode("utf-8", "backslashreplace").decode()
        if path in self._known:
            return
        advice = self._advice(path, number)
        if advice is not None:
            self._known.add(path)
            self._zone.log(_WARN, f"could not open {path}: {advice}")

    def _advice(self, path: str, number: int | None) -> str | None:
        full = os.path.abspath(path)
        granted = [it.removeprefix(_GRANT) for it in self._zone.capabilities if it.startswith(_GRANT)]
        if any(_is_in(full, it) for it in granted):
            is_refused = number == errno.EACCES
            return f"the app's user may not read it; let others read it: chmod o+r {path}" if is_refused else None
        if not path.startswith("/"):
            return (
                "relative names are in the app's own /tmp. If the app does not write the file itself, use the absolute path and "
                f'grant "{_GRANT}PATH"'
            )
        own = [sys.prefix, sys.base_prefix, *(it for it in sys.path if it)]
        if any(_is_in(full, it) for it in (*own, *_WITHOUT_ADVICE)):
            return None
        if _is_in(full, "/tmp"):
            # Files that it has not written yet are its own affair, but those beside it lie elsewhere.
            directory = self._zone.objects[0].rpartition("/")[0]
            is_beside = directory.startswith("/tmp/") and _is_in(full, directory)
            return f"an app has a /tmp of its own; move the file elsewhere and grant it with {_GRANT}PATH" if is_beside else None
        return f'an app sees only granted files; if it exists, add "{_GRANT}{full}" to the app\'s capabilities in rosemary.toml'


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def explain(zone: _native.Zone) -> None:
    """Has `open` explain its failures from now on."""
    explaining: Any = Open(zone)
    builtins.open = io.open = explaining
