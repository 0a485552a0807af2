#!/usr/bin/env python3
"""Measures what TLS costs: the first packet of a flow through Open vSwitch, and controllers under load.

The first part uses `ofbench measure-switch` as the controller: each run of TCP is followed by one of TLS. The second part
uses ofbench's emulated switches in front of Rosemary and packaged controllers, each with and without TLS.
"""

import argparse
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parent / "peers"))
from measure import (  # noqa: E402
    Controller, Failed, Rosemary, add_only, app, build, chosen, cores, figure, free_port, machine, main, need, ofbench, say,
    table, verdict,
)
from measure import BUILT  # noqa: E402
from peers import OS_KEN, os_ken  # noqa: E402
from switch import (  # noqa: E402
    PROGRAMS, Keys, chart, enter, is_measured, measure_switch, us, version, with_interval,
)

NAME = "tls-cost"
PARTS = ["data path", "control path", "controller", "switch"]
ROWS = [f"packet-in, whole: {part}" for part in PARTS]
ROWS += ["packet-in, whole: forwarding", "packet-in, whole: echo", "flow set-up, whole: data path",
         "flow set-up rate", "flow-mod, insert: barrier", "flow-mod, insert: packet"]
LEARNER = HERE.parent / "peers" / "learning_switch.py"


def middle(rounds, name):
    """Returns the round whose median of this row is the median of all rounds."""
    rows = [rows[name] for rows in rounds if is_measured(rows.get(name))]
    if not rows:
        return None
    return sorted(rows, key=lambda row: row["median"])[len(rows) // 2]


def complete(rounds, name):
    """Returns in how many rounds this row was measured, such as `2 of 3`, and the different reasons of the others."""
    failed = [rows.get(name) for rows in rounds if not is_measured(rows.get(name))]
    reasons = dict.fromkeys(row.get("reason", "no reason stated") if row else "not measured" for row in failed)
    return f"{len(rounds) - len(failed)} of {len(rounds)}", list(reasons)


def remarks(reasons):
    """Formats the reasons of failed rounds by transport."""
    texts = [f"{transport}: {' '.join(why.split())}" for transport, all_of in reasons.items() for why in all_of]
    return "; ".join(texts) or "-"


def switch_part(runs, rounds, keys, save):
    """Measures Open vSwitch over TCP and TLS in alternation; returns the middle rounds."""
    words = ["--only", "packet-in,flow-set-up,flow-mod", "--runs", runs, "--seconds", 1]
    measured = {"TCP": [], "TLS": []}
    suite = "-"
    for number in range(rounds):
        for transport in ["TCP", "TLS"] if number % 2 == 0 else ["TLS", "TCP"]:
            say(f"{NAME}: Open vSwitch over {transport}, round {number + 1} of {rounds}, {runs} runs")
            rows, result = measure_switch(*words, keys=keys if transport == "TLS" else None)
            measured[transport].append(rows)
            suite = result["switch"]["tls"] or suite
    print(f"TLS: {suite}")
    lines = []
    for name in ROWS:
        tcp, tls = (middle(measured[transport], name) for transport in ["TCP", "TLS"])
        counts, reasons = zip(*(complete(measured[transport], name) for transport in ["TCP", "TLS"]))
        why = remarks(dict(zip(["TCP", "TLS"], reasons)))
        if tcp is None or tls is None:
            lines.append([name, "-", "-", "-", "-", *counts, why])
            continue
        more = tls["median"] - tcp["median"]
        each = [b["median"] - a["median"] for a, b in pairs(measured, name)]
        spread = f"{us(min(each))} to {us(max(each))}" if each else "no round has both"
        lines.append([name, tcp["unit"], with_interval(tcp), with_interval(tls), f"{us(more)} ({spread})", *counts, why])
    head = ["", "unit", "TCP", "TLS", "TLS - TCP, and over the rounds", "rounds TCP", "rounds TLS", "remarks"]
    table("First packet of a flow: median and its 95 % interval", head, lines)
    boxes = []
    for name, part in zip(ROWS, PARTS):
        for group, transport in enumerate(["TCP", "TLS"]):
            row = middle(measured[transport], name)
            if row is not None:
                boxes.append({"label": f"{part}", "group": group, "summary": row})
    chart(NAME, "first-packet.svg", save, title="Delay of the first packet of a flow, and its parts",
          y_label="us; box: 25 to 75 %, whiskers: 5 to 95 %", groups=["TCP", "TLS"], boxes=boxes)
    return broken_claims(measured)


def broken_claims(measured):
    """Returns the parts of the claim that do not hold: in each round TLS delays the first packet."""
    name = ROWS[0]
    each = [tls["median"] - tcp["median"] for tcp, tls in pairs(measured, name)]
    if not each:
        return [f"no round has {name} over both transports"]
    if min(each) <= 0:
        return [f"TLS delays the first packet by {us(min(each))} us in one round"]
    return []


def pairs(measured, name):
    for tcp, tls in zip(measured["TCP"], measured["TLS"]):
        if is_measured(tcp.get(name)) and is_measured(tls.get(name)):
            yield tcp[name], tls[name]


def controllers(keys):
    """Yields each controller's name, and how it is started without and with TLS."""
    core, _ = cores()
    own = [str(keys.dir / name) for name in ["controller-key.pem", "controller-cert.pem", "ca-cert.pem"]]

    def null(tls):
        port = free_port()
        words = [BUILT / "ofbench", "null", "--listen", f"127.0.0.1:{port}"]
        return Controller("null", words + (["--tls", keys.dir] if tls else []), port, core)

    def rosemary(tls):
        args = ["--tls-dir", str(keys.dir), "--plain", "never"] if tls else []
        return Rosemary("rosemary", core, app("learning-switch"), args=args)

    def testcontroller(tls):
        port = free_port()
        words = ["ovs-testcontroller", "-vANY:off", f"--unixctl=/tmp/ovs-testcontroller.{port}.ctl"]
        if tls:
            words += ["-p", own[0], "-c", own[1], "-C", own[2]]
        words.append(f"{'pssl' if tls else 'ptcp'}:{port}:127.0.0.1")
        return Controller("ovs-testcontroller", words, port, core)

    def ken(tls):
        port = free_port()
        words = [os_ken(), "--ofp-listen-host", "127.0.0.1"]
        if tls:
            words += ["--ofp-ssl-listen-port", port, "--ctl-privkey", own[0], "--ctl-cert", own[1], "--ca-certs", own[2]]
        else:
            words += ["--ofp-tcp-listen-port", port]
        return Controller("os-ken", words + [LEARNER], port, core)

    yield "ofbench null", null
    if (BUILT / "rosemary-monitor").exists():
        yield "Rosemary, user app", rosemary
    else:
        say("Rosemary is not built and is left out")
    yield "ovs-testcontroller", testcontroller
    yield f"os-ken {OS_KEN}", ken


def controller_part(seconds, rounds, keys, only):
    lines = []
    for name, start in chosen(controllers(keys), only):
        found, reasons = {}, {}
        for tls in [False, True]:
            transport = "TLS" if tls else "TCP"
            say(f"{NAME}: {name} over {transport}")
            words = ["--tls-dir", keys.switch] if tls else []
            try:
                controller = start(tls)
            except Failed as failed:
                say(f"{name}: {failed}")
                reasons[transport] = [last_line(failed)]
                continue
            try:
                words += ["--seconds", seconds, "--repeat", rounds, "--macs", 100]
                fast = ofbench("throughput", controller, cores()[1], *words)
                slow = ofbench("latency", controller, cores()[1], *words)
                found[tls] = fast["answered_per_second"]["median"], slow["latency_us"]["p50"], \
                    fast.get("cpu_seconds_per_million")
            except Failed as failed:
                say(f"{name}: {failed}")
                reasons[transport] = [last_line(failed)]
            finally:
                controller.stop()
        lines.append([name, *row_of(found), remarks(reasons)])
    head = ["controller", "answers/s TCP", "TLS", "latency us TCP", "TLS", "CPU s per million TCP", "TLS", "remarks"]
    table("Controllers under load: flow set-ups per second, latency of one, processor time", head, lines)


def last_line(failed):
    """Returns the last line of a failure, which a table has room for; all of it was printed before."""
    lines = [line.strip() for line in str(failed).splitlines() if line.strip()]
    return lines[-1] if lines else "no reason stated"


def row_of(found):
    both = [found.get(False), found.get(True)]
    return [figure(it[which]) if it and it[which] is not None else "-" for which in range(3) for it in both]


def measure():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="7 rounds of 1,000 runs, 5 s each")
    parser.add_argument("--save", action="store_true", help="replace the chart of experiments/tls-cost")
    parser.add_argument("--no-build", action="store_true", help="do not build first")
    add_only(parser, "switch")
    asked = parser.parse_args()
    loaded = [] if asked.only == "switch" else ["taskset", "ss"]
    need(*PROGRAMS, *loaded, *([] if asked.only else ["ovs-testcontroller"]))
    if not asked.no_build:
        build()
        sys.argv.append("--no-build")
    if os.environ.get("ROSEMARY_EXPERIMENT_INSIDE") != "1" and not asked.only:
        os_ken()  # is installed before the network is left
    enter()
    rounds, seconds = (7, 5) if asked.long else (3, 1)
    print(f"{machine()}\nOpen vSwitch {version()}, userspace datapath. Controller on core {cores()[0]}.")
    keys = Keys()
    try:
        broken = switch_part(1000, rounds, keys, asked.save)
        if loaded:
            controller_part(seconds, 3, keys, asked.only)
    finally:
        keys.remove()
    verdict(broken)


if __name__ == "__main__":
    main(measure)
