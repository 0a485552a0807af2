"""Compares this tree with another revision, in turn."""

from bench import MILLION
from measure import build_revision, figure, spread, table


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
