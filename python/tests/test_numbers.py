"""Errors of numbers name the argument and its range."""

import unittest

from rosemary import Action, Bucket, FlowMod, Match


class Numbers(unittest.TestCase):
    def test_wrong_number_has_its_name_and_range(self):
        cases = {
            "priority is 70000; expected 0 to 65535": lambda: FlowMod.add(priority=70000),
            "table_id is 256; expected 0 to 255": lambda: FlowMod.modify(table_id=256),
            "cookie is -1; expected 0 to 18446744073709551615": lambda: FlowMod.delete(cookie=-1),
            "meter is -5; expected 0 to 4294967295": lambda: FlowMod.add(meter=-5),
            "port is -1; expected 0 to 4294967295": lambda: Action.output(-1),
            "max_len is 65536; expected 0 to 65535": lambda: Action.output(1, 65536),
            "queue_id is -1; expected 0 to 4294967295": lambda: Action.set_queue(-1),
            "ttl is 256; expected 0 to 255": lambda: Action.set_nw_ttl(256),
            "weight is 65536; expected 0 to 65535": lambda: Bucket([], weight=65536),
        }
        for text, call in cases.items():
            with self.assertRaises(OverflowError) as raised:
                call()
            self.assertEqual(str(raised.exception), text)

    def test_numbers_in_range_are_taken(self):
        self.assertEqual(FlowMod.add(priority=65535, meter=None).encode(), FlowMod.add(Match(), priority=65535).encode())
        self.assertEqual(Action.output(port=2), Action.output(2, 0xFFFF))
        self.assertEqual(Action.push_vlan(), Action.push_vlan(0x8100))

    def test_other_types_are_errors_of_type(self):
        for call in (lambda: FlowMod.add(priority="1"), lambda: Action.output("1"), lambda: Action.output(None)):
            self.assertRaises(TypeError, call)


if __name__ == "__main__":
    unittest.main()
