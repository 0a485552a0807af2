#!/usr/bin/env python3
"""Measures the round trip of traffic over a switch that an app floods with flow-mods, without and with the app protection.

Four switches in a ring, each an `ovs-vswitchd` of its own; the hosts at the first and the third have two paths.
"""

import argparse
import json
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import measure as programs  # noqa: E402
import switch as ovs  # noqa: E402
from measure import ROOT, Failed, Rosemary, app, build, machine, main, need, say, table, wait_for  # noqa: E402
from switch import PROGRAMS, Switch, chart, enter, ip, us, version  # noqa: E402

NAME = "protection"
PORT = 6653
SWITCHES = 4
VARIANTS = {
    "none": 'action = "report"',
    "drain": 'action = "drain"',
    "throttle": 'action = "throttle"\npace = 20',
    "suspend": 'action = "suspend"',
}
SHORT = {"calm": 12, "attacked": 8}
LONG = {"calm": 60, "attacked": 60}


def veth(one, other):
    ip("link", "add", one, "type", "veth", "peer", "name", other)
    for end in [one, other]:
        subprocess.run(["ip", "link", "set", end, "addrgenmode", "none"], stderr=subprocess.DEVNULL)
        ip("link", "set", end, "up")


class Space:
    """A network namespace, which lives as long as its process."""

    def __init__(self):
        self.process = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        time.sleep(0.5)

    def inside(self):
        return ["nsenter", "--target", str(self.process.pid), "--net"]

    def take(self, interface, *address):
        ip("link", "set", interface, "netns", str(self.process.pid))
        for words in [*([["addr", "add", *address, "dev", interface]] if address else []), ["link", "set", interface, "up"]]:
            subprocess.run([*self.inside(), "ip", *words], check=True)

    def end(self):
        self.process.kill()
        self.process.wait()


class Bridge(Switch):
    """A switch of the ring: a process in a namespace of its own, as all name their datapath alike."""

    def __init__(self, number, ports):
        self.name, self.ports, self.number = f"s{number}", ports, number
        self.space = Space()
        super().__init__()

    def interfaces(self):
        for port in self.ports:
            self.space.take(port)
        veth(f"m{self.number}", f"c{self.number}")
        ip("addr", "add", f"10.9.{self.number}.1/24", "dev", f"m{self.number}")
        self.space.take(f"c{self.number}", f"10.9.{self.number}.2/24")

    def start(self, program, *words):
        log = open(f"{self.dir}/{program}.err", "wb")
        words = [*self.space.inside(), program, "--no-chdir", *words]
        self.running.append(subprocess.Popen(words, env=self.env, stdout=log, stderr=log))

    def run(self, *words):
        if "add-br" in words:
            words = ["ovs-vsctl", "--timeout=20", "add-br", self.name, "--", "set", "bridge", self.name,
                     "datapath_type=netdev", "fail_mode=secure", "protocols=OpenFlow13",
                     "other-config:disable-in-band=true", f"other-config:datapath-id={self.number:016x}",
                     "--", "set-controller", self.name, f"tcp:10.9.{self.number}.1:{PORT}",
                     "--", "set", "controller", self.name, "max_backoff=1000"]
            for at, port in enumerate(self.ports, 1):
                words += ["--", "add-port", self.name, port, "--", "set", "interface", port, f"ofport_request={at}"]
        return super().run(*words)

    def stop(self):
        super().stop()
        self.space.end()


class Host(Space):
    """A network namespace with an address."""

    def __init__(self, name, port, number):
        super().__init__()
        self.address, self.mac = f"10.0.0.{number}", f"02:00:00:00:00:{number:02x}"
        veth(name, port)
        ip("link", "set", name, "address", self.mac)
        self.take(name, f"{self.address}/24")

    def ping(self, other, count=None):
        """Starts pings, one each 10 ms."""
        words = [*self.inside(), "ping", "-D", "-n", "-i", "0.01", other.address]
        words[-1:-1] = ["-c", str(count)] if count else []
        return Pings(words)


class Pings:
    """A running `ping`. Its output, which has the times, goes into a file: nobody would empty a pipe meanwhile."""

    def __init__(self, words):
        self.output = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(words, stdout=self.output, stderr=subprocess.DEVNULL)

    def end(self, wanted=False):
        """Waits for the end, or brings it about if it is `wanted`; returns the output."""
        if wanted:
            self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.output.seek(0)
        return self.output.read()


class Ring:
    """The switches and the hosts, without a controller."""

    def __init__(self):
        for at in range(SWITCHES):
            veth(f"l{at}a", f"l{at}b")
        self.h1, self.h3 = Host("h1", "p1", 1), Host("h3", "p3", 3)
        self.bridges = []
        for at in range(SWITCHES):
            ports = [{0: ["p1"], 2: ["p3"]}.get(at, []), [f"l{at}a", f"l{(at - 1) % SWITCHES}b"]]
            self.bridges.append(Bridge(at + 1, sum(ports, [])))

    def stop(self):
        for bridge in self.bridges:
            bridge.stop()
        for host in [self.h1, self.h3]:
            host.end()


class Controlled(Rosemary):
    """Rosemary with `forwarding`, `protection` and the app that floods."""

    def __init__(self, variant, built):
        self.changer = Path("/tmp") / f"rosemary-changer-{variant}.txt"
        settings = Path("/tmp") / f"rosemary-protection-{variant}.toml"
        settings.write_text(VARIANTS[variant] + "\nquiet = 3\n")
        self.changer.write_text("1 0\n")
        rights = ["packet-in", "stats.read", "topology.read", "topology.drain", "apps.read", "apps.limit:changer"]
        config = app("forwarding") + app("protection", config=str(settings), capabilities=rights)
        config += app("changer", config=str(self.changer))  # its object is beside those of apps that ship
        listen = [word for at in range(SWITCHES) for word in ["--listen", f"10.9.{at + 1}.1:{PORT}"]]
        super().__init__("rosemary", None, config, built, ["--plain", "any", *listen])

    def run(self, *words):
        words = [str(self.rosemary), *words, "--runtime-dir", f"{self.dir}/run"]
        ran = subprocess.run(words, capture_output=True, text=True)
        if ran.returncode:
            raise Failed(f"{' '.join(words)}: {ran.stderr.strip()}")
        return ran.stdout

    def json(self, *words):
        try:
            return json.loads(self.run(*words, "--json"))
        except (Failed, ValueError):
            return None

    def middle(self, ring):
        """The datapath id of the switch in the middle of the path from h1 to h3."""
        packet = (f"eth_src={ring.h1.mac},eth_dst={ring.h3.mac},eth_type=0x0800,"
                  f"ipv4_src={ring.h1.address},ipv4_dst={ring.h3.address},ip_proto=1")
        hops = (self.json("trace", "1", packet, "--in-port", "1") or {}).get("hops", [])
        hops = [hop["switch"] for hop in hops if hop.get("switch")]
        return hops[1] if len(hops) == 3 else None

    def reports(self, word):
        """Whether an incident of `protection` has this word."""
        incidents = self.json("incidents") or []
        return any(it["program"]["name"] == "protection" and word in json.dumps(it) for it in incidents)


def round_trips(text):
    """Returns pairs of the time and the round trip in microseconds, and the number of pings without an answer."""
    found = re.findall(r"\[([\d.]+)\].* icmp_seq=(\d+) .* time=([\d.]+) ms", text)
    numbers = [int(number) for _, number, _ in found]
    lost = max(numbers) - len(set(numbers)) if numbers else 0
    return [(float(at), float(ms) * 1000) for at, _, ms in found], lost


def median_interval(values):
    """Returns the median and its 95 % interval, by order statistics."""
    values = sorted(values)
    half = 0.98 * len(values) ** 0.5
    low, high = int(len(values) / 2 - half), int(len(values) / 2 + half)
    return statistics.median(values), values[max(low, 0)], values[min(high, len(values) - 1)]


def measured(variant, ring, built, rate, rules, form):
    """Measures calm, attacked and remedied times of one variant."""
    say(f"{NAME}: {variant}")
    rosemary = Controlled(variant, built)
    try:
        wait_for("all links are found", lambda: len(rosemary.json("links") or []) == 2 * SWITCHES, 90)
        reached = lambda: round_trips(ring.h1.ping(ring.h3, 3).end())[0]  # noqa: E731
        wait_for("h1 reaches h3", lambda: len(reached()) == 3, 60)
        wait_for("the path is known", lambda: rosemary.middle(ring), 60)
        middle = rosemary.middle(ring)
        pings = ring.h1.ping(ring.h3)
        began = time.time()
        time.sleep(form["calm"])
        attacked = time.time()
        rosemary.changer.write_text(f"{middle} {rate} {rules}\n")
        rosemary.run("app", "restart", "changer")
        remedied = attacked + 3
        if variant == "none":
            time.sleep(3)
        else:
            wait_for("the remedy is in force", lambda: rosemary.reports("changer harms"), 60)
            remedied = time.time()
            time.sleep(1)  # the move, and the time until a suspension holds
        steady = time.time()
        time.sleep(form["attacked"])
        ended = time.time()
        rosemary.run("app", "stop", "changer")
        if variant != "none":
            wait_for("the remedy is undone", lambda: rosemary.reports("no longer"), 60)
        time.sleep(1)
        trips, lost = round_trips(pings.end(wanted=True))
    finally:
        rosemary.stop()
    calm = [trip for at, trip in trips if began + 1 <= at < attacked]
    during = [trip for at, trip in trips if steady <= at < ended]
    medians = [us(statistics.median(part)) if part else "-" for part in [calm, during]]
    say(f"{NAME}: {variant}: {' us without attack, '.join(medians)} us under attack, {lost} lost, {remedied - attacked:.1f} s")
    if len(calm) < 30 or len(during) < 30:
        raise Failed(f"{variant}: too few answers, {len(calm)} in calm times and {len(during)} in the attack")
    return {"calm": calm, "attacked": during, "lost": lost, "sent": len(trips) + lost, "took": remedied - attacked}


def distribution(values, points=100):
    """Returns the points of the distribution up to its 99th percentile."""
    values = sorted(values)
    at = lambda part: values[min(int(part * len(values)), len(values) - 1)]  # noqa: E731
    return [(at(point / points) / 1000, point / points) for point in range(points)]


def measure():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="a minute of each phase")
    parser.add_argument("--only", choices=VARIANTS, action="append", help="only this remedy")
    parser.add_argument("--rate", type=int, default=4_000, help="flow-mods per second of the app that floods")
    parser.add_argument("--rules", type=int, default=8_000, help="flows of that app, which each flow-mod looks through")
    parser.add_argument("--save", action="store_true", help="replace the chart of experiments/protection")
    parser.add_argument("--no-build", action="store_true", help="do not build first")
    parser.add_argument("--debug", action="store_true", help="measure the programs of target/debug")
    asked = parser.parse_args()
    need(*PROGRAMS, "ping", "nsenter")
    if asked.debug:
        programs.BUILT = ovs.BUILT = ROOT / "target" / "debug"
    elif not asked.no_build:
        build()
        sys.argv.append("--no-build")
    enter()
    programs.free_port = lambda: PORT
    form = LONG if asked.long else SHORT
    kind = "debug" if asked.debug else "release"
    print(f"{machine()}\nOpen vSwitch {version()}, userspace datapath; {kind} build; {asked.rate:,} flow-mods/s.")
    ring = Ring()
    try:
        results = {name: measured(name, ring, programs.BUILT, asked.rate, asked.rules, form) for name in asked.only or VARIANTS}
    finally:
        ring.stop()
    rows, lines = [], []
    for name, result in results.items():
        calm, *calm_ends = median_interval(result["calm"])
        median, *ends = median_interval(result["attacked"])
        more = 100 * (median / calm - 1)
        rows.append([
            name, f"{us(calm)} ({' to '.join(map(us, calm_ends))})", f"{us(median)} ({' to '.join(map(us, ends))})",
            f"{more:+.0f} %", f"{result['lost']} of {result['sent']}",
            "-" if name == "none" else f"{result['took']:.1f}",
        ])
        if name == "none":
            lines.append({"name": "no attack", "points": distribution(result["calm"])})
        lines.append({"name": {"none": "no protection"}.get(name, name), "points": distribution(result["attacked"])})
    head = ["remedy", "median without attack us", "median under attack us", "change", "lost", "remedied after s"]
    table(f"round trip, {form['calm']} s and {form['attacked']} s", head, rows)
    chart(
        NAME, "distribution.svg", asked.save, title="Round trip under an app's flow-mods", x_label="ms",
        y_label="part of the pings", lines=lines,
    )


if __name__ == "__main__":
    main(measure)
