"""Runs Open vSwitch between two interfaces, in namespaces of its own, for measurements of a switch.

Each switch is an `ovs-vswitchd` of its own with the userspace datapath, so that nothing else uses its thread.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import BUILT, ROOT, Failed, last_lines, say, wait_for

PROGRAMS = ["ip", "ethtool", "ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "unshare"]
INSIDE = "ROSEMARY_EXPERIMENT_INSIDE"
VERSIONS = {"1.0": "OpenFlow10", "1.3": "OpenFlow13"}


def enter():
    """Starts this program again in network and mount namespaces of its own, as root. Returns inside them."""
    if os.geteuid() != 0:
        raise Failed("namespaces require root: use sudo")
    if os.environ.get(INSIDE) != "1":
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, *sys.argv])
    ip("link", "set", "lo", "up")


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Keys:
    """Keys that `rosemary pki` makes: of an authority, a controller and a switch."""

    def __init__(self):
        # Keys do not depend on the kind of build.
        built = [BUILT / "rosemary", ROOT / "target" / "debug" / "rosemary"]
        rosemary = next((path for path in built if path.exists()), built[0])
        self.dir = Path(tempfile.mkdtemp(prefix="rosemary-keys-"))
        for words in [["init"], ["switch", "s1"]]:
            words = [str(rosemary), "pki", *words, "--dir", str(self.dir)]
            if subprocess.run(words, stdout=subprocess.DEVNULL).returncode != 0:
                raise Failed(" ".join(words))
        self.switch = self.dir / "switches" / "s1"

    def remove(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def cpu_cgroup():
    """Returns the directory of this process's cgroup with the controller `cpu`, and the version of cgroups, 1 or 2."""
    own = {names: path for _, names, path in
           (line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines())}
    for mount in Path("/proc/mounts").read_text().splitlines():
        _, at, kind, options, *_ = mount.split()
        if kind == "cgroup" and "cpu" in options.split(","):
            return Path(at + next(path for names, path in own.items() if "cpu" in names.split(","))), 1
        if kind == "cgroup2" and "cpu" in (Path(at) / "cgroup.controllers").read_text().split():
            return Path(at + own[""]), 2
    raise Failed("this system has no cgroup controller `cpu`, so no switch can have its own share of a processor")


class Share:
    """A share of one core for a program and its threads: a cgroup with a quota."""

    # Short, so that a program that has used its quota waits at most this long.
    PERIOD_US = 5_000

    def __init__(self, name, part):
        parent, generation = cpu_cgroup()
        self.dir = parent / f"rosemary-experiment-{os.getpid()}-{name}"
        quota = int(self.PERIOD_US * part)
        try:
            if generation == 2:
                (parent / "cgroup.subtree_control").write_text("+cpu")
            self.dir.mkdir()
            if generation == 2:
                (self.dir / "cpu.max").write_text(f"{quota} {self.PERIOD_US}")
            else:
                (self.dir / "cpu.cfs_period_us").write_text(str(self.PERIOD_US))
                (self.dir / "cpu.cfs_quota_us").write_text(str(quota))
        except OSError as why:
            raise Failed(f"no share of a processor: {why}; run this in a cgroup that may have children") from None

    def within(self, words):
        """Returns the command that starts a program with this share."""
        return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(self.dir), *words]

    def remove(self):
        """Removes the cgroup; its programs have ended."""
        self.dir.rmdir()


class Switch:
    """Open vSwitch with a bridge `s1` that connects to 127.0.0.1:6653; `in0` and `out0` lead to its ports 1 and 2."""

    def __init__(self, of="1.3", keys=None):
        self.dir = tempfile.mkdtemp(prefix="rosemary-ovs-")
        names = ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"]
        self.env = dict(os.environ, **{name: self.dir for name in names})
        self.running = []
        self.interfaces()
        self.run("ovsdb-tool", "create", f"{self.dir}/conf.db")
        self.start("ovsdb-server", f"--remote=punix:{self.dir}/db.sock", f"{self.dir}/conf.db")
        wait_for("Open vSwitch's database listens", lambda: Path(f"{self.dir}/db.sock").exists())
        time.sleep(0.3)  # the file exists shortly before the server listens
        self.run("ovs-vsctl", "--timeout=10", "--no-wait", "init")
        self.start("ovs-vswitchd", f"unix:{self.dir}/db.sock")
        scheme = "tcp"
        if keys is not None:
            scheme = "ssl"
            files = [keys.switch / "key.pem", keys.switch / "cert.pem", keys.dir / "ca-cert.pem"]
            self.run("ovs-vsctl", "--timeout=10", "set-ssl", *map(str, files))
        self.run(
            "ovs-vsctl", "--timeout=20", "add-br", "s1",
            "--", "set", "bridge", "s1", "datapath_type=netdev", "fail_mode=secure",
            f"protocols={VERSIONS[of]}", "other-config:disable-in-band=true",
            "--", "set-controller", "s1", f"{scheme}:127.0.0.1:6653",
            "--", "set", "controller", "s1", "max_backoff=1000",
            "--", "add-port", "s1", "s1-in", "--", "add-port", "s1", "s1-out",
        )

    def interfaces(self):
        for here, there in [("in0", "s1-in"), ("out0", "s1-out")]:
            subprocess.run(["ip", "link", "delete", here], stderr=subprocess.DEVNULL)
            ip("link", "add", here, "type", "veth", "peer", "name", there)
            for end in [here, there]:
                # Without a link-local address, IPv6 sends no packets of its own.
                subprocess.run(["ip", "link", "set", end, "addrgenmode", "none"], stderr=subprocess.DEVNULL)
                ip("link", "set", end, "up")

    def start(self, program, *words):
        log = open(f"{self.dir}/{program}.err", "wb")
        words = [program, "--no-chdir", *words]
        self.running.append(subprocess.Popen(words, env=self.env, stdout=log, stderr=log))

    def run(self, *words):
        ran = subprocess.run(words, env=self.env, capture_output=True, text=True)
        if ran.returncode != 0:
            raise Failed(f"{' '.join(words)}: {ran.stderr.strip()}")
        return ran.stdout

    def stop(self):
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def measure_switch(*words, of="1.3", keys=None):
    """Measures a switch of its own with `ofbench measure-switch`; returns the rows by name, and the whole result."""
    switch = Switch(of, keys)
    command = [str(BUILT / "ofbench"), "measure-switch", "--listen", "127.0.0.1:6653", "--json"]
    command += ["--in", "in0", "--out", "out0"]
    command += ["--tls", str(keys.dir)] if keys is not None else []
    command += [str(word) for word in words]
    try:
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if not ran.stdout:
            raise Failed(f"{' '.join(command)}: {last_lines(f'{switch.dir}/ovs-vswitchd.err')}")
        result = json.loads(ran.stdout)
    finally:
        switch.stop()
    if "ended" in result:
        raise Failed(f"{' '.join(command)}: {result['ended']}")
    return {row["name"]: row for row in result["rows"]}, result


def is_measured(row):
    return row is not None and row["status"] == "measured"


def chart(name, file, save, **description):
    """Draws a chart below target/experiments/, or in experiments/ with `save`."""
    base = ROOT if save else ROOT / "target"
    folder = base / "experiments" / name
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as text:
        json.dump(description, text)
        text.flush()
        if subprocess.run([str(BUILT / "ofbench"), "chart", text.name, str(folder / file)]).returncode != 0:
            raise Failed(f"{file} cannot be drawn")


def version():
    """Returns the version of Open vSwitch."""
    said = subprocess.run(["ovs-vswitchd", "--version"], capture_output=True, text=True).stdout
    return said.splitlines()[0].rsplit(" ", 1)[-1] if said else "?"


def us(value):
    """Formats microseconds."""
    if value is None:
        return "-"
    return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def with_interval(row, figure="median"):
    """Formats a figure of a row with its 95 % interval."""
    if not is_measured(row):
        return "-" if row is None else row.get("reason", "-")
    interval = row.get(f"{figure}_ci95")
    text = us(row[figure])
    return text if interval is None else f"{text} ({us(interval[0])} to {us(interval[1])})"


__all__ = [
    "PROGRAMS", "Keys", "Share", "Switch", "chart", "enter", "is_measured", "measure_switch", "say", "us", "version",
    "with_interval",
]
