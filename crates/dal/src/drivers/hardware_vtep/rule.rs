//! The flows that a device can have, from and to OpenFlow's match and instructions.
//!
//! Each form has exactly one match and one list of actions, so that a flow is listed as it was written.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use openflow::{Action, Field, Instructions, MacAddr, Masked, Match, PortNo};

use super::numbering::{Binding, PortKind, kind_of, tunnel};
use super::refusal::Refusal;

/// The highest tunnel key of VXLAN: 24 bits (RFC 7348 §5).
const MOST_VNI: u64 = 0xff_ffff;

/// The match of a flow. A device has at most one flow for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// Frames of a VLAN at a port.
    Binding(Binding),
    /// Frames to one address in a logical switch.
    Unicast { vni: u32, mac: MacAddr },
    /// All other frames in a logical switch.
    Unknown { vni: u32 },
}

/// A flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rule {
    /// The frames belong to a logical switch.
    Binding { binding: Binding, vni: u32 },
    /// The address is behind a tunnel.
    Unicast { vni: u32, mac: MacAddr, to: Ipv4Addr },
    /// The frames go through tunnels.
    Unknown { vni: u32, to: BTreeSet<Ipv4Addr> },
}

impl Key {
    /// Reads a match.
    ///
    /// # Errors
    /// [`Refusal`]: the device has no such flow.
    pub(super) fn of(match_: &Match) -> Result<Self, Refusal> {
        let fields: Vec<Field> = match_.fields().collect();
        let other = || Refusal::Match(shown(match_));
        match &fields[..] {
            [Field::InPort(port)] => match kind_of(*port) {
                PortKind::Binding(binding) => Ok(Self::Binding(binding)),
                _ => Err(other()),
            },
            [Field::TunnelId(Masked { value, mask: None })] => {
                Ok(Self::Unknown { vni: vni(*value)? })
            }
            [
                Field::EthDst(Masked { value: mac, mask: None }),
                Field::TunnelId(Masked { value, mask: None }),
            ] => {
                if mac.is_multicast() || *mac == MacAddr::default() {
                    return Err(Refusal::Group(mac.to_string()));
                }
                Ok(Self::Unicast { vni: vni(*value)?, mac: *mac })
            }
            _ => Err(other()),
        }
    }

    /// Returns the match.
    pub(super) fn to_match(self) -> Match {
        match self {
            Self::Binding(binding) => Match::new().in_port(binding.port_no()),
            Self::Unicast { vni, mac } => {
                Match::new().with(&Field::EthDst(mac.into())).with(&tunnel_id(vni))
            }
            Self::Unknown { vni } => Match::new().with(&tunnel_id(vni)),
        }
    }
}

impl Rule {
    /// Reads the instructions of the flow `key`.
    ///
    /// # Errors
    /// [`Refusal`]: the device has no flow with these.
    pub(super) fn new(key: Key, instructions: &Instructions<'_>) -> Result<Self, Refusal> {
        let expected = match key {
            Key::Binding(_) => "set_field:tunnel_id=VNI,output:FLOOD",
            Key::Unicast { .. } => "output:TUNNEL",
            Key::Unknown { .. } => "output:TUNNEL,... in ascending order",
        };
        let wrong = |found: String| Refusal::Actions { expected, found };
        if *instructions != (Instructions { apply: instructions.apply, ..Instructions::default() })
        {
            return Err(wrong("other instructions than to apply actions".into()));
        }
        let actions: Vec<Action> = instructions.apply.iter().collect();
        let found = || {
            wrong(if actions.is_empty() {
                "none".into()
            } else {
                format!("{} others", actions.len())
            })
        };
        match (key, &actions[..]) {
            (
                Key::Binding(binding),
                [
                    Action::SetField(Field::TunnelId(Masked { value, mask: None })),
                    Action::Output { port: PortNo::FLOOD, .. },
                ],
            ) => Ok(Self::Binding { binding, vni: vni(*value)? }),
            (Key::Unicast { vni, mac }, [Action::Output { port, .. }]) => {
                Ok(Self::Unicast { vni, mac, to: tunnel_of(*port)? })
            }
            (Key::Unknown { vni }, [_, ..]) => {
                let mut to = BTreeSet::new();
                for action in &actions {
                    let Action::Output { port, .. } = action else { return Err(found()) };
                    let end = tunnel_of(*port)?;
                    if to.last().is_some_and(|last| *last >= end) {
                        return Err(wrong("tunnels in another order".into()));
                    }
                    to.insert(end);
                }
                Ok(Self::Unknown { vni, to })
            }
            _ => Err(found()),
        }
    }

    /// Returns what it matches.
    pub(super) fn key(&self) -> Key {
        match self {
            Self::Binding { binding, .. } => Key::Binding(*binding),
            Self::Unicast { vni, mac, .. } => Key::Unicast { vni: *vni, mac: *mac },
            Self::Unknown { vni, .. } => Key::Unknown { vni: *vni },
        }
    }

    /// Returns the logical switch that it concerns.
    pub(super) fn vni(&self) -> u32 {
        match self {
            Self::Binding { vni, .. } | Self::Unicast { vni, .. } | Self::Unknown { vni, .. } => {
                *vni
            }
        }
    }

    /// Returns the other ends of its tunnels.
    pub(super) fn ends(&self) -> Vec<Ipv4Addr> {
        match self {
            Self::Binding { .. } => Vec::new(),
            Self::Unicast { to, .. } => vec![*to],
            Self::Unknown { to, .. } => to.iter().copied().collect(),
        }
    }

    /// Returns its actions.
    pub(super) fn actions(&self) -> Vec<Action> {
        match self {
            Self::Binding { vni, .. } => {
                vec![Action::set_field(tunnel_id(*vni)), Action::output(PortNo::FLOOD)]
            }
            Self::Unicast { .. } | Self::Unknown { .. } => {
                self.ends().into_iter().filter_map(tunnel).map(Action::output).collect()
            }
        }
    }
}

fn tunnel_id(vni: u32) -> Field {
    Field::TunnelId(u64::from(vni).into())
}

fn tunnel_of(port: PortNo) -> Result<Ipv4Addr, Refusal> {
    match kind_of(port) {
        PortKind::Tunnel(to) => Ok(to),
        _ => Err(Refusal::NoTunnel(port)),
    }
}

fn vni(value: u64) -> Result<u32, Refusal> {
    let vni = u32::try_from(value).ok().filter(|_| (1..=MOST_VNI).contains(&value));
    vni.ok_or(Refusal::TunnelKey(value))
}

/// The names of the fields of a match.
fn shown(match_: &Match) -> String {
    let names: Vec<&str> = match_.fields().map(|field| field.name()).take(8).collect();
    if names.is_empty() { "everything".into() } else { names.join(",") }
}
