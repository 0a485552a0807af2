"""Attacks the monitor for some seconds in the way that its configuration names. The tests run it and time `rosemary status`.

The first ARP request of the fifth host begins the storm, on threads.
"""

import array
import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import threading
import time

import rosemary

SECONDS = 4

libc = ctypes.CDLL(None, use_errno=True)


def sockets():
    """Copies of the sockets that this process holds: that of the monitor, and a listening one."""
    found = []
    for number in range(3, 256):
        with contextlib.suppress(OSError):
            found.append(socket.socket(fileno=os.dup(number)))
    return found


def send_all(messages):
    """Sends each message to each socket, without waiting."""
    for held in sockets():
        with held:
            for message in messages:
                with contextlib.suppress(OSError):
                    held.send(message, socket.MSG_DONTWAIT)


def descriptors():
    # Standard output: a zone makes no pipes.
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1] * 200))]
    for held in sockets():
        with held, contextlib.suppress(OSError):
            held.sendmsg([b'{"Problem":{"text":""}}'], rights, socket.MSG_DONTWAIT)


def huge():
    send_all([b"x" * (1 << power) for power in (12, 16, 18, 20, 24)])


def endless():
    send_all([b'{"Problem":{"text":"%d"}}' % number for number in range(1000)])


def incidents():
    text = b"x" * 200
    send_all([b'{"Incident":{"summary":"%d","evidence":"%s"}}' % (number, text) for number in range(500)])
    send_all([b'{"Audit":{"record":"%d %s"}}' % (number, text) for number in range(500)])


def wrong():
    send_all([b"", b"{", b"\xff" * 100, b"[" * 60000, b'{"Loaded":{"version":"2"}}', b'{"Confined":{}}', b'{"Unfit":{"why":"x"}}'])


def options():
    for held in sockets():
        with held:
            for level in (socket.SOL_SOCKET, socket.IPPROTO_IP, socket.IPPROTO_TCP):
                for option in range(80):
                    for value in (b"\x01\0\0\0", b"\xff\xff\xff\x7f", b"\x01\0\0\0\x3c\0\0\0"):
                        with contextlib.suppress(OSError):
                            held.setsockopt(level, option, value)
            for command, argument in ((fcntl.F_SETOWN, os.getppid()), (fcntl.F_SETFL, os.O_ASYNC), (fcntl.F_SETFL, 0)):
                with contextlib.suppress(OSError):
                    fcntl.fcntl(held, command, argument)


def forks():
    with contextlib.suppress(OSError):
        if os.fork() == 0:
            os._exit(0)
    with contextlib.suppress(RuntimeError):
        threading.Thread(target=time.sleep, args=(0.5,), daemon=True).start()


def signals():
    for number in range(1, 65):
        for process in (os.getppid(), -1, 0):
            if number not in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP) or process > 1:
                with contextlib.suppress(OSError):
                    os.kill(process, number)


def unread():
    """Takes the monitor's messages before the zone reads them."""
    for held in sockets():
        with held, contextlib.suppress(OSError):
            held.recv(1 << 16, socket.MSG_DONTWAIT)


def refused():
    """Calls that the zone refuses: the monitor is notified of each."""
    with contextlib.suppress(OSError):
        socket.socket()
    libc.ptrace(16, os.getppid(), 0, 0)
    libc.mount(b"none", b"/", b"tmpfs", 0, 0)
    libc.unshare(0x10000000)


def prints():
    os.write(1, b"\0\x1b[2J" * 20000)
    os.write(2, b"no end of a line " * 5000)


def blow(storm, until):
    while time.monotonic() < until:
        storm()


class Storms(rosemary.App):
    has_begun = False

    def configure(self, text):
        self.storm = globals()[text.strip()]

    def on_packet_in(self, event, network):
        if event.in_port != 5 or self.has_begun:
            return
        self.has_begun = True
        network.info("storm begins")
        until = time.monotonic() + SECONDS
        for _ in range(2):
            threading.Thread(target=blow, args=(self.storm, until), daemon=True).start()
