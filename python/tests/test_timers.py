"""Timers with names: other events do not change them, and they do not disturb the timer without a name."""

import unittest

from rosemary import App
from rosemary.app import Handler
from rosemary.testing import RecordingNetwork


class Ticking(App):
    def __init__(self):
        self.called = []

    def on_timer(self, name, network):
        self.called.append(name)

    def on_wake(self, network):
        self.called.append(None)


class Timers(unittest.TestCase):
    def setUp(self):
        self.app, self.network = Ticking(), RecordingNetwork()
        self.handler = Handler(self.app, self.network)

    def at(self, time, events=()):
        self.network.time = time
        self.app.called.clear()
        self.handler(list(events))
        return self.app.called

    def test_timer_survives_events_and_expires_once(self):
        self.network.set_timer("late", 5.0)
        self.assertEqual(self.at(1.0, [None]), [])
        self.assertEqual(self.at(5.0, [None]), ["late"])
        self.assertEqual(self.at(6.0, [None]), [])

    def test_repeated_timer_leaves_the_timer_without_name(self):
        self.network.repeat_timer("poll", 2.0)
        self.network.wake_at(3.0)
        self.assertEqual(self.at(2.0), ["poll"])
        self.assertEqual(self.at(3.0), [None])
        self.network.wake_time = None
        self.assertEqual(self.at(4.0), ["poll"])
        self.assertTrue(self.network.cancel_timer("poll"))
        self.assertEqual(self.at(9.0), [None])


if __name__ == "__main__":
    unittest.main()
