"""Reads the options of `ryu-manager` and starts applications."""

from __future__ import annotations

import contextlib
import io
import logging
from typing import Any

from os_ken import cfg
from os_ken.app import wsgi
from os_ken.base.app_manager import AppManager
from os_ken.controller import controller
from os_ken.lib import hub
from os_ken.topology import switches

# Imported for the options that they define.
_DEFINES_OPTIONS = (controller, switches)

CONF = cfg.CONF
CONF.register_cli_opts(
    [
        cfg.ListOpt("app-lists", default=[], help="modules of applications"),
        cfg.MultiStrOpt("app", positional=True, default=[], help="modules of applications"),
        cfg.StrOpt("pid-file", default=None, help="no effect: Rosemary starts the process"),
        cfg.BoolOpt("enable-debugger", default=False, help="keeps the standard library's threads"),
        cfg.StrOpt("user-flags", default=None, help="a file that defines further options"),
        cfg.IntOpt("default-log-level", default=None, help="level of the log"),
        cfg.BoolOpt("verbose", default=False, help="logs debugging messages"),
        cfg.BoolOpt("use-stderr", default=True, help="no effect: the log goes to Rosemary"),
        cfg.BoolOpt("use-syslog", default=False, help="no effect: the log goes to Rosemary"),
        cfg.StrOpt("log-dir", default=None, help="no effect: the log goes to Rosemary"),
        cfg.StrOpt("log-file", default=None, help="no effect: the log goes to Rosemary"),
        cfg.StrOpt("log-file-mode", default="0644", help="no effect: the log goes to Rosemary"),
        cfg.StrOpt("log-config-file", default=None, help="no effect: the log goes to Rosemary"),
    ]
)


def read_options(args: list[str]) -> None:
    """Reads options in the form of the command line.

    Raises `ValueError` if an option is unknown, or its value is of another type.
    """
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            CONF(args=args, prog="ryu", project="ryu", version="rosemary-ryu", default_config_files=[])
    except SystemExit:
        # The last line is the error, behind a long usage. Another start would not help.
        error = printed.getvalue().strip().rpartition("\n")[2].removeprefix("ryu: error: ")
        raise ValueError(f"{error}; correct the app's options") from None
    if not CONF.enable_debugger:
        hub.patch(thread=True)
    level = CONF.default_log_level
    if level is None:
        level = logging.DEBUG if CONF.verbose else logging.INFO
    logging.getLogger().setLevel(level)


def start(app_mgr: AppManager, names: list[str]) -> list[Any]:
    """Loads and starts applications by the names of their modules, and their server. Returns their main threads.

    Raises `TypeError` if a module has no application: it would do nothing.
    """
    for name in names:
        if app_mgr.load_app(name) is None:
            raise TypeError(
                f"{name} defines no application: name a file with a class that derives from ryu.base.app_manager.RyuApp"
            )
    app_mgr.load_apps(names)
    contexts = app_mgr.create_contexts()
    services = app_mgr.instantiate_apps(**contexts)
    server = wsgi.start_service(app_mgr)
    if server is not None:
        services.append(hub.spawn(server))
    return services


def main(args: list[str] | None = None, prog: str | None = None) -> None:
    """Explains how applications are started: the program `ryu-manager` has no place in a zone."""
    raise SystemExit("Rosemary starts applications: rosemary ryu APP.py ... [ryu-manager's options]")
