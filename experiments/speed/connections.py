"""Tables of connections: TLS, handshakes, and idle switches."""

import subprocess

from bench import MILLION
from measure import BUILT, Failed, app, figure, spread, spread_of, table


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


# Most seconds until 10,000 switches without links are connected, with any of the apps that ship.
GOAL = 5


def unlinked(bench, seconds):
    """Time until many switches without links are connected, and CPU time afterwards, for each app by name."""
    rows = []
    apps = {name: app(name) for name in ["learning-switch", "topology", "hosts", "stats", "forwarding"]}
    for name, config in {**apps, "the default apps": ""}.items():
        for switches in [4000, 10_000]:
            label = f"{switches:,} switches, {name}"
            controller = bench.configured(label, config)
            words = ["--switches", switches, "--ports", 4, "--seconds", seconds, "--repeat", 1]
            result = bench.run("idle", controller, *words)
            took = result["all_settled_seconds"]
            verdict = "holds" if took <= GOAL else f"exceeds {GOAL} s"
            rows.append([label, figure(took), figure(result["cpu_percent"]), verdict])
            bench.stop(label)
    table("Switches without links, by app", ["idle, 4 ports each", "all connected, s", "CPU, % of a core", "goal"], rows)
