"""Notes how Rosemary starts this interpreter, in `rosemary-python.json` of the virtual environment.

`make python` runs it once: `python -m rosemary._install`. `make install` passes the root directory of a package, `DESTDIR`, which
the paths in the file do not have.
"""

import importlib.util
import json
import os
import sys
import sysconfig


def note(root: str = "") -> dict[str, object]:
    """What the monitor must know: the program, the script, and the directories that each app may read."""
    roots = [it for it in (root.rstrip("/"), os.path.realpath(root).rstrip("/")) if root and it]

    def installed(path: str) -> str:
        within = next((it for it in roots if path.startswith(it + "/")), "")
        return path[len(within) :]

    here = os.path.realpath(os.path.dirname(__file__))
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths |= {path for path in sys.path if path.endswith("/lib-dynload")}
    paths.add(os.path.dirname(here))
    real = sorted({os.path.realpath(path) for path in paths if path and os.path.isdir(path)})
    # A directory shows the directories below it.
    read = [
        path for path in real if not any(path.startswith(other + "/") for other in real if other != path)
    ]
    # The libraries of the system are visible in every zone.
    read = [path for path in map(installed, read) if not path.startswith(("/usr/lib/", "/lib/"))]
    return {
        "interpreter": installed(os.path.join(sys.prefix, "bin", "python3")),
        "boot": installed(os.path.join(here, "_boot.py")),
        "read": read,
        "ryu": importlib.util.find_spec("rosemary_ryu") is not None,
        "version": ".".join(map(str, sys.version_info[:3])),
    }


def main(root: str = "") -> None:
    """Writes the file. `root` is the root directory of a package."""
    path = os.path.join(sys.prefix, "rosemary-python.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(note(root), file, indent=2)
        file.write("\n")
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:2])
