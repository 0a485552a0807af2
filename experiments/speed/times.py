"""Tables of times: of one packet-in after the other, and of quiet switches while another floods."""

from measure import figure, spread_of, table


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
