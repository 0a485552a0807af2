//! An emulated switch as a state machine without sockets or clock.
//!
//! The connector passes in complete messages; replies are appended to a buffer. Messages that the
//! connector must act on (packet-outs, errors) come back as an [`Event`]. The switch speaks one
//! version, which its hello announces. It answers a controller's requests during and after the
//! handshake, and rejects others with the error that the specification names.
//!
//! A switch is **settled** when the controller has no more requests: it has received the features
//! reply, and has answered an echo request that followed the switch's last reply. Controllers
//! process messages in order, so it has processed everything by then.

mod describe;
pub mod table;

use openflow::{
    AsyncConfig, ControllerRole, DecodeError, Dpid, Echo, EncodeError, ErrorMessage, FlowMod,
    FlowModFailed, Header, Hello, Kind, Message, MultipartRequest, NegotiationError, PacketOut,
    PortMod, Role, SwitchConfig, Version, append, echo_reply,
};
use thiserror::Error;

use self::table::{FlowTables, TableError};

/// Properties of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Datapath id.
    pub dpid: Dpid,
    /// OpenFlow version.
    pub version: Version,
    /// Number of ports; they are numbered from 1.
    pub ports: u16,
    /// Number of buffers that it announces.
    pub n_buffers: u32,
    /// Maximum number of flows in each table.
    pub max_flows: usize,
}

impl Identity {
    /// Returns the number of flow tables of a switch of this version.
    pub fn n_tables(&self) -> u8 {
        table::n_tables(self.version)
    }
}

/// A message that the connector must act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// No action is needed.
    Nothing,
    /// The controller sends a packet-out.
    PacketOut(PacketOut<'a>),
    /// A flow-mod was applied; the packet in this buffer, if any, passes the tables.
    FlowMod {
        /// The buffer.
        buffer_id: Option<u32>,
    },
    /// The controller sent a barrier request; its reply has been appended.
    Barrier,
    /// The controller reported an error.
    Error(ErrorMessage<'a>),
}

/// Why a connection must be closed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// The controller speaks another version.
    #[error("it does not speak OpenFlow {ours}: {theirs}")]
    Version {
        /// The switch's version.
        ours: Version,
        /// The controller's versions.
        theirs: NegotiationError,
    },
    /// The controller rejected the switch's hello.
    #[error("it rejects OpenFlow {ours}: {error}{text}")]
    Rejected {
        /// The switch's version.
        ours: Version,
        /// Type and code.
        error: String,
        /// Further text of the error.
        text: String,
    },
    /// The first message is not a hello.
    #[error("its first message is not a hello: {0}")]
    MissingHello(String),
    /// A message has another version than the negotiated one.
    #[error("a message has version byte {found:#04x} although OpenFlow {agreed} was negotiated")]
    WrongVersion {
        /// The version byte.
        found: u8,
        /// The negotiated version.
        agreed: Version,
    },
    /// A message cannot be decoded.
    #[error("a message cannot be decoded: {0}")]
    Malformed(#[from] DecodeError),
}

/// Upper half of the xid of this switch's echo requests, which tells their replies from others.
const ECHO_XID: u32 = 0x6f66_0000;

/// An emulated switch; see the module's documentation.
#[derive(Debug, Clone)]
pub struct Switch {
    identity: Identity,
    greeted: bool,
    /// Whether the features reply has been sent.
    described: bool,
    /// Number of echo requests sent to detect settling, and number of those answered.
    echoes: (u32, u32),
    settled: bool,
    config: SwitchConfig,
    role: ControllerRole,
    generation: Option<u64>,
    async_config: AsyncConfig,
    tables: FlowTables,
    flow_mods: u64,
}

impl Switch {
    /// Creates a switch before its handshake.
    pub fn new(identity: Identity) -> Self {
        let all = [Some(0b111); 2];
        Self {
            identity,
            greeted: false,
            described: false,
            echoes: (0, 0),
            settled: false,
            config: SwitchConfig { flags: 0, miss_send_len: 128 },
            role: ControllerRole::Equal,
            generation: None,
            async_config: AsyncConfig {
                packet_in: all,
                port_status: all,
                flow_removed: [Some(0b1111), Some(0)],
                ..AsyncConfig::default()
            },
            tables: FlowTables::new(identity.version, identity.max_flows),
            flow_mods: 0,
        }
    }

    /// Returns its properties.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns its flow tables.
    pub fn tables(&self) -> &FlowTables {
        &self.tables
    }

    /// Whether the controller has processed all replies to its handshake.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Whether the features reply has been sent.
    pub fn has_sent_features(&self) -> bool {
        self.described
    }

    /// Appends the switch's hello.
    pub fn send_hello(&mut self, out: &mut Vec<u8>) {
        reply(out, |room| Hello::new(&[self.identity.version]).encode(1, room));
    }

    /// Handles a complete message; appends the replies to `out`.
    ///
    /// # Errors
    /// [`Fault`] if the connection must be closed, after the bytes in `out` have been sent.
    pub fn receive<'a>(
        &mut self,
        message: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<Event<'a>, Fault> {
        let header = Header::decode(message)?;
        let ours = self.identity.version;
        if !self.greeted {
            return self.greeting(header, message, out);
        }
        // A hello carries its sender's version, even after negotiation.
        if header.version != ours.wire() && header.kind != 0 {
            return Err(Fault::WrongVersion { found: header.version, agreed: ours });
        }
        let before = out.len();
        let event = self.conversation(header, message, out)?;
        // Any reply after the last echo request postpones settling, so another echo request follows
        // it.
        let said = out.len() > before && !is_echo(&out[before..]);
        if self.described && !self.settled && said {
            self.send_sync_echo(out);
        }
        Ok(event)
    }

    fn greeting<'a>(
        &mut self,
        header: Header,
        message: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<Event<'a>, Fault> {
        let ours = self.identity.version;
        match header.kind {
            0 => {
                if let Err(theirs) = Hello::decode(message)?.negotiate(&[ours]) {
                    let text = format!("this switch speaks OpenFlow {ours} only");
                    let (kind, code) = (ErrorMessage::HELLO_FAILED, 0);
                    let error = ErrorMessage { version: ours, kind, code, data: text.as_bytes() };
                    reply(out, |room| error.encode(header.xid, room));
                    return Err(Fault::Version { ours, theirs });
                }
                self.greeted = true;
                Ok(Event::Nothing)
            }
            1 => Err(match ErrorMessage::decode(message) {
                Ok(error) => refusal(ours, &error),
                Err(error) => Fault::MissingHello(format!("an error message: {error}")),
            }),
            _ => Err(Fault::MissingHello(in_words(message))),
        }
    }

    fn conversation<'a>(
        &mut self,
        header: Header,
        message: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<Event<'a>, Fault> {
        let (version, xid) = (self.identity.version, header.xid);
        let Ok(kind) = Kind::from_wire(version, header.kind) else {
            self.refuse(message, BAD_TYPE, out);
            return Ok(Event::Nothing);
        };
        match kind {
            Kind::EchoRequest => reply(out, |room| echo_reply(message, room)),
            Kind::EchoReply => {
                if xid & 0xffff_0000 == ECHO_XID {
                    // A forged reply to a request that was not sent yet must not count.
                    self.echoes.1 = self.echoes.1.max(xid & 0xffff).min(self.echoes.0);
                    self.settled |= self.described && self.echoes.0 == self.echoes.1;
                }
            }
            Kind::Error => {
                let error = ErrorMessage::decode(message)?;
                if !self.described && error.kind == ErrorMessage::HELLO_FAILED {
                    return Err(refusal(version, &error));
                }
                return Ok(Event::Error(error));
            }
            Kind::FeaturesRequest => {
                self.described = true;
                describe::features(&self.identity, xid, out);
            }
            Kind::GetConfigRequest => {
                reply(out, |room| self.config.encode_reply(version, xid, room));
            }
            Kind::SetConfig => self.config = SwitchConfig::decode_set(message)?,
            Kind::BarrierRequest => {
                reply(out, |room| Kind::BarrierReply.encode_empty(version, xid, room));
                return Ok(Event::Barrier);
            }
            Kind::PacketOut => return Ok(Event::PacketOut(PacketOut::decode(message)?)),
            Kind::FlowMod => return self.flow_mod(message, out),
            Kind::MultipartRequest => match MultipartRequest::decode(message) {
                Ok(request) => {
                    if !describe::answer(&self.identity, &self.tables, &request, xid, out) {
                        self.refuse(message, BAD_MULTIPART, out);
                    }
                }
                Err(_) => self.refuse(message, BAD_MULTIPART, out),
            },
            Kind::QueueGetConfigRequest => describe::no_queues(version, message, out),
            Kind::RoleRequest => self.role(message, out)?,
            Kind::GetAsyncRequest => {
                reply(out, |room| self.async_config.encode_reply(version, xid, room));
            }
            Kind::SetAsync => self.async_config = AsyncConfig::decode_set(message)?,
            Kind::PortMod => {
                PortMod::decode(message)?;
            }
            Kind::Experimenter => self.refuse(message, BAD_EXPERIMENTER, out),
            // The switch has no groups and no meters.
            Kind::GroupMod => self.refuse(message, OUT_OF_GROUPS, out),
            Kind::MeterMod => self.refuse(message, OUT_OF_METERS, out),
            Kind::Hello | Kind::TableMod => {}
            _ => self.refuse(message, BAD_TYPE, out),
        }
        Ok(Event::Nothing)
    }

    fn flow_mod<'a>(&mut self, message: &'a [u8], out: &mut Vec<u8>) -> Result<Event<'a>, Fault> {
        let flow_mod = FlowMod::decode(message)?;
        self.flow_mods += 1;
        match self.tables.apply(&flow_mod) {
            Ok(()) => Ok(Event::FlowMod { buffer_id: flow_mod.buffer_id }),
            Err(error) => {
                let why = match error {
                    TableError::Full => FlowModFailed::TableFull,
                    TableError::Overlap => FlowModFailed::Overlap,
                    TableError::NoSuchTable => FlowModFailed::BadTableId,
                };
                self.refuse(message, why.to_wire(self.identity.version), out);
                Ok(Event::Nothing)
            }
        }
    }

    fn role(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let asked = Role::decode_request(message)?;
        let header = Header::decode(message)?;
        if matches!(asked.role, ControllerRole::Master | ControllerRole::Slave) {
            // OpenFlow 1.3.5 §6.3.7: generation ids wrap around, so "older" is a signed distance.
            let older = |before: u64| asked.generation_id.wrapping_sub(before) > u64::MAX / 2;
            if self.generation.is_some_and(older) {
                self.refuse(message, STALE, out);
                return Ok(());
            }
            self.generation = Some(asked.generation_id);
        }
        if asked.role != ControllerRole::NoChange {
            self.role = asked.role;
        }
        let generation_id = self.generation.unwrap_or(u64::MAX);
        let now = Role { role: self.role, generation_id, short_id: None };
        reply(out, |room| now.encode_reply(self.identity.version, header.xid, room));
        Ok(())
    }

    /// Appends an error about a message, with its first 64 bytes.
    fn refuse(&self, message: &[u8], (kind, code): (u16, u16), out: &mut Vec<u8>) {
        // OpenFlow 1.3.5 §7.4.4: at least 64 bytes of the failed message.
        let data = message.get(..64).unwrap_or(message);
        let xid = Header::decode(message).map_or(0, |header| header.xid);
        let error = ErrorMessage { version: self.identity.version, kind, code, data };
        reply(out, |room| error.encode(xid, room));
    }

    /// Appends an echo request; its reply proves that all earlier messages were processed.
    fn send_sync_echo(&mut self, out: &mut Vec<u8>) {
        self.echoes.0 = (self.echoes.0 + 1) & 0xffff;
        let echo = Echo { is_reply: false, xid: ECHO_XID | self.echoes.0, data: &[] };
        reply(out, |room| echo.encode(self.identity.version, room));
    }
}

// Error type and code. The numbers are the same in all versions that define them.
const BAD_TYPE: (u16, u16) = (1, 1);
const BAD_MULTIPART: (u16, u16) = (1, 2);
const BAD_EXPERIMENTER: (u16, u16) = (1, 3);
const OUT_OF_GROUPS: (u16, u16) = (6, 3);
const OUT_OF_METERS: (u16, u16) = (12, 10);
const STALE: (u16, u16) = (11, 0);

/// Appends the message that `encode` writes.
fn reply(out: &mut Vec<u8>, encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>) {
    append(out, encode).expect("the version can express the reply");
}

/// Whether a message is an echo reply.
fn is_echo(message: &[u8]) -> bool {
    message.get(1) == Some(&3)
}

fn refusal(ours: Version, error: &ErrorMessage<'_>) -> Fault {
    let text = String::from_utf8_lossy(error.data);
    let text = if text.chars().all(|c| !c.is_control()) && !text.is_empty() {
        format!(", \"{text}\"")
    } else {
        String::new()
    };
    Fault::Rejected { ours, error: error.to_string(), text }
}

/// Formats a message as text.
pub(crate) fn in_words(message: &[u8]) -> String {
    match Message::decode(message) {
        Ok(message) => message.to_string(),
        Err(error) => format!("{} bytes that are not a valid message ({error})", message.len()),
    }
}

#[cfg(test)]
mod tests;
