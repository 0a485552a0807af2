#!/usr/bin/env python3
"""Measures a Ryu app beside one that exits, loops, leaks or floods: on Rosemary, and in one process under os-ken's manager."""

import argparse
import contextlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "peers")]
import measure as programs  # noqa: E402
import switch as ovs  # noqa: E402
from measure import (  # noqa: E402
    ROOT, Controller, Failed, Rosemary, add_only, app, build, chosen, cores, figure, free_port, machine, main, need, ofbench, say,
    table, verdict,
)
from peers import OS_KEN, os_ken  # noqa: E402
from switch import chart  # noqa: E402

NAME = "ryu-apps"

# Ratio of answer times from which an app is harmed by its neighbour.
HARMED = 2

FAULTS = {
    "none": "does nothing",
    "exit": "calls os._exit(1)",
    "loop": "loops for ever",
    "leak": "leaks 10 GB",
    "flood": "floods flow-mods",
}
CAPABILITIES = ["packet-in", "packet-out", "packet-out.reserved", "flow.write", "group.write", "meter.write", "stats.read"]

# From the start of a controller to the fault, besides the quiet interval.
STARTS_WITHIN = 18
# The leak needs that much besides what other programs use.
NEEDS_FREE = 12_000_000_000


class OnRosemary(Rosemary):
    """Both apps with `host = "ryu"`, the answering one first."""

    def __init__(self, core, fault, moment):
        config = ""
        for name, path, band in [
            ("answering", HERE.parent / "peers" / "learning_switch.py", [32768, 65535]),
            ("hostile", HERE / "hostile.py", [1, 32767]),
        ]:
            config += app(name, object=str(path), host="ryu", band=band, capabilities=CAPABILITIES)
            options = {"env.FAULT": fault, "env.FAULT_AT": str(moment)} if name == "hostile" else {}
            lines = [f'"{key}" = "{value}"' for key, value in options.items()]
            config += "options = { " + ", ".join(lines) + " }\n"
        super().__init__("rosemary", core, config, programs.BUILT, ["--allow-unsigned", "--no-northbound"])


def on_os_ken(core, fault, moment):
    port = free_port()
    words = [os_ken(), "--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", port]
    words += [HERE.parent / "peers" / "learning_switch.py", HERE / "hostile.py"]
    env = dict(os.environ, FAULT=fault, FAULT_AT=str(moment))
    return Controller("os-ken", words, port, core, env=env)


def free_bytes():
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.M)
    return int(found.group(1)) * 1024 if found else 0


def median(controller, generator, seconds):
    """Returns the median answer time of the answering app in microseconds, and how many packets had no answer.

    The median is `None` if the controller does not serve switches any more.
    """
    words = ["--of", "1.3", "--switches", 1, "--seconds", seconds, "--repeat", 1, "--give-up", 2, "--macs", 20]
    try:
        told = ofbench("latency", controller, generator, *words)
    except Failed as failed:
        say(f"    {str(failed).splitlines()[1] if len(str(failed).splitlines()) > 1 else failed}")
        return None, None
    times = told.get("latency_us")
    return (times["p50"] if times else None), told["unanswered"]


def measured(system, start, fault, seconds):
    """Returns the quiet median, the median beside the fault, and how many packets had no answer then.

    `None` if the quiet interval did not end before the fault.
    """
    core, generator = cores()
    moment = int(time.time() + STARTS_WITHIN + seconds)
    say(f"{NAME}: {system}, {fault}")
    controller = start(core, fault, moment)
    controller.pids = lambda: [controller.process.pid]  # the others may end at any time
    try:
        time.sleep(2)  # both apps have loaded
        quiet, _ = median(controller, generator, seconds)
        if quiet is None or time.time() > moment:
            return None
        time.sleep(moment + 0.5 - time.time())
        beside, unanswered = median(controller, generator, seconds)
        return quiet, beside, unanswered
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            controller.stop()


def middle(numbers):
    """The median of numbers. `None` stands for no answer and is larger than all."""
    ordered = sorted(numbers, key=lambda it: float("inf") if it is None else it)
    return ordered[len(ordered) // 2]


def measure():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3, help="of each interval")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="replace the chart of experiments/ryu-apps")
    parser.add_argument("--no-build", action="store_true", help="do not build first")
    add_only(parser)
    asked = parser.parse_args()
    need("taskset", "ss")
    if not asked.no_build:
        build()
    if not (ROOT / "target" / "python" / "rosemary-python.json").exists():
        raise Failed("target/python is missing; type: make python PYTHON_PROFILE=release")
    if not asked.only:
        os_ken()
    print(f"{machine()}\nController on core {cores()[0]}, ofbench on core {cores()[1]}.")
    systems = dict(chosen([("Rosemary", OnRosemary), (f"os-ken {OS_KEN}", on_os_ken)], asked.only))
    rows, boxes, broken = [], [], []
    for fault, words in FAULTS.items():
        if fault == "leak" and free_bytes() < NEEDS_FREE:
            raise Failed(f"the leak needs {NEEDS_FREE / 1e9:.0f} GB of free memory")
        rounds = {system: [] for system in systems}
        for _ in range(asked.rounds):
            for system, start in systems.items():
                found = next(filter(None, (measured(system, start, fault, asked.seconds) for _ in range(3))), None)
                if found is None:
                    raise Failed(f"{system}: the quiet interval never ended before the fault; the machine is too busy")
                say(f"    quiet {found[0]}, beside {found[1]}, without an answer {found[2]}")
                rounds[system].append(found)
        for group, (system, found) in enumerate(rounds.items()):
            quiet = middle([one for one, _, _ in found])
            beside = middle([two for _, two, _ in found])
            ratio = None if beside is None else middle([two and two / one for one, two, _ in found])
            lost = [three for *_, three in found if three is not None]
            if system == "Rosemary" and (ratio is None or ratio > HARMED):
                broken.append(f"beside an app that {words}, the answer time is {'unknown' if ratio is None else f'{ratio:.2g} times as long'}")
            rows.append([
                words, system, figure(quiet), "no answer" if beside is None else figure(beside),
                "-" if ratio is None else figure(ratio, 2), max(lost) if lost else "all",
            ])
            times = [two for _, two, _ in found if two is not None]
            if times:
                ends = {"p5": min(times), "p25": min(times), "median": beside or max(times), "p75": max(times), "p95": max(times)}
                boxes.append({"label": fault, "group": group, "summary": ends})
    head = ["the other app", "system", "quiet median us", "median beside it us", "ratio", "packets without an answer"]
    table(f"Answer time, {asked.rounds} rounds of {asked.seconds:g} s", head, rows)
    ovs.BUILT = programs.BUILT
    chart(
        NAME, "answer-time.svg", asked.save, title="Answer time of a Ryu app beside another (missing: no answers)",
        y_label="us, median of each round", groups=list(systems), boxes=boxes, logarithmic=True,
    )
    verdict(broken)


if __name__ == "__main__":
    main(measure)
