"""The actions and match fields of Open vSwitch: their bytes, and errors of values."""

import unittest

from rosemary import Action, FlowMod, Match, Nicira


def encoded(action):
    """Returns the bytes of an action in a flow-mod."""
    empty, message = FlowMod.add().encode(), FlowMod.add(apply=[action]).encode()
    return message[len(empty) + 8 :].hex()


class Actions(unittest.TestCase):
    def test_actions_have_the_bytes_of_ovs_ofctl(self):
        head = "00002320"
        for action, expected in {
            Nicira.resubmit(5): f"ffff0010{head}0001000500000000",
            Nicira.resubmit_table(10): f"ffff0010{head}000efff80a000000",
            Nicira.resubmit_table(10, ct=True): f"ffff0010{head}002cfff80a000000",
            Nicira.load("reg0[4..11]", 0xAB): f"ffff0018{head}0007010700010004{0xAB:016x}",
            Nicira.load("NXM_NX_REG0[]", 5): f"ffff0018{head}0007001f00010004{5:016x}",
            Nicira.move("reg0[0..15]", "reg1[16..31]"): f"ffff0018{head}0006001000000010{'00010004'}{'00010204'}",
            Nicira.output_reg("reg1"): f"ffff0018{head}000f001f00010204ffff000000000000",
            Nicira.conjunction(99, 1, 3): f"ffff0010{head}0022010300000063",
            Nicira.note(b"\x01\x02"): f"ffff0010{head}0008010200000000",
            Nicira.ct(commit=True, zone=5, table=7): f"ffff0018{head}00230001000000000005070000000000",
            Nicira.ct(table=1, zone="reg0[0..15]"): f"ffff0018{head}0023000000010004000f010000000000",
            Nicira.ct_clear(): f"ffff0010{head}002b000000000000",
        }.items():
            self.assertEqual(encoded(action), expected)

    def test_nat_reads_ranges(self):
        for text, expected in {
            "10.0.0.1": "00010a000001",
            "10.0.0.1-10.0.0.9:1000-2000": "00330a0000010a00000903e807d0",
            "10.0.0.1:80": "00110a0000010050",
            "[fe80::1]-[fe80::9]:1-2": "003c" + "fe80" + "00" * 13 + "01" + "fe80" + "00" * 13 + "09" + "00010002",
            "fe80::1": "0004" + "fe80" + "00" * 13 + "01",
            "": "0000",
        }.items():
            nat = encoded(Nicira.ct(commit=True, actions=[Nicira.nat(src=text)]))
            self.assertIn("00002320" + "0024" + "0000" + "0001" + expected, nat, text)
        for wrong in ("10.0.0", "10.0.0.1-", "10.0.0.1:x", "10.0.0.9-10.0.0.1", "[fe80::1"):
            with self.assertRaises(ValueError, msg=wrong):
                Nicira.nat(src=wrong)

    def test_values_that_do_not_fit_are_errors(self):
        for call in (
            lambda: Nicira.load("reg0", 1 << 32),
            lambda: Nicira.load("reg0[30..33]", 0),
            lambda: Nicira.load("reg0[3", 0),
            lambda: Nicira.load("reg99", 0),
            lambda: Nicira.load("ct_state", 0),
            lambda: Nicira.conjunction(1, 3, 3),
            lambda: Nicira.nat(src="", dst=""),
            lambda: Nicira.multipath("reg0", 3, algorithm="random"),
            lambda: Nicira.ct(force=True),
        ):
            self.assertRaises(ValueError, call)
        self.assertRaises(OverflowError, lambda: Nicira.ct(zone=65536))

    def test_actions_compare_and_nest(self):
        self.assertEqual(Nicira.exit(), Nicira.exit())
        self.assertNotEqual(Nicira.exit(), Action.pop_vlan())
        clone = encoded(Nicira.clone([Nicira.load("reg0", 1), Action.output(2)]))
        self.assertIn(encoded(Nicira.load("reg0", 1)), clone)


class Fields(unittest.TestCase):
    def test_fields_have_the_names_of_ovs_ofctl(self):
        for match, expected in {
            Match(reg0=5): "reg0=0x5",
            Match(reg0=(5, 0xFF)): "reg0=0x5/0xff",
            Match(ct_state=(0x20, 0x20)): "ct_state=0x20/0x20",
            Match(tun_src="10.0.0.0/8"): "tun_src=0xa000000/0xff000000",
            Match(ct_label=1 << 100): f"ct_label={1 << 100:#x}",
        }.items():
            self.assertEqual(str(match), expected)

    def test_wrong_values_are_errors(self):
        for fields in ({"reg16": 1}, {"reg0": 1 << 32}, {"conj_id": (1, 1)}, {"reg0": "text"}):
            with self.assertRaises(ValueError, msg=fields):
                Match(**fields)


if __name__ == "__main__":
    unittest.main()
