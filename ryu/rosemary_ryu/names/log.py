"""The set-up of the log. Rosemary has done it: records of `logging` are in the log of the app."""

from __future__ import annotations

import logging

from os_ken import cfg

CONF = cfg.CONF


def early_init_log(level: int | None = None) -> None:
    """Sets the level of the log, if one is given."""
    if level is not None:
        logging.getLogger().setLevel(level)


def init_log() -> None:
    """Does nothing: `ryu.cmd.manager` has set the level, and the options for files have no effect in a zone."""
