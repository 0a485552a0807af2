//! Open vSwitch in user space: its database, its daemon, and switches on it.
//!
//! The userspace datapath (`datapath_type=netdev`) needs no kernel module and lives and dies with
//! `ovs-vswitchd`. It reads packets as the hosts' kernel wrote them, so the hosts must compute
//! their checksums themselves (see `host.rs`).

use std::cell::Cell;
use std::fmt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::fs::Access;

use super::{FILES, Host, Lab, LabError, Running};

/// The variables that tell every program of Open vSwitch where its files are.
pub(super) const DIRECTORIES: [&str; 4] =
    ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"];

const SOCKET: &str = "db.sock";

/// Where `ovsdb-server` has a file for a moment: it calls tmpfile(3), which follows no variable.
const TEMPORARY: &str = "/tmp";

/// A version of OpenFlow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Of {
    /// OpenFlow 1.0, wire version 1.
    #[value(name = "1.0")]
    V1_0,
    /// OpenFlow 1.3, wire version 4.
    #[value(name = "1.3")]
    V1_3,
}

impl Of {
    /// Its name in `ovs-vsctl` and `ovs-ofctl`.
    pub(crate) fn ovs_name(self) -> &'static str {
        match self {
            Self::V1_0 => "OpenFlow10",
            Self::V1_3 => "OpenFlow13",
        }
    }
}

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1_0 => "1.0",
            Self::V1_3 => "1.3",
        })
    }
}

/// Which device makes the interfaces that a bridge has for the machine it is on.
const TUN: &str = "/dev/net/tun";

/// The datapath in user space, where each bridge has such an interface, or where none can be made (in a
/// container, or where the device is root's) the one that has none: Open vSwitch's own tests use it.
fn datapath_type() -> &'static str {
    let tun = std::fs::OpenOptions::new().read(true).write(true).open(TUN);
    if tun.is_ok() { "netdev" } else { "dummy" }
}

/// The two daemons. Fields are dropped in order: the switches before their database.
#[derive(Debug)]
pub(super) struct OpenVSwitch {
    _vswitchd: Running,
    _database: Running,
    version: String,
}

impl OpenVSwitch {
    pub(super) fn start(lab: &Lab) -> Result<Self, LabError> {
        writable(TEMPORARY)?;
        // The schema's place is built into ovsdb-tool; it follows no variable.
        lab.run("ovsdb-tool", &["create", &format!("{FILES}/conf.db")])?;
        let mut command = lab.command("ovsdb-server");
        command.args(["--no-chdir", &format!("--remote=punix:{FILES}/{SOCKET}")]);
        command.arg(format!("{FILES}/conf.db"));
        let mut database = lab.start("ovsdb-server", command)?;
        lab.wait_for("Open vSwitch's database listens", Duration::from_secs(10), |_| {
            database.must_run()?;
            // The socket has its name a moment before it listens.
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
        let protocols = format!("protocols={}", of.ovs_name());
        let datapath_id = format!("other-config:datapath-id={dpid:016x}");
        // In-band rules would be flows in front of the controller's; loopback needs none.
        let band = "other-config:disable-in-band=true";
        let datapath = format!("datapath_type={}", datapath_type());
        let bridge = [&*datapath, "fail_mode=secure", &protocols, &datapath_id, band];
        let add = ["add-br", name, "--", "set", "bridge", name];
        // It tries again after 1, 2, 4, ... seconds up to this, and 1 s is the least it takes.
        let controller = ["--", "set-controller", name, "tcp:127.0.0.1:6653"];
        let patience = ["--", "set", "controller", name, "max_backoff=1000"];
        vsctl(lab, &[&add[..], &bridge[..], &controller[..], &patience[..]].concat())?;
        let name = name.to_owned();
        Ok(Self { lab, name, of, dpid, ports: Cell::new(0) })
    }

    /// Lets it show `cert` from now on, believe the authority in `ca_cert`, and connect over TLS.
    ///
    /// The keys are those of all switches of the lab, as Open vSwitch has them once.
    ///
    /// # Errors
    /// What Open vSwitch said.
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

    /// Lets it connect to `controller`, written as for `ovs-vsctl set-controller`.
    ///
    /// # Errors
    /// What Open vSwitch said.
    pub fn connect_to(&self, controller: &str) -> Result<(), LabError> {
        let set = ["set-controller", &self.name, controller];
        let patience = ["--", "set", "controller", &self.name, "max_backoff=1000"];
        vsctl(self.lab, &[&set[..], &patience[..]].concat()).map(drop)
    }

    /// Its name in Open vSwitch.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version it speaks.
    pub fn of(&self) -> Of {
        self.of
    }

    /// Its identifier as Rosemary prints it: `00:00:00:00:00:00:00:01`.
    pub fn dpid(&self) -> String {
        let bytes = u64::from(self.dpid).to_be_bytes();
        bytes.map(|byte| format!("{byte:02x}")).join(":")
    }

    /// The flows it has, one per line, as `ovs-ofctl dump-flows` shows them.
    ///
    /// # Errors
    /// What `ovs-ofctl` said.
    pub fn dump_flows(&self) -> Result<Vec<String>, LabError> {
        let text = self.ofctl(&["dump-flows"])?;
        // The first line is the reply's header, and a flow always says what it does.
        Ok(text.lines().map(str::trim).filter(|l| l.contains("actions=")).map(Into::into).collect())
    }

    /// What `ovs-ofctl dump-ports` shows.
    ///
    /// # Errors
    /// What `ovs-ofctl` said.
    pub fn dump_ports(&self) -> Result<String, LabError> {
        self.ofctl(&["dump-ports"])
    }

    /// `ovs-ofctl -O <its version> COMMAND <its name> [ARGUMENT]...`.
    ///
    /// # Errors
    /// What `ovs-ofctl` said.
    pub fn ofctl(&self, command: &[&str]) -> Result<String, LabError> {
        let (verb, rest) = command.split_first().unwrap_or((&"show", &[]));
        let head = ["--timeout=10", "-O", self.of.ovs_name(), verb, &self.name];
        self.lab.run("ovs-ofctl", &[&head, rest].concat())
    }

    /// Lets the switch wait for a controller on this port of `127.0.0.1`, in place of calling one.
    ///
    /// # Errors
    /// What Open vSwitch said.
    pub fn listen(&self, port: u16) -> Result<(), LabError> {
        let target = format!("ptcp:{port}:127.0.0.1");
        vsctl(self.lab, &["set-controller", &self.name, &target]).map(drop)
    }

    /// Lets the switch forward without a controller, as an ordinary learning switch.
    ///
    /// # Errors
    /// What Open vSwitch said.
    pub fn stand_alone(&self) -> Result<(), LabError> {
        vsctl(self.lab, &["set", "bridge", &self.name, "fail_mode=standalone"])?;
        vsctl(self.lab, &["del-controller", &self.name]).map(drop)
    }

    /// Leaves the port of `host` out of floods from now on. The switch connects anew.
    ///
    /// # Errors
    /// What Open vSwitch said.
    pub fn flood_not_to(&self, host: &Host<'_>) -> Result<(), LabError> {
        let set = |protocols: &str| {
            let protocols = format!("protocols={protocols}");
            vsctl(self.lab, &["set", "bridge", &self.name, &protocols])
        };
        // OFPPC_NO_FLOOD is of 1.0 alone (OpenFlow 1.0.2 §5.2.1), and holds for what 1.3 floods.
        let of_1_0 = Of::V1_0.ovs_name();
        if self.of != Of::V1_0 {
            set(&format!("{of_1_0},{}", self.of.ovs_name()))?;
        }
        let port = host.port().to_string();
        let head = ["--timeout=10", "-O", of_1_0, "mod-port", &self.name, &port, "no-flood"];
        self.lab.run("ovs-ofctl", &head)?;
        if self.of != Of::V1_0 {
            set(self.of.ovs_name())?;
        }
        Ok(())
    }

    /// Lets its table 0 hold so many flows and no more, and connects anew, as it says at its connection how
    /// many that are.
    ///
    /// # Errors
    /// What Open vSwitch said.
    pub fn hold_flows(&self, most: u32) -> Result<(), LabError> {
        let limit = format!("flow_limit={most}");
        let table = ["--id=@table", "create", "Flow_Table", &limit, "overflow_policy=refuse"];
        let set = ["--", "set", "bridge", &self.name, "flow_tables:0=@table"];
        vsctl(self.lab, &[&["--"], &table[..], &set[..]].concat())?;
        vsctl(self.lab, &["del-controller", &self.name])?;
        self.connect_to("tcp:127.0.0.1:6653")
    }

    /// Links it with another bridge. The ports have the names of both: `s1-s2` here, `s2-s1` there.
    ///
    /// # Errors
    /// What Open vSwitch said.
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

    /// Ends what [`link_to`](Self::link_to) made.
    ///
    /// # Errors
    /// What Open vSwitch said.
    pub fn unlink_from(&self, other: &Switch<'_>) -> Result<(), LabError> {
        for (switch, peer) in [(self, other), (other, self)] {
            vsctl(
                self.lab,
                &["del-port", &switch.name, &format!("{}-{}", switch.name, peer.name)],
            )?;
        }
        Ok(())
    }

    /// Plugs an interface of the lab into the next free port and returns the port's number.
    pub(super) fn plug(&self, interface: &str) -> Result<u16, LabError> {
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

/// Says it by its name if files cannot be made in `dir`; Open vSwitch does not.
fn writable(dir: &str) -> Result<(), LabError> {
    let allowed = rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK);
    let what = || format!("use {dir}, where Open vSwitch makes a temporary file");
    allowed.map_err(|error| LabError::io(what())(error.into()))
}

/// `ovs-vsctl`, which waits until the daemon has done it, but not for ever.
fn vsctl(lab: &Lab, args: &[&str]) -> Result<String, LabError> {
    let socket = format!("--db=unix:{FILES}/{SOCKET}");
    lab.run("ovs-vsctl", &[&["--timeout=10", &socket], args].concat())
}
