"""Runs an application in the fake zone beside simulated switches.

A scenario is a generator: each `yield` gives the application one turn. A simulated switch answers as Open vSwitch does,
as far as the tests need it, and keeps the flows that it is sent.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import fake

from rosemary_ryu import runner, wire

Scenario = Generator[None, None, None]

# A process of its own that sends requests: the application has replaced the sockets of this one.
_CLIENT = """
import json, sys, urllib.request, urllib.error
for line in sys.stdin:
    method, url, body = json.loads(line)
    request = urllib.request.Request(url, method=method, data=body.encode() or None)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            print(json.dumps([answer.status, answer.read().decode()]), flush=True)
    except urllib.error.HTTPError as error:
        print(json.dumps([error.code, error.read().decode()]), flush=True)
    except OSError as error:
        print(json.dumps([0, str(error)]), flush=True)
"""

# Statistics of a flow of OpenFlow 1.5: 10 packets of 1000 bytes in all.
STATS_1_5 = struct.pack("!HHHBBQHBBQ", 0, 28, 0x8002, 8, 8, 10, 0x8002, 10, 8, 1000) + b"\0" * 4

# The real functions: eventlet replaces those of the modules.
_read, _write = os.read, os.write


class Switch:
    """A simulated switch. Flows are kept by table, priority and match."""

    def __init__(self, dpid: int, version: int, ports: int, epoch: int = 1) -> None:
        self.dpid, self.version, self.epoch = dpid, version, epoch
        self.local = 0xFFFE if version == wire.V1_0 else 0xFFFF_FFFE
        self.ports = [*range(1, ports + 1), self.local]
        self.flows: dict[tuple[int, int, bytes], bytes] = {}
        self.received: list[bytes] = []
        self.packet_outs: list[bytes] = []

    def port(self, number: int) -> bytes:
        """Describes a port."""
        address = bytes([2, 0, 0, 0, self.dpid & 0xFF, number & 0xFF])
        name = b"local" if number == self.local else f"s{self.dpid}-eth{number}".encode()
        if self.version == wire.V1_0:
            return struct.pack("!H6s16sIIIIII", number, address, name, 0, 0, 0xC0, 0, 0, 0)
        if self.version >= wire.V1_4:
            features = struct.pack("!HH4xIIIIII", 0, 32, 0xC0, 0, 0, 0, 10_000_000, 0)
            return struct.pack("!IH2x6s2x16sII", number, 72, address, name, 0, 0) + features
        return struct.pack("!I4x6s2x16sIIIIIIII", number, address, name, 0, 0, 0xC0, 0, 0, 0, 10_000_000, 0)

    def features(self) -> bytes:
        """Returns the features reply."""
        if self.version == wire.V1_0:
            body = struct.pack("!QIB3xII", self.dpid, 256, 254, 0xC7, 0xFFF) + b"".join(map(self.port, self.ports))
        else:
            body = struct.pack("!QIBB2xII", self.dpid, 0, 254, 0, 0x4F, 0)
            if self.version == wire.V1_2:
                body += b"".join(map(self.port, self.ports))
        return wire.message(self.version, wire.FEATURES_REPLY, 7, body)

    def up(self) -> Any:
        """Returns the event of its connection."""
        return self._event("SwitchUp", features=self.features())

    def down(self) -> Any:
        """Returns the event of its end."""
        return self._event("SwitchDown")

    def _event(self, kind: str, **fields: Any) -> Any:
        return fake.event(kind, dpid=self.dpid, epoch=self.epoch, version=self.version, **fields)

    def packet_in(self, data: bytes, in_port: int, cookie: int = 2**64 - 1, reason: int = 0) -> Any:
        """Returns the event of a packet that no flow matched, unless a cookie is given."""
        if self.version == wire.V1_0:
            body = struct.pack("!IHHBx", wire.NO_BUFFER, len(data), in_port, reason) + data
        else:
            match = struct.pack("!HHII4x", 1, 12, 0x8000_0004, in_port)
            of_entry = b"" if self.version == wire.V1_2 else struct.pack("!Q", cookie)
            body = struct.pack("!IHBB", wire.NO_BUFFER, len(data), reason, 0) + of_entry + match + b"\0\0" + data
        message = wire.message(self.version, wire.PACKET_IN, 0, body)
        return self._event("PacketIn", message=message, reason=reason, cookie=cookie, total_len=len(data))

    def port_event(self, number: int, change: int, state: int = 0) -> Any:
        """Returns the event of a changed port."""
        address, name = bytes([2, 0, 0, 0, self.dpid & 0xFF, number]), f"s{self.dpid}-eth{number}".encode()
        fields = {"config": 0, "state": state, "curr_speed": 0, "hw_addr": address, "name": name}
        return self._event("Port", change=change, port_no=number, **fields)

    def receive(self, message: bytes) -> Iterator[Any]:
        """Handles a message of the application, and yields the events of its answers."""
        self.received.append(message)
        kind, old = message[1], self.version == wire.V1_0
        if kind == wire.PACKET_OUT:
            self.packet_outs.append(message)
        elif kind == wire.FLOW_MOD:
            self._flow_mod_1_0(message) if old else self._flow_mod(message)
        elif kind == (wire.BARRIER_REQUEST_1_0 if old else wire.BARRIER_REQUEST):
            yield self._reply(message, kind + 1, b"")
        elif kind == wire.GET_CONFIG_REQUEST:
            yield self._reply(message, wire.GET_CONFIG_REPLY, struct.pack("!HH", 0, 128))
        elif kind == (wire.STATS_REQUEST_1_0 if old else wire.MULTIPART_REQUEST):
            yield self._reply(message, kind + 1, self._statistics(message))

    def _reply(self, request: bytes, kind: int, body: bytes) -> Any:
        message = wire.message(self.version, kind, wire.xid_of(request), body)
        return self._event("Reply", xid=wire.xid_of(request), type=kind, message=message)

    def _flow_mod(self, message: bytes) -> None:
        table, command = message[wire.FM_TABLE], message[wire.FM_COMMAND]
        instructions = wire.instructions_at(message)
        match = message[wire.FM_MATCH : instructions]
        key = (table, wire.u16(message, wire.FM_PRIORITY), match)
        if command == wire.ADD:
            self.flows[key] = message
        elif command == wire.DELETE_STRICT:
            self.flows.pop(key, None)
        elif command == wire.DELETE and wire.u16(match, 2) <= 4:
            mask, cookie = wire.u64(message, wire.FM_MASK), wire.u64(message, wire.FM_COOKIE)
            for known, flow in list(self.flows.items()):
                if table in (0xFF, known[0]) and wire.u64(flow, wire.FM_COOKIE) & mask == cookie & mask:
                    del self.flows[known]

    def _flow_mod_1_0(self, message: bytes) -> None:
        match, command = message[8:48], wire.u16(message, wire.FM10_COMMAND)
        key = (0, wire.u16(message, wire.FM10_PRIORITY), match)
        if command == wire.ADD:
            self.flows[key] = message
        elif command == wire.DELETE_STRICT:
            self.flows.pop(key, None)

    def _statistics(self, message: bytes) -> bytes:
        what = wire.u16(message, 8)
        old = self.version == wire.V1_0
        head = struct.pack("!HH", what, 0) + (b"" if old else b"\0" * 4)
        if what == 13:
            return head + b"".join(map(self.port, self.ports))
        if what in (1, 17):
            entry = self._flow_1_0 if old else self._flow
            if self.version == wire.V1_5:
                entry = self._flow_1_5 if what == 1 else self._counts_1_5
            return head + b"".join(entry(*it) for it in self.flows.items())
        if what == 2 and self.version == wire.V1_5:
            counts = struct.pack("!HBBIHBBQHBBQ", 0x8002, 6, 4, len(self.flows), 0x8002, 8, 8, 10, 0x8002, 10, 8, 1000)
            return head + struct.pack("!HH", 0, 4 + len(counts)) + counts
        if what == 2 and not old:
            return head + struct.pack("!QQI4x", 10, 1000, len(self.flows))
        if what == 0:
            return head + b"Nicira".ljust(256, b"\0") + b"".join(b"x".ljust(size, b"\0") for size in (256, 256, 32, 256))
        if what == 4 and not old:
            return head + b"".join(struct.pack("!I4x12QII", port, *range(12), 1, 2) for port in self.ports)
        return head

    @staticmethod
    def _flow(key: tuple[int, int, bytes], flow: bytes) -> bytes:
        table, priority, match = key
        rest = match + flow[wire.instructions_at(flow) :]
        cookie, flags = wire.u64(flow, wire.FM_COOKIE), wire.u16(flow, wire.FM_FLAGS)
        times = flow[wire.FM_IDLE : wire.FM_IDLE + 4]
        head = struct.pack("!HBxIIH4sH4x", 48 + len(rest), table, 1, 2, priority, times, flags)
        return head + struct.pack("!QQQ", cookie, 10, 1000) + rest

    @staticmethod
    def _flow_1_5(key: tuple[int, int, bytes], flow: bytes) -> bytes:
        table, priority, match = key
        rest = match + STATS_1_5 + flow[wire.instructions_at(flow) :]
        cookie, flags = wire.u64(flow, wire.FM_COOKIE), wire.u16(flow, wire.FM_FLAGS)
        return struct.pack("!H2xBxHHHHHQ", 24 + len(rest), table, priority, 0, 0, flags, 0, cookie) + rest

    @staticmethod
    def _counts_1_5(key: tuple[int, int, bytes], flow: bytes) -> bytes:
        table, priority, match = key
        rest = match + STATS_1_5
        return struct.pack("!H2xBBH", 8 + len(rest), table, 0, priority) + rest

    @staticmethod
    def _flow_1_0(key: tuple[int, int, bytes], flow: bytes) -> bytes:
        _, priority, match = key
        actions = flow[wire.FM10_ACTIONS :]
        head = struct.pack("!HBx40sIIHHH6x", 88 + len(actions), 0, match, 1, 2, priority, 0, 0)
        return head + struct.pack("!QQQ", wire.u64(flow, wire.FM10_COOKIE), 10, 1000) + actions


class Bench:
    """An application beside switches."""

    def __init__(self, *objects: str, version: int = wire.V1_3, dpids: tuple[int, ...] = (1,), ports: int = 3) -> None:
        self.zone = fake.Zone(objects=list(objects))
        self.switches = {dpid: Switch(dpid, version, ports) for dpid in dpids}
        pipe = subprocess.PIPE
        self._client = subprocess.Popen([sys.executable, "-c", _CLIENT], stdin=pipe, stdout=pipe)

    def listen(self, name: str = "wsapi") -> int:
        """Opens a listening socket for the application and returns its port."""
        server = socket.create_server(("127.0.0.1", 0))
        port = int(server.getsockname()[1])
        server.setblocking(False)
        self.zone.listeners.append(fake.Listener(name, "127.0.0.1", port, server.detach()))
        return port

    def run(self, scenario: Callable[[Bench], Scenario]) -> None:
        """Runs the application until the scenario ends, and raises its failure."""
        steps, failure = scenario(self), []

        def script(zone: fake.Zone) -> bool:
            self._carry()
            try:
                next(steps)
            except StopIteration:
                return False
            except BaseException as error:
                failure.append(error)
                return False
            return True

        self.zone.script = script
        runner.main(self.zone)
        if failure:
            raise failure[0]
        assert next(steps, "ended") == "ended", "the zone ended before the scenario"

    def _carry(self) -> None:
        sent, self.zone.sent = self.zone.sent, []
        for dpid, _, message in sent:
            self.zone.incoming.extend(self.switches[dpid].receive(message))

    def connect(self) -> Scenario:
        """Connects all switches and waits until the application has asked for their ports."""
        self.zone.incoming += [fake.event("SnapshotBegin")]
        self.zone.incoming += [switch.up() for switch in self.switches.values()]
        self.zone.incoming += [fake.event("SnapshotEnd")]
        yield from self.turns(6)

    @staticmethod
    def turns(count: int) -> Scenario:
        """Gives the application some turns."""
        for _ in range(count):
            yield

    @staticmethod
    def until(condition: Callable[[], Any], what: str, seconds: float = 10.0) -> Scenario:
        """Gives the application turns until a condition holds."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"this did not happen: {what}"
            yield

    def http(self, port: int, method: str, path: str, body: Any = "") -> Generator[None, None, tuple[int, Any]]:
        """Sends a request from another process, and returns status and body, as JSON if it is JSON."""
        text = body if isinstance(body, str) else json.dumps(body)
        line = json.dumps([method, f"http://127.0.0.1:{port}{path}", text]) + "\n"
        requests, answers = self._client.stdin.fileno(), self._client.stdout.fileno()
        _write(requests, line.encode())
        read = b""
        while not read.endswith(b"\n"):
            yield from self.until(lambda: fake.is_readable(answers), f"an answer to {method} {path}", 30)
            read += _read(answers, 1 << 20)
        status, answer = json.loads(read)
        try:
            return status, json.loads(answer)
        except ValueError:
            return status, answer


def app(name: str) -> Any:
    """Returns the running application with this name."""
    from os_ken.base import app_manager

    return app_manager.lookup_service_brick(name)


def frame(dst: str, src: str, eth_type: int = 0x0800, payload: bytes = b"") -> bytes:
    """Makes an Ethernet frame."""
    addresses = bytes.fromhex(dst.replace(":", "")) + bytes.fromhex(src.replace(":", ""))
    return (addresses + struct.pack("!H", eth_type) + payload).ljust(60, b"\0")
