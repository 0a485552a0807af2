"""What the log says to do about exceptions that the confinement explains."""

import logging
import unittest
from types import SimpleNamespace

from rosemary import _hints, _runner


class Zone(SimpleNamespace):
    """The parts of a zone that the runner uses."""

    def __init__(self, source=b"", **fields):
        given = {"host": "python", "form": "source", "objects": ["/srv/apps/my_app.py"], "source": source, "capabilities": []}
        super().__init__(**{**given, **fields}, lines=[], why=None, is_loaded=False)

    def log(self, level, text):
        self.lines.append((level, text))

    def import_failed(self, why):
        self.why = why


def failed(statement):
    try:
        exec(statement, {})
    except Exception as error:
        return error
    raise AssertionError(statement)


class Hints(unittest.TestCase):
    def setUp(self):
        handlers = logging.getLogger().handlers
        self.addCleanup(handlers.__setitem__, slice(None), list(handlers))
        handlers.clear()

    def test_failed_import_names_the_ways_to_install(self):
        zone = Zone(b"import no_such_module\n")
        self.assertEqual(_runner.run(zone), 1)
        self.assertIn("No module named 'no_such_module'", zone.why)
        self.assertIn('python-path = ["/srv/apps"]', zone.why)
        self.assertRegex(zone.why, r"pip --python \S+ install no_such_module")
        self.assertNotIn("--python-path", zone.why)
        self.assertIn((1, zone.why.partition("; ")[2]), zone.lines)

    def test_app_of_ryu_in_the_other_host_is_recognised(self):
        zone = Zone(b"from ryu.base import app_manager\n")
        self.assertEqual(_runner.run(zone), 1)
        self.assertIn("my_app.py:ryu", zone.why)
        self.assertIn("rosemary ryu my_app.py", zone.why)

    def test_module_beside_an_app_of_ryu_needs_an_option(self):
        error = failed("import no_such_module.part")
        self.assertIn("--python-path /srv/apps", _hints.next_step(error, Zone(host="ryu")))
        self.assertIn("another directory", _hints.next_step(error, Zone(host="ryu", objects=["/tmp/app.py"])))
        self.assertIn("requirements.txt", _hints.next_step(error, Zone(form="archive")))

    def test_apps_of_ryu_itself_need_ryu(self):
        for error in (
            ImportError("cannot import name 'simple_switch_13' from 'os_ken.app' (/x/__init__.py)", name="os_ken.app"),
            ModuleNotFoundError("No module named 'ryu.app.simple_switch_13'", name="ryu.app.simple_switch_13"),
        ):
            self.assertIn("ryu.app.simple_switch_13 belongs to Ryu", _hints.next_step(error, Zone(host="ryu")))

    def test_other_exceptions_have_no_hint(self):
        zone = Zone(host="ryu")
        for statement in ("1/0", "from os import no_such_name", "import tkinter.no_such_part"):
            self.assertIsNone(_hints.next_step(failed(statement), zone), statement)
        self.assertIsNone(_hints.next_step(None, zone))

    def test_logged_exception_has_its_hint(self):
        zone = Zone()
        try:
            import no_such_module  # noqa: F401
        except ImportError:
            record = logging.LogRecord("x", logging.ERROR, "", 1, "failed", (), __import__("sys").exc_info())
        _runner.ZoneLog(zone).emit(record)
        self.assertIn("pip --python", zone.lines[-1][1])


if __name__ == "__main__":
    unittest.main()
