"""Says what to do about an exception that the zone's confinement explains."""

from __future__ import annotations

import os.path
import re
import sys

from . import _native

# The virtual environment: this file is in `lib/pythonX/site-packages/rosemary` of it.
_ENVIRONMENT = os.path.abspath(__file__ + "/../../../../..")

_CANNOT_IMPORT = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")


def next_step(error: BaseException | None, zone: _native.Zone) -> str | None:
    """Returns what to do about an exception, if that is known."""
    if not isinstance(error, ImportError):
        return None
    cannot = _CANNOT_IMPORT.search(str(error))
    name = f"{cannot[2]}.{cannot[1]}" if cannot else error.name or ""
    top = name.partition(".")[0]
    if top in ("ryu", "os_ken"):
        return _of_ryu(name, zone)
    if cannot or not top or top in sys.stdlib_module_names or top in ("rosemary", "rosemary_ryu"):
        return None
    return _not_found(top, zone)


def _of_ryu(name: str, zone: _native.Zone) -> str | None:
    if zone.host != "ryu":
        file = zone.objects[0].rpartition("/")[2]
        return f'this is an app of Ryu: start it with `rosemary ryu {file}` or `rosemary up --app {file}:ryu`, or set host = "ryu"'
    if name.split(".")[1:2] == ["app"]:
        return (
            f"{name.replace('os_ken', 'ryu', 1)} belongs to Ryu itself: install it with PIP_CONSTRAINT as in docs/ryu.md, "
            f"pip --python {_ENVIRONMENT} install --no-deps ryu==4.34, or name its directory with --python-path"
        )
    return None


def _not_found(top: str, zone: _native.Zone) -> str:
    if zone.form == "archive":
        return f"the package of this app lacks {top}: put it beside app.py, or into requirements.txt, and build the package again"
    place = zone.objects[0].rpartition("/")[0] if zone.form == "source" else "DIR"
    option = f"--python-path {place}, or " if zone.host == "ryu" else ""
    moved = " (in another directory, as a zone has a /tmp of its own)" if place.startswith("/tmp") else ""
    return (
        f'if {top} is a file beside the app, name the directory: {option}python-path = ["{place}"] in rosemary.toml{moved}. If it is '
        f"in a package, install that for apps: pip --python {_ENVIRONMENT} install {top}"
    )
