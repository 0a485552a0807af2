"""An unknown word in a call is refused with the words that the call takes."""

import unittest

from rosemary import At, Wanted


class Words(unittest.TestCase):
    def test_unknown_group_type_lists_the_types(self):
        with self.assertRaises(ValueError) as raised:
            Wanted().group(At.one(1), 1, group_type="failover")
        expected = '"failover" is no type of a group; use "all", "select", "indirect" or "fast-failover"'
        self.assertEqual(str(raised.exception), expected)

    def test_unknown_meter_flag_lists_the_flags(self):
        with self.assertRaises(ValueError) as raised:
            Wanted().meter(At.one(1), 1, flags=["mbps"])
        self.assertIn("it has kbps, pktps, burst, stats", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
