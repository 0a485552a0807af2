//! Defines what the forwarding core needs from the world, and the messages that it sends: [`World`] and [`Message`].
//!
//! The app implements [`World`] over the SDK's `Network`. Tests implement it over simulated switches.

use std::net::IpAddr;
use std::time::Duration;

use rosemary_sdk::openflow::{FlowModCommand, FlowModFlags, GroupMod, Match};
use rosemary_sdk::{Action, FlowMod, MacAddr, PortNo, Switch};

use super::net::End;

/// Where a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    /// Its switch and port.
    pub(crate) at: End,
    /// Whether its packets come in at another port, too, and the right port is not known yet.
    pub(crate) is_contested: bool,
    /// Whether an earlier process of the service saw it there, and no packet has confirmed it since.
    pub(crate) is_doubted: bool,
}

#[cfg(test)]
impl Location {
    /// The place of a host that has just sent a packet.
    pub(crate) fn sure(at: End) -> Self {
        Self { at, is_contested: false, is_doubted: false }
    }
}

/// Time, the table of hosts, and the way to switches and operators.
pub(crate) trait World {
    /// Returns the time since an arbitrary moment.
    fn now(&self) -> Duration;
    /// Returns where a host is.
    fn host(&self, mac: MacAddr, vlan: u16) -> Option<Location>;
    /// Returns the host that has an address; `None` if its place is doubted, so that the host is asked itself.
    fn address(&self, ip: IpAddr, vlan: u16) -> Option<MacAddr>;
    /// Sends a message, now or when there is room.
    fn send(&mut self, to: Switch, message: Message);
    /// Records an incident of this app.
    fn incident(&mut self, summary: &str, evidence: &str);
}

/// The action of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Act {
    /// Sends them out of a port.
    Port(PortNo),
    /// Sends them to a group of this app.
    Group(u32),
    /// Drops them.
    Drop,
}

/// A flow-mod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) command: FlowModCommand,
    pub(crate) match_: Match,
    pub(crate) priority: u16,
    pub(crate) cookie: u64,
    /// Bits of `cookie` that a flow must have to be deleted; not in OpenFlow 1.0.
    pub(crate) cookie_mask: u64,
    /// Seconds; 0 for none.
    pub(crate) idle_timeout: u16,
    /// Seconds; 0 for none.
    pub(crate) hard_timeout: u16,
    /// Whether the switch reports the flow's end.
    pub(crate) is_reported: bool,
    pub(crate) act: Act,
    /// Deletes only flows that output to this port.
    pub(crate) out_port: PortNo,
}

impl Flow {
    /// Adds or replaces a flow.
    pub(crate) fn add(match_: Match, priority: u16, cookie: u64, act: Act) -> Self {
        Self {
            command: FlowModCommand::Add,
            match_,
            priority,
            cookie,
            cookie_mask: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            is_reported: false,
            act,
            out_port: PortNo::ANY,
        }
    }

    /// Deletes the flow with this match and priority.
    pub(crate) fn delete_strict(match_: Match, priority: u16) -> Self {
        Self { command: FlowModCommand::DeleteStrict, ..Self::add(match_, priority, 0, Act::Drop) }
    }

    /// Deletes the flows of this app that the match covers.
    pub(crate) fn delete(match_: Match) -> Self {
        Self { command: FlowModCommand::Delete, ..Self::add(match_, 0, 0, Act::Drop) }
    }

    /// Returns the action of the flow-mod; `None` if it drops packets.
    pub(crate) fn action(&self) -> Option<Action> {
        match self.act {
            Act::Port(port) => Some(Action::output(port)),
            Act::Group(group_id) => Some(Action::Group(group_id)),
            Act::Drop => None,
        }
    }

    /// Returns the flow-mod with its [`action`](Self::action).
    pub(crate) fn flow_mod<'a>(&self, action: &'a [Action]) -> FlowMod<'a> {
        let mut flow_mod = FlowMod::new(self.command, self.match_.clone())
            .priority(self.priority)
            .only_cookie(self.cookie, self.cookie_mask)
            .idle_timeout(self.idle_timeout)
            .hard_timeout(self.hard_timeout)
            .out_port(self.out_port);
        if self.is_reported {
            flow_mod = flow_mod.flags(FlowModFlags::SEND_FLOW_REM);
        }
        flow_mod.apply(action)
    }
}

/// A message to a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// A flow-mod.
    Flow(Flow),
    /// Flow-mods that the switch applies in one step, with a number that the outcome has.
    Changes(u64, Vec<Flow>),
    /// A group-mod.
    Group(GroupMod),
    /// A request that the switch answers when it has handled all earlier messages.
    Barrier,
    /// A request for the types of groups that the switch has.
    GroupFeatures,
    /// A request for the groups of this app.
    GroupDesc,
    /// A packet.
    Packet {
        /// The port that it came in through.
        in_port: PortNo,
        /// The ports that it leaves through.
        out: Vec<PortNo>,
        /// The switch's buffer with the packet, if the switch has buffered it.
        buffer_id: Option<u32>,
        /// The packet, unless the switch keeps it.
        data: Vec<u8>,
    },
}
