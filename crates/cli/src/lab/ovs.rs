//! Runs Open vSwitch in user space: its database, its daemon and bridges.
//!
//! The userspace datapath (`datapath_type=netdev`) needs no kernel module and ends with
//! `ovs-vswitchd`. It forwards packets as the hosts' kernel sends them, so hosts must compute their
//! checksums (see `host.rs`).

use std::cell::Cell;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::fs::Access;

pub use openflow::Version as Of;

use super::{FILES, Host, Lab, LabError, Running};

/// Environment variables that locate the files of every Open vSwitch program.
pub(super) const DIRECTORIES: [&str; 4] =
    ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"];

const SOCKET: &str = "db.sock";

/// Where `ovsdb-server` creates a temporary file: it calls tmpfile(3), which ignores environment
/// variables.
const TEMPORARY: &str = "/tmp";

/// The version of a command that keeps floods away from a port: only this version has the flag `OFPPC_NO_FLOOD` (OpenFlow 1.0.2
/// §5.2.1), which also applies to floods of other versions.
const NO_FLOOD: Of = Of::V1_0;

/// Returns the name of a version in `ovs-vsctl` and `ovs-ofctl`, such as `OpenFlow13`.
pub fn ovs_name(of: Of) -> String {
    format!("OpenFlow{}", of.name().replace('.', ""))
}

/// Device that creates a bridge's local interface.
const TUN: &str = "/dev/net/tun";

/// Returns the userspace datapath that gives each bridge a local interface. Where no interface can
/// be created (in a container, or if the device belongs to root), returns the one without, which
/// Open vSwitch's own tests use.
fn datapath_type() -> &'static str {
    let tun = std::fs::OpenOptions::new().read(true).write(true).open(TUN);
    if tun.is_ok() { "netdev" } else { "dummy" }
}

/// The two daemons. Fields drop in order: the switches before their database.
#[derive(Debug)]
pub(super) struct OpenVSwitch {
    _vswitchd: Running,
    _database: Running,
    version: String,
}

impl OpenVSwitch {
    pub(super) fn start(lab: &Lab) -> Result<Self, LabError> {
        writable(TEMPORARY)?;
        // The path of the schema is compiled into ovsdb-tool; no variable overrides it.
        lab.run("ovsdb-tool", &["create", &format!("{FILES}/conf.db")])?;
        let mut command = lab.command("ovsdb-server");
        command.args(["--no-chdir", &format!("--remote=punix:{FILES}/{SOCKET}")]);
        // As Debian starts it: `ovs-vsctl set-manager` adds remotes, which use the keys of `ovs-vsctl set-ssl`.
        command.arg("--remote=db:Open_vSwitch,Open_vSwitch,manager_options");
        for (option, column) in
            [("private-key", "private_key"), ("certificate", "certificate"), ("ca-cert", "ca_cert")]
        {
            command.arg(format!("--{option}=db:Open_vSwitch,SSL,{column}"));
        }
        command.arg(format!("{FILES}/conf.db"));
        let mut database = lab.start("ovsdb-server", command)?;
        lab.wait_for("Open vSwitch's database listens", Duration::from_secs(10), |_| {
            database.must_run()?;
            // The socket file exists shortly before the server listens on it.
            Ok(UnixStream::connect(Path::new(FILES).join(SOCKET)).is_ok().then_some(()))
        })?;
        vsctl(lab, &["--no-wait", "init"])?;

        let mut command = lab.command("ovs-vswitchd");
        command.args(["--no-chdir", "--enable-dummy", &format!("unix:{FILES}/{SOCKET}")]);
        let mut vswitchd = lab.start("ovs-vswitchd", command)?;
        let control = format!("{FILES}/ovs-vswitchd.{}.ctl", vswitchd.pid());
        lab.wait_for("ovs-vswitchd is ready", Duration::from_secs(10), |_| {
            vswitchd.must_run()?;
            Ok(Path::new(&control).exists().then_some(()))
        })?;
        // "ovs-vswitchd (Open vSwitch) 3.1.0", and more lines in some versions
        let about = lab.run("ovs-vswitchd", &["--version"])?;
        let version = about.lines().next().and_then(|line| line.rsplit(' ').next());
        let version = version.unwrap_or_default().to_owned();
        Ok(Self { _vswitchd: vswitchd, _database: database, version })
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }
}

/// A bridge of the lab's Open vSwitch.
#[derive(Debug)]
pub struct Switch<'lab> {
    lab: &'lab Lab,
    name: String,
    of: Of,
    dpid: u16,
    ports: Cell<u16>,
}

impl<'lab> Switch<'lab> {
    pub(super) fn add(lab: &'lab Lab, name: &str, of: Of, dpid: u16) -> Result<Self, LabError> {
        let protocols = format!("protocols={}", ovs_name(of));
        let datapath_id = format!("other-config:datapath-id={dpid:016x}");
        // In-band rules would precede the controller's flows; loopback needs none.
        let band = "other-config:disable-in-band=true";
        let datapath = format!("datapath_type={}", datapath_type());
        let bridge = [&*datapath, "fail_mode=secure", &protocols, &datapath_id, band];
        let add = ["add-br", name, "--", "set", "bridge", name];
        vsctl(lab, &[&add[..], &bridge[..]].concat())?;
        let name = name.to_owned();
        Ok(Self { lab, name, of, dpid, ports: Cell::new(0) })
    }

    /// Makes the switch present `cert`, trust the CA in `ca_cert`, and connect over TLS.
    ///
    /// All switches of the lab share the keys, because Open vSwitch has only one set.
    ///
    /// # Errors
    /// Open vSwitch failed.
    pub fn connect_over_tls(
        &self,
        key: &Path,
        cert: &Path,
        ca_cert: &Path,
    ) -> Result<(), LabError> {
        let [key, cert, ca_cert] = [key, cert, ca_cert].map(|path| path.display().to_string());
        vsctl(self.lab, &["set-ssl", &key, &cert, &ca_cert])?;
        self.connect_to("ssl:127.0.0.1:6653")
    }

    /// Makes the switch connect to a controller on `127.0.0.1:6653`.
    ///
    /// # Errors
    /// Open vSwitch failed.
    pub fn connect(&self) -> Result<(), LabError> {
        self.connect_to("tcp:127.0.0.1:6653")
    }

    /// Makes the switch connect to `controller`, in the notation of `ovs-vsctl set-controller`.
    ///
    /// # Errors
    /// Open vSwitch failed.
    pub fn connect_to(&self, controller: &str) -> Result<(), LabError> {
        let set = ["set-controller", &self.name, controller];
        // Reconnect backoff grows 1, 2, 4, ... seconds up to this value, whose minimum is 1 s.
        let patience = ["--", "set", "controller", &self.name, "max_backoff=1000"];
        vsctl(self.lab, &[&set[..], &patience[..]].concat()).map(drop)
    }

    /// Returns its name in Open vSwitch.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its OpenFlow version.
    pub fn of(&self) -> Of {
        self.of
    }

    /// Returns its datapath id as Rosemary prints it: `00:00:00:00:00:00:00:01`.
    pub fn dpid(&self) -> String {
        let bytes = u64::from(self.dpid).to_be_bytes();
        bytes.map(|byte| format!("{byte:02x}")).join(":")
    }

    /// Returns its flows, one per line of `ovs-ofctl dump-flows`.
    ///
    /// # Errors
    /// `ovs-ofctl` failed.
    pub fn dump_flows(&self) -> Result<Vec<String>, LabError> {
        let text = self.ofctl(&["dump-flows"])?;
        // The first line is the reply's header; every line of a flow contains its actions.
        Ok(text.lines().map(str::trim).filter(|l| l.contains("actions=")).map(Into::into).collect())
    }

    /// Returns the output of `ovs-ofctl dump-ports`.
    ///
    /// # Errors
    /// `ovs-ofctl` failed.
    pub fn dump_ports(&self) -> Result<String, LabError> {
        self.ofctl(&["dump-ports"])
    }

    /// Runs `ovs-ofctl -O VERSION COMMAND NAME [ARGUMENT]...` for this switch.
    ///
    /// # Errors
    /// `ovs-ofctl` failed.
    pub fn ofctl(&self, command: &[&str]) -> Result<String, LabError> {
        let (verb, rest) = command.split_first().unwrap_or((&"show", &[]));
        let head = ["--timeout=10", "-O", &ovs_name(self.of), verb, &self.name];
        self.lab.run("ovs-ofctl", &[&head, rest].concat())
    }

    /// Makes the switch listen for a controller on this port of `127.0.0.1` instead of connecting.
    ///
    /// # Errors
    /// Open vSwitch failed.
    pub fn listen(&self, port: u16) -> Result<(), LabError> {
        let target = format!("ptcp:{port}:127.0.0.1");
        vsctl(self.lab, &["set-controller", &self.name, &target]).map(drop)
    }

    /// Makes the switch forward without a controller, as an ordinary learning switch.
    ///
    /// # Errors
    /// Open vSwitch failed.
    pub fn stand_alone(&self) -> Result<(), LabError> {
        vsctl(self.lab, &["set", "bridge", &self.name, "fail_mode=standalone"])?;
        vsctl(self.lab, &["del-controller", &self.name]).map(drop)
    }

    /// Excludes the port of `host` from flooding. The switch reconnects.
    ///
    /// # Errors
    /// Open vSwitch failed.
    pub fn flood_not_to(&self, host: &Host<'_>) -> Result<(), LabError> {
        let set = |protocols: &str| {
            let protocols = format!("protocols={protocols}");
            vsctl(self.lab, &["set", "bridge", &self.name, &protocols])
        };
        let with_flag = ovs_name(NO_FLOOD);
        if self.of != NO_FLOOD {
            set(&format!("{with_flag},{}", ovs_name(self.of)))?;
        }
        let port = host.port().to_string();
        let head = ["--timeout=10", "-O", &with_flag, "mod-port", &self.name, &port, "no-flood"];
        self.lab.run("ovs-ofctl", &head)?;
        if self.of != NO_FLOOD {
            set(&ovs_name(self.of))?;
        }
        Ok(())
    }

    /// Limits table 0 to `most` flows. The switch reconnects, because it announces the limit during
    /// the handshake.
    ///
    /// # Errors
    /// Open vSwitch failed.
    pub fn hold_flows(&self, most: u32) -> Result<(), LabError> {
        let limit = format!("flow_limit={most}");
        let table = ["--id=@table", "create", "Flow_Table", &limit, "overflow_policy=refuse"];
        let set = ["--", "set", "bridge", &self.name, "flow_tables:0=@table"];
        vsctl(self.lab, &[&["--"], &table[..], &set[..]].concat())?;
        vsctl(self.lab, &["del-controller", &self.name])?;
        self.connect()
    }

    /// Links it with another bridge. The ports carry both names: `s1-s2` here, `s2-s1` there.
    ///
    /// # Errors
    /// Open vSwitch failed.
    pub fn link_to(&self, other: &Switch<'_>) -> Result<(), LabError> {
        let (here, there) =
            (format!("{}-{}", self.name, other.name), format!("{}-{}", other.name, self.name));
        for (switch, port, peer) in [(self, &here, &there), (other, &there, &here)] {
            let peer = format!("options:peer={peer}");
            let set = ["--", "set", "interface", port, "type=patch", &peer];
            vsctl(self.lab, &[&["add-port", &switch.name, port], &set[..]].concat())?;
        }
        Ok(())
    }

    /// Removes a link made by [`link_to`](Self::link_to).
    ///
    /// # Errors
    /// Open vSwitch failed.
    pub fn unlink_from(&self, other: &Switch<'_>) -> Result<(), LabError> {
        for (switch, peer) in [(self, other), (other, self)] {
            vsctl(
                self.lab,
                &["del-port", &switch.name, &format!("{}-{}", switch.name, peer.name)],
            )?;
        }
        Ok(())
    }

    /// Connects an interface of the lab to the next free port; returns the port's number.
    ///
    /// # Errors
    /// Open vSwitch failed.
    pub fn plug(&self, interface: &str) -> Result<u16, LabError> {
        let port = self.ports.get() + 1;
        let request = format!("ofport_request={port}");
        let add = ["add-port", &self.name, interface, "--", "set", "interface", interface];
        vsctl(self.lab, &[&add[..], &[&request]].concat())?;
        let given = vsctl(self.lab, &["get", "interface", interface, "ofport"])?;
        if given.trim() != port.to_string() {
            let reason = format!("port {port} was asked for");
            return Err(LabError::Output { program: "ovs-vsctl", reason, output: given });
        }
        self.ports.set(port);
        Ok(port)
    }
}

/// Reports by name that files cannot be created in `dir`; Open vSwitch does not.
fn writable(dir: &str) -> Result<(), LabError> {
    let allowed = rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK);
    let what = || format!("use {dir}, where Open vSwitch makes a temporary file");
    allowed.map_err(|error| LabError::io(what())(error.into()))
}

/// Returns the address of the lab's database.
pub fn database() -> String {
    format!("unix:{FILES}/{SOCKET}")
}

/// Runs `ovs-vsctl`, which waits for the daemon for a limited time.
fn vsctl(lab: &Lab, args: &[&str]) -> Result<String, LabError> {
    let socket = format!("--db={}", database());
    lab.run("ovs-vsctl", &[&["--timeout=10", &socket], args].concat())
}
