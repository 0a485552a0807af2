//! Runs unmodified Mininet with user-space Open vSwitch in a lab: a topology, and commands as typed at its prompt.

use std::io::Write as _;
use std::process::Stdio;

use anyhow::{Context as _, bail, ensure};
use cli::lab::{Lab, Of, ovs_name};

/// Topologies of `--topo` beside Mininet's own: `ring,N`, and `mesh,N`, a grid of N times N switches. Each switch has a host.
const TOPOLOGIES: &str = r"
from mininet.topo import Topo

class Ring(Topo):
    def build(self, n=6):
        switches = [self.addSwitch('s%d' % (i + 1)) for i in range(n)]
        for i, switch in enumerate(switches):
            self.addLink(self.addHost('h%d' % (i + 1)), switch)
        for i, switch in enumerate(switches):
            self.addLink(switch, switches[(i + 1) % n])

class Mesh(Topo):
    def build(self, n=3):
        at = lambda x, y: 's%d' % (y * n + x + 1)
        for i in range(n * n):
            self.addLink(self.addHost('h%d' % (i + 1)), self.addSwitch('s%d' % (i + 1)))
        for y in range(n):
            for x in range(n):
                if x + 1 < n:
                    self.addLink(at(x, y), at(x + 1, y))
                if y + 1 < n:
                    self.addLink(at(x, y), at(x, y + 1))

topos = {'ring': Ring, 'mesh': Mesh}
";

/// Runs Mininet with `topo`, types `commands`, and returns what it printed. Needs Open vSwitch in the lab.
///
/// # Errors
/// Mininet failed, or took longer than `seconds`.
pub fn run(
    lab: &Lab,
    of: Of,
    topo: &str,
    commands: &[String],
    seconds: u32,
) -> anyhow::Result<String> {
    let custom = lab.files().join("topologies.py");
    std::fs::write(&custom, TOPOLOGIES)?;
    let protocols = ovs_name(of);
    // A separate process namespace: after an error, mn kills processes of the machine by name.
    let mut command = lab.command("timeout");
    command.args(["--kill-after=1", &seconds.to_string()]);
    command.args(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "mn"]);
    command.args(["--controller=remote,ip=127.0.0.1", "--topo", topo, "--custom"]).arg(&custom);
    command.arg("--switch").arg(format!("ovsk,datapath=user,protocols={protocols}"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut mininet = command.spawn().context("start mn")?;
    let mut typed = commands.join("\n");
    typed.push_str("\nexit\n");
    mininet.stdin.take().context("it has a standard input")?.write_all(typed.as_bytes())?;
    let output = mininet.wait_with_output()?;
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if !output.status.success() {
        bail!("mn: {}: {said}", output.status);
    }
    Ok(said)
}

/// Checks that each of `times` runs of `pingall` dropped nothing.
///
/// # Errors
/// The output of Mininet.
pub fn nothing_was_dropped(said: &str, times: usize) -> anyhow::Result<()> {
    let results: Vec<&str> = said.lines().filter(|line| line.contains("*** Results:")).collect();
    let good = results.iter().filter(|line| line.contains(" 0% dropped")).count();
    ensure!(results.len() == times && good == times, "{results:?} of:\n{said}");
    Ok(())
}
