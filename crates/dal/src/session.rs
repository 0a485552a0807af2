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
    Capabilities, DecodeError, Dpid, ErrorMessage, FlowRemoved, Kind, MacAddr, PortDesc, PortNo,
    PortStatus, SwitchConfig, Version,
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
    /// A message of another kind.
    Other(Kind),
    /// A message of an unknown type. The session has answered with an error.
    UnknownType(u8),
    /// A malformed message, which the caller ignores.
    Malformed(DecodeError),
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
