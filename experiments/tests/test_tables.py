"""Tests of what the experiments print about measurements that failed."""

import sys
import unittest
from pathlib import Path

EXPERIMENTS = Path(__file__).resolve().parent.parent
for folder in ["", "decoupling", "tls-cost"]:
    sys.path.insert(0, str(EXPERIMENTS / folder))
import decoupling  # noqa: E402
import tls_cost  # noqa: E402


def row(count=100, mean=50.0, interval=(48.0, 52.0)):
    return {"status": "measured", "count": count, "mean": mean, "median": mean, "mean_ci95": list(interval),
            "median_ci95": list(interval), "jitter": 1.0, "unit": "us"}


FAILED = {"status": "failed", "reason": "the switch has closed the connection"}


class Baseline(unittest.TestCase):
    def test_short_or_uncertain_baseline_is_refused(self):
        self.assertIsNone(decoupling.baseline_mistake(row()))
        self.assertIn("2 round trips", decoupling.baseline_mistake(row(count=2)))
        self.assertIn("-10.0 to 110.0", decoupling.baseline_mistake(row(interval=(-10.0, 110.0))))
        self.assertIn("closed the connection", decoupling.baseline_mistake(FAILED))
        self.assertIn("no such row", decoupling.baseline_mistake(None))

    def test_row_of_few_samples_has_no_figures(self):
        rows = {"round trip, insert strict at 10/s": row(count=1)}
        cells = decoupling.line("insert", "strict", 100, rows, "insert strict at 10/s", row())
        self.assertEqual(cells[3:8], ["-"] * 5)
        self.assertIn("too few", cells[-1])


class Rounds(unittest.TestCase):
    def test_failed_rounds_are_counted_with_their_reasons(self):
        rounds = [{"a": row()}, {"a": FAILED}, {"a": FAILED}, {}]
        count, reasons = tls_cost.complete(rounds, "a")
        self.assertEqual(count, "1 of 4")
        self.assertEqual(reasons, ["the switch has closed the connection", "not measured"])
        self.assertEqual(tls_cost.remarks({"TCP": [], "TLS": reasons[:1]}), "TLS: the switch has closed the connection")
        self.assertEqual(tls_cost.remarks({"TCP": [], "TLS": []}), "-")


if __name__ == "__main__":
    unittest.main()
