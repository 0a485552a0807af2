//! Runs the OpenFlow session with one switch: handshake, liveness, events.
//!
//! ```text
//!  AwaitHello ---hello---> AwaitFeatures ---since 1.3---> AwaitPorts ---last part---> Up
//!                                 \-------------before 1.3----------------------------/
//! ```
//!
//! Hello and version negotiation: OpenFlow 1.3.5 §6.3.1; features §7.3.1; port descriptions
//! §7.3.5.7 (before 1.3 part of the features reply); echo §7.5.2 and §6.4. `inventory` then requests
//! the description of the switch; the sizes of its tables seconds later, as the answer may take the switch long.
//!
//! Invariants: every whole message counts as a sign of life, every state except `Up` has a deadline, and a session
//! keeps at most [`MAX_PORTS`] ports.

use std::time::{Duration, Instant};

use openflow::{
    ControllerRole, ControllerStatus, Dpid, EncodeError, ErrorMessage, Features, FlowRemoved,
    FlowUpdates, Header, Hello, Kind, OfferedVersions, PortDescReply, PortStatus, RoleStatus,
    SwitchConfig, TableStatus, Version,
};

use super::framing;
use super::inventory::Inventory;
use super::monitor::{Monitor, Outgoing};
use super::negotiation::{
    Offers, check_refusal, may_precede_our_hello, offered, recognise, refuse,
};
use crate::closed::Closed;
use crate::session::Session as _;
use crate::session::{
    self, Description, Event, FlowMonitor, Inbound, MAX_PORTS, SwitchInfo, Taken, Timing,
};

/// Least time from the configuration of a switch to the request for the sizes of its tables. The network is likely to be known
/// again then.
const SIZES_AFTER: Duration = Duration::from_secs(2);

/// The most that is added to [`SIZES_AFTER`]. The datapath id decides how much, so that not all switches are asked at once.
const SIZES_SPREAD: Duration = Duration::from_secs(2);

// Codes of the errors that we send (OpenFlow 1.3.5 §7.4.4; the same numbers in 1.0).
pub(super) const BAD_VERSION: u16 = 0;
pub(super) const BAD_TYPE: u16 = 1;
pub(super) const BAD_LEN: u16 = 6;

/// The session with one switch.
#[derive(Debug)]
pub struct Session {
    state: SessionState,
    offers: Offers,
    timing: Timing,
    opened: Instant,
    heard: Instant,
    probed: bool,
    /// The transaction id of the last probe that a caller sent, until it is answered.
    asked: Option<u32>,
    sent_hello: bool,
    next_xid: u32,
    inventory: Inventory,
    monitor: Monitor,
    role: Option<ControllerRole>,
    sizes: Sizes,
    /// The part of [`SIZES_SPREAD`] that this switch waits.
    spread: Duration,
}

/// When the session requests the sizes of the switch's tables.
#[derive(Debug, Clone, Copy)]
enum Sizes {
    /// No request is planned.
    Unplanned,
    /// The next tick plans the request for this much later.
    After(Duration),
    /// The request is planned for this time.
    At(Instant),
}

#[derive(Debug)]
enum SessionState {
    AwaitHello,
    /// The features were requested with this transaction id.
    AwaitFeatures(Version, u32),
    /// The ports were requested with this transaction id.
    AwaitPorts(SwitchInfo, u32),
    Up(Version),
}

impl session::Session for Session {
    fn take<'m>(
        &mut self,
        bytes: &'m mut [u8],
        _room: &'m mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Taken<'m>>, Closed> {
        if let SessionState::Up(version) = self.state
            && framing::whole_packet_in(version, bytes).is_some()
        {
            return Ok(Some(Taken { size: None, inbound: Inbound::PacketIns(bytes) }));
        }
        let Some(size) = self.frame(bytes, out)? else { return Ok(None) };
        let message = &bytes[..size];
        let inbound = match self.handle(message, out)? {
            Some(event) => Inbound::Message(event, message),
            None => Inbound::Nothing,
        };
        Ok(Some(Taken { size: Some(size), inbound }))
    }

    fn seal(&mut self, _out: &mut Vec<u8>, _from: usize) {} // the messages are the protocol's

    fn tick(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<(), Closed> {
        let age = now.saturating_duration_since(self.opened);
        let silence = now.saturating_duration_since(self.heard);
        let SessionState::Up(version) = self.state else {
            self.check_deadline(now)?;
            if age >= self.timing.hello {
                self.send_hello(self.offers.ours.hello(), out);
            }
            return Ok(());
        };
        if silence >= self.timing.gone {
            return Err(Closed::Silent(self.timing.gone));
        }
        if silence >= self.timing.probe && !self.probed {
            self.probed = true;
            let xid = self.xid();
            send(out, |out| Kind::EchoRequest.encode_empty(version, xid, out));
        }
        match self.sizes {
            Sizes::After(wait) => self.sizes = Sizes::At(now + wait),
            Sizes::At(at) if now >= at => {
                self.sizes = Sizes::Unplanned;
                let xid = self.xid();
                self.inventory.request_sizes(version, xid, out);
            }
            Sizes::Unplanned | Sizes::At(_) => {}
        }
        self.monitor.tick(now, &mut Outgoing { version, next_xid: &mut self.next_xid, out });
        Ok(())
    }

    fn check_deadline(&self, now: Instant) -> Result<(), Closed> {
        let age = now.saturating_duration_since(self.opened);
        if !self.is_up() && age >= self.timing.handshake {
            return Err(Closed::Handshake(self.timing.handshake));
        }
        Ok(())
    }

    fn note_received(&mut self, now: Instant) {
        self.heard = now;
        self.probed = false;
    }

    fn last_received(&self) -> Instant {
        self.heard
    }

    fn has_greeted(&self) -> bool {
        self.sent_hello
    }

    fn described_ports(&self) -> usize {
        match &self.state {
            SessionState::AwaitPorts(info, _) => info.ports.len(),
            SessionState::AwaitHello | SessionState::AwaitFeatures(..) | SessionState::Up(_) => 0,
        }
    }

    fn probe(&mut self, out: &mut Vec<u8>) {
        if let SessionState::Up(version) = self.state {
            let xid = self.xid();
            self.asked = Some(xid);
            send(out, |out| Kind::EchoRequest.encode_empty(version, xid, out));
        }
    }

    fn has_answered(&self) -> bool {
        self.asked.is_none()
    }

    fn configure(&mut self, out: &mut Vec<u8>) -> u32 {
        let xid = self.xid();
        if let SessionState::Up(version) = self.state {
            send(out, |out| SwitchConfig::WHOLE_PACKETS.encode_set(version, xid, out));
            let xids = [self.xid(), self.xid()];
            self.inventory.request(version, xids, out);
            if version.features().table_features {
                self.sizes = Sizes::After(SIZES_AFTER + self.spread);
            }
        }
        xid
    }

    fn request_tables(&mut self, out: &mut Vec<u8>) {
        if let SessionState::Up(version) = self.state {
            let xid = self.xid();
            self.inventory.request_tables(version, xid, out);
        }
    }

    fn monitor_flows(&mut self, out: &mut Vec<u8>) {
        if let SessionState::Up(version) = self.state {
            self.monitor.request(&mut Outgoing { version, next_xid: &mut self.next_xid, out });
        }
    }

    fn end_monitor(&mut self, why: &str, out: &mut Vec<u8>) {
        if let SessionState::Up(version) = self.state {
            let to = &mut Outgoing { version, next_xid: &mut self.next_xid, out };
            self.monitor.give_up(why, to);
        }
    }

    fn table_requests(&self) -> u64 {
        self.inventory.table_requests
    }

    fn flow_monitor(&self) -> FlowMonitor<'_> {
        self.monitor.state()
    }

    fn role(&self) -> Option<ControllerRole> {
        self.role
    }

    fn xids(&mut self, count: u32) -> u32 {
        let xid = self.next_xid;
        self.next_xid = self.next_xid.wrapping_add(count);
        xid
    }
}

impl Session {
    /// A session whose connection was opened at `now`.
    pub fn new(now: Instant, timing: Timing, versions: OfferedVersions) -> Self {
        Self {
            state: SessionState::AwaitHello,
            offers: Offers { ours: versions, version: 0, theirs: String::new() },
            timing,
            opened: now,
            heard: now,
            probed: false,
            asked: None,
            sent_hello: false,
            next_xid: 1,
            inventory: Inventory::default(),
            monitor: Monitor::default(),
            role: None,
            sizes: Sizes::Unplanned,
            spread: Duration::ZERO,
        }
    }

    /// Whether the handshake is complete.
    pub fn is_up(&self) -> bool {
        matches!(self.state, SessionState::Up(_))
    }

    /// Returns the size of the first message of `bytes`; `None` if it is incomplete.
    pub(super) fn frame(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Option<usize>, Closed> {
        if matches!(self.state, SessionState::AwaitHello) {
            recognise(bytes)?;
        }
        match framing::cut(bytes) {
            Ok(cut) => Ok(cut.map(|(message, _)| message.len())),
            Err(error) => {
                self.refuse_length(bytes, out);
                Err(error.into())
            }
        }
    }

    /// Handles one message that is no packet-in after the handshake.
    pub(super) fn handle<'m>(
        &mut self,
        message: &'m [u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'m>>, Closed> {
        let header = Header::decode(message)?;
        let (SessionState::AwaitFeatures(version, _)
        | SessionState::AwaitPorts(SwitchInfo { version, .. }, _)
        | SessionState::Up(version)) = self.state
        else {
            return self.hello(header, message, out).map(|()| None);
        };
        if header.version != version.wire() {
            if matches!(self.state, SessionState::AwaitFeatures(..))
                && may_precede_our_hello(version, &self.offers, header, message, out)?
            {
                return Ok(None);
            }
            error(version, ErrorMessage::BAD_REQUEST, BAD_VERSION, message, header.xid, out);
            return Err(Closed::WrongVersion { theirs: header.version, agreed: version });
        }
        let Ok(kind) = Kind::from_wire(version, header.kind) else {
            error(version, ErrorMessage::BAD_REQUEST, BAD_TYPE, message, header.xid, out);
            return Ok(Some(Event::UnknownType(header.kind)));
        };
        if matches!(self.state, SessionState::Up(_))
            && let Some(event) = self.news(version, kind, header.xid, message, out)
        {
            return Ok(Some(event));
        }
        match (&self.state, kind) {
            (_, Kind::EchoRequest) => {
                send(out, |out| openflow::echo_reply(message, out));
                Ok(None)
            }
            (SessionState::AwaitFeatures(..), Kind::FeaturesReply) => self.features(message, out),
            // The datapath may be another one now, which would make all earlier descriptions void.
            (_, Kind::FeaturesReply) => Err(Closed::Unrequested),
            // A reply to another request, perhaps of an earlier controller, is ignored below.
            (SessionState::AwaitPorts(_, asked), Kind::MultipartReply) if *asked == header.xid => {
                self.ports(message)
            }
            (SessionState::Up(_), Kind::PortStatus) => Ok(Some(
                PortStatus::decode(message).map_or_else(Event::Malformed, Event::PortStatus),
            )),
            (SessionState::Up(_), Kind::FlowRemoved) => Ok(Some(
                FlowRemoved::decode(message).map_or_else(Event::Malformed, Event::FlowRemoved),
            )),
            (
                SessionState::AwaitFeatures(_, asked) | SessionState::AwaitPorts(_, asked),
                Kind::Error,
            ) => {
                check_refusal(version, &self.offers, message)?;
                if *asked == header.xid {
                    return Err(self.request_refused(message));
                }
                Ok(Some(error_event(message)))
            }
            (_, Kind::Error) if self.inventory.is_open(header.xid) => {
                self.inventory.close(header.xid);
                Ok(Some(Event::Described(Description::Nothing)))
            }
            (_, Kind::Error) => Ok(Some(error_event(message))),
            (_, Kind::EchoReply) => {
                self.asked = self.asked.filter(|asked| *asked != header.xid);
                Ok(None)
            }
            // These need no answer. Before the handshake is complete, all other messages can be ignored, as the replies
            // of the handshake contain the switch's whole state.
            (_, Kind::Hello)
            | (SessionState::AwaitFeatures(..) | SessionState::AwaitPorts(..), _) => Ok(None),
            (
                _,
                Kind::MultipartReply
                | Kind::GetConfigReply
                | Kind::BarrierReply
                | Kind::QueueGetConfigReply
                | Kind::RoleReply
                | Kind::GetAsyncReply,
            ) if self.inventory.is_open(header.xid) => {
                let description = self.inventory.reply(kind, message);
                Ok(Some(description.map_or_else(Event::Malformed, Event::Described)))
            }
            (
                _,
                kind @ (Kind::MultipartReply
                | Kind::BarrierReply
                | Kind::GetConfigReply
                | Kind::QueueGetConfigReply
                | Kind::Experimenter),
            ) => Ok(Some(Event::Reply(kind))),
            (_, kind) => Ok(Some(Event::Other(kind))),
        }
    }

    /// Handles a message by which the switch reports a change of its state; `None` if it is none.
    fn news<'m>(
        &mut self,
        version: Version,
        kind: Kind,
        xid: u32,
        message: &'m [u8],
        out: &mut Vec<u8>,
    ) -> Option<Event<'m>> {
        let read = match kind {
            Kind::MultipartReply | Kind::Experimenter if self.monitor.is_wanted() => {
                let updates = FlowUpdates::decode(message).transpose()?;
                if updates.is_err() {
                    self.monitor.malformed();
                }
                let to = &mut Outgoing { version, next_xid: &mut self.next_xid, out };
                updates.map(|updates| Event::Flows(self.monitor.updates(xid, updates, to)))
            }
            Kind::Error => {
                let error = ErrorMessage::decode(message).ok()?;
                let to = &mut Outgoing { version, next_xid: &mut self.next_xid, out };
                let is_own = self.monitor.refused(xid, &error, to);
                return is_own.then_some(Event::Described(Description::Nothing));
            }
            Kind::TableStatus => TableStatus::decode(message).map(Event::TableStatus),
            Kind::RoleStatus => RoleStatus::decode(message)
                .inspect(|status| self.role = Some(status.role))
                .map(Event::RoleStatus),
            Kind::ControllerStatus => {
                ControllerStatus::decode(message).map(Event::ControllerStatus)
            }
            _ => return None,
        };
        Some(read.unwrap_or_else(Event::Malformed))
    }

    /// The reason to end a handshake whose request the switch has refused.
    fn request_refused(&self, message: &[u8]) -> Closed {
        let what = match self.state {
            SessionState::AwaitPorts(..) => "ports",
            _ => "features",
        };
        match ErrorMessage::decode(message) {
            Ok(error) => Closed::RequestRefused { what, why: error.to_string() },
            Err(error) => Closed::Malformed(error),
        }
    }

    /// Reports a length field that is smaller than a header, after which the stream cannot be divided.
    fn refuse_length(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let (SessionState::AwaitFeatures(version, _)
        | SessionState::AwaitPorts(SwitchInfo { version, .. }, _)
        | SessionState::Up(version)) = self.state
        else {
            return;
        };
        let xid = match bytes.get(4..8) {
            Some(&[a, b, c, d]) => u32::from_be_bytes([a, b, c, d]),
            _ => 0,
        };
        let cause = bytes.get(..Header::SIZE).unwrap_or(bytes);
        error(version, ErrorMessage::BAD_REQUEST, BAD_LEN, cause, xid, out);
    }

    /// Handles the first message: chooses a version and requests the features.
    fn hello(&mut self, header: Header, message: &[u8], out: &mut Vec<u8>) -> Result<(), Closed> {
        if header.kind != 0 {
            return Err(Closed::BeforeHello { kind: header.kind });
        }
        let hello = Hello::decode(message)?;
        let ours = self.offers.ours;
        let chosen = if self.sent_hello { ours.after_hello(&hello) } else { ours.choose(&hello) };
        let Ok(version) = chosen else {
            self.send_hello(ours.hello(), out);
            refuse(ours, &hello, header.xid, out);
            return Err(Closed::Incompatible { ours, theirs: offered(&hello) });
        };
        self.send_hello(ours.up_to(version), out);
        self.offers = Offers { ours, version: hello.version, theirs: offered(&hello) };
        let xid = self.xid();
        send(out, |out| Kind::FeaturesRequest.encode_empty(version, xid, out));
        self.state = SessionState::AwaitFeatures(version, xid);
        Ok(())
    }

    fn features<'m>(
        &mut self,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event<'m>>, Closed> {
        let SessionState::AwaitFeatures(version, _) = self.state else { return Ok(None) };
        let features = Features::decode(message)?;
        self.offers.theirs = String::new();
        if features.auxiliary_id != 0 {
            return Err(Closed::Auxiliary { id: features.auxiliary_id });
        }
        let info = SwitchInfo {
            version,
            dpid: features.dpid,
            n_tables: features.n_tables,
            n_buffers: features.n_buffers,
            capabilities: features.capabilities,
            actions: features.actions,
            no_packets: None,
            ports: features.ports,
        };
        if !version.features().port_desc {
            return Ok(Some(self.up(info)));
        }
        let xid = self.xid();
        send(out, |out| openflow::port_desc_request(version, xid, out));
        self.state = SessionState::AwaitPorts(info, xid);
        Ok(None)
    }

    fn ports<'m>(&mut self, message: &[u8]) -> Result<Option<Event<'m>>, Closed> {
        let SessionState::AwaitPorts(info, _) = &mut self.state else { return Ok(None) };
        let (ports, more) = PortDescReply::decode(message)?;
        if info.ports.len() + ports.len() > MAX_PORTS {
            return Err(Closed::TooManyPorts);
        }
        info.ports.reserve_exact(ports.len()); // the memory of the kernel's ports is counted exactly
        info.ports.extend(ports);
        if more {
            return Ok(None);
        }
        let info = SwitchInfo { ports: std::mem::take(&mut info.ports), ..*info };
        Ok(Some(self.up(info)))
    }

    /// Completes the handshake.
    fn up<'m>(&mut self, info: SwitchInfo) -> Event<'m> {
        self.state = SessionState::Up(info.version);
        self.spread = spread(info.dpid);
        Event::Up(info)
    }

    fn send_hello(&mut self, hello: Hello, out: &mut Vec<u8>) {
        if !self.sent_hello {
            self.sent_hello = true;
            let xid = self.xid();
            send(out, |out| hello.encode(xid, out));
        }
    }
}

/// Returns the part of [`SIZES_SPREAD`] that a switch waits. Fibonacci hashing gives neighbouring datapath ids distant parts.
pub(super) fn spread(dpid: Dpid) -> Duration {
    let [.., part] = dpid.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    SIZES_SPREAD * part.into() / 256
}

fn error_event(message: &[u8]) -> Event<'_> {
    ErrorMessage::decode(message).map_or_else(Event::Malformed, Event::Error)
}

/// Appends an error about `cause`, with its first 64 bytes (OpenFlow 1.3.5 §7.4.4).
fn error(version: Version, kind: u16, code: u16, cause: &[u8], xid: u32, out: &mut Vec<u8>) {
    let data = cause.get(..64).unwrap_or(cause);
    send(out, |out| ErrorMessage { version, kind, code, data }.encode(xid, out));
}

/// Appends a message of the session's own.
pub(super) fn send(out: &mut Vec<u8>, encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>) {
    openflow::append(out, encode).expect("every version has the session's own messages");
}
