"""The table of apps in Python, on Rosemary and under os-ken's manager."""

import os
import subprocess
from pathlib import Path

from bench import Rounds
from measure import BUILT, ROOT, Controller, Failed, app, free_port, spread, spread_of, table
from peers import OS_KEN, os_ken


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
