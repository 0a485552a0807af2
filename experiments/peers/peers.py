#!/usr/bin/env python3
"""Compares Rosemary with packaged controllers by the same runs of ofbench.

`ovs-testcontroller` comes from Debian (openvswitch-testcontroller), os-ken from PyPI, in an environment of its
own below target/. The controllers run on one core and ofbench on another; they are measured in rounds.
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from measure import (  # noqa: E402
    ROOT, Controller, Failed, Null, Rosemary, add_only, app, build, chosen, cores, figure, free_port, machine, main,
    need, ofbench, say, spread, spread_of, table,
)

OS_KEN = "2.3.1"

# ovs-testcontroller serves at most 16 switches. The flood's measurement has six.
SWITCHES = [1, 4, 16]
VENV = ROOT / "target" / "peers" / "venv"


def os_ken():
    """Returns the program that runs os-ken's apps; installs it if it is missing."""
    program = VENV / "bin" / "osken-manager"
    if not program.exists():
        say(f"installing os-ken {OS_KEN} into {VENV}")
        for words in [
            [sys.executable, "-m", "venv", str(VENV)],
            [str(VENV / "bin" / "pip"), "install", "--quiet", f"os-ken=={OS_KEN}"],
        ]:
            if subprocess.run(words).returncode != 0:
                raise Failed(f"os-ken {OS_KEN} could not be installed: {' '.join(words)}")
    return program


def controllers():
    core, _ = cores()
    port, another = free_port(), free_port()
    yield "ofbench null", lambda: Null(core)
    yield "Rosemary, kernel app", lambda: Rosemary("kernel", core, app("learning-switch", host="kernel"))
    yield "Rosemary, user app", lambda: Rosemary("user", core, app("learning-switch"))
    ovs = ["ovs-testcontroller", "-vANY:off", f"--unixctl=/tmp/ovs-testcontroller.{port}.ctl"]
    ovs.append(f"ptcp:{port}:127.0.0.1")
    yield "ovs-testcontroller", lambda: Controller("ovs-testcontroller", ovs, port, core)
    python = ["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", another, HERE / "learning_switch.py"]
    yield f"os-ken {OS_KEN}", lambda: Controller("os-ken", [os_ken(), *python], another, core)


def measure():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1, help="of each interval")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-build", action="store_true", help="do not build first")
    add_only(parser)
    asked = parser.parse_args()
    need("taskset", "ss", *([] if asked.only else ["ovs-testcontroller"]))
    if not asked.no_build:
        build()
    print(f"{machine()}\nController on core {cores()[0]}, ofbench on core {cores()[1]}.")
    running = {}
    try:
        for name, start in chosen(controllers(), asked.only):
            running[name] = start()
        for of in ["1.0", "1.3"]:
            speeds(running, of, asked.seconds, asked.rounds)
        waits(running, asked.seconds, asked.rounds)
    finally:
        for controller in running.values():
            controller.stop()


def run(controller, mode, *words):
    say(f"  {mode} {controller.name} " + " ".join(map(str, words)))
    return ofbench(mode, controller, cores()[1], *words, "--repeat", 1, "--give-up", 5)


def speeds(running, of, seconds, rounds):
    told = {name: {} for name in running}
    for switches in SWITCHES:
        words = ["--of", of, "--switches", switches, "--macs", 200, "--seconds", seconds]
        for _ in range(rounds):
            for name, controller in running.items():
                told[name].setdefault(switches, []).append(run(controller, "throughput", *words))
    rows = []
    for name, by_switches in told.items():
        cells = []
        for runs in by_switches.values():
            cells.append(spread(spread_of([r["answered_per_second"]["median"] for r in runs]), 1000))
        sixteen = spread_of([r["cpu_seconds_per_million"] for r in by_switches[16]])
        messages = by_switches[16][0]
        each = (messages["flow_mods"] + messages["packet_outs"]) / max(messages["answered"], 1)
        rows.append([name, *cells, figure(sixteen["median"]), figure(each, 2)])
    head = ["200 MACs, switches:", *SWITCHES, "CPU s per million, 16", "messages each"]
    table(f"Thousand packet-ins answered a second, OpenFlow {of}, buffered", head, rows)


def waits(running, seconds, rounds):
    rows = []
    for name, controller in running.items():
        latency = [run(controller, "latency", "--seconds", seconds) for _ in range(rounds)]
        connect = run(controller, "connect", "--seconds", seconds, "--switches", 8)
        flood = run(controller, "flood", "--seconds", seconds * 2, "--switches", 4)
        cells = [
            figure(spread_of([told["latency_us"][at] for told in latency])["median"])
            for at in ["p50", "p99"]
        ]
        cells.append(figure(connect["handshakes_per_second"]["median"]))
        for what in ["echo", "arp", "handshake"]:
            times = flood["beside"][f"{what}_us"]
            cells.append(figure(times["max"] / 1000) if times else "none answered")
        rows.append([name, *cells, flood["beside"]["unanswered"]])
    head = ["OpenFlow 1.3", "latency p50, us", "p99, us", "handshakes/s"]
    head += ["beside a flood, longest: echo, ms", "ARP, ms", "handshake, ms", "given up after 5 s"]
    table("Latency, connections, and who else is served while one switch floods", head, rows)


if __name__ == "__main__":
    main(measure)
