"""Imports the app, and runs it in its zone."""

from __future__ import annotations

import importlib
import linecache
import logging
import sys
import traceback
import types

from . import _files, _hints, _native
from .app import App, Handler

_HERE = __file__.rpartition("/")[0] + "/"

ERROR, WARN, INFO, DEBUG = 1, 2, 3, 4


class ZoneLog(logging.Handler):
    """Passes the records of `logging` to the app's log."""

    def __init__(self, zone: _native.Zone) -> None:
        super().__init__()
        self.zone = zone

    def emit(self, record: logging.LogRecord) -> None:
        self.write(record, self.format(record))

    def write(self, record: logging.LogRecord, text: str) -> None:
        """Writes the text of a record, with the record's level."""
        level = (
            ERROR
            if record.levelno >= logging.ERROR
            else WARN
            if record.levelno >= logging.WARNING
            else INFO
            if record.levelno >= logging.INFO
            else DEBUG
        )
        for line in text.splitlines():
            self.zone.log(level, line)
        hint = _hints.next_step(record.exc_info[1], self.zone) if record.exc_info else None
        if hint is not None:
            self.zone.log(level, hint)


def keep_levels(log: ZoneLog) -> None:
    """Makes the app's own handlers for its output pass on the levels of their records: a printed line has none."""
    emit_to_stream = logging.StreamHandler.emit
    own = (sys.stdout, sys.stderr)  # an app may redirect them later

    def emit(self: logging.StreamHandler, record: logging.LogRecord) -> None:
        if not any(self.stream is it for it in own):
            emit_to_stream(self, record)
            return
        try:
            log.write(record, self.format(record))
        except Exception:
            self.handleError(record)

    logging.StreamHandler.emit = emit


def run(zone: _native.Zone) -> int:
    """Runs the app until the monitor stops it. Returns the exit code."""
    log = ZoneLog(zone)
    logging.basicConfig(level=logging.INFO, handlers=[log], format="%(message)s")
    keep_levels(log)
    _files.explain(zone)
    try:
        if zone.host == "ryu":
            _runner_of_ryu()(zone)
        else:
            main(zone)
    except SystemExit as exit:
        return ended_itself(zone, exit.code)
    except BaseException as error:
        log_exception(zone, error)
        summary = "".join(traceback.format_exception_only(error)).strip()
        summary = " ".join(summary.split())
        hint = _hints.next_step(error, zone)
        if hint is not None:
            zone.log(ERROR, hint)
            summary += f"; {hint}"
        if zone.is_loaded:
            zone.raised(summary)
        else:
            zone.import_failed(summary)
        return 1
    return 0


def ended_itself(zone: _native.Zone, code: object) -> int:
    """Reports the end that an app asked for with `sys.exit(code)`. Returns the exit code."""
    is_number = code is None or isinstance(code, int)
    why = f"sys.exit({code or 0})" if is_number else " ".join(str(code).split())
    if not is_number:
        zone.log(ERROR, str(code))
    if not zone.is_loaded:
        # Another start would end in the same way.
        zone.import_failed(f"it ended itself at its start: {why}")
    elif not is_number:
        zone.raised(f"SystemExit: {why}")
    return (code or 0) if is_number else 1


def _runner_of_ryu():
    try:
        from rosemary_ryu.runner import main as ryu
    except ModuleNotFoundError as error:
        if error.name not in ("rosemary_ryu", "rosemary_ryu.runner"):
            raise
        raise ImportError("rosemary-ryu is not installed; type: make python") from None
    return ryu


def main(zone: _native.Zone) -> None:
    """Runs an app of this SDK."""
    (module,) = load(zone)
    app = make_app(module)
    app.configure(zone.config.decode())
    handler = Handler(app, zone)
    zone.loaded(str(getattr(module, "__version__", "0")))
    zone.run(handler)


def make_app(module: types.ModuleType) -> App:
    """Returns the app of a module: its attribute `app`, or an instance of its only subclass of `App`."""
    app = getattr(module, "app", None)
    if isinstance(app, type) and issubclass(app, App):
        return app()
    if isinstance(app, App):
        return app
    own = [
        it
        for it in vars(module).values()
        if isinstance(it, type) and issubclass(it, App) and it.__module__ == module.__name__
    ]
    if len(own) == 1:
        return own[0]()
    names = ", ".join(it.__name__ for it in own) or "none"
    raise TypeError(
        f"{module.__name__} has no single subclass of rosemary.App ({names}); name one: app = MyApp"
    )


def load(zone: _native.Zone) -> list[types.ModuleType]:
    """Imports the app's objects."""
    if zone.form == "module":
        return [importlib.import_module(name) for name in zone.objects]
    if zone.form == "archive":
        return [importlib.import_module("app")]
    return [_execute(zone.objects[0], zone.source)]


def _execute(path: str, source: bytes) -> types.ModuleType:
    """Runs the source of a file that the monitor checked, as a module of the file's name."""
    name = path.rpartition("/")[2].removesuffix(".py").replace("-", "_")
    module = types.ModuleType(name)
    module.__file__ = path
    text = source.decode()
    linecache.cache[path] = (len(source), None, text.splitlines(keepends=True), path)
    sys.modules[name] = module
    exec(compile(text, path, "exec"), module.__dict__)
    return module


def log_exception(zone: _native.Zone, error: BaseException) -> None:
    """Writes a traceback to the app's log, without the frames of this package."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HERE):
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace or error.__traceback__)
    for line in "".join(lines).splitlines():
        zone.log(ERROR, line)
