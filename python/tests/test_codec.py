"""Runs the codec of `rosemary.openflow` through public vectors, which are not part of the project (`OPENFLOW_VECTORS`)."""

import os
import unittest
from pathlib import Path

from rosemary import openflow

FOLDER = os.environ.get("OPENFLOW_VECTORS")


def vectors(file):
    for line in (Path(FOLDER) / file).read_text().splitlines():
        yield line[:200], bytes.fromhex(line.rpartition("\t")[2])


@unittest.skipUnless(FOLDER, "OPENFLOW_VECTORS is not set")
class Vectors(unittest.TestCase):
    def test_valid_vectors_come_back(self):
        for version in ("10", "13"):
            count = 0
            for line, message in vectors(f"valid-of{version}.tsv"):
                decoded = openflow.decode(message)
                self.assertEqual(decoded.encode(), message, line)
                self.assertIsInstance(openflow.to_dict(message), dict, line)
                count += 1
            self.assertGreater(count, 100)

    def test_malformed_vectors_are_errors(self):
        for version in ("10", "13"):
            for line, message in vectors(f"malformed-of{version}.tsv"):
                with self.assertRaises(ValueError, msg=line):
                    openflow.decode(message)


class Codec(unittest.TestCase):
    def test_error_names_the_byte(self):
        with self.assertRaisesRegex(ValueError, "at byte 2"):
            openflow.decode(b"\x04\x00\x00")


if __name__ == "__main__":
    unittest.main()
