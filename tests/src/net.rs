//! The network of most system tests: Rosemary, a switch and three hosts.

use std::time::Duration;

use cli::lab::{Host, Lab, LabError, Of, Rosemary, Switch};
use cli::status::Report;
use control::query::SwitchStatus;

use crate::pki::Pki;
use crate::rosemary_binary;

/// The default app.
pub const APP: &str = "learning-switch";

/// Interval between pings.
pub const INTERVAL: Duration = Duration::from_millis(20);

/// Time limit for immediate effects, with slack for a busy machine.
pub const SOON: Duration = Duration::from_secs(10);

/// Transport of OpenFlow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Plain TCP.
    Tcp,
    /// TLS, with plain TCP forbidden.
    Tls,
}

/// Rosemary with a connected switch `s1` and hosts `h1`, `h2`, `h3` on its ports 1, 2, 3.
#[derive(Debug)]
#[expect(missing_docs, reason = "the field names are self-explanatory")]
pub struct Net<'lab> {
    pub lab: &'lab Lab,
    pub rosemary: Rosemary<'lab>,
    pub s1: Switch<'lab>,
    pub h1: Host<'lab>,
    pub h2: Host<'lab>,
    pub h3: Host<'lab>,
}

impl<'lab> Net<'lab> {
    /// Starts everything and waits until the switch is connected.
    ///
    /// # Errors
    /// A step failed.
    pub fn start(lab: &'lab Lab, of: Of) -> Result<Self, LabError> {
        Self::start_over(lab, of, Over::Tcp)
    }

    /// Like [`start`](Self::start), over this transport.
    ///
    /// # Errors
    /// A step failed.
    pub fn start_over(lab: &'lab Lab, of: Of, over: Over) -> Result<Self, LabError> {
        Self::start_over_with(lab, of, over, &[])
    }

    /// Like [`start_over`](Self::start_over), with further arguments for `rosemary up`.
    ///
    /// # Errors
    /// A step failed.
    pub fn start_over_with(
        lab: &'lab Lab,
        of: Of,
        over: Over,
        args: &[&str],
    ) -> Result<Self, LabError> {
        match over {
            Over::Tcp => Self::start_with(lab, of, args),
            Over::Tls => {
                let pki = Pki::init(lab, "pki")?;
                let args = [args, &["--tls-dir", pki.dir(), "--plain", "never"]].concat();
                let rosemary = Rosemary::start(lab, &rosemary_binary(), &args)?;
                let s1 = lab.switch("s1", of)?;
                pki.switch("s1", &["--dpid", &s1.dpid()])?.give_to(&s1)?;
                Self::with_hosts(lab, rosemary, s1)
            }
        }
    }

    /// Like [`Net::start`], with further arguments for `rosemary up`.
    ///
    /// # Errors
    /// A step failed.
    pub fn start_with(lab: &'lab Lab, of: Of, args: &[&str]) -> Result<Self, LabError> {
        Self::of(lab, of, Rosemary::start(lab, &rosemary_binary(), args)?)
    }

    /// Like [`Net::start`], with a running Rosemary.
    ///
    /// # Errors
    /// A step failed.
    pub fn of(lab: &'lab Lab, of: Of, rosemary: Rosemary<'lab>) -> Result<Self, LabError> {
        let s1 = lab.switch("s1", of)?;
        Self::with_hosts(lab, rosemary, s1)
    }

    /// Like [`Net::of`]. The switch connects when it has the ports of all hosts, for apps that do not expect new ports.
    ///
    /// # Errors
    /// A step failed.
    pub fn with_known_ports(
        lab: &'lab Lab,
        of: Of,
        rosemary: Rosemary<'lab>,
    ) -> Result<Self, LabError> {
        let s1 = lab.switch_without_controller("s1", of)?;
        let hosts = Self::hosts_of(lab, &s1)?;
        s1.connect()?;
        Self::connected(lab, rosemary, s1, hosts)
    }

    fn with_hosts(
        lab: &'lab Lab,
        rosemary: Rosemary<'lab>,
        s1: Switch<'lab>,
    ) -> Result<Self, LabError> {
        let hosts = Self::hosts_of(lab, &s1)?;
        Self::connected(lab, rosemary, s1, hosts)
    }

    fn hosts_of(lab: &'lab Lab, s1: &Switch<'lab>) -> Result<[Host<'lab>; 3], LabError> {
        Ok([lab.host("h1", s1)?, lab.host("h2", s1)?, lab.host("h3", s1)?])
    }

    fn connected(
        lab: &'lab Lab,
        mut rosemary: Rosemary<'lab>,
        s1: Switch<'lab>,
        [h1, h2, h3]: [Host<'lab>; 3],
    ) -> Result<Self, LabError> {
        rosemary.wait_for_switch(&s1)?;
        Ok(Self { lab, rosemary, s1, h1, h2, h3 })
    }

    /// Returns Rosemary's status.
    ///
    /// # Errors
    /// It does not answer within [`SOON`].
    pub fn status(&mut self) -> Result<Report, LabError> {
        self.rosemary.wait_for("Rosemary answers", SOON, |status| Some(status.clone()))
    }

    /// Returns Rosemary's status of `s1`.
    ///
    /// # Errors
    /// It is not connected within [`SOON`].
    pub fn switch_status(&mut self) -> Result<SwitchStatus, LabError> {
        self.rosemary.wait_for_switch(&self.s1)
    }

    /// Returns the switch's flows that output packets for `host` to its port.
    ///
    /// # Errors
    /// `ovs-ofctl` failed.
    pub fn flows_to(&self, host: &Host<'_>) -> Result<Vec<String>, LabError> {
        let dst = format!("dl_dst={}", host.mac());
        let output = format!("actions=output:{}", host.port());
        let mut flows = self.s1.dump_flows()?;
        flows.retain(|flow| flow.contains(&dst) && flow.ends_with(&output));
        Ok(flows)
    }
}
