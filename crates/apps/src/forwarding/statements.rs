//! Keeps ARP and neighbour advertisements that state another Ethernet address for an IP address than the table of hosts.
//!
//! Whoever receives such a message believes it, so the app sends it on only when the table agrees. The service `hosts` asks the
//! owner of the address, and gives the address to the sender if the owner is silent for a second. Until then the message waits
//! here, and it is dropped if the owner answers.

use std::net::IpAddr;
use std::time::Duration;

use rosemary_sdk::{MacAddr, PacketIn, PortNo, Switch};

use super::neighbours::stated;
use super::world::World;

/// How long a message waits: the service `hosts` needs a second to decide.
const HELD_FOR: Duration = Duration::from_secs(2);

/// Messages that wait, in all and of one port. Further ones are dropped.
const MOST: usize = 256;
const MOST_OF_A_PORT: usize = 8;

/// A message that waits.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) switch: Switch,
    pub(crate) in_port: PortNo,
    pub(crate) data: Vec<u8>,
    since: Duration,
    subject: (IpAddr, u16),
    mac: MacAddr,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Statements(Vec<Held>);

impl Statements {
    /// Returns whether a packet contradicts the table of hosts. It is kept then, if there is room and it is whole.
    pub(crate) fn hold(&mut self, packet_in: &PacketIn<'_>, world: &impl World) -> bool {
        let Some((ip, vlan, mac)) = stated(packet_in.data) else { return false };
        if agrees((ip, vlan), mac, world) {
            return false;
        }
        let (switch, in_port) = (packet_in.switch, packet_in.in_port);
        let is_of_port = |it: &&Held| (it.switch.dpid, it.in_port) == (switch.dpid, in_port);
        let of_port = self.0.iter().filter(is_of_port).count();
        if self.0.len() < MOST && of_port < MOST_OF_A_PORT && packet_in.is_whole() {
            let (data, since) = (packet_in.data.to_vec(), world.now());
            self.0.push(Held { switch, in_port, data, since, subject: (ip, vlan), mac });
        }
        true
    }

    /// Returns a message that the table agrees with by now, and drops messages that have waited too long.
    pub(crate) fn next(&mut self, world: &impl World) -> Option<Held> {
        let now = world.now();
        self.0.retain(|held| now.saturating_sub(held.since) < HELD_FOR);
        let at = self.0.iter().position(|held| agrees(held.subject, held.mac, world))?;
        Some(self.0.remove(at))
    }

    /// Returns when the first message is dropped.
    pub(crate) fn wake_at(&self) -> Option<Duration> {
        self.0.first().map(|held| held.since + HELD_FOR)
    }
}

/// Whether the table of hosts knows no other owner of an address.
fn agrees((ip, vlan): (IpAddr, u16), mac: MacAddr, world: &impl World) -> bool {
    world.address(ip, vlan).is_none_or(|owner| owner == mac)
}
