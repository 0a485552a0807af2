//! Serves devices with the database schema `hardware_vtep` (vtep(5) of Open vSwitch) as OpenFlow datapaths.
//!
//! Such a device joins VLANs of its ports to logical switches, and logical switches of several devices by VXLAN. It learns addresses
//! and forwards by itself; a controller writes remote addresses into its database over OVSDB (RFC 7047). The session presents this
//! as a switch of OpenFlow 1.3 with one table:
//!
//! | OpenFlow | database |
//! | --- | --- |
//! | port 1 to 4095 | `Physical_Port`; the number at the end of its name, if that is free |
//! | port `P` * 4096 + `V` | VLAN `V` at physical port `P` (0: untagged), whether it is bound or not |
//! | port 16777216 and above | the tunnel to the device with this IPv4 address, as a number |
//! | `LOCAL` | the device itself, with its name |
//! | `in_port=P*4096+V` -> `set_field:tunnel_id=VNI,output:FLOOD` | `Physical_Port.vlan_bindings` |
//! | `eth_dst=MAC,tunnel_id=VNI` -> `output:TUNNEL` | `Ucast_Macs_Remote` |
//! | `tunnel_id=VNI` -> `output:TUNNEL,...`, in ascending order | `Mcast_Macs_Remote` for `unknown-dst` |
//! | a host at a port ([`HostReport`](crate::HostReport)) | `Ucast_Macs_Local` |
//!
//! A logical switch is named by its tunnel key (VNI); the session makes it with its first flow and removes it after the last. Every
//! other message is refused with the reason ([`refusal::Refusal`]) before anything is sent.
//!
//! The rows have no place for a flow's cookie, priority and flags. So each flow also has an entry in `other_config` of its logical
//! switch or port, written by the same transaction ([`ownership`]). A row without one belongs to another manager: it is listed with cookie
//! 0, and never changed.
//!
//! | module | content |
//! | --- | --- |
//! | [`schema`] | tables and columns |
//! | [`numbering`] | datapath id, numbers of ports |
//! | [`rule`] | flows of the three forms, from and to match and actions |
//! | [`ownership`] | cookie, priority and flags as text |
//! | [`device`] | the device that the database describes |
//! | [`reader`] | the device's parts, read from the database's image |
//! | [`selection`] | which flows a modify, delete or request covers |
//! | [`transaction`] | edits of flows become operations |
//! | [`cleaning`] | removal of entries and logical switches that are not needed |
//! | [`hosts`] | repeated reports of learned hosts |
//! | [`messages`] | the controller's messages become tasks |
//! | [`reports`] | changes of the device become messages |
//! | [`work`] | the order of messages and transactions |
//! | [`answers`] | multipart replies |
//! | [`session`] | the session |
//!
//! Invariant: no module reads a clock or writes a socket; the database's bytes are bounded before they are parsed ([`LIMITS`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ovsdb::{FrameLimits, ImageLimits, Settings};

use crate::session::{Driver, Timing};

mod answers;
mod cleaning;
mod device;
mod hosts;
mod messages;
mod numbering;
mod ownership;
mod reader;
mod refusal;
mod reports;
mod rule;
mod schema;
mod selection;
mod session;
#[cfg(test)]
mod tests;
mod transaction;
mod work;

pub use numbering::dpid_of;
pub use session::Session;

/// The version in which sessions exchange messages with their caller: the first with tunnel ids and 32-bit port numbers.
const OF: openflow::Version = openflow::Version::V1_3;

/// Most devices at once. Each may take [`LIMITS`] of memory before it has proven that it is a device.
const MOST_SESSIONS: usize = 64;

/// The bounds of one device: a message of 4 MiB, whose values take at most some 24 MiB, and an image of 16 MiB.
const LIMITS: Settings = Settings {
    frames: FrameLimits { size: 4 << 20, depth: 32, values: 1 << 17 },
    image: ImageLimits { rows: 1 << 16, size: 16 << 20 },
    output: 4 << 20,
    transactions: 4,
    answer: Duration::from_secs(10),
    probe: Duration::from_secs(5),
    first_pause: Duration::from_secs(1),
    longest_pause: Duration::from_secs(1),
};

/// Why such a device exchanges no packets.
const NO_PACKETS: &str =
    "a hardware_vtep device sends no packets to a controller and takes none from it";

/// The driver of devices with the schema `hardware_vtep`.
#[derive(Debug, Default)]
pub struct HardwareVtep {
    sessions: Arc<AtomicUsize>,
}

/// Counts a session while it lives.
#[derive(Debug)]
struct SessionCount(Arc<AtomicUsize>);

impl SessionCount {
    /// Takes a place; `None` if there are [`MOST_SESSIONS`].
    fn take(sessions: &Arc<AtomicUsize>) -> Option<Self> {
        let place = Self(Arc::clone(sessions)); // dropped, it gives the place back
        (sessions.fetch_add(1, Ordering::Relaxed) < MOST_SESSIONS).then_some(place)
    }
}

impl Drop for SessionCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Driver for HardwareVtep {
    fn open(&self, now: Instant, timing: Timing) -> Box<dyn crate::Session> {
        Box::new(Session::new(now, timing, Arc::clone(&self.sessions)))
    }
}
