//! Defines the session that a driver opens with a switch, and the session's events.
//!
//! A session is a state machine without sockets or clock. Its caller passes in bytes and the time, and handles events
//! and output. To the caller every switch is an OpenFlow datapath of a stated version: it receives and sends OpenFlow
//! messages of that version. The driver of another protocol translates both: incoming messages in [`Session::take`],
//! outgoing ones in [`Session::seal`].
//!
//! ```text
//!  bytes --> take --> a run of packet-ins, or one Event with its OpenFlow message
//!  bytes <-- seal <-- OpenFlow messages, of the caller and of the session itself
//! ```

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use openflow::{
    Capabilities, ControllerRole, ControllerStatus, DecodeError, Dpid, ErrorMessage, FlowRemoved,
    FlowUpdates, Kind, MacAddr, PortDesc, PortNo, PortStatus, RoleStatus, SwitchConfig,
    TableStatus, Version,
};

use crate::closed::Closed;

/// A southbound protocol.
pub trait Driver: fmt::Debug + Send + Sync {
    /// Opens a session for a connection that was accepted at `now`.
    fn open(&self, now: Instant, timing: Timing) -> Box<dyn Session>;
}

/// The state of the protocol with one switch.
pub trait Session: fmt::Debug + Send {
    /// Takes the first whole messages of `bytes`: a run of packet-ins, or one other message. Returns `None` if the first message
    /// is incomplete. The end of a run is found by its reader, so that its headers are read once. Appends the session's own messages to `out`. A driver of another protocol writes the OpenFlow
    /// messages into `room`.
    ///
    /// # Errors
    /// [`Closed`]: send `out`, then close the connection.
    fn take<'m>(
        &mut self,
        bytes: &'m mut [u8],
        room: &'m mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Taken<'m>>, Closed>;

    /// Whether the session has messages that [`take`](Self::take) returns without further bytes. The caller asks after each
    /// [`tick`](Self::tick). Only drivers that answer by themselves have any.
    fn has_messages(&self) -> bool {
        false
    }

    /// Translates the OpenFlow messages in `out`, from `from` on, into the bytes of the protocol. The caller does this
    /// before it writes to the socket.
    fn seal(&mut self, out: &mut Vec<u8>, from: usize);

    /// Advances the timers. The caller calls this about ten times a second.
    ///
    /// # Errors
    /// [`Closed`]: a timeout has passed.
    fn tick(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<(), Closed>;

    /// Checks the timeout of the handshake, for a connection on which nothing may be sent yet. All others use
    /// [`tick`](Self::tick).
    ///
    /// # Errors
    /// [`Closed::Handshake`].
    fn check_deadline(&self, now: Instant) -> Result<(), Closed>;

    /// Notes that a whole message was received. The beginning of one shows no life: a switch could send it without end.
    fn note_received(&mut self, now: Instant);

    /// Returns when a whole message was last received.
    fn last_received(&self) -> Instant;

    /// Whether the session has sent its first message.
    fn has_greeted(&self) -> bool;

    /// The number of ports that the session keeps until the switch has described all of them.
    fn described_ports(&self) -> usize;

    /// Sends a request that the switch answers at once if it lives. No effect before the handshake is complete.
    fn probe(&mut self, out: &mut Vec<u8>);

    /// Whether the switch has answered the last request of [`probe`](Self::probe); true if there was none. Other messages do not
    /// count: they may have been sent before the request.
    fn has_answered(&self) -> bool;

    /// Asks the switch for whole packets and for its description. Returns the transaction id of the configuration, which has
    /// no reply. No effect before the handshake is complete.
    fn configure(&mut self, out: &mut Vec<u8>) -> u32;

    /// Requests the fill level of the switch's tables; [`Description::Tables`] has the reply. No effect before the
    /// handshake is complete.
    fn request_tables(&mut self, out: &mut Vec<u8>);

    /// Requests that the switch reports each change of its flows from now on, and lists its flows first; again if it does so
    /// already. [`Event::Flows`] has the list and the changes. No effect before the handshake is complete, and for a protocol
    /// without flow monitors.
    fn monitor_flows(&mut self, _out: &mut Vec<u8>) {}

    /// Requests that the switch reports changes of flows no longer. `why` is a phrase about the switch.
    fn end_monitor(&mut self, _why: &str, _out: &mut Vec<u8>) {}

    /// Returns whether the switch reports the changes of its flows.
    fn flow_monitor(&self) -> FlowMonitor<'_> {
        FlowMonitor::Off("its protocol has no flow monitors")
    }

    /// Returns the role that the switch last reported to have given to this controller.
    fn role(&self) -> Option<ControllerRole> {
        None
    }

    /// Returns the number of requests for tables that the session has sent by itself, to describe the switch.
    fn table_requests(&self) -> u64 {
        0
    }

    /// Reserves `count` consecutive transaction ids that were not used for a while; returns the first.
    fn xids(&mut self, count: u32) -> u32;

    /// Returns a transaction id that was not used for a while.
    fn xid(&mut self) -> u32 {
        self.xids(1)
    }
}

/// The first messages of a connection's bytes.
#[derive(Debug)]
pub struct Taken<'m> {
    /// The number of bytes that they have on the connection, 0 for a message of the session's own; `None` for a run of packet-ins whose messages stand on the connection
    /// themselves: its reader finds the end.
    pub size: Option<usize>,
    /// Their meaning.
    pub inbound: Inbound<'m>,
}

/// Messages of a switch, as OpenFlow messages of the session's version.
#[derive(Debug)]
pub enum Inbound<'m> {
    /// Bytes that begin with consecutive packet-in messages, at least one; [`whole_packet_in`] cuts them off. What follows is not of the
    /// run. The session has decoded the first header only.
    ///
    /// [`whole_packet_in`]: crate::whole_packet_in
    PacketIns(&'m mut [u8]),
    /// One message of another kind.
    Message(Event<'m>, &'m [u8]),
    /// The session has handled the message itself.
    Nothing,
}

/// Most ports that a switch may have. Each takes some 70 bytes here; a caller with many sessions bounds
/// the ports of all by [`Session::described_ports`].
pub const MAX_PORTS: usize = 8_192;

/// The timeouts of a session.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Time after which the controller sends the first message if the switch has sent none.
    pub hello: Duration,
    /// Time limit of the handshake.
    pub handshake: Duration,
    /// Silence after which the switch is probed.
    pub probe: Duration,
    /// Time without a whole message after which the connection is closed.
    pub gone: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            hello: Duration::from_millis(300),
            handshake: Duration::from_secs(10),
            probe: Duration::from_secs(5),
            gone: Duration::from_secs(15),
        }
    }
}

/// A switch that completed the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchInfo {
    /// The OpenFlow version of the messages that the session exchanges with its caller.
    pub version: Version,
    /// Its datapath identifier.
    pub dpid: Dpid,
    /// The number of its flow tables.
    pub n_tables: u8,
    /// The number of packets that it can buffer.
    pub n_buffers: u32,
    /// Its capabilities.
    pub capabilities: Capabilities,
    /// The actions that it supports, one bit per type. OpenFlow 1.0 only, otherwise 0.
    pub actions: u32,
    /// Its ports.
    pub ports: Vec<PortDesc>,
    /// Why it sends no packets to a controller and takes none from it, as a sentence; `None` if it does both.
    pub no_packets: Option<&'static str>,
}

/// A host that a switch has learned by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostReport {
    /// The port behind which the host is; [`PortNo::LOCAL`] if the switch knows only that the host is its own.
    pub port: PortNo,
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// Its VLAN; 0 if its frames have no tag, or the switch does not state it.
    pub vlan: u16,
    /// Its IP address, if the switch knows it.
    pub ip: Option<IpAddr>,
    /// Whether the switch has forgotten the host.
    pub is_gone: bool,
}

/// The meaning of a switch's message.
#[derive(Debug)]
pub enum Event<'m> {
    /// The handshake is complete; the first event of a session.
    Up(SwitchInfo),
    /// A port was added, changed or deleted.
    PortStatus(PortStatus),
    /// The switch refused a message.
    Error(ErrorMessage<'m>),
    /// A flow was removed.
    FlowRemoved(FlowRemoved),
    /// The switch has learned a host by itself, or still has it. It repeats this while it has the host. There is no message.
    Host(HostReport),
    /// A reply to a message that was sent with a transaction id of [`Session::xids`]: a
    /// multipart, barrier, configuration or queue configuration reply, or an experimenter's
    /// message, which may be one. The session does not decode it.
    Reply(Kind),
    /// The switch described itself.
    Described(Description),
    /// Flows of the switch, or changes of them ([`Session::monitor_flows`]).
    Flows(FlowNews<'m>),
    /// The switch has more or less room in a table than a limit.
    TableStatus(TableStatus),
    /// The switch has given the controller another role.
    RoleStatus(RoleStatus),
    /// The switch reports the state of one of its controllers.
    ControllerStatus(ControllerStatus),
    /// A message of another kind.
    Other(Kind),
    /// A message of an unknown type. The session has answered with an error.
    UnknownType(u8),
    /// A malformed message, which the caller ignores.
    Malformed(DecodeError),
}

/// Whether a switch reports the changes of its flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowMonitor<'s> {
    /// It reports none, for this reason: a phrase about the switch. The phrase is empty before the first request.
    Off(&'s str),
    /// It was asked, and its list of flows is not complete.
    Listing,
    /// It reports all changes.
    On,
    /// It reports the changes that others make, and the expiry of flows.
    OthersOnly,
    /// It has paused: changes are missing. The session requests the list again when the switch resumes.
    Paused,
}

/// A message about the flows of a switch.
#[derive(Debug)]
pub struct FlowNews<'m> {
    /// The flows, or the changes, in their order.
    pub updates: FlowUpdates<'m>,
    /// They are the beginning of a list of all flows. The list replaces the flows that are known.
    pub begins_list: bool,
    /// They are the end of that list.
    pub ends_list: bool,
}

/// A switch's description of a flow table, which may be partial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Its number.
    pub table_id: u8,
    /// Flows that it can hold.
    pub max_entries: Option<u32>,
    /// Flows that it held at that time.
    pub active_count: Option<u32>,
}

/// A part of a switch's description of itself after the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Description {
    /// Its treatment of fragments and packet-ins.
    Config(SwitchConfig),
    /// Some of its tables.
    Tables(Vec<Table>),
    /// It refuses a request for a description.
    Nothing,
}
