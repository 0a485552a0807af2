//! Hosts: one network namespace each, with an interface connected to a switch.

use std::process::Command;
use std::time::Duration;

use super::{Lab, LabError, PingReport, Pinging, Running, Switch};

/// A host of the lab.
#[derive(Debug)]
pub struct Host<'lab> {
    lab: &'lab Lab,
    name: String,
    number: u8,
    port: u16,
}

impl<'lab> Host<'lab> {
    pub(super) fn add(
        lab: &'lab Lab,
        name: &str,
        switch: &Switch<'lab>,
        number: u8,
    ) -> Result<Self, LabError> {
        let mut host = Self { lab, name: name.to_owned(), number, port: 0 };
        let plug = format!("{}-{name}", switch.name());
        lab.run("ip", &["netns", "add", name])?;
        let veth = ["link", "add", &plug, "type", "veth", "peer", "name", "eth0", "netns", name];
        lab.run("ip", &veth)?;
        for quiet in [&["-n", name, "link", "set", "eth0"][..], &["link", "set", &plug]] {
            // Without a link-local address, IPv6 sends no unsolicited packets. The command fails
            // where the kernel has no IPv6, which is fine.
            let _ = lab.run("ip", &[quiet, &["addrgenmode", "none"]].concat());
        }
        host.ip(&["link", "set", "lo", "up"])?;
        host.ip(&["link", "set", "eth0", "address", &host.mac(), "up"])?;
        host.ip(&["address", "add", &format!("{}/24", host.address()), "dev", "eth0"])?;
        // The userspace datapath forwards packets unchanged, so an offloaded checksum would never
        // be completed.
        host.run("ethtool", &["-K", "eth0", "tx", "off"])?;
        lab.run("ip", &["link", "set", &plug, "up"])?;
        host.port = switch.plug(&plug)?;
        Ok(host)
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its IPv4 address.
    pub fn address(&self) -> String {
        format!("10.0.0.{}", self.number)
    }

    /// Returns its Ethernet address in the notation of Linux and Open vSwitch.
    pub fn mac(&self) -> String {
        format!("02:00:00:00:00:{:02x}", self.number)
    }

    /// Returns the number of its switch port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Creates a command that runs on this host.
    pub fn command(&self, program: &str) -> Command {
        let mut command = self.lab.command("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs a short command on this host and returns its output.
    ///
    /// # Errors
    /// [`LabError::Command`] if it fails.
    pub fn run(&self, program: &str, args: &[&str]) -> Result<String, LabError> {
        self.lab.run("ip", &[&["netns", "exec", &self.name, program], args].concat())
    }

    /// Adds a static ARP entry for the other host. Otherwise its first packet would be an ARP
    /// request, which is repeated only once a second.
    ///
    /// # Errors
    /// `ip` failed.
    pub fn knows(&self, other: &Host<'_>) -> Result<(), LabError> {
        let (address, mac) = (other.address(), other.mac());
        self.ip(&["neighbour", "replace", &address, "lladdr", &mac, "dev", "eth0"]).map(drop)
    }

    /// Sends `count` echo requests to `other`, one per `interval`, and waits at most one second
    /// after the last for replies.
    ///
    /// # Errors
    /// `ping` cannot be run or its output cannot be parsed. Lost replies are no error.
    pub fn ping(
        &self,
        other: &Host<'_>,
        count: u32,
        interval: Duration,
    ) -> Result<PingReport, LabError> {
        self.ping_in_background(other, count, interval)?.finish()
    }

    /// Like [`Host::ping`], in the background.
    ///
    /// # Errors
    /// `ping` cannot be started.
    pub fn ping_in_background(
        &self,
        other: &Host<'_>,
        count: u32,
        interval: Duration,
    ) -> Result<Pinging<'lab>, LabError> {
        Pinging::start(self.lab, self.command("ping"), &other.address(), count, interval)
    }

    /// Captures packets that arrive at this host, from the return of this function on.
    ///
    /// # Errors
    /// `tcpdump` cannot be started or does not start to listen.
    pub fn watch(&self) -> Result<Watch<'lab>, LabError> {
        let mut command = self.command("tcpdump");
        // -Z root: otherwise tcpdump would change its user and outlive the lab (see
        // `die_with_parent`).
        command.args(["-Z", "root", "-l", "-n", "-e", "-t", "-Q", "in", "-i", "eth0"]);
        if sys::namespace::is_of_one_user() {
            sys::namespace::pretend_to_set_groups(&mut command); // it sets root's, whoever that is
        }
        let mut tcpdump = self.lab.start(&format!("tcpdump-{}", self.name), command)?;
        self.lab.wait_for("tcpdump listens", Duration::from_secs(10), |_| {
            tcpdump.must_run()?;
            Ok(tcpdump.stderr().contains("listening on").then_some(()))
        })?;
        Ok(Watch { lab: self.lab, tcpdump })
    }

    fn ip(&self, args: &[&str]) -> Result<String, LabError> {
        self.lab.run("ip", &[&["-n", &self.name], args].concat())
    }
}

/// A running capture of a host: one line of `tcpdump` output per packet.
#[derive(Debug)]
pub struct Watch<'lab> {
    lab: &'lab Lab,
    tcpdump: Running,
}

impl Watch<'_> {
    /// Returns the packets so far whose line contains all `words`.
    pub fn seen(&self, words: &[&str]) -> Vec<String> {
        let text = self.tcpdump.stdout();
        let fits = |line: &&str| words.iter().all(|word| line.contains(word));
        text.lines().filter(fits).map(Into::into).collect()
    }

    /// Waits for a packet whose line contains all `words`.
    ///
    /// # Errors
    /// [`LabError::TooLate`] with the captured packets.
    pub fn wait_for(&self, words: &[&str], limit: Duration) -> Result<String, LabError> {
        let what = format!("a packet with {} arrives", words.join(", "));
        self.lab.wait_for(what, limit, |evidence| {
            evidence.0 = self.tcpdump.stdout();
            Ok(self.seen(words).into_iter().next())
        })
    }
}
