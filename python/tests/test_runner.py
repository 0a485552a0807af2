"""What the monitor learns of an app that ends itself."""

import unittest

from rosemary import _runner


class Zone:
    """A zone that keeps its calls."""

    def __init__(self, is_loaded):
        self.is_loaded = is_loaded
        self.reports = []

    def log(self, level, text):
        self.reports.append(("log", text))

    def import_failed(self, why):
        self.reports.append(("unfit", why))

    def raised(self, why):
        self.reports.append(("raised", why))


def ended(is_loaded, code):
    zone = Zone(is_loaded)
    return _runner.ended_itself(zone, code), zone.reports


class EndedItself(unittest.TestCase):
    def test_end_before_it_is_loaded_holds_the_app_with_the_reason(self):
        self.assertEqual(ended(False, 3), (3, [("unfit", "it ended itself at its start: sys.exit(3)")]))
        self.assertEqual(ended(False, None), (0, [("unfit", "it ended itself at its start: sys.exit(0)")]))
        code, reports = ended(False, "no key:\n  set API_KEY")
        self.assertEqual((code, reports[-1]), (1, ("unfit", "it ended itself at its start: no key: set API_KEY")))

    def test_end_of_a_running_app_keeps_its_code_and_its_text(self):
        self.assertEqual(ended(True, 3), (3, []))
        self.assertEqual(ended(True, None), (0, []))
        code, reports = ended(True, "the table is gone")
        self.assertEqual((code, reports[-1]), (1, ("raised", "SystemExit: the table is gone")))


if __name__ == "__main__":
    unittest.main()
