"""Packets are read as by the Rust SDK, and any bytes are allowed."""

import unittest

from rosemary import Packet

HOST, OTHER = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
ARP = b"\xff" * 6 + HOST + bytes.fromhex("0806 0001 0800 06 04 0001") + HOST + bytes([10, 0, 0, 1]) + bytes(6) + bytes([10, 0, 0, 2])
UDP = (
    OTHER
    + HOST
    + bytes.fromhex("8100 0064 0800")
    + bytes.fromhex("4500 0021 0000 0000 40 11 0000 0a000001 0a000002")
    + bytes.fromhex("03e8 0035 000d 0000")
    + b"query"
)


class Packets(unittest.TestCase):
    def test_arp_request_is_read_and_answered(self):
        packet = Packet.parse(ARP)
        self.assertEqual((packet.eth_src, packet.eth_type, packet.vlan), (HOST, 0x0806, None))
        self.assertEqual((packet.ip_src, packet.src_port, packet.data), (None, None, None))
        arp = packet.arp
        self.assertEqual((arp.operation, arp.sender_mac, arp.sender_ip, arp.target_ip), (1, HOST, "10.0.0.1", "10.0.0.2"))
        answer = Packet.parse(arp.reply("02:00:00:00:00:02"))
        self.assertEqual((answer.eth_dst, answer.eth_src, answer.arp.operation), (HOST, OTHER, 2))
        self.assertEqual((answer.arp.sender_mac, answer.arp.sender_ip), (OTHER, "10.0.0.2"))

    def test_udp_in_a_vlan_is_read(self):
        packet = Packet.parse(UDP)
        self.assertEqual((packet.vlan, packet.eth_type), (100, 0x0800))
        self.assertEqual((packet.ip_src, packet.ip_dst, packet.ip_proto), ("10.0.0.1", "10.0.0.2", 17))
        self.assertEqual((packet.src_port, packet.dst_port, packet.data), (1000, 53, b"query"))
        self.assertIn("10.0.0.1 > 10.0.0.2", repr(packet))

    def test_cut_packets_lack_parts(self):
        for end in range(len(UDP)):
            packet = Packet.parse(UDP[:end])
            self.assertEqual(packet is None, end < 14, end)
            if packet is not None and end < 42:
                self.assertIsNone(packet.src_port, end)


if __name__ == "__main__":
    unittest.main()
