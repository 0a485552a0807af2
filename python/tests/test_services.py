"""Clients of services in apps, as far as they work without a zone."""

import unittest

import rosemary
from rosemary import (
    App,
    AppCounters,
    AppsAnswer,
    AppsEvent,
    AppsRefused,
    At,
    BrokerEvent,
    DrainEvent,
    DrainRefused,
    Endpoint,
    Expect,
    FlowMod,
    Hop,
    Hosts,
    Match,
    Measure,
    MeterBand,
    Path,
    StorageAnswer,
    StorageEvent,
    Topology,
    TopologyEvent,
    Unavailable,
    Wanted,
)
from rosemary.app import Handler
from rosemary.testing import RecordingNetwork


class Counter(App):
    """Counts its starts in the storage."""

    def __init__(self):
        self.starts = None

    def on_service_up(self, event, network):
        self.request = network.storage().get(b"starts")

    def on_storage(self, event, network):
        try:
            answer = event.result()
        except Unavailable:
            self.starts = None
            return
        if event.request == self.request:
            self.starts = int(answer.value or b"0") + 1
            network.storage().put(b"starts", b"%d" % self.starts, Expect.version(answer.version))


class Caller(App):
    """Connects to a host, limits an app, and notes the answers."""

    def __init__(self):
        self.seen = []

    def on_service_up(self, event, network):
        network.connect("example.org", 443)
        network.limit_app("bulk", Measure.throttle(20), 30, "too fast")

    def note(self, event):
        try:
            self.seen.append(event.result())
        except Exception as error:
            self.seen.append(str(error))

    def on_broker(self, event, network):
        self.note(event)
        self.seen.append(network.take(event.request))

    def on_apps(self, event, network):
        self.note(event)

    def on_drain(self, event, network):
        self.note(event)


class Services(unittest.TestCase):
    def test_answers_of_services_reach_callbacks(self):
        caller, network = Caller(), RecordingNetwork()
        caller.on_batch([rosemary.ServiceUp("broker")], network)
        self.assertEqual(network.sent[0], ("connect", ("example.org", 443)))
        self.assertEqual(network.sent[1], ("limit_app", ("bulk", Measure.throttle(20), 30, "too fast")))
        network.connections[1] = "a connection"
        caller.on_batch([BrokerEvent(1), BrokerEvent(1, ConnectionError("refused"))], network)
        self.assertEqual(caller.seen, [None, "a connection", "refused", None])
        answer = AppsAnswer("apps", apps=[AppCounters(3, "bulk", flow_mods=9, limit=Measure.SUSPEND)], more=True)
        events = [AppsEvent(2, answer), AppsEvent(2, AppsRefused("no")), DrainEvent(4), DrainEvent(5, DrainRefused("never"))]
        caller.seen = []
        caller.on_batch(events, network)
        self.assertEqual(caller.seen, [answer, "no", None, "never"])
        self.assertIsNone(answer.apps[0].limit.pace)
        for wrong in (AppsEvent, BrokerEvent, DrainEvent):
            with self.assertRaisesRegex(ValueError, "exception"):
                wrong(1, "done")

    def test_measures_are_checked(self):
        with self.assertRaisesRegex(ValueError, "SUSPEND"):
            Measure.throttle(0)
        self.assertEqual(str(Measure.throttle(7)), "throttled to 7 flow-mods/s for each switch")
        self.assertNotEqual(Measure.throttle(7), Measure.SUSPEND)

    def test_app_with_storage_is_tested_without_rosemary(self):
        counter, network = Counter(), RecordingNetwork()
        counter.on_batch([rosemary.ServiceUp("storage")], network)
        self.assertEqual(network.sent[0], ("storage.get", ("", b"starts")))
        answer = StorageAnswer("value", version=7, value=b"4")
        counter.on_batch([StorageEvent(counter.request, answer)], network)
        self.assertEqual(network.sent[1], ("storage.put", ("", b"starts", b"5", Expect.version(7))))
        self.assertNotEqual(Expect.version(7), Expect.NOTHING)
        counter.on_batch([StorageEvent(9, Unavailable("gone"))], network)
        self.assertIsNone(counter.starts)

    def test_answer_is_an_answer_or_an_exception(self):
        with self.assertRaises(ValueError):
            StorageEvent(1, "value")
        with self.assertRaisesRegex(Unavailable, "gone"):
            StorageEvent(1, Unavailable("gone")).result()

    def test_only_clients_are_followed(self):
        app = App()
        for client in (Topology(), Hosts(), Wanted()):
            app.follow(client)
        with self.assertRaisesRegex(TypeError, "this is a Stats"):
            app.follow(rosemary.Stats())

    def test_clients_need_the_zone(self):
        app = App()
        app.follow(Topology())
        with self.assertRaises(TypeError):
            app.on_batch([rosemary.SnapshotBegin()], RecordingNetwork())

    def test_wanted_flows_are_checked_at_once(self):
        wanted, flow = Wanted(), FlowMod.add(Match(in_port=1), priority=3)
        self.assertTrue(wanted.flow(At.ALL, flow))
        self.assertFalse(wanted.flow(At.ALL, flow), "it is wanted already")
        self.assertTrue(wanted.flow(At.one(7), flow))
        self.assertTrue(wanted.group(At.ALL, 4, [rosemary.Bucket([rosemary.Action.output(1)])]))
        self.assertEqual(len(wanted), 3)
        band = MeterBand.drop(4000, burst_size=8)
        self.assertTrue(wanted.meter(At.ALL, 0, [band], ["kbps", "burst"]))
        self.assertFalse(wanted.meter(At.ALL, 0, [band], ["kbps", "burst"]), "it is wanted already")
        with self.assertRaisesRegex(ValueError, "'fast'|\"fast\""):
            wanted.meter(At.ALL, 1, [MeterBand.dscp_remark(1, 1)], ["fast"])
        self.assertTrue(wanted.drop_meter(At.ALL, 0))
        self.assertFalse(wanted.drop_meter(At.ALL, 0))
        self.assertTrue(wanted.drop_flow(At.one(7), 0, 3, Match(in_port=1)))
        self.assertFalse(wanted.drop_flow(At.one(7), 0, 3, Match(in_port=1)))
        with self.assertRaisesRegex(ValueError, "no timeouts"):
            wanted.flow(At.ALL, FlowMod.add(Match(in_port=1), idle_timeout=3))
        with self.assertRaisesRegex(ValueError, "declared"):
            Wanted(owns="some")

    def test_handler_calls_without_clients_as_before(self):
        app, network = Counter(), RecordingNetwork()
        handler = Handler(app, network)
        handler([])
        handler([rosemary.SnapshotEnd()])
        self.assertEqual(network.sent, [])

    def test_records_are_values(self):
        hop = Hop(Endpoint(1, 2), Endpoint(3, 4))
        self.assertEqual(Path(1, [hop]), Path(1, [Hop(Endpoint(1, 2), Endpoint(3, 4))]))
        self.assertEqual({hop: 1}[Hop(Endpoint(1, 2), Endpoint(3, 4))], 1)
        event = TopologyEvent("changed", [(None, rosemary.LinkRecord(hop.from_, hop.to))])
        self.assertEqual(event.changes[0][1].to.port, 4)
        port = rosemary.PortRecord(Endpoint(1, 2), bytes(6), 0, b"p2", True, False, False)
        self.assertFalse(port.shared)
        port = rosemary.PortRecord(Endpoint(1, 2), bytes(6), 0, b"p2", True, False, False, shared=True)
        self.assertTrue(port.shared and not port.link)
        self.assertEqual(Topology().graph().switches(), [])
        self.assertIsNone(Topology().graph().path(1, 2))


if __name__ == "__main__":
    unittest.main()
