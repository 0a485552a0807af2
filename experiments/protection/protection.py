#!/usr/bin/env python3
"""Measures the round trip of traffic over a switch while an app deletes flows there, without and with remedies.

Four switches in a ring, each an `ovs-vswitchd` with its own share of a core; the hosts at the first and the third have two paths.
First the rate of deletions grows until the round trip suffers; then each remedy is measured at that rate.
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
from measure import ROOT, Failed, Rosemary, app, build, machine, main, need, say, table, verdict, wait_for  # noqa: E402
from switch import PROGRAMS, Share, Switch, chart, enter, ip, us, version  # noqa: E402

NAME = "protection"
PORT = 6653
SWITCHES = 4
# The remedies. "move" and "drain" are those of the study's text and algorithm; both are carried out on what `protection` finds.
VARIANTS = {
    "none": 'action = "report"',
    "move": 'action = "report"',
    "drain": 'action = "drain"',
    "throttle": 'action = "throttle"\npace = 20',
    "suspend": 'action = "suspend"',
}
STUDIED = ["move", "drain"]
SHORT = {"calm": 12, "step": 5, "attacked": 8}
LONG = {"calm": 60, "step": 20, "attacked": 60}

# Deletions per second, the study's one every 10 ms among them, and the ratio of means from which the round trip counts as hurt.
RATES = [12, 25, 50, 100, 200, 400, 800, 1_600]
HURT = 1.25

# The ratio of means up to which a remedy restores the round trip.
RESTORED = 1.1


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

    def __init__(self, number, ports, share):
        self.name, self.ports, self.number = f"s{number}", ports, number
        self.space, self.share = Space(), Share(self.name, share)
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
        words = self.share.within(words) if program == "ovs-vswitchd" else words
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
        self.share.remove()


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
    """The switches, each with its share of a core, and the hosts, without a controller."""

    def __init__(self, share):
        for at in range(SWITCHES):
            veth(f"l{at}a", f"l{at}b")
        self.h1, self.h3 = Host("h1", "p1", 1), Host("h3", "p3", 3)
        self.bridges = []
        for at in range(SWITCHES):
            ports = [{0: ["p1"], 2: ["p3"]}.get(at, []), [f"l{at}a", f"l{(at - 1) % SWITCHES}b"]]
            self.bridges.append(Bridge(at + 1, sum(ports, []), share))

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

    def attack(self, switch, rate, rules):
        """Has the changer delete flows of this switch at a rate, after it has added its flows there."""
        self.changer.write_text(f"{switch} {rate} {rules} delete\n")
        self.run("app", "restart", "changer")

    def path(self, ring):
        """Waits until h1 reaches h3; returns the datapath id of the switch in the middle of their path."""
        wait_for("all links are found", lambda: len(self.json("links") or []) == 2 * SWITCHES, 90)
        reached = lambda: round_trips(ring.h1.ping(ring.h3, 3).end())[0]  # noqa: E731
        wait_for("h1 reaches h3", lambda: len(reached()) == 3, 60)
        return wait_for("the path is known", lambda: self.middle(ring), 60)

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


def mean_interval(values):
    """Returns the mean and its 95 % interval, of the normal distribution."""
    mean = statistics.fmean(values)
    half = 1.96 * statistics.stdev(values) / len(values) ** 0.5
    return mean, mean - half, mean + half


def filled(rules):
    """The seconds until the changer has added its flows and the first deletions are over."""
    return rules / 4_000 + 2


def find_rate(ring, built, rules, form):
    """Returns a row for each rate of deletions up to the first that hurts the round trip, and that rate."""
    say(f"{NAME}: the rate that hurts")
    rosemary = Controlled("none", built)
    rows, calm = [], None
    try:
        middle = rosemary.path(ring)
        for rate in [0, *RATES]:
            rosemary.attack(middle, rate, rules)
            time.sleep(filled(rules))
            pings = ring.h1.ping(ring.h3)
            time.sleep(form["step"])
            trips = [trip for _, trip in round_trips(pings.end(wanted=True))[0]]
            if len(trips) < 30:
                raise Failed(f"{rate} deletions/s: {len(trips)} answers are too few")
            mean, low, high = mean_interval(trips)
            calm = calm or mean
            say(f"{NAME}: {rate} deletions/s: mean {us(mean)} us")
            rows.append([f"{rate:,}", f"{us(mean)} ({us(low)} to {us(high)})", us(statistics.median(trips)),
                         f"{100 * (mean / calm - 1):+.0f} %"])
            if low > HURT * calm:
                return rows, rate
    finally:
        rosemary.stop()
    raise Failed(f"{RATES[-1]:,} deletions/s do not hurt the round trip; use a smaller --share or more --rules")


def measured(variant, ring, built, rate, rules, form):
    """Measures calm, attacked and remedied times of one variant."""
    say(f"{NAME}: {variant}")
    rosemary = Controlled(variant, built)
    try:
        middle = rosemary.path(ring)
        pings = ring.h1.ping(ring.h3)
        began = time.time()
        time.sleep(form["calm"])
        attacked = time.time()
        rosemary.attack(middle, rate, rules)
        remedied = attacked + filled(rules)
        if variant == "none":
            time.sleep(filled(rules))
        else:
            wait_for("the remedy is in force", lambda: rosemary.reports("changer harms"), 60)
            if variant == "move":
                # Switches 2 and 4 are the middles of both paths.
                rosemary.attack({2: 4, 4: 2}[int(middle.replace(":", ""), 16)], rate, rules)
            remedied = time.time()
            time.sleep(filled(rules) if variant == "move" else 1)  # the move, and the time until a suspension holds
        steady = time.time()
        time.sleep(form["attacked"])
        ended = time.time()
        rosemary.run("app", "stop", "changer")
        if variant not in ("none", "move"):
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
    parser.add_argument("--rate", type=int, help="deletions per second of the app; else the first rate that hurts")
    parser.add_argument("--rules", type=int, default=8_000, help="flows of that app, which each deletion looks through")
    parser.add_argument("--share", type=float, default=0.2, help="part of a core that each switch has")
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
    print(f"{machine()}\nOpen vSwitch {version()}, userspace datapath; {kind} build; each switch has {100 * asked.share:g} % of a core.")
    ring = Ring(asked.share)
    try:
        rate = asked.rate
        if rate is None:
            found, rate = find_rate(ring, programs.BUILT, asked.rules, form)
            table(f"round trip by the rate of deletions, {form['step']} s each",
                  ["deletions/s", "mean us", "median us", "change of the mean"], found)
        results = {name: measured(name, ring, programs.BUILT, rate, asked.rules, form) for name in asked.only or VARIANTS}
    finally:
        ring.stop()
    rows, lines, broken = [], [], []
    for name, result in results.items():
        medians = [median_interval(result[phase]) for phase in ["calm", "attacked"]]
        means = [mean_interval(result[phase]) for phase in ["calm", "attacked"]]
        ratio = means[1][0] / means[0][0]
        rows.append([
            name, *(f"{us(middle)} ({us(low)} to {us(high)})" for middle, low, high in [*medians, *means]),
            f"{100 * (ratio - 1):+.0f} %", f"{result['lost']} of {result['sent']}",
            "-" if name == "none" else f"{result['took']:.1f}",
        ])
        if name == "none" and ratio < HURT:
            broken.append(f"{rate:,} deletions/s raise the mean by {100 * (ratio - 1):.0f} % only")
        if name in STUDIED and ratio > RESTORED:
            broken.append(f"with {name} the mean is {100 * (ratio - 1):.0f} % above the one without an attack")
        if name == "none":
            lines.append({"name": "no attack", "points": distribution(result["calm"])})
        lines.append({"name": {"none": "no protection"}.get(name, name), "points": distribution(result["attacked"])})
    head = ["remedy", "median without attack us", "under attack", "mean without attack us", "under attack",
            "change of the mean", "lost", "remedied after s"]
    table(f"round trip, {form['calm']} s and {form['attacked']} s, {rate:,} deletions/s", head, rows)
    chart(
        NAME, "distribution.svg", asked.save, title="Round trip under an app's deletions", x_label="ms",
        y_label="part of the pings", lines=lines,
    )
    verdict(broken)


if __name__ == "__main__":
    main(measure)
