//! Decides to which ports an app may output.
//!
//! | port | in a flow | in a packet-out or a group's bucket |
//! | --- | --- | --- |
//! | physical, `LOCAL`, `IN_PORT`, `FLOOD`, `ALL` | yes | yes |
//! | `CONTROLLER` | yes | with `packet-out.reserved` |
//! | `TABLE`, `NORMAL`, numbers that are no port | with `packet-out.reserved` | with `packet-out.reserved` |
//!
//! A packet-out to `CONTROLLER` or `TABLE` comes back as a packet-in, with an in-port that the app chose: other apps take
//! it for a packet of the network, and may answer it in a loop. A flow to `CONTROLLER` reports the real in-port, as no
//! action may change that without the same capability. A bucket counts as a packet-out because a packet-out can name its
//! group, also one that is made or modified later. A bucket that outputs to `IN_PORT` outputs to the in-port that the
//! packet-out names, so a packet-out with a group needs `packet-out.reserved` unless its in-port is physical or `LOCAL`.
//!
//! The numbers are those of OpenFlow 1.3.5 §7.2.1; the codec widens the 16-bit ones of OpenFlow 1.0.

use openflow::PortNo;
use sdk::Refusal;

use super::allow;

/// The kind of message that an action belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionContext {
    /// In a flow.
    Flow,
    /// In a bucket of a group.
    Bucket,
    /// In a packet-out with this in-port.
    PacketOut {
        /// As the packet-out says.
        in_port: PortNo,
    },
}

/// Which ports an app may output to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outputs {
    /// It has `packet-out.reserved`.
    reserved: bool,
}

impl Outputs {
    /// Of an app that has `packet-out.reserved`, or does not.
    pub(super) fn new(reserved: bool) -> Self {
        Self { reserved }
    }

    /// Whether the app may output to ports that the check does not know.
    pub(super) fn has_reserved(self) -> bool {
        self.reserved
    }

    /// Whether an action may change the in-port of a packet, which a packet-in then states. OpenFlow 1.3.5 §7.2.5 forbids
    /// it, but a switch may do it.
    pub(super) fn may_change_in_port(self) -> bool {
        self.reserved
    }

    /// Whether an action of such a message may output to this port.
    #[inline]
    pub(super) fn allow(self, context: ActionContext, port: PortNo) -> bool {
        port.is_usual_output() || self.allow_others(context, port)
    }

    /// Whether an action of such a message may name a group. Its buckets may output to `IN_PORT`.
    pub(super) fn allow_group(self, context: ActionContext) -> bool {
        match context {
            ActionContext::PacketOut { in_port } => in_port.is_host_port() || self.reserved,
            ActionContext::Flow | ActionContext::Bucket => true,
        }
    }

    /// The same as [`allow`](Self::allow), of another port.
    fn allow_others(self, context: ActionContext, port: PortNo) -> bool {
        let granted_to_all = match (port, context) {
            // It stands for the packet-out's in-port.
            (PortNo::IN_PORT, ActionContext::PacketOut { in_port }) => in_port.is_host_port(),
            (PortNo::IN_PORT, _) | (PortNo::CONTROLLER, ActionContext::Flow) => true,
            _ => false,
        };
        granted_to_all || self.reserved
    }
}

/// Checks the in-port of a packet-out: a port of the switch, `CONTROLLER`, in OpenFlow 1.0 `NONE`, which Open vSwitch
/// accepts in 1.3 too (OpenFlow 1.3.5 §7.3.7), or 0.
///
/// 0 is no port, but Open vSwitch accepts it, and apps that leave the field at 0 exist. Nothing goes out by it: output to
/// `IN_PORT`, groups and `TABLE` need `packet-out.reserved` with such an in-port.
///
/// # Errors
/// [`Refusal::Shape`] for others: a switch could take such a port for one to output to.
#[inline]
pub(super) fn check_in_port(in_port: PortNo) -> Result<(), Refusal> {
    let may_be_one =
        in_port.is_host_port() || [PortNo::CONTROLLER, PortNo::ANY, PortNo(0)].contains(&in_port);
    allow(may_be_one, Refusal::Shape)
}
