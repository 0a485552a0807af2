"""The parts of the client of the service of databases that work without a zone."""

import unittest
from uuid import UUID

import rosemary
from rosemary import App, Database, DatabaseRow, OvsdbAnswer, OvsdbEvent, OvsdbRefused, Ref, Unavailable, WantedRow
from rosemary.testing import RecordingNetwork

PORT = UUID(int=1)


class Shaper(App):
    """Wants a queue for the port p1 of each database."""

    def __init__(self):
        self.seen = []

    def on_service_up(self, event, network):
        network.databases()

    def on_ovsdb(self, event, network):
        try:
            answer = event.result()
        except (OvsdbRefused, Unavailable) as error:
            self.seen.append(str(error))
            return
        self.seen.append(answer.kind)
        if answer.kind == "databases":
            for database in answer.databases:
                network.database_rows(database.name, "Port")
                network.watch_database(database.name)
        if answer.kind == "rows" and any(row.one("name") == "p1" for row in answer.rows):
            network.want_rows("edge", [WantedRow("Queue", "slow", {"dscp": 7})])
        if answer.kind == "wanted":
            self.seen.extend(answer.refused)


class Ovsdb(unittest.TestCase):
    def test_app_is_tested_without_rosemary(self):
        app, network = Shaper(), RecordingNetwork()
        app.on_batch([rosemary.ServiceUp("ovsdb")], network)
        databases = OvsdbAnswer("databases", owner="0001/shaper", databases=[Database("edge")])
        rows = OvsdbAnswer("rows", rows=[DatabaseRow(PORT, {"name": "p1"})])
        wanted = OvsdbAnswer("wanted", refused=[("slow", "no right")])
        events = [OvsdbEvent(it, answer) for it, answer in enumerate((databases, rows, wanted), 1)]
        app.on_batch([*events, OvsdbEvent(4, OvsdbRefused("busy")), OvsdbEvent(5, Unavailable("gone"))], network)
        calls = [
            ("databases", ()),
            ("database_rows", ("edge", "Port", None)),
            ("watch_database", ("edge",)),
            ("want_rows", ("edge", [WantedRow("Queue", "slow", {"dscp": [7]})])),
        ]
        self.assertEqual(network.sent, calls)
        self.assertEqual(app.seen, ["databases", "rows", "wanted", ("slow", "no right"), "busy", "gone"])
        self.assertEqual(databases.owner, "0001/shaper")
        with self.assertRaisesRegex(ValueError, "exception"):
            OvsdbEvent(1, "done")

    def test_values_survive(self):
        given = {
            "number": 7,
            "negative": -(2**63),
            "real": 0.5,
            "truth": True,
            "text": "linux-htb",
            "row": PORT,
            "none": None,
            "set": {1},
            "list": ["a", Ref.port("eth0")],
            "map": {0: Ref.wanted("slow")},
        }
        row = WantedRow("QoS", "q", given, under=("Port", "eth0", "qos"))
        whole = {
            "number": [7],
            "negative": [-(2**63)],
            "real": [0.5],
            "truth": [True],
            "text": ["linux-htb"],
            "row": [PORT],
            "none": [],
            "set": [1],
            "list": ["a", Ref.port("eth0")],
            "map": {0: Ref.wanted("slow")},
        }
        self.assertEqual(row.columns, whole)
        self.assertIs(row.columns["truth"][0], True)
        self.assertEqual((row.table, row.key, row.under), ("QoS", "q", ("Port", "eth0", "qos")))
        self.assertEqual(row, WantedRow("QoS", "q", whole, under=("Port", "eth0", "qos")))
        self.assertNotEqual(row, WantedRow("QoS", "q", whole))

    def test_values_that_no_column_has_are_refused(self):
        for value, error in ((object(), TypeError), ([[1]], TypeError), ({"a": [1]}, TypeError), (2**63, OverflowError)):
            with self.subTest(value), self.assertRaises(error):
                WantedRow("Queue", "q", {"dscp": value})
        with self.assertRaisesRegex(TypeError, "dscp has a bytes"):
            WantedRow("Queue", "q", {"dscp": b"7"})

    def test_rows_are_read(self):
        row = DatabaseRow(PORT, {"name": "p1", "tags": [1, 2], "trunks": [], "statistics": {"rx_errors": 3}}, cut=True)
        self.assertEqual((row.id, row.cut, row.one("name")), (PORT, True, "p1"))
        self.assertEqual([row.one(it) for it in ("tags", "trunks", "statistics", "absent")], [None] * 4)
        self.assertEqual(row.entry("statistics", "rx_errors"), 3)
        self.assertIsNone(row.entry("statistics", "tx_errors") or row.entry("name", "p1") or row.entry("absent", "x"))


if __name__ == "__main__":
    unittest.main()
