"""Tests of what the experiments print about measurements that failed."""

import contextlib
import io
import sys
import unittest
from pathlib import Path

EXPERIMENTS = Path(__file__).resolve().parent.parent
for folder in ["", "decoupling", "protection", "tls-cost"]:
    sys.path.insert(0, str(EXPERIMENTS / folder))
import decoupling  # noqa: E402
import measure  # noqa: E402
import protection  # noqa: E402
import tls_cost  # noqa: E402


def row(count=100, mean=50.0, interval=(48.0, 52.0)):
    return {"status": "measured", "count": count, "mean": mean, "median": mean, "mean_ci95": list(interval),
            "median_ci95": list(interval), "jitter": 1.0, "unit": "us"}


FAILED = {"status": "failed", "reason": "the switch has closed the connection"}


def pair(name, before, during):
    return {f"round trip before, {name}": before, f"round trip, {name}": during}


class Baseline(unittest.TestCase):
    def test_short_or_uncertain_baseline_is_refused(self):
        self.assertIsNone(decoupling.baseline_mistake(row()))
        self.assertIn("2 round trips", decoupling.baseline_mistake(row(count=2)))
        self.assertIn("-10.0 to 110.0", decoupling.baseline_mistake(row(interval=(-10.0, 110.0))))
        self.assertIn("closed the connection", decoupling.baseline_mistake(FAILED))
        self.assertIn("no such row", decoupling.baseline_mistake(None))

    def test_row_of_few_samples_has_no_figures(self):
        rows = pair("insert strict at 10/s", row(), row(count=1))
        cells = decoupling.line("insert", "strict", 100, rows)
        self.assertEqual(cells[3:9], ["-"] * 6)
        self.assertIn("too few", cells[-1])

    def test_row_without_a_baseline_of_its_own_names_the_reason(self):
        cells = decoupling.line("insert", "strict", 100, pair("insert strict at 10/s", FAILED, row()))
        self.assertEqual(cells[3:], ["-"] * 6 + [FAILED["reason"]])


class Claims(unittest.TestCase):
    def test_last_line_is_the_verdict(self):
        for broken, line in [([], "holds"), (["a", "b"], "does not hold: a; b")]:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                measure.verdict(broken)
            self.assertEqual(out.getvalue().splitlines()[-1], line)

    def test_deletions_that_slow_nothing_break_the_claim(self):
        rows = {}
        for rate in [100, 1000]:
            rows |= pair(f"delete strict at {rate}/s", row(), row(mean=80, interval=(78, 82)))
        self.assertEqual(decoupling.broken_claims(rows, 1000), [])
        # Slower than at other times, but not than just before.
        rows |= pair("delete strict at 1000/s", row(mean=80, interval=(78, 82)), row(mean=80, interval=(78, 82)))
        del rows["round trip, delete strict at 100/s"]
        first, second = decoupling.broken_claims(rows, 1000)
        self.assertIn("every 10 ms was not measured", first)
        self.assertIn("every 1 ms does not slow", second)

    def test_means_over_rates_are_ordered(self):
        rows = pair("insert strict at 10/s", row(), row(mean=55)) | pair("insert strict at 100/s", row(mean=100), row(mean=130))
        rows |= pair("delete strict at 10/s", row(), row(mean=75))
        means = decoupling.means_over_rates(rows, "strict", decoupling.STUDIED)
        self.assertEqual({change: round(mean) for change, mean in means.items()}, {"insert": 20, "delete": 50})
        self.assertEqual(decoupling.order(means), "insert < delete")
        self.assertEqual(round(decoupling.means_over_rates(rows, "strict", [100])["insert"]), 10)

    def test_tls_has_to_delay_the_first_packet_in_each_round(self):
        name = tls_cost.ROWS[0]
        faster, slower = {name: row(mean=50)}, {name: row(mean=60)}
        broken = lambda tcp, tls: tls_cost.broken_claims({"TCP": tcp, "TLS": tls})  # noqa: E731
        self.assertEqual(broken([faster], [slower]), [])
        self.assertIn("-10.0 us", broken([faster, slower], [slower, faster])[0])
        self.assertIn("no round", broken([{}], [slower])[0])

    def test_interval_of_a_mean(self):
        mean, low, high = protection.mean_interval([1.0, 2.0, 3.0])
        self.assertEqual(mean, 2)
        self.assertAlmostEqual(high - mean, 1.96 / 3 ** 0.5)
        self.assertAlmostEqual(mean - low, high - mean)


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
