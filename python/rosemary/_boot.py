"""Starts the zone of an app in Python. The monitor runs it with `python3 -I -S -B`.

Until the process is confined, this imports nothing except the native module beside it. Afterwards the app's packages join
the import path. Nobody runs `site`, so no `.pth` file and no `sitecustomize` has an effect.
"""

import sys

import _frozen_importlib
import _frozen_importlib_external
import _imp

HERE = __file__.rpartition("/")[0]


def native():
    """Loads the native module from beside this file."""
    name, path = "rosemary._native", HERE + "/_native.abi3.so"
    loader = _frozen_importlib_external.ExtensionFileLoader(name, path)
    spec = _frozen_importlib.ModuleSpec(name, loader, origin=path)
    module = _imp.create_dynamic(spec)
    _imp.exec_dynamic(module)
    module.__spec__, module.__loader__ = spec, loader
    sys.modules[name] = module
    return module


def main():
    """Confines the process, then runs the app. Returns the exit code."""
    zone = native().start()
    if zone is None:
        return 0
    import os

    os.environ.clear()
    os.environ.update(zone.env)
    sys.path.extend(zone.python_path)
    if zone.archive is not None:
        sys.path.append(zone.archive)
    sys.path.append(HERE.rpartition("/")[0])
    sys.stdout.reconfigure(line_buffering=True)
    sys.argv = [zone.objects[0]]
    import rosemary._runner

    code = rosemary._runner.run(zone)
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of the app must not delay the end.
    os._exit(code)


sys.exit(main())
