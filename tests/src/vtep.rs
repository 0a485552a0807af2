//! Devices with the schema `hardware_vtep`: `ovs-vtep` on Open vSwitch in user space, a network namespace each, joined by VXLAN.
//!
//! ```text
//!  h1 --eth1-- leaf1 (namespace d1, 10.9.0.1) ==VXLAN== (10.9.0.2, namespace d2) leaf2 --eth1-- h2
//! ```
//!
//! The databases run in the lab's own namespace, so that they reach Rosemary on the loopback interface.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use cli::lab::{Lab, Running};

/// The script of Debian's package `openvswitch-vtep`.
const SCRIPT: &str = "/usr/share/openvswitch/scripts/ovs-vtep";
const SCHEMAS: &str = "/usr/share/openvswitch";

/// The time that a daemon may take to start.
const STARTS: Duration = Duration::from_secs(20);

/// A device and the host at its port `eth1`. Its daemons end when it is dropped.
#[derive(Debug)]
pub struct Device<'lab> {
    lab: &'lab Lab,
    number: u8,
    dir: String,
    _script: Running,
    _vswitchd: Running,
    _database: Running,
}

impl<'lab> Device<'lab> {
    /// Starts the devices 1 and 2.
    ///
    /// # Errors
    /// A step failed, or the package `openvswitch-vtep` is missing.
    pub fn pair(lab: &'lab Lab) -> anyhow::Result<[Self; 2]> {
        anyhow::ensure!(
            Path::new(SCRIPT).exists(),
            "{SCRIPT} is missing: apt-get install openvswitch-vtep"
        );
        for name in ["d1", "d2"] {
            lab.run("ip", &["netns", "add", name])?;
            lab.run("ip", &["-n", name, "link", "set", "lo", "up"])?;
        }
        let link = ["link", "add", "u1", "netns", "d1", "type", "veth", "peer", "name", "u2"];
        lab.run("ip", &[&link[..], &["netns", "d2"]].concat())?;
        Ok([Self::start(lab, 1)?, Self::start(lab, 2)?])
    }

    fn start(lab: &'lab Lab, number: u8) -> anyhow::Result<Self> {
        let dir = format!("{}/d{number}", lab.files().display());
        std::fs::create_dir_all(&dir)?;
        for (file, schema) in [("conf.db", "vswitch"), ("vtep.db", "vtep")] {
            let schema = format!("{SCHEMAS}/{schema}.ovsschema");
            lab.run("ovsdb-tool", &["create", &format!("{dir}/{file}"), &schema])?;
        }
        let mut database = lab.command("ovsdb-server");
        database.args(["--no-chdir", &format!("--remote=punix:{dir}/db.sock")]);
        database.arg("--remote=db:hardware_vtep,Global,managers");
        database.args([format!("{dir}/conf.db"), format!("{dir}/vtep.db")]);
        let database = lab.start(&format!("database{number}"), within(database, &dir))?;
        lab.wait_for("the database listens", STARTS, |_| {
            Ok(Path::new(&dir).join("db.sock").exists().then_some(()))
        })?;
        run(lab, &dir, "ovs-vsctl", &["--timeout=10", "--no-wait", "init"])?;
        let vswitchd = in_namespace(
            lab,
            number,
            "ovs-vswitchd",
            &["--no-chdir", &format!("unix:{dir}/db.sock")],
        );
        let vswitchd = lab.start(&format!("vswitchd{number}"), within(vswitchd, &dir))?;
        prepare(lab, number, &dir)?;
        let script = in_namespace(lab, number, SCRIPT, &[&format!("leaf{number}")]);
        let script = lab.start(&format!("ovs-vtep{number}"), within(script, &dir))?;
        let device =
            Self { lab, number, dir, _script: script, _vswitchd: vswitchd, _database: database };
        device.lab.wait_for("ovs-vtep has found its port", STARTS, |_| {
            let ports = device.ctl(&["list-ports", &device.name()]).unwrap_or_default();
            Ok(ports.contains("eth1").then_some(()))
        })?;
        Ok(device)
    }

    /// Returns the name of the device.
    pub fn name(&self) -> String {
        format!("leaf{}", self.number)
    }

    /// Returns the number of the port of the tunnel to this device.
    pub fn tunnel(&self) -> u32 {
        u32::from_be_bytes([10, 9, 0, self.number])
    }

    /// Returns the Ethernet address of its host.
    pub fn host_mac(&self) -> String {
        format!("02:00:00:00:00:0{}", self.number)
    }

    /// Runs `vtep-ctl`.
    ///
    /// # Errors
    /// It failed.
    pub fn ctl(&self, args: &[&str]) -> anyhow::Result<String> {
        run(self.lab, &self.dir, "vtep-ctl", &[&["--timeout=10"], args].concat())
    }

    /// Sends echo requests from the host of this device to that of `other` until `count` in a row are answered.
    ///
    /// # Errors
    /// It did not happen in time.
    pub fn ping(&self, other: &Self, count: u32, limit: Duration) -> anyhow::Result<()> {
        let (host, to) = (format!("h{}", self.number), format!("10.0.0.{}", other.number));
        let count = count.to_string();
        let ping = ["netns", "exec", &host, "ping", "-i", "0.2", "-W", "1", "-c", &count, &to];
        self.lab.wait_for("the hosts reach each other", limit, |evidence| {
            let output = self.lab.run("ip", &ping);
            evidence.0 = format!("{output:?}");
            Ok(output.is_ok_and(|it| it.contains(" 0% packet loss")).then_some(()))
        })?;
        Ok(())
    }
}

/// Makes the bridges, the interface of the tunnels, and the host.
fn prepare(lab: &Lab, number: u8, dir: &str) -> anyhow::Result<()> {
    let n = number.to_string();
    let (netns, host, uplink, leaf) =
        (format!("d{n}"), format!("h{n}"), format!("u{n}"), format!("leaf{n}"));
    let vsctl = |args: &[&str]| run(lab, dir, "ovs-vsctl", &[&["--timeout=20"], args].concat());
    let netdev = "datapath_type=netdev";
    vsctl(&["add-br", "br-phy", "--", "set", "bridge", "br-phy", netdev])?;
    let up = |device: &str| lab.run("ip", &["-n", &netns, "link", "set", device, "up"]);
    up(&uplink)?;
    vsctl(&["add-port", "br-phy", &uplink])?;
    lab.run("ip", &["-n", &netns, "address", "add", &format!("10.9.0.{n}/24"), "dev", "br-phy"])?;
    up("br-phy")?;
    lab.run("ip", &["netns", "add", &host])?;
    let link = ["link", "add", "eth0", "netns", &host, "type", "veth", "peer", "name", "eth1"];
    lab.run("ip", &[&link[..], &["netns", &netns]].concat())?;
    let mac = format!("02:00:00:00:00:0{n}");
    lab.run("ip", &["-n", &host, "link", "set", "eth0", "address", &mac, "up"])?;
    lab.run("ip", &["-n", &host, "address", "add", &format!("10.0.0.{n}/24"), "dev", "eth0"])?;
    // The userspace datapath completes no checksums.
    lab.run("ip", &["netns", "exec", &host, "ethtool", "-K", "eth0", "tx", "off"])?;
    up("eth1")?;
    vsctl(&[
        "add-br", &leaf, "--", "set", "bridge", &leaf, netdev, "--", "add-port", &leaf, "eth1",
    ])?;
    let tunnel = format!("tunnel_ips=10.9.0.{n}");
    run(lab, dir, "vtep-ctl", &["add-ps", &leaf, "--", "set", "Physical_Switch", &leaf, &tunnel])?;
    Ok(())
}

/// Has a command use the files of a device.
fn within(mut command: std::process::Command, dir: &str) -> std::process::Command {
    for variable in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"] {
        command.env(variable, dir);
    }
    command
}

fn in_namespace(lab: &Lab, number: u8, program: &str, args: &[&str]) -> std::process::Command {
    let mut command = lab.command("ip");
    command.args(["netns", "exec", &format!("d{number}"), program]).args(args);
    command
}

fn run(lab: &Lab, dir: &str, program: &str, args: &[&str]) -> anyhow::Result<String> {
    let mut command = within(lab.command(program), dir);
    let output =
        command.args(args).output().with_context(|| format!("{program} does not start"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{program} {args:?}: {errors}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
