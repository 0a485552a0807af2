"""Ends or blocks its own process in the way that its configuration names. The tests run it."""

import ctypes
import os
import sys
import threading

import rosemary


def exit_at_once():
    os._exit(1)


def loop():
    while True:
        pass


def leak():
    kept = []
    while True:
        kept.append(bytearray(os.urandom(4096)) * 1024)


def recurse():
    sys.setrecursionlimit(1 << 30)
    recurse()


def crash():
    ctypes.string_at(0)


def threads():
    while True:
        threading.Thread(target=lambda: threading.Event().wait(), daemon=True).start()


class Deadly(rosemary.App):
    def configure(self, text):
        self.act = globals()[text.strip()]

    def on_packet_in(self, event, network):
        # The first ARP request of the fifth host.
        if event.in_port == 5:
            network.info("attack begins")
            self.act()
