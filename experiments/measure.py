"""Shared parts of the measurements: starts controllers on one core and ofbench on another, prints tables.

It uses only Python's standard library. A controller is a process, with its children, that is pinned to one
core and listens at a port of 127.0.0.1; `ofbench` is pinned to another core.
"""

import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "target" / "release"


class Failed(Exception):
    """The reason why a measurement cannot be made, as text."""


class Refused(Failed):
    """The controller does not speak the switches' version of OpenFlow."""


# How `ofbench` reports that the controller does not speak the version.
REFUSAL = re.compile(r"(does not speak|rejects) OpenFlow")

# The Debian packages of the programs that experiments start, unless they have the program's name. .ci/need has them as well.
PACKAGES = {
    "cc": "build-essential", "ip": "iproute2", "nsenter": "util-linux",
    "ovs-testcontroller": "openvswitch-testcontroller", "ovs-vsctl": "openvswitch-switch",
    "ovs-vswitchd": "openvswitch-switch", "ovsdb-server": "openvswitch-switch", "ovsdb-tool": "openvswitch-switch",
    "ping": "iputils-ping", "ss": "iproute2", "taskset": "util-linux", "unshare": "util-linux",
}


def need(*programs):
    """Fails with the Debian packages to install if one of these programs is missing."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        packages = dict.fromkeys(PACKAGES.get(program, program) for program in missing)
        raise Failed(f"not found in PATH: {', '.join(missing)}; type: apt-get install {' '.join(packages)}")


def cores():
    """Returns the controller's core and the generator's core."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise Failed("two cores are needed, one for the controller and one for ofbench")
    return allowed[0], allowed[1]


def build(source=ROOT, target=ROOT / "target"):
    """Builds a source tree; returns the directory of its programs."""
    words = ["cargo", "build", "--release", "--workspace", "--bins", "--examples"]
    say(f"building {source}")
    if subprocess.run(words, cwd=source, env=dict(os.environ, CARGO_TARGET_DIR=str(target))).returncode:
        raise Failed(f"{source} does not build")
    return target / "release"


def build_revision(revision):
    """Builds a revision in its own worktree below target/; returns the directory of its programs and the
    commit's short name."""
    found = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", revision + "^{commit}"],
        cwd=ROOT, capture_output=True, text=True,
    )
    if found.returncode != 0:
        raise Failed(f"the revision {revision} does not exist")
    commit = found.stdout.strip()
    tree = ROOT / "target" / "against" / "tree"
    if tree.exists():
        words = ["git", "-C", str(tree), "checkout", "--quiet", "--detach", "--force", commit]
    else:
        subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)
        words = ["git", "worktree", "add", "--quiet", "--detach", str(tree), commit]
    if subprocess.run(words, cwd=ROOT).returncode != 0:
        raise Failed(f"cannot make a worktree of {revision} in {tree}")
    return build(tree, ROOT / "target" / "against" / "build"), commit[:10]


def free_port():
    """Returns a free port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_for(what, condition, seconds=20):
    """Polls until `condition` returns a true value; returns that value."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise Failed(f"{what}: not within {seconds} s")


class Controller:
    """A running controller; `stop` ends it."""

    def __init__(self, name, words, port, core, env=None, cwd=None, log=None):
        self.name, self.port = name, port
        self.log = log or tempfile.NamedTemporaryFile(prefix=f"{name}-", suffix=".log", delete=False).name
        pinned = ["taskset", "--cpu-list", str(core)] if core is not None else []
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(
                pinned + [str(word) for word in words],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, cwd=cwd,
            )
        try:
            wait_for(f"{name} listens at {port}", self.listens)
        except Failed:
            self.stop()
            raise

    @property
    def at(self):
        return f"127.0.0.1:{self.port}"

    def listens(self):
        if self.process.poll() is not None:
            raise Failed(f"{self.name} ended: {last_lines(self.log)}")
        # A test connection would count as another switch, so this asks the system instead.
        listening = subprocess.run(
            ["ss", "-Hltn", f"sport = :{self.port}"], capture_output=True, text=True
        )
        return bool(listening.stdout.strip())

    def pids(self):
        return [self.process.pid]

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Null(Controller):
    """`ofbench null`."""

    def __init__(self, core):
        port = free_port()
        super().__init__("null", [BUILT / "ofbench", "null", "--listen", f"127.0.0.1:{port}"], port, core)


class Rosemary(Controller):
    """`rosemary up`, without the operator's configuration."""

    def __init__(self, name, core, config, built=BUILT, args=()):
        self.dir = tempfile.mkdtemp(prefix="rosemary-bench-")
        os.chmod(self.dir, 0o755)  # apps have users of their own
        self.rosemary = built / "rosemary"
        (Path(self.dir) / "rosemary.toml").write_text(config)
        port = free_port()
        env = dict(os.environ, ROSEMARY_LOG="warn", ROSEMARY_CONFIG=f"{self.dir}/rosemary.toml")
        words = [self.rosemary, "up", "--listen", f"127.0.0.1:{port}"]
        words += ["--runtime-dir", f"{self.dir}/run", "--state-dir", f"{self.dir}/state", *args]
        try:
            super().__init__(name, words, port, core, env=env, log=f"{self.dir}/log")
            wait_for(f"{name}'s apps run", self.runs, 60)
        except Failed as failed:
            raise Failed(f"{failed}\n{last_lines(f'{self.dir}/log')}") from None

    def asked(self, command):
        """Returns the JSON of a reading command, such as `status`; None if it failed. `status` exits with 3 if it found faults."""
        asked = subprocess.run(
            [self.rosemary, command, "--json", "--runtime-dir", f"{self.dir}/run"],
            capture_output=True, text=True,
        )
        return json.loads(asked.stdout) if asked.returncode in (0, 3) and asked.stdout else None

    def status(self):
        return self.asked("status")

    def links(self):
        """Returns the number of links that `topology` has found, each direction counted; None if it does not answer."""
        links = self.asked("links")
        return None if links is None else len(links)

    def runs(self):
        status = self.status()
        return status is not None and all(app["state"] == "running" for app in status["apps"])

    def pids(self):
        """Returns the ids of all processes that `rosemary status` lists."""
        return sorted(set(pids_in(self.status() or {})))

    def stop(self):
        super().stop()
        shutil.rmtree(self.dir, ignore_errors=True)


def pids_in(status):
    if isinstance(status, dict):
        own = [status["pid"]] if isinstance(status.get("pid"), int) else []
        return own + [pid for value in status.values() for pid in pids_in(value)]
    if isinstance(status, list):
        return [pid for value in status for pid in pids_in(value)]
    return []


def app(name, **keys):
    """Returns an [[app]] entry of `rosemary.toml`."""
    lines = ["[[app]]", f"name = {json.dumps(name)}"]
    lines += [f"{key.replace('_', '-')} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def ofbench(mode, controller, core, *words, vs=None, pids=None):
    """Runs ofbench against a controller; returns its JSON. The CPU time is that of `pids`, or of all its processes."""
    command = ["taskset", "--cpu-list", str(core), str(BUILT / "ofbench"), mode, controller.at, "--json"]
    command += ["--pids", ",".join(map(str, pids or controller.pids()))]
    if vs is not None:
        command += ["--vs", vs.at, "--vs-pids", ",".join(map(str, vs.pids()))]
    command += [str(word) for word in words]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ran.returncode != 0:
        failure = Refused if REFUSAL.search(ran.stderr) else Failed
        raise failure(f"{' '.join(command)}\n{ran.stderr.strip()}\n{last_lines(controller.log)}")
    return json.loads(ran.stdout)


def last_lines(path, count=8):
    try:
        return "\n".join(Path(path).read_text(errors="replace").splitlines()[-count:])
    except OSError:
        return ""


def say(text):
    print(text, file=sys.stderr, flush=True)


# Tables ----------------------------------------------------------------------------------------------


def figure(number, digits=3):
    """Formats a number with at least `digits` significant digits: 1.23, 12.3, 123, 1,234."""
    if number is None:
        return "-"
    if number == 0:
        return "0"
    before = len(str(int(abs(number))))
    decimals = max(0, digits - before) if abs(number) >= 1 else digits
    return f"{number:,.{decimals}f}"


def spread(figures, scale=1.0):
    """Formats ofbench's figures of several intervals as `median (least to most)`."""
    return (
        f"{figure(figures['median'] / scale)} "
        f"({figure(figures['least'] / scale)} to {figure(figures['most'] / scale)})"
    )


def spread_of(numbers):
    """Computes the same figures as ofbench from a list of numbers."""
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return {"median": median, "least": ordered[0], "most": ordered[-1]}


def table(title, head, rows):
    """Prints a table in Markdown, to be copied into the documentation."""
    cells = [list(map(str, row)) for row in [head, *rows]]
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]

    def line(row):
        first = row[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        return "| " + " | ".join([first, *rest]) + " |"

    print(f"\n### {title}\n")
    print(line(cells[0]))
    print("| " + " | ".join(["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]) + " |")
    for row in cells[1:]:
        print(line(row))
    sys.stdout.flush()


def verdict(broken):
    """Prints the last line of an experiment: `holds`, or the parts of the claim that do not hold."""
    print(f"\ndoes not hold: {'; '.join(broken)}" if broken else "\nholds", flush=True)


def machine():
    """Describes this machine in one line."""
    try:
        text = Path("/proc/cpuinfo").read_text()
        model = re.search(r"^model name\s*:\s*(.*)$", text, re.M)
        model = model.group(1) if model else platform.machine()
    except OSError:
        model = platform.machine()
    load = os.getloadavg()[0]
    rust = subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.split()
    rust = rust[1] if len(rust) > 1 else "?"
    return (
        f"{model}, {os.cpu_count()} cores, Linux {platform.release()}, rustc {rust}, "
        f"load average {load:.1f} at the start"
    )


def add_only(parser, *parts):
    """Adds the option that leaves out other controllers, or all but one of these parts."""
    about = "leave out other controllers, which may need a network to install"
    parser.add_argument("--only", choices=["rosemary", *parts], help=about + (", or measure this part" if parts else ""))


def chosen(controllers, only):
    """Returns the controllers of this project, or all: pairs that begin with the name."""
    return [it for it in controllers if not only or it[0].startswith(("Rosemary", "ofbench"))]


def main(measure):
    """Runs a measurement; prints a failure as one message."""
    try:
        measure()
    except Failed as failed:
        say(f"failed: {failed}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
