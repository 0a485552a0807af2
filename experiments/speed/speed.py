#!/usr/bin/env python3
"""Measures Rosemary's speed: `make bench`, `make bench AGAINST=REV`, `make bench-long`.

All processes of a controller are pinned to one core and `ofbench` to another. The controllers run side by
side and receive load in turn, one at a time. Every figure is a median of intervals, with minimum and maximum.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXPERIMENTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(EXPERIMENTS), str(EXPERIMENTS / "peers")]
from measure import (  # noqa: E402
    BUILT, ROOT, Controller, Failed, Null, Rosemary, app, build, build_revision, cores, figure, free_port, machine, main,
    need, ofbench, say, spread, spread_of, table, wait_for,
)
from peers import OS_KEN, os_ken  # noqa: E402

LEARNING = "learning-switch"
SWITCHES = [1, 16, 64]
MILLION = 1e6

# Seconds until `forwarding` floods to a port: topology has found out which ports have hosts.
SETTLED = 3


class Bench:
    """The controllers under measurement, by name; each starts at its first use."""

    def __init__(self):
        self.core, self.generator = cores()
        self.running = {}
        self.directory = tempfile.TemporaryDirectory(prefix="rosemary-bench-")

    def get(self, name, start):
        if name not in self.running:
            self.running[name] = start()
        return self.running[name]

    def null(self):
        return self.get("null", lambda: Null(self.core))

    def rosemary(self, host, built=BUILT, tls=None):
        name = f"{host} {built} {tls}"
        args = ["--tls-dir", tls] if tls else []
        return self.get(
            name, lambda: Rosemary(host, self.core, app(LEARNING, host=host), built, args)
        )

    def configured(self, name, config, core=None, args=()):
        return self.get(name, lambda: Rosemary(name, core or self.core, config, args=args))

    def stop(self, name=None):
        for key in [name] if name else list(self.running):
            self.running.pop(key).stop()

    def run(self, mode, controller, *words, vs=None):
        say(f"  {mode} {controller.name} " + " ".join(map(str, words)))
        return ofbench(mode, controller, self.generator, *words, vs=vs)


class Rounds:
    """Puts the same load on several controllers in turn, in rounds, because a machine's speed changes by the minute."""

    def __init__(self, bench, controllers, words, repeat):
        self.results = {each.name: [] for each in controllers}
        for _ in range(repeat):
            for each in controllers:
                self.results[each.name].append(bench.run("throughput", each, *words, "--repeat", 1))

    def rates(self, name):
        return [result["answered_per_second"]["median"] for result in self.results[name]]

    def rate(self, name):
        return spread(spread_of(self.rates(name)), MILLION)

    def ratio(self, name, other):
        """The ratio of two controllers, computed within each round."""
        return spread_of([a / b for a, b in zip(self.rates(name), self.rates(other))])

    def cpu(self, name):
        """CPU seconds per million answers."""
        return spread_of([result["cpu_seconds_per_million"] for result in self.results[name]])["median"]

    def evenness(self, name):
        """The least and the most answers of one switch and their ratio, from the round with the median ratio."""
        ends = [(result["per_switch"]["least"], result["per_switch"]["most"]) for result in self.results[name]]
        ratios = sorted((least / most if most else 0, least, most) for least, most in ends)
        ratio, least, most = ratios[len(ratios) // 2]
        return [least, most, ratio]


def throughput(bench, seconds, repeat):
    """Answers per second, fractions of the null controller, evenness and CPU time."""
    names = [("null", "null"), ("kernel", "kernel app"), ("user", "user app")]
    speeds, fractions, even, cpu = [], [], [], []
    for macs in [1000, 100_000]:
        rounds = []
        for switches in SWITCHES:
            words = ["--of", "1.0", "--switches", switches, "--macs", macs, "--seconds", seconds]
            controllers = [bench.null(), bench.rosemary("kernel"), bench.rosemary("user")]
            rounds.append(Rounds(bench, controllers, words, repeat))
        for name, what in names:
            row = f"{what}, {macs:,} MACs"
            speeds.append([row] + [each.rate(name) for each in rounds])
            even.append([row, *map(figure, rounds[-1].evenness(name))])
            if name != "null":
                fractions.append([row] + [spread(each.ratio(name, "null")) for each in rounds])
                cpu.append([row] + [figure(each.cpu(name)) for each in rounds])
        row = f"user app / kernel app, {macs:,} MACs"
        fractions.append([row] + [spread(each.ratio("user", "kernel")) for each in rounds])
    head = ["switches", *SWITCHES]
    table("Million answers per second: OpenFlow 1.0, buffered", head, speeds)
    table("As fractions of `ofbench null`, round by round", head, fractions)
    table("CPU seconds per million answers, all of Rosemary's processes", head, cpu)
    table("Evenness: answers per second of one of 64 switches", ["", "least", "most", "ratio"], even)


def compile_c(bench, name):
    """Compiles `apps/NAME.c`; returns the object."""
    source = Path(__file__).resolve().parent / "apps" / f"{name}.c"
    built = Path(bench.directory.name) / f"lib{name}_c.so"
    words = ["cc", "-O2", "-shared", "-fPIC", f"-I{ROOT}/crates/sdk/c", "-o", str(built), str(source)]
    if subprocess.run(words).returncode:
        raise Failed(f"{source} does not compile")
    return built


def ordinary(bench, seconds, repeat):
    """Apps that use none of the SDK's batch interfaces, beside the tuned learning switch."""
    objects = [
        ("HashMap, Rust", BUILT / "examples" / "libordinary.so"),
        ("host table, Rust", BUILT / "examples" / "libhost_table.so"),
        ("hash map, C", compile_c(bench, "ordinary")),
    ]
    controllers = [bench.null(), bench.rosemary("kernel"), bench.rosemary("user")]
    names = [("null", "null"), ("kernel", "tuned, kernel"), ("user", "tuned, user")]
    for what, built in objects:
        for host in ["kernel", "user"]:
            name = f"{what}, {host}"
            config = app("ordinary", object=str(built), host=host)
            # The object is unsigned, as this script built it.
            controllers.append(bench.configured(name, config, args=["--allow-unsigned"]))
            names.append((name, name))
    sizes = [(1, 1000), (16, 1000), (64, 1000), (16, 100_000)]
    rounds = []
    for switches, macs in sizes:
        words = ["--of", "1.0", "--switches", switches, "--macs", macs, "--seconds", seconds]
        rounds.append(Rounds(bench, controllers, words, repeat))
    speeds, fractions = [], []
    for name, what in names:
        speeds.append([what] + [each.rate(name) for each in rounds])
        if name != "null":
            fractions.append([what] + [spread(each.ratio(name, "null")) for each in rounds])
    head = ["switches x MACs", *(f"{switches} x {macs:,}" for switches, macs in sizes)]
    table("Ordinary apps, million answers per second: OpenFlow 1.0, buffered", head, speeds)
    table("Ordinary apps, as fractions of `ofbench null`, round by round", head, fractions)


def forwarding(bench, seconds, repeat):
    """`forwarding` without storm control beside learning switches, each in its zone."""
    config = Path(bench.directory.name) / "forwarding.toml"
    config.write_text("[storm-control]\nenabled = false\n")
    objects = [("HashMap, Rust", "libordinary.so"), ("host table, Rust", "libhost_table.so")]
    controllers = [
        bench.configured(f"{what}, user", app("ordinary", object=str(BUILT / "examples" / built)), args=["--allow-unsigned"])
        for what, built in objects
    ]
    controllers.append(bench.rosemary("user"))
    controllers.append(bench.configured("forwarding", app("forwarding", config=str(config))))
    rounds, waits = [], []
    for switches in [1, 16]:
        words = ["--of", "1.3", "--switches", switches, "--macs", 1000, "--settle", SETTLED, "--seconds", seconds]
        rounds.append(Rounds(bench, controllers, words, repeat))
    for each in controllers:
        words = ["--of", "1.3", "--settle", SETTLED, "--seconds", seconds, "--repeat", 1]
        waits.append([bench.run("latency", each, *words)["latency_us"]["p50"] for _ in range(repeat)])
    rows = []
    for each, times in zip(controllers, waits):
        name = "tuned, user" if each.name == "user" else each.name
        speeds = [by_size.rate(each.name) for by_size in rounds]
        ratios = [spread(by_size.ratio("forwarding", each.name)) for by_size in rounds]
        rows.append([name, *speeds, *ratios, spread(spread_of(times))])
    head = ["OpenFlow 1.3, 1,000 MACs", "1 switch, million/s", "16", "forwarding by it, 1 switch", "16", "one at a time, us"]
    table("`forwarding` beside learning switches", head, rows)


def buffers(bench, seconds, _repeat):
    """Switches that use more buffers than they announce, as in cbench; ten pairs."""
    words = ["--of", "1.0", "--seconds", seconds, "--buffer-ids", 100_000, "--claim-buffers", 256]
    rounds = [
        Rounds(
            bench, [bench.rosemary("kernel"), bench.rosemary("user")],
            [*words, "--switches", switches], 10,
        )
        for switches in SWITCHES
    ]
    rows = [[f"{host} app", *(each.rate(host) for each in rounds)] for host in ["kernel", "user"]]
    rows.append(["user app / kernel app", *(spread(each.ratio("user", "kernel")) for each in rounds)])
    head = ["100,000 buffer ids, 256 claimed", *SWITCHES]
    table("Million answers per second with cbench's buffers, ten pairs", head, rows)


def versions(bench, seconds, repeat):
    """OpenFlow 1.0 and 1.3, with buffered and whole packets."""
    rows = []
    for of in ["1.0", "1.3"]:
        for buffered in [True, False]:
            words = ["--of", of, "--switches", 16, "--seconds", seconds]
            words += [] if buffered else ["--no-buffer"]
            controllers = [bench.null(), bench.rosemary("kernel"), bench.rosemary("user")]
            rounds = Rounds(bench, controllers, words, repeat)
            row = [f"{of}, {'buffered' if buffered else 'whole packets'}", rounds.rate("null")]
            for host in ["kernel", "user"]:
                row += [rounds.rate(host), figure(rounds.ratio(host, "null")["median"])]
            rows.append(row)
    head = ["16 switches, 1,000 MACs", "null", "kernel app", "of null", "user app", "of null"]
    table("Million answers per second, by version", head, rows)


def latency(bench, seconds, repeat):
    """Latency with one outstanding packet-in."""
    rows = []
    for of in ["1.0", "1.3"]:
        words = ["--of", of, "--seconds", seconds, "--repeat", 1]
        controllers = [bench.null(), bench.rosemary("kernel"), bench.rosemary("user")]
        rounds = [
            {each.name: bench.run("latency", each, *words)["latency_us"] for each in controllers}
            for _ in range(repeat)
        ]
        for name in rounds[0]:
            def median(at, by=None):
                return spread_of([r[name][at] / (r[by][at] if by else 1) for r in rounds])["median"]

            times = [figure(median(at)) for at in ["p50", "p90", "p99", "p99_9"]]
            by_null = [figure(median(at, "null")) for at in ["p50", "p99"]]
            rows.append([f"{of}, {name}", *times, *by_null])
    head = ["one switch", "p50", "p90", "p99", "p99.9", "p50 / null's", "p99 / null's"]
    table("Microseconds until a packet-in is answered, one at a time", head, rows)


def python(bench, seconds, repeat):
    """Apps in Python: `simple_switch_13` on Rosemary and under os-ken's manager, and two apps of the SDK."""
    if not (ROOT / "target" / "python" / "rosemary-python.json").exists():
        raise Failed("target/python is missing; type: make python PYTHON_PROFILE=release")
    ryu = ROOT / "target" / "ryu"
    original = ryu / "ryu" / "app" / "simple_switch_13.py"
    if not original.exists():
        raise Failed("Ryu's apps are missing; type: etc/make-ryu.sh target/ryu")
    # os-ken has the same modules under its own names, and no apps.
    renamed = Path(bench.directory.name) / "simple_switch_13.py"
    text = original.read_text().replace("from ryu.", "from os_ken.").replace("app_manager.RyuApp", "app_manager.OSKenApp")
    renamed.write_text(text)
    port = free_port()
    words = [os_ken(), "--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", port, renamed]
    manager = f"os-ken {OS_KEN}, `simple_switch_13`"
    controllers = [bench.get(manager, lambda: Controller(manager, words, port, bench.core))]
    rights = ["packet-in", "packet-out", "packet-out.reserved", "flow.write", "stats.read", "switch.config"]
    here = Path(__file__).resolve().parent
    for name, object_, host in [
        ("Rosemary, `simple_switch_13`", str(original), "ryu"),
        ("Rosemary, `rosemary.App`", str(ROOT / "python" / "examples" / "learning_switch.py"), "python"),
        ("Rosemary, `on_batch`", str(here / "apps" / "learning_batch.py"), "python"),
    ]:
        config = app("learning", object=object_, host=host, capabilities=rights)
        controllers.append(bench.configured(name, config, args=["--allow-unsigned"]))
    sizes = [1, 16]
    rounds, waits = [], []
    for switches in sizes:
        words = ["--of", "1.3", "--switches", switches, "--macs", 200, "--seconds", seconds, "--give-up", 5]
        rounds.append(Rounds(bench, controllers, words, repeat))
    for each in controllers:
        words = ["--of", "1.3", "--seconds", seconds, "--repeat", 1]
        waits.append([bench.run("latency", each, *words)["latency_us"]["p50"] for _ in range(repeat)])
    rows = []
    for each, times in zip(controllers, waits):
        cells = [spread(by_size.ratio(each.name, manager)) for by_size in rounds]
        speeds = [spread(spread_of(by_size.rates(each.name)), 1000) for by_size in rounds]
        rows.append([each.name, *speeds, *cells, spread(spread_of(times))])
    head = ["OpenFlow 1.3, 200 MACs, one core", *(f"{it} switches, thousand/s" for it in sizes)]
    head += [*(f"{it} switches, by os-ken" for it in sizes), "one packet at a time, us"]
    table("Apps in Python: answers per second, and the median time of an answer", head, rows)
    for each in controllers:
        bench.stop(each.name)
    # Real hosts behind Open vSwitch, which take turns with both controllers.
    program = [str(BUILT / "examples" / "first_ping"), "ryu", str(os_ken()), str(original), str(renamed)]
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    pinged = subprocess.run([*sudo, *program], stdout=subprocess.PIPE, text=True)
    if pinged.returncode != 0:
        raise Failed(f"the first pings could not be measured: {' '.join(program)}")
    print(f"First ping of two hosts, in turns\n\n{pinged.stdout}")


def keys(directory):
    """Creates keys as an operator does; returns the directories of the controller and of the switch."""
    rosemary = str(BUILT / "rosemary")
    for words in [["init"], ["switch", "bench"]]:
        made = subprocess.run(
            [rosemary, "pki", *words, "--dir", f"{directory}/pki"], capture_output=True, text=True
        )
        if made.returncode != 0:
            raise Failed(f"rosemary pki {' '.join(words)}: {made.stderr.strip()}")
    return f"{directory}/pki", f"{directory}/pki/switches/bench"


def tls(bench, seconds, repeat):
    """CPU time with and without TLS, and of handshakes."""
    directory, switch = keys(bench.directory.name)
    rows = []
    for host in ["kernel", "user"]:
        controller = bench.rosemary(host, tls=directory)
        words = ["--of", "1.0", "--switches", 16, "--seconds", seconds, "--repeat", 1]
        pairs = [
            [bench.run("throughput", controller, *words, *more) for more in ([], ["--tls-dir", switch])]
            for _ in range(repeat)
        ]
        rates = [[result["answered_per_second"]["median"] for result in each] for each in zip(*pairs)]
        times = [[result["cpu_seconds_per_million"] for result in each] for each in zip(*pairs)]
        rows.append(
            [f"{host} app", *(spread(spread_of(each), MILLION) for each in rates)]
            + [figure(spread_of(each)["median"]) for each in times]
            + [spread(spread_of([tls / tcp for tcp, tls in zip(*times)]))]
        )
    head = ["16 switches, 1,000 MACs", "TCP, million/s", "TLS, million/s"]
    head += ["CPU s per million, TCP", "TLS", "ratio"]
    table("With TLS", head, rows)
    rows = []
    for what, more in [("TCP", []), ("TLS", ["--tls-dir", switch])]:
        words = ["--switches", 1000, "--seconds", seconds, "--repeat", repeat, *more]
        result = bench.run("connect", bench.rosemary("user", tls=directory), *words)
        rows.append(
            [what, figure(result["all_settled_seconds"]), spread(result["handshakes_per_second"])]
            + [figure(result["handshake_us"]["p99"] / 1000), figure(result["cpu_seconds_per_thousand"])]
        )
    head = ["1,000 switches", "all connected, s", "handshakes/s", "p99, ms", "CPU s per thousand"]
    table("Connections", head, rows)


def fairness(bench, seconds, repeat):
    """Latency of quiet switches while another switch floods."""
    rows = []
    for host in ["kernel", "user"]:
        words = ["--switches", 4, "--seconds", seconds, "--repeat", repeat]
        result = bench.run("flood", bench.rosemary(host), *words)
        for when in ["alone", "beside"]:
            times = result[when]
            cells = [times.get(f"{what}_us") for what in ["echo", "arp", "port", "handshake"]]
            shown = [f"{figure(t['p50'] / 1000)} / {figure(t['max'] / 1000)}" if t else "-" for t in cells]
            name = f"{host} app, " + ("no flood" if when == "alone" else "flood")
            rows.append([name, *shown, times["unanswered"]])
        rows[-1][0] += f" of {figure(result['flood_per_second']['median'] / 1000)} k/s"
        arps = f"{result['flood_arps_answered']} of {result['flood_arps']}"
        rows.append([f"{host} app, ARP among the flood", "", arps, "", "", ""])
    head = ["median / longest, in ms", "echo", "ARP", "port event", "handshake", "lost"]
    table("Four quiet switches and a new one, while another floods", head, rows)


def idle(bench, seconds):
    """Memory and CPU time of idle switches."""
    rows = []
    for switches, ports in [(1000, 48), (10_000, 4), (10_000, 48)]:
        controller = bench.rosemary("user")
        words = ["--switches", switches, "--ports", ports, "--seconds", seconds, "--repeat", 1]
        result = bench.run("idle", controller, *words)
        rows.append(
            [f"{switches:,} switches of {ports} ports", figure(result["all_settled_seconds"])]
            + [figure(result["resident_bytes_per_switch"] / 1024), figure(result["cpu_percent"])]
        )
        for key in [key for key, running in bench.running.items() if running is controller]:
            bench.stop(key)  # memory that it retains would distort the next measurement
    head = ["idle", "all connected, s", "KiB each", "CPU, % of a core"]
    table("Idle switches, user app", head, rows)


def addresses(bench, seconds, repeat):
    """Throughput with addresses that an attacker chooses."""
    rows = []
    for host in ["kernel", "user"]:
        result = {}
        for how in ["random", "alike", "random ", "alike "]:
            words = ["--of", "1.0", "--macs", 100_000, "--switches", 4, "--addresses", how.strip()]
            words += ["--seconds", seconds, "--repeat", repeat]
            result[how] = bench.run("throughput", bench.rosemary(host), *words)
        both = [
            spread_of([result[how + more]["answered_per_second"]["median"] for more in ["", " "]])
            for how in ["random", "alike"]
        ]
        cost = both[0]["median"] / both[1]["median"]
        rows.append([f"{host} app", *(spread(b, MILLION) for b in both), figure(cost)])
    head = ["4 switches, 100,000 MACs", "random", "alike", "cost"]
    table("Million answers per second, by how addresses are chosen", head, rows)


def scale(bench, seconds, repeat):
    """Throughput and CPU time by number of switches, workers and apps."""

    def row(what, result):
        rate, cpu = result["answered_per_second"], result["cpu_seconds_per_million"]
        return [what, spread(rate, MILLION), figure(cpu)]

    rows = []
    words = ["--of", "1.0", "--seconds", seconds, "--repeat", repeat]
    for host in ["kernel", "user"]:
        for switches in [1, 4, 16, 64, 256]:
            result = bench.run("throughput", bench.rosemary(host), *words, "--switches", switches)
            rows.append(row(f"{host} app, {switches} switches", result))
    table("By switches: 1,000 MACs each", ["one core", "million/s", "CPU s per million"], rows)

    rows = []
    both = f"{bench.core},{bench.generator}"
    for workers in [1, 2]:
        name = f"{workers} workers"
        controller = bench.configured(name, app(LEARNING), both, ["--workers", workers])
        rate = ["rate", controller, "--rate", 500_000, "--switches", 16, "--of", "1.0"]
        result = bench.run(*rate, "--seconds", seconds, "--repeat", repeat)
        rows.append(row(f"user app, {name}", result))
        bench.stop(name)
    title = "By workers, on both cores, at 500,000 packet-ins a second"
    table(title, ["16 switches, 1,000 MACs", "million/s", "CPU s per million"], rows)

    rows = []
    observer = BUILT / "examples" / "libobserver.so"
    for apps in [1, 2, 4]:
        config = app(LEARNING) + "".join(
            app(f"observer-{n}", object=str(observer), stage="observe") for n in range(1, apps)
        )
        name = f"{apps} apps"
        # The observer is unsigned, as this script built it.
        controller = bench.configured(name, config, args=["--allow-unsigned"])
        result = bench.run("throughput", controller, *words, "--switches", 16)
        rows.append(row(f"learning switch and {apps - 1} observers", result))
        bench.stop(name)
    # An observer that falls behind loses packets and does not delay the others.
    table("By apps, each in its zone", ["16 switches, one core", "million/s", "CPU s per million"], rows)


def discovery(bench, _seconds, _repeat):
    """Time, processor time and memory of `topology` until it has found all links of fat trees."""
    rows = []
    for ports in [8, 14, 20, 28]:
        switches, links = 5 * ports**2 // 4, ports**3 // 2
        controller = bench.configured(f"fat-tree:{ports}", app("topology"))
        status = controller.status()
        pids = [status["kernel"]["pid"], next(it["pid"] for it in status["apps"] if it["name"] == "topology")]
        before = [cpu_seconds(pid) for pid in pids]
        words = ["taskset", "--cpu-list", str(bench.generator), str(BUILT / "ofbench"), "switches", controller.at]
        say(f"  discovery {controller.name}")
        began = time.monotonic()
        fabric = subprocess.Popen([*words, "--topology", controller.name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            # Each link is listed in both directions.
            found = lambda: controller.links() == 2 * links  # noqa: E731
            wait_for(f"all links of {controller.name} are found", found, 120)
            took = time.monotonic() - began
            used = [cpu_seconds(pid) - old for pid, old in zip(pids, before)]
            peak = peak_mib(pids[1])
            time.sleep(10)
            if not found():
                raise Failed(f"{controller.name}: {controller.links()} links of {2 * links} after 10 s")
        finally:
            fabric.terminate()
            fabric.wait()
        rows.append([f"{switches} switches", f"{links:,}", figure(took), *map(figure, used),
                     figure(1e6 * sum(used) / links), figure(peak), figure(1024 * peak / links)])
        bench.stop(controller.name)
    head = ["fat trees", "links", "found after s", "kernel, CPU s", "topology, CPU s", "both per link, us",
            "topology, MiB at most", "KiB per link"]
    table("Discovery of links", head, rows)


def cpu_seconds(pid):
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid):
    """The most resident memory that a process has had."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) / 1024


def subscribers(bench, seconds, repeat):
    """The kernel's CPU time with clients of the interface, and without."""
    rows = []
    for host in ["kernel", "user"]:
        port = free_port()
        name = f"{host} app with interface"
        controller = bench.configured(name, app(LEARNING, host=host), args=["--api", f"127.0.0.1:{port}"])
        kernel = [controller.status()["kernel"]["pid"]]
        words = ["--of", "1.0", "--switches", 16, "--seconds", seconds, "--repeat", 1]

        def measured():
            return ofbench("throughput", controller, bench.generator, *words, pids=kernel)["cpu_seconds_per_million"]

        alone, beside, reports = [], [], []
        for _ in range(10 if repeat > 3 else 6):
            say(f"  subscribers {name}")
            alone.append(measured())
            program = [sys.executable, Path(__file__).parent / "clients.py", "127.0.0.1", port, 1000, 100]
            words_of_clients = ["taskset", "--cpu-list", str(bench.generator), *map(str, program)]
            clients = subprocess.Popen(words_of_clients, stdout=subprocess.PIPE, text=True)
            try:
                if clients.stdout.readline() != "connected\n":
                    raise Failed("the clients of the interface did not connect")
                beside.append(measured())
            finally:
                clients.terminate()
            reports.append(json.loads(clients.stdout.readline()))
            clients.wait()
        bench.stop(name)
        ratios = spread_of([b / a for a, b in zip(alone, beside)])
        served = {key: sum(report[key] for report in reports) for key in ["open", "answered", "failed"]}
        rows.append([f"{host} app", figure(spread_of(alone)["median"]), figure(spread_of(beside)["median"]),
                     spread(ratios), *(f"{served[key]:,}" for key in served)])
    head = ["1,000 subscribers, 100 requests/s", "kernel's CPU s per million", "beside clients", "ratio",
            "streams open", "answered", "failed"]
    table("The kernel beside clients of the interface", head, rows)


def against(bench, revision, seconds, repeat):
    """Compares this tree with another revision, in turn."""
    other, commit = build_revision(revision)
    rows = []
    for host in ["kernel", "user"]:
        here, there = bench.rosemary(host), bench.rosemary(host, other)
        for macs, switches in [(1000, 1), (1000, 16), (1000, 64), (100_000, 16)]:
            words = ["--of", "1.0", "--switches", switches, "--macs", macs]
            words += ["--seconds", seconds, "--repeat", repeat]
            result = bench.run("throughput", here, *words, vs=there)
            rows.append(compared(f"{host} app, {switches} x {macs:,} MACs", result, MILLION))
    head = ["million answers per second", "here", commit, "here / there", "CPU, here / there"]
    table(f"Against {revision}: throughput, in pairs", head, rows)
    rows = []
    for host in ["kernel", "user"]:
        words = ["--of", "1.0", "--seconds", seconds, "--repeat", repeat]
        here, there = bench.rosemary(host), bench.rosemary(host, other)
        result = bench.run("latency", here, *words, vs=there)
        cells = [figure(side["latency_us"]["p50"]) for side in (result, result["vs"])]
        rows.append([f"{host} app", *cells, spread(result["vs"]["ratios"]["ratio"])])
    head = ["microseconds, median", "here", commit, "here / there"]
    table(f"Against {revision}: latency, in pairs", head, rows)


def compared(what, result, scale):
    other = result["vs"]
    cpu = result["cpu_seconds_per_million"] / other["cpu_seconds_per_million"]
    sides = [spread(side["answered_per_second"], scale) for side in (result, other)]
    return [what, *sides, spread(other["ratios"]["ratio"]), figure(cpu)]


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
}
SHORT = ["throughput", "ordinary", "buffers", "versions", "latency", "tls", "flood"]

if __name__ == "__main__":
    main(measure)
