"""What the log says to do about exceptions that the confinement explains."""

import builtins
import codecs
import errno
import io
import logging
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

from rosemary import _files, _hints, _runner


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
        self.addCleanup(setattr, logging.StreamHandler, "emit", logging.StreamHandler.emit)
        self.addCleanup(setattr, builtins, "open", open)
        self.addCleanup(setattr, io, "open", io.open)

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

    def opened(self, path, mode="r", **fields):
        zone = Zone(**fields)
        _files.explain(zone)
        for _ in range(2):
            with self.assertRaises(OSError):
                open(path, mode)
        return [text for _, text in zone.lines]

    def test_file_that_cannot_be_opened_has_its_key_once(self):
        (line,) = self.opened("/etc/no-such-file")
        self.assertIn('add "fs.read:/etc/no-such-file"', line)
        (line,) = self.opened("no-such-file.json")
        self.assertIn("absolute path", line)
        # The monitor logs these.
        for mode in ("w", "a", "r+"):
            self.assertEqual(self.opened("/no-such-directory/stats.csv", mode), [])
        (line,) = self.opened("/tmp/no-such-dir/rules.json", objects=["/tmp/no-such-dir/app.py"])
        self.assertIn("a /tmp of its own", line)

    def test_name_that_is_no_text_is_explained(self):
        (line,) = self.opened(b"/data/\xff")
        self.assertIn("\\udcff", line)
        line.encode()  # as the native module does

    def test_file_that_no_setting_would_grant_has_no_line(self):
        granted = ["packet-in", "fs.read:/etc/faucet"]
        for path in ("/etc/faucet/none.yaml", "/proc/no-such", "/tmp/no-such-file", _files.__file__ + "/x"):
            self.assertEqual(self.opened(path, capabilities=granted), [], path)

    def test_granted_file_with_narrow_permissions_is_explained(self):
        advice = _files.Open(Zone(capabilities=["fs.read:/etc/faucet"]))._advice("/etc/faucet/faucet.yaml", errno.EACCES)
        self.assertIn("chmod o+r /etc/faucet/faucet.yaml", advice)

    def test_files_are_explained_however_they_are_opened(self):
        zone = Zone()
        _files.explain(zone)
        with self.assertRaises(OSError):
            Path("/etc/no-such-file").read_text()
        with self.assertRaises(OSError):
            codecs.open("/etc/no-such-file-of-codecs")
        self.assertEqual(len(zone.lines), 2)
        for number in range(30):
            with self.assertRaises(OSError):
                open(f"/etc/no-such-file-{number}")
        self.assertEqual(len(zone.lines), 20)
        with tempfile.NamedTemporaryFile() as file, open(file.name, "rb") as again:
            self.assertEqual(again.read(), b"")


if __name__ == "__main__":
    unittest.main()
