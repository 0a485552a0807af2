"""Tables of answers per second: by host, app, version, buffers, addresses, and number of switches, workers and apps."""

import subprocess
from pathlib import Path

from bench import LEARNING, MILLION, Rounds, SWITCHES
from measure import BUILT, ROOT, Failed, app, figure, spread, spread_of, table

# Seconds until `forwarding` floods to a port: topology has found out which ports have hosts.
SETTLED = 3


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


# The versions, each with whether packets are whole as well as buffered. The others are compared with the second.
BASE = "1.3"
VERSIONS = {"1.0": True, "1.1": False, "1.2": False, BASE: True, "1.4": True, "1.5": True}


def versions(bench, seconds, repeat):
    """Every version of OpenFlow, with buffered packets and the newer ones with whole packets."""
    controllers = [bench.null(), bench.rosemary("kernel"), bench.rosemary("user")]
    speakers = {of: [each for each in controllers if bench.speaks(each, of)] for of in VERSIONS}
    loads = {}
    for of, both in VERSIONS.items():
        for buffered in [True, False] if both else [True]:
            words = ["--of", of, "--switches", 16, "--seconds", seconds] + ([] if buffered else ["--no-buffer"])
            loads[of, buffered] = Rounds(bench, speakers[of], words, 0)
    # Ratios between versions are computed within each round too.
    for _ in range(repeat):
        for rounds in loads.values():
            rounds.run()
    rows = []
    for (of, buffered), rounds in loads.items():
        row = [f"{of}, {'buffered' if buffered else 'whole packets'}", rounds.rate("null")]
        for host in ["kernel", "user"]:
            if rounds.speaks(host):
                ratios = [rounds.ratio(host, "null"), rounds.ratio(host, host, loads[BASE, buffered])]
                row += [rounds.rate(host), *(figure(ratio["median"]) for ratio in ratios)]
            else:
                row += ["refused", "-", "-"]
        rows.append(row)
    head = ["16 switches, 1,000 MACs", "null"]
    head += [cell for host in ["kernel", "user"] for cell in (f"{host} app", "of null", f"of {BASE}")]
    table("Million answers per second, by version", head, rows)


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
