"""Tables of what runs beside the apps: `topology`, and the HTTP interface with its clients."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from bench import LEARNING
from measure import BUILT, Failed, app, figure, free_port, ofbench, say, spread, spread_of, table, wait_for


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
