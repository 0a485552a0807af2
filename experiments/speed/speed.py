#!/usr/bin/env python3
"""Measures Rosemary's speed: `make bench`, `make bench AGAINST=REV`, `make bench-long`.

All processes of a controller are pinned to one core and `ofbench` to another. The controllers run side by
side and receive load in turn, one at a time. Every figure is a median of intervals, with minimum and maximum.
"""

import argparse
import sys
import time
from pathlib import Path

EXPERIMENTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(EXPERIMENTS), str(EXPERIMENTS / "peers")]
from bench import Bench  # noqa: E402
from connections import idle, tls, unlinked  # noqa: E402
from measure import build, cores, machine, main, need, say  # noqa: E402
from python_apps import python  # noqa: E402
from rates import addresses, buffers, forwarding, ordinary, scale, throughput, versions  # noqa: E402
from revisions import against  # noqa: E402
from services import discovery, subscribers  # noqa: E402
from times import fairness, latency  # noqa: E402


def measure():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="measure all tables, with longer intervals")
    parser.add_argument("--against", metavar="REV", help="compare with another revision, in turn")
    parser.add_argument("--only", metavar="TABLE,...", help="only these tables: " + ", ".join(TABLES))
    parser.add_argument("--no-build", action="store_true", help="do not build first")
    options = parser.parse_args()
    only = options.only.split(",") if options.only else None
    for name in only or []:
        if name not in TABLES:
            parser.error(f"there is no table {name}; there are {', '.join(TABLES)}")
    need("taskset", "ss", "cc")
    if not options.no_build:
        build()
    began = time.monotonic()
    print(f"{machine()}\nController on core {cores()[0]}, ofbench on core {cores()[1]}.")
    bench = Bench()
    try:
        seconds, repeat = (2, 5) if options.long else (1, 3)
        if options.against:
            against(bench, options.against, seconds / 2, 10)
        else:
            for name in only or ([it for it in TABLES if it != "python"] if options.long else SHORT):
                TABLES[name](bench, seconds, repeat)
    finally:
        bench.stop()
    say(f"measured in {time.monotonic() - began:.0f} s")


TABLES = {
    "throughput": throughput,
    "ordinary": ordinary,
    "forwarding": forwarding,
    "buffers": buffers,
    "versions": versions,
    "latency": latency,
    "tls": tls,
    "python": python,
    "flood": fairness,
    "addresses": addresses,
    "scale": scale,
    "discovery": discovery,
    "subscribers": subscribers,
    "idle": lambda bench, seconds, repeat: idle(bench, 10),
    "unlinked": lambda bench, seconds, repeat: unlinked(bench, 10),
}
SHORT = ["throughput", "ordinary", "buffers", "versions", "latency", "tls", "flood"]

if __name__ == "__main__":
    main(measure)
