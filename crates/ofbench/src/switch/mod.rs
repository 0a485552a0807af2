//! A switch, as far as its controller can tell: a state machine without sockets or clock.
//!
//! Whole messages go in, answers are appended to a buffer, and what somebody else has to act on (a
//! packet-out, an error) comes back as an [`Event`]. It speaks one version and says so in its
//! hello; it answers what a controller asks in its handshake and afterwards, and refuses the rest
//! with the error that the specification names.
//!
//! **Settled** is when the controller had nothing more to ask: it has had the switch's features, and
//! has answered an echo request that was sent after the last answer of the switch's. Controllers take
//! messages in order, so by then it has digested them.

mod describe;
pub mod table;

use openflow::{
    AsyncConfig, ControllerRole, DecodeError, Dpid, Echo, EncodeError, ErrorMessage, FlowMod,
    Header, Hello, Kind, Message, MultipartRequest, NegotiationError, PacketOut, PortMod, Role,
    SwitchConfig, Version, append, echo_reply,
};
use thiserror::Error;

use self::table::{FlowTables, TableError};

/// What a switch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Its datapath-id.
    pub dpid: Dpid,
    /// The version it speaks.
    pub version: Version,
    /// Its ports, 1 to this.
    pub ports: u16,
    /// How many packets it says it can keep.
    pub n_buffers: u32,
    /// The most flows that each of its tables holds.
    pub max_flows: usize,
}

impl Identity {
    /// The flow tables that a switch of a version has.
    pub fn n_tables(&self) -> u8 {
        match self.version {
            Version::V1_0 => 1,
            Version::V1_3 => 8,
        }
    }
}

/// What somebody else has to act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<'a> {
    /// Nothing.
    Nothing,
    /// The controller has a packet sent.
    PacketOut(PacketOut<'a>),
    /// A flow-mod has been carried out; a packet that waits in this buffer goes through the tables.
    FlowMod {
        /// The buffer.
        buffer_id: Option<u32>,
    },
    /// The controller asks whether all before is done; the answer has been given.
    Barrier,
    /// The controller does not like what it heard.
    Error(ErrorMessage<'a>),
}

/// Why a conversation cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// The controller speaks another version.
    #[error("it does not speak OpenFlow {ours}: {theirs}")]
    Version {
        /// What we speak.
        ours: Version,
        /// What it said.
        theirs: NegotiationError,
    },
    /// It refused our hello.
    #[error("it refuses OpenFlow {ours}: {error}{text}")]
    Refused {
        /// What we speak.
        ours: Version,
        /// Type and code.
        error: String,
        /// What else it said.
        text: String,
    },
    /// It began with something else than a hello.
    #[error("its first message is not a hello: {0}")]
    NoHello(String),
    /// A message in another version than the one agreed on.
    #[error("a message has version byte {found:#04x} after OpenFlow {agreed} was agreed on")]
    OtherVersion {
        /// The version byte.
        found: u8,
        /// The version agreed on.
        agreed: Version,
    },
    /// A message is none.
    #[error("a message cannot be decoded: {0}")]
    Malformed(#[from] DecodeError),
}

/// The xid of echo requests of ours, so that others' replies are not taken for theirs.
const ECHO_XID: u32 = 0x6f66_0000;

/// See the module's description.
#[derive(Debug, Clone)]
pub struct Switch {
    identity: Identity,
    greeted: bool,
    /// Whether the controller has been told what this is.
    described: bool,
    /// Echo requests sent to learn whether the controller has digested all, and those answered.
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
    /// A switch that nobody has spoken to.
    pub fn new(identity: Identity) -> Self {
        let all = [0b111, 0b111];
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
                packet_in_mask: all,
                port_status_mask: all,
                flow_removed_mask: [0b1111, 0],
            },
            tables: FlowTables::new(identity.version, identity.max_flows),
            flow_mods: 0,
        }
    }

    /// What it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Its flows.
    pub fn tables(&self) -> &FlowTables {
        &self.tables
    }

    /// Whether the controller had nothing more to ask, once.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Whether the controller has been told what this is.
    pub fn is_described(&self) -> bool {
        self.described
    }

    /// Appends the hello, with which a switch begins.
    pub fn greet(&mut self, out: &mut Vec<u8>) {
        reply(out, |room| Hello::new(&[self.identity.version]).encode(1, room));
    }

    /// Takes in a whole message; appends the answer.
    ///
    /// # Errors
    /// [`Fault`]: the connection is to be closed, after what is in `out` has been sent.
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
        // A hello has its sender's version, whatever was agreed on.
        if header.version != ours.wire() && header.kind != 0 {
            return Err(Fault::OtherVersion { found: header.version, agreed: ours });
        }
        let before = out.len();
        let event = self.conversation(header, message, out)?;
        // Whatever was asked, and whatever was said: something was said after the last echo.
        let said = out.len() > before && !is_echo(&out[before..]);
        if self.described && !self.settled && said {
            self.ask_whether_digested(out);
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
                    let text = format!("OpenFlow {ours} is all that is spoken here");
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
                Err(error) => Fault::NoHello(format!("an error message: {error}")),
            }),
            _ => Err(Fault::NoHello(in_words(message))),
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
            // There is no room for any.
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
                // FLOW_MOD_FAILED and its codes, as each version numbers them.
                let refusal = match (self.identity.version, error) {
                    (Version::V1_0, TableError::Full) => (3, 0),
                    (Version::V1_0, TableError::Overlap) => (3, 1),
                    (Version::V1_0, TableError::NoSuchTable) => (3, 5),
                    (Version::V1_3, TableError::Full) => (5, 1),
                    (Version::V1_3, TableError::NoSuchTable) => (5, 2),
                    (Version::V1_3, TableError::Overlap) => (5, 3),
                };
                self.refuse(message, refusal, out);
                Ok(Event::Nothing)
            }
        }
    }

    fn role(&mut self, message: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let asked = Role::decode_request(message)?;
        let header = Header::decode(message)?;
        if matches!(asked.role, ControllerRole::Master | ControllerRole::Slave) {
            // OpenFlow 1.3.5 §6.3.7: numbers go round, so "older" is a distance.
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
        let now = Role { role: self.role, generation_id };
        reply(out, |room| now.encode_reply(self.identity.version, header.xid, room));
        Ok(())
    }

    /// Appends an error about a message, with its first 64 bytes.
    fn refuse(&self, message: &[u8], (kind, code): (u16, u16), out: &mut Vec<u8>) {
        let data = message.get(..64).unwrap_or(message);
        let xid = Header::decode(message).map_or(0, |header| header.xid);
        let error = ErrorMessage { version: self.identity.version, kind, code, data };
        reply(out, |room| error.encode(xid, room));
    }

    /// Appends an echo request whose reply says that all before it has been read.
    fn ask_whether_digested(&mut self, out: &mut Vec<u8>) {
        self.echoes.0 = (self.echoes.0 + 1) & 0xffff;
        let echo = Echo { is_reply: false, xid: ECHO_XID | self.echoes.0, data: &[] };
        reply(out, |room| echo.encode(self.identity.version, room));
    }
}

// Errors, as type and code; the same numbers in both versions where both have them.
const BAD_TYPE: (u16, u16) = (1, 1);
const BAD_MULTIPART: (u16, u16) = (1, 2);
const BAD_EXPERIMENTER: (u16, u16) = (1, 3);
const OUT_OF_GROUPS: (u16, u16) = (6, 3);
const OUT_OF_METERS: (u16, u16) = (12, 10);
const STALE: (u16, u16) = (11, 0);

/// Appends what `encode` writes.
fn reply(out: &mut Vec<u8>, encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>) {
    append(out, encode).expect("what a switch answers can be said in its version");
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
    Fault::Refused { ours, error: error.to_string(), text }
}

/// A message, as people read it.
pub(crate) fn in_words(message: &[u8]) -> String {
    match Message::decode(message) {
        Ok(message) => message.to_string(),
        Err(error) => format!("{} bytes that are no message ({error})", message.len()),
    }
}

#[cfg(test)]
mod tests;
