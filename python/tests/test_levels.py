"""Levels of records that the app's own handlers write to its output."""

import contextlib
import io
import logging
import sys
import unittest

from rosemary import _runner


class Zone:
    """Keeps lines of the log."""

    def __init__(self):
        self.lines = []

    def log(self, level, text):
        self.lines.append((level, text))


class Levels(unittest.TestCase):
    def setUp(self):
        self.addCleanup(setattr, logging.StreamHandler, "emit", logging.StreamHandler.emit)
        self.logger = logging.getLogger("rosemary.test")
        self.logger.propagate = False
        self.addCleanup(self.logger.handlers.clear)

    def test_handler_of_the_output_keeps_levels(self):
        zone, other = Zone(), io.StringIO()
        _runner.keep_levels(_runner.ZoneLog(zone))
        for stream in (sys.stdout, sys.stderr, other):
            handler = logging.StreamHandler(stream)
            handler.setFormatter(logging.Formatter("own %(levelname)s %(message)s"))
            self.logger.addHandler(handler)
        self.logger.error("bad\nvery")
        self.logger.warning("odd")
        error, warning = [(1, "own ERROR bad"), (1, "very")], [(2, "own WARNING odd")]
        self.assertEqual(zone.lines, error * 2 + warning * 2)
        self.assertEqual(other.getvalue(), "own ERROR bad\nvery\nown WARNING odd\n")

    def test_redirected_output_stays_the_apps(self):
        zone, buffer = Zone(), io.StringIO()
        _runner.keep_levels(_runner.ZoneLog(zone))
        with contextlib.redirect_stderr(buffer):
            self.logger.addHandler(logging.StreamHandler())
            self.logger.error("bad")
        self.assertEqual((zone.lines, buffer.getvalue()), ([], "bad\n"))


if __name__ == "__main__":
    unittest.main()
