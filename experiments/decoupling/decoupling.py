#!/usr/bin/env python3
"""Measures the round trip of established traffic while flow-mods are sent to Open vSwitch at growing rates.

Each switch is an `ovs-vswitchd` of its own. The short form takes minutes; --long uses more rules and longer intervals.
"""

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from measure import Failed, build, machine, main, need, say, table, verdict  # noqa: E402
from switch import PROGRAMS, chart, enter, is_measured, measure_switch, us, version, with_interval  # noqa: E402

NAME = "decoupling"
BASELINE = "round trip, no flow-mods"
CHANGES = ["insert", "modify", "delete"]

# Milliseconds between two flow-mods: those of the study, and down to where the switch saturates.
STUDIED = [100, 50, 20, 10]
INTERVALS = [*STUDIED, 1, 0.1]

# Mean increase of the round trip over all intervals, in percent, as the study states it for its switches.
PUBLISHED = {"insert": 7.38, "modify": 6.03, "delete": 25.9}

# Milliseconds between two deletions for which the claim has to hold.
CLAIMED = [10, 1]

SHORT = {"seconds": 2, "background": [1000]}
LONG = {"seconds": 20, "background": [1000, 10_000, 100_000, 750_000]}


# Fewest round trips of a baseline: the intervals of means are those of the normal distribution.
LEAST_SAMPLES = 30


def rate(interval):
    return f"{1000 / interval:g}"


def increase(row, base):
    """Returns the increase of the mean and its 95 % interval. Both means vary independently."""
    half = lambda it: (it["mean_ci95"][1] - it["mean_ci95"][0]) / 2  # noqa: E731
    margin = (half(row) ** 2 + half(base) ** 2) ** 0.5
    more = row["mean"] - base["mean"]
    return more, more - margin, more + margin


def baseline_mistake(base):
    """Returns why no row can be compared with this baseline; None if it is plausible."""
    if not is_measured(base):
        return f"it was not measured: {base['reason'] if base else 'there is no such row'}"
    if base["count"] < LEAST_SAMPLES:
        return f"it has {base['count']} round trips, and {LEAST_SAMPLES} are needed"
    low, high = base["mean_ci95"]
    if high - low > base["mean"]:
        return f"its mean is {us(base['mean'])} us, with a 95 % interval from {us(low)} to {us(high)} us"
    return None


def measured_with(background, seconds, kinds):
    say(f"{NAME}: {background} rules")
    words = ["--only", "rates", "--rates", ",".join(map(rate, INTERVALS)), "--seconds", seconds]
    words += ["--background", background, "--max-flows", max(200_000, background)]
    rows, _ = measure_switch(*words)
    base = rows.get(BASELINE)
    mistake = baseline_mistake(base)
    if mistake:
        raise Failed(f"the baseline with {background:,} rules is not plausible: {mistake}; measure longer with --seconds")
    lines = [["none", "-", "-", "-", with_interval(base), with_interval(base, "mean"), "-", us(base["jitter"]), "-", "-"]]
    for change in CHANGES:
        for kind in kinds:
            for interval in INTERVALS:
                lines.append(line(change, kind, interval, rows))
    head = ["flow-mods", "kind", "ms between two", "median before us", "median us", "mean us", "mean increase us",
            "jitter us", "followed /s", "remarks"]
    table(f"{background:,} rules besides, {seconds:g} s each", head, lines)
    return rows, base


def name_of(change, kind, interval):
    return f"{change} {kind} at {rate(interval)}/s"


def line(change, kind, interval, rows):
    name = name_of(change, kind, interval)
    trip, before, followed = (rows.get(f"{what}, {name}") for what in ["round trip", "round trip before", "rate"])
    if not (is_measured(trip) and is_measured(before)):
        why = next((row["reason"] for row in [before, trip] if row and not is_measured(row)), "not measured")
        return [change, kind, f"{interval:g}", "-", "-", "-", "-", "-", "-", why]
    if trip["count"] < LEAST_SAMPLES:
        return [change, kind, f"{interval:g}", "-", "-", "-", "-", "-", "-", f"{trip['count']} round trips are too few"]
    more, low, high = increase(trip, before)
    remarks = trip.get("notes", []) + (followed or {}).get("notes", [])
    speed = f"{followed['median']:,.0f}" if is_measured(followed) else "-"
    return [
        change, kind, f"{interval:g}", with_interval(before), with_interval(trip), us(trip["mean"]),
        f"{us(more)} ({us(low)} to {us(high)})", us(trip["jitter"]), speed, "; ".join(remarks) or "-",
    ]


def pairs_of(rows, change, kind, intervals):
    """Returns the round trips just before and under the flow-mods, for each interval that was measured."""
    pairs = []
    for interval in intervals:
        name = name_of(change, kind, interval)
        pair = rows.get(f"round trip before, {name}"), rows.get(f"round trip, {name}")
        if all(is_measured(row) and row["count"] >= LEAST_SAMPLES for row in pair):
            pairs.append(pair)
    return pairs


def means_over_rates(rows, kind, intervals):
    """Returns the mean over the intervals of the increase of the mean round trip, in percent, by kind of change."""
    means = {}
    for change in CHANGES:
        ratios = [during["mean"] / before["mean"] for before, during in pairs_of(rows, change, kind, intervals)]
        if ratios:
            means[change] = 100 * (sum(ratios) / len(ratios) - 1)
    return means


def order(means):
    """Names the changes, the cheapest first."""
    return " < ".join(sorted(means, key=means.get))


def compare(rows, background):
    """Prints the mean increases beside the published ones: over the study's intervals, and over all."""
    forms = [(kind, intervals) for kind in ["strict", "wildcard"] for intervals in [STUDIED, INTERVALS]]
    means = [PUBLISHED, *(means_over_rates(rows, kind, intervals) for kind, intervals in forms)]
    percent = lambda means, change: f"{means[change]:+.3g} %" if change in means else "-"  # noqa: E731
    lines = [[change, *(percent(it, change) for it in means)] for change in CHANGES]
    lines.append(["from least to most", *map(order, means)])
    head = [f"{kind}, {intervals[0]} to {intervals[-1]:g} ms" for kind, intervals in forms]
    table(
        f"{background:,} rules besides: mean increase of the round trip over the intervals",
        ["flow-mods", "published", *head], lines,
    )


def broken_claims(rows, background):
    """Returns the parts of the claim that do not hold: deletions slow traffic that they do not touch."""
    broken = []
    for interval in CLAIMED:
        pairs = pairs_of(rows, "delete", "strict", [interval])
        if not pairs:
            broken.append(f"{background:,} rules: a deletion every {interval:g} ms was not measured")
        elif increase(pairs[0][1], pairs[0][0])[1] <= 0:
            broken.append(f"{background:,} rules: a deletion every {interval:g} ms does not slow the round trip")
    return broken


def draw(rows, base, kind, background, save):
    boxes = [{"label": "none", "group": len(CHANGES), "summary": base}]
    for interval in INTERVALS:
        for group, change in enumerate(CHANGES):
            row = rows.get(f"round trip, {name_of(change, kind, interval)}")
            if is_measured(row):
                boxes.append({"label": f"{interval:g} ms", "group": group, "summary": row})
    chart(
        NAME, f"{kind}-{background}.svg", save,
        title=f"Round trip by the interval between flow-mods ({kind}, {background:,} rules)",
        y_label="us; box: 25 to 75 %, whiskers: 5 to 95 %", groups=[*CHANGES, "no flow-mods"], boxes=boxes, logarithmic=True,
    )


def measure():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="up to 750,000 rules and 20 s each: up to 3 hours")
    parser.add_argument("--seconds", type=float, help="duration of each row, instead of 2 or, with --long, 20")
    parser.add_argument("--save", action="store_true", help="replace the charts of experiments/decoupling")
    parser.add_argument("--no-build", action="store_true", help="do not build first")
    asked = parser.parse_args()
    need(*PROGRAMS)
    if not asked.no_build:
        build()
        sys.argv.append("--no-build")
    enter()
    form = LONG if asked.long else SHORT
    print(f"{machine()}\nOpen vSwitch {version()}, userspace datapath.")
    broken = []
    for background in form["background"]:
        rows, base = measured_with(background, asked.seconds or form["seconds"], ["strict", "wildcard"])
        compare(rows, background)
        broken += broken_claims(rows, background)
        for kind in ["strict", "wildcard"]:
            draw(rows, base, kind, background, asked.save)
    verdict(broken)


if __name__ == "__main__":
    main(measure)
