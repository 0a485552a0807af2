"""Tests of the tables of speed, with invented controllers and measurements."""

import contextlib
import io
import sys
import types
import unittest
from pathlib import Path
from unittest import mock

EXPERIMENTS = Path(__file__).resolve().parent.parent
for folder in ["", "speed"]:
    sys.path.insert(0, str(EXPERIMENTS / folder))
import bench  # noqa: E402
import measure  # noqa: E402
import rates  # noqa: E402


class Invented(bench.Bench):
    """Controllers without processes. Answers per second are twice as many in 1.3 as in other versions."""

    def __init__(self, spoken):
        self.spoken, self.runs = spoken, []

    def null(self):
        return types.SimpleNamespace(name="null")

    def rosemary(self, host, *_):
        return types.SimpleNamespace(name=host)

    def run(self, mode, controller, *words, vs=None):
        of = words[words.index("--of") + 1]
        self.runs.append((mode, controller.name, of))
        if controller.name != "null" and of not in self.spoken:
            raise measure.Refused("refused")
        rate = 2e6 if of == "1.3" else 1e6
        return {"answered_per_second": {"median": rate, "least": rate, "most": rate}}


def versions(spoken):
    """Returns the rows of the table by their names, and the runs."""
    invented = Invented(spoken)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        rates.versions(invented, 1, 2)
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.getvalue().splitlines() if "packets" in line or "buffered" in line]
    return {line[0]: line[1:] for line in lines}, invented.runs


class Versions(unittest.TestCase):
    def test_refused_versions_are_named(self):
        rows, runs = versions(["1.0", "1.3"])
        self.assertEqual(list(rows), [
            "1.0, buffered", "1.0, whole packets", "1.1, buffered", "1.2, buffered", "1.3, buffered", "1.3, whole packets",
            "1.4, buffered", "1.4, whole packets", "1.5, buffered", "1.5, whole packets",
        ])
        for name, cells in rows.items():
            self.assertEqual("refused" in cells, name[:3] not in ["1.0", "1.3"], name)
        self.assertEqual(rows["1.5, buffered"], ["1.00 (1.00 to 1.00)", *["refused", "-", "-"] * 2])
        self.assertFalse([run for run in runs if run[0] == "throughput" and run[1:] == ("user", "1.5")])

    def test_ratios_are_of_the_null_controller_and_of_1_3(self):
        rows, runs = versions(list(rates.VERSIONS))
        self.assertEqual(rows["1.3, buffered"][2:4], ["1.00", "1.00"])
        self.assertEqual(rows["1.5, whole packets"][2:4], ["1.00", "0.500"])
        loads = [run for run in runs if run[0] == "throughput"]
        # In each round every load is put on every controller.
        self.assertEqual(loads[:30], loads[30:])


class Refusals(unittest.TestCase):
    def run_with(self, stderr):
        ran = types.SimpleNamespace(returncode=1, stdout="", stderr=stderr)
        controller = types.SimpleNamespace(at="127.0.0.1:1", log="/nowhere", pids=lambda: [1])
        with mock.patch("subprocess.run", return_value=ran):
            measure.ofbench("connect", controller, 0)

    def test_refusal_differs_from_other_failures(self):
        for said in ["it does not speak OpenFlow 1.4: it speaks", "it rejects OpenFlow 1.4: HELLO_FAILED"]:
            with self.assertRaises(measure.Refused):
                self.run_with(f"ofbench: the controller violates the protocol: {said}")
        with self.assertRaises(measure.Failed) as failed:
            self.run_with("ofbench: cannot connect")
        self.assertNotIsInstance(failed.exception, measure.Refused)


if __name__ == "__main__":
    unittest.main()
