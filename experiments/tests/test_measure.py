"""Tests of the parts that experiments share."""

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

EXPERIMENTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(EXPERIMENTS))
import measure  # noqa: E402


def needed():
    """Returns the programs that the experiments need."""
    texts = [path.read_text() for path in EXPERIMENTS.glob("**/*.py")]
    calls = " ".join(call for text in texts for call in re.findall(r"^(?: +need\(|PROGRAMS = )(.*)", text, re.M))
    return sorted(set(re.findall(r'"([^"]+)"', calls)))


class Controllers(unittest.TestCase):
    def test_other_controllers_can_be_left_out(self):
        named = [(name, None) for name in ("ofbench null", "Rosemary, user app", "ovs-testcontroller", "os-ken 2.3.1")]
        self.assertEqual(measure.chosen(iter(named), None), named)
        self.assertEqual(measure.chosen(iter(named), "rosemary"), named[:2])

    def test_each_comparison_has_the_option(self):
        for script in EXPERIMENTS.glob("*/*.py"):
            text = script.read_text()
            if "os_ken()" in text and "ArgumentParser" in text:
                self.assertIn("add_only(parser", text, script)


class Packages(unittest.TestCase):
    def test_missing_programs_name_their_packages_once(self):
        path = os.environ["PATH"]
        try:
            os.environ["PATH"] = "/nowhere"
            with self.assertRaises(measure.Failed) as failed:
                measure.need("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ping", "nsenter", "ip", "ss", "ethtool")
        finally:
            os.environ["PATH"] = path
        packages = str(failed.exception).split("apt-get install ")[1]
        self.assertEqual(packages, "openvswitch-switch iputils-ping util-linux iproute2 ethtool")

    def test_packages_are_those_of_make(self):
        programs = needed()
        self.assertIn("ovs-vswitchd", programs)
        self.assertIn("ping", programs)
        text = (EXPERIMENTS.parent / ".ci" / "need").read_text()
        function = text[text.index("package_of()"):text.index("missing=()")]
        for program in programs:
            asked = subprocess.run(
                ["bash", "-c", f'{function} package_of "$1"', "bash", program], capture_output=True, text=True, check=True,
            )
            self.assertEqual(measure.PACKAGES.get(program, program), asked.stdout.strip(), program)


if __name__ == "__main__":
    unittest.main()
