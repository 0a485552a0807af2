"""Addresses as text and bytes: the same results as os-ken's own module."""

import importlib.util
import random
from pathlib import Path

import netaddr
import os_ken
import pytest

PLACES = {
    "theirs": Path(os_ken.__path__[0], "lib", "addrconv.py"),
    "ours": Path(__file__).parents[1] / "rosemary_ryu" / "names" / "lib" / "addrconv.py",
}


def load(name):
    spec = importlib.util.spec_from_file_location(name, PLACES[name])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


theirs, ours = load("theirs"), load("ours")

TEXTS = {
    "mac": [
        *("00:00:00:00:00:00", "ff:FF:0a:0B:10:99", "1:2:3:4:5:6", "00-11-22-33-44-55", "0011.2233.4455", "001122334455"),
        *("", ":::::::::::::::::", "00:00:00:00:00:0g", "00:00:00:00:00:0 ", "0 :00:00:00:00:00", "00:00:00:00:00:00:00"),
        *("1:111:22:33:44:55", "00:11:22:33:44:٣٣", 17, None, b"\0" * 6, netaddr.EUI("00:11:22:33:44:55")),
    ],
    "ipv4": [
        *("0.0.0.0", "10.0.0.1", "255.255.255.255", "010.0.0.1", "10.1", "10.0.0.0/8", "10.0.0.0/255.0.255.0", "10.0.0.1 "),
        *("", "256.0.0.1", "::1", "10.0.0.1\0", "x", 17, None, "10.0.0.0/33", netaddr.IPAddress("10.0.0.1")),
    ],
    "ipv6": [
        *("::", "::1", "fe80::1%eth0", "2001:DB8::1", "::ffff:10.0.0.1", "2001:db8::/32", "fe80::/ffff::", "1:2:3:4:5:6:7:8"),
        *("", "10.0.0.1", ":::", "1:2:3:4:5:6:7:8:9", 17, None, "::/129", netaddr.IPAddress("::5")),
    ],
}


def result(function, argument):
    try:
        return function(argument)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("kind", TEXTS)
def test_text_becomes_the_same_bytes(kind):
    for text in TEXTS[kind]:
        wanted = result(getattr(theirs, kind).text_to_bin, text)
        assert result(getattr(ours, kind).text_to_bin, text) == wanted, text


@pytest.mark.parametrize("kind,size", [("mac", 6), ("ipv4", 4), ("ipv6", 16)])
def test_bytes_become_the_same_text(kind, size):
    numbers = random.Random(1)
    samples = [bytes(length) for length in range(20)] + [numbers.randbytes(size) for _ in range(200)]
    samples += [bytearray(numbers.randbytes(size)), bytes(size - 4) + b"\x0a\0\0\x01", None, "text", "six by", "four"]
    for sample in samples:
        wanted = result(getattr(theirs, kind).bin_to_text, sample)
        assert result(getattr(ours, kind).bin_to_text, sample) == wanted, sample
