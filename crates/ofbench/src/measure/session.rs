//! A conversation with the measured switch: handshake, requests with their replies, and errors.
//!
//! Echo requests of the switch are answered and its errors collected wherever this side waits, so a measurement that
//! ends by asking for the errors cannot overlook a rejected message.

use std::net::TcpListener;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use openflow::{
    Action, EncodeError, ErrorMessage, Features, FlowMod, Header, Hello, Kind, Match,
    MultipartReply, MultipartRequest, PortNo, ReplyBody, SwitchConfig, Version, append, echo_reply,
};

use super::channel::{Channel, Received, xid_of};
use super::clock::Stamp;
use super::data_path::wait;
use super::trouble::Trouble;
use crate::tls::Server;

/// Time limit for the reply to one request.
pub(super) const REPLY: Duration = Duration::from_secs(5);

/// Time limit for the barrier after many flow-mods, and for the statistics of many flows.
pub(super) const BULK: Duration = Duration::from_secs(180);

/// Largest reply of several parts, in bytes: the statistics of two million flows.
const MAX_REPLY: usize = 512 << 20;

/// The cookie of all flows that a measurement makes: "ofbench".
pub(super) const COOKIE: u64 = 0x006f_6662_656e_6368;

/// How often a wait looks for the operator's interrupt.
const TICK: Duration = Duration::from_millis(100);

/// Number of bytes of a packet that a packet-in carries if the switch buffers the rest.
pub(super) const MISS_SEND_LEN: u16 = 128;

/// A conversation; see the module's documentation.
#[derive(Debug)]
pub(super) struct Session {
    channel: Channel,
    version: Version,
    features: Features,
    description: String,
    xid: u32,
    /// Messages that wait for [`flush`](Self::flush).
    out: Vec<u8>,
    /// Number of errors since the last check, and the first.
    errors: (usize, String),
    /// The xid of the request whose reply is awaited.
    awaited: Option<u32>,
    /// Time limit for the deletion of all flows.
    patience: Duration,
    stop: Arc<AtomicBool>,
}

/// The conditions under which a session begins.
#[derive(Debug, Clone)]
pub(super) struct Terms<'a> {
    /// TLS settings; `None` for plain TCP.
    pub(super) tls: Option<&'a Server>,
    /// The versions that the hello announces.
    pub(super) versions: &'a [Version],
    /// Time limit for a switch to connect and to complete its handshake.
    pub(super) patience: Duration,
    /// Set by the operator's interrupt.
    pub(super) stop: Arc<AtomicBool>,
}

impl Session {
    /// Waits for a switch. `refused` is called with the reason for each connection that does not become a session.
    ///
    /// # Errors
    /// No switch completed the handshake in time, or the listener failed.
    pub(super) fn accept(
        listener: &TcpListener,
        terms: &Terms<'_>,
        mut refused: impl FnMut(&Trouble),
    ) -> Result<Self, Trouble> {
        let until = Instant::now() + terms.patience;
        let mut last = None;
        loop {
            let limit = terms.patience;
            if !wait_or_stop(&[std::os::fd::AsFd::as_fd(listener)], until, &terms.stop)? {
                let late = Trouble::TooLate { what: "hello", limit };
                return Err(last.unwrap_or(late));
            }
            let socket = match listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(Trouble::Connection(error)),
            };
            let session = Channel::accept(socket, terms.tls, REPLY)
                .and_then(|channel| Self::greet(channel, terms));
            match session {
                Ok(session) => return Ok(session),
                Err(Trouble::Interrupted) => return Err(Trouble::Interrupted),
                Err(error) => {
                    refused(&error);
                    last = Some(error);
                }
            }
        }
    }

    /// Completes the handshake on a new connection.
    fn greet(channel: Channel, terms: &Terms<'_>) -> Result<Self, Trouble> {
        let features = Features {
            dpid: openflow::Dpid(0),
            n_buffers: 0,
            n_tables: 0,
            auxiliary_id: 0,
            capabilities: openflow::Capabilities::default(),
            actions: 0,
            ports: Vec::new(),
        };
        let mut session = Self {
            channel,
            version: Version::PREFERRED, // until the hello
            features,
            description: String::new(),
            xid: 0,
            out: Vec::new(),
            errors: (0, String::new()),
            awaited: None,
            patience: terms.patience,
            stop: terms.stop.clone(),
        };
        session.queue(|_, xid, room| Hello::new(terms.versions).encode(xid, room))?;
        session.flush()?;
        let hello = session.next(Instant::now() + REPLY)?;
        let hello = hello.ok_or(Trouble::TooLate { what: "hello", limit: REPLY })?;
        let hello = Hello::decode(&hello.bytes).map_err(invalid)?;
        session.version = hello.negotiate(terms.versions).map_err(invalid)?;
        let xid = session
            .queue(|version, xid, room| Kind::FeaturesRequest.encode_empty(version, xid, room))?;
        session.flush()?;
        let reply = session.reply(xid, Kind::FeaturesReply, REPLY)?;
        session.features = Features::decode(&reply.bytes).map_err(invalid)?;
        if session.features.auxiliary_id != 0 {
            return Err(Trouble::NotApplicable("it is an auxiliary connection".into()));
        }
        session.description = session.describe()?;
        Ok(session)
    }

    /// Returns the manufacturer's text about hardware and software.
    fn describe(&mut self) -> Result<String, Trouble> {
        let (_, parts) = self.multipart(&MultipartRequest::Desc, REPLY)?;
        let ReplyBody::Desc(desc) =
            MultipartReply::decode(&parts.first().ok_or(Trouble::Disconnected)?.bytes)
                .map_err(invalid)?
                .body
        else {
            return Err(Trouble::Invalid("the reply to a description request is another".into()));
        };
        Ok(format!("{} {} {}", desc.mfr_desc, desc.hw_desc, desc.sw_desc))
    }

    /// Returns the negotiated version.
    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// Returns the switch's features.
    pub(super) fn features(&self) -> &Features {
        &self.features
    }

    /// Returns the switch's description.
    pub(super) fn description(&self) -> &str {
        &self.description
    }

    /// Returns the control channel.
    pub(super) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Queues a message; returns its xid.
    ///
    /// # Errors
    /// [`Trouble::NotApplicable`] if the switch's version cannot express it.
    pub(super) fn queue(
        &mut self,
        encode: impl Fn(Version, u32, &mut [u8]) -> Result<usize, EncodeError>,
    ) -> Result<u32, Trouble> {
        self.xid = self.xid.wrapping_add(1);
        let (version, xid) = (self.version, self.xid);
        append(&mut self.out, |room| encode(version, xid, room))
            .map_err(|error| Trouble::NotApplicable(error.to_string()))?;
        Ok(xid)
    }

    /// Queues a flow-mod with the cookie of this program.
    ///
    /// # Errors
    /// Like [`queue`](Self::queue).
    pub(super) fn flow_mod(&mut self, flow_mod: FlowMod<'_>) -> Result<u32, Trouble> {
        let flow_mod = flow_mod.cookie(COOKIE);
        self.queue(|version, xid, room| flow_mod.encode(version, xid, room))
    }

    /// Queues a barrier request.
    ///
    /// # Errors
    /// Like [`queue`](Self::queue).
    pub(super) fn barrier_request(&mut self) -> Result<u32, Trouble> {
        self.queue(|version, xid, room| Kind::BarrierRequest.encode_empty(version, xid, room))
    }

    /// Sends the queued messages; returns when that began.
    ///
    /// # Errors
    /// The connection failed.
    pub(super) fn flush(&mut self) -> Result<Stamp, Trouble> {
        let sent = self.channel.send(&self.out);
        self.out.clear();
        sent
    }

    /// Sends the queued messages; returns the kernel's stamp, see [`Channel::send_stamped`].
    ///
    /// # Errors
    /// The connection failed.
    pub(super) fn flush_stamped(&mut self) -> Result<Stamp, Trouble> {
        let sent = self.channel.send_stamped(&self.out);
        self.out.clear();
        sent
    }

    /// Returns the next message that is no echo request and no error; `None` at the time limit, or at once if it has
    /// passed and nothing has arrived.
    ///
    /// # Errors
    /// The connection failed, or the operator interrupted.
    pub(super) fn next(&mut self, until: Instant) -> Result<Option<Received>, Trouble> {
        loop {
            while let Some(message) = self.channel.next()? {
                if let Some(message) = self.filter(message)? {
                    return Ok(Some(message));
                }
            }
            if !wait_or_stop(&[self.channel.fd()], until, &self.stop)? {
                return Ok(None);
            }
        }
    }

    /// Answers echo requests and collects errors; returns other messages.
    fn filter(&mut self, message: Received) -> Result<Option<Received>, Trouble> {
        let header = Header::decode(&message.bytes).map_err(invalid)?;
        if header.kind == 0 {
            return Ok(Some(message)); // a hello has the version that the switch prefers
        }
        if header.kind == 1 {
            let error = ErrorMessage::decode_body(self.version, &message.bytes).map_err(invalid)?;
            if self.errors.0 == 0 {
                self.errors.1 = error.to_string();
            }
            self.errors.0 += 1;
            if self.awaited == Some(header.xid) {
                self.check_errors("requests", 1)?;
            }
            return Ok(None);
        }
        if header.version != self.version.wire() {
            return Err(Trouble::Invalid(format!(
                "version byte {:#04x} although OpenFlow {} was negotiated",
                header.version, self.version
            )));
        }
        if header.kind == 2 {
            let mut reply = Vec::new();
            append(&mut reply, |room| echo_reply(&message.bytes, room))
                .map_err(|error| Trouble::Invalid(error.to_string()))?;
            self.channel.send(&reply)?;
            return Ok(None);
        }
        Ok(Some(message))
    }

    /// Waits for the reply to a request, and discards other messages.
    ///
    /// # Errors
    /// The switch answered with an error or not in time, or the connection failed.
    pub(super) fn reply(
        &mut self,
        xid: u32,
        kind: Kind,
        limit: Duration,
    ) -> Result<Received, Trouble> {
        self.awaited = Some(xid);
        let reply = self.awaited_reply(xid, kind, limit);
        self.awaited = None;
        reply
    }

    fn awaited_reply(
        &mut self,
        xid: u32,
        kind: Kind,
        limit: Duration,
    ) -> Result<Received, Trouble> {
        let until = Instant::now() + limit;
        while let Some(message) = self.next(until)? {
            let its_kind = Kind::from_wire(self.version, message.bytes[1]);
            if xid_of(&message.bytes) == xid && its_kind == Ok(kind) {
                return Ok(message);
            }
        }
        Err(Trouble::TooLate { what: kind.name(), limit })
    }

    /// Sends the queued messages with a barrier request, and waits for its reply. Returns when the reply arrived.
    ///
    /// # Errors
    /// The switch did not answer in time, or the connection failed.
    pub(super) fn barrier(&mut self, limit: Duration) -> Result<Stamp, Trouble> {
        let xid = self.barrier_request()?;
        self.flush()?;
        Ok(self.reply(xid, Kind::BarrierReply, limit)?.at)
    }

    /// Like [`barrier`](Self::barrier); fails if the switch has rejected any message since the last check.
    ///
    /// # Errors
    /// Like [`barrier`](Self::barrier), and [`Trouble::Rejected`].
    pub(super) fn apply(
        &mut self,
        what: &'static str,
        sent: usize,
        limit: Duration,
    ) -> Result<Stamp, Trouble> {
        let at = self.barrier(limit)?;
        self.check_errors(what, sent)?;
        Ok(at)
    }

    /// Returns the number of errors since the last check and the first of them, and forgets them.
    pub(super) fn take_errors(&mut self) -> (usize, String) {
        std::mem::take(&mut self.errors)
    }

    /// Fails if the switch has sent errors since the last check.
    ///
    /// # Errors
    /// [`Trouble::Rejected`].
    pub(super) fn check_errors(&mut self, what: &'static str, sent: usize) -> Result<(), Trouble> {
        match self.take_errors() {
            (0, _) => Ok(()),
            (count, first) => Err(Trouble::Rejected { what, count, sent, first }),
        }
    }

    /// Requests statistics; returns when the request left, and all parts of the reply.
    ///
    /// # Errors
    /// The switch answered with an error or not in time, or the connection failed.
    pub(super) fn multipart(
        &mut self,
        request: &MultipartRequest<'_>,
        limit: Duration,
    ) -> Result<(Stamp, Vec<Received>), Trouble> {
        let xid = self.queue(|version, xid, room| request.encode(version, xid, room))?;
        let sent = self.flush_stamped()?;
        Ok((sent, self.parts(xid, limit)?))
    }

    /// Waits for all parts of the reply to a multipart request.
    ///
    /// # Errors
    /// Like [`multipart`](Self::multipart).
    pub(super) fn parts(&mut self, xid: u32, limit: Duration) -> Result<Vec<Received>, Trouble> {
        let (mut parts, mut size) = (Vec::new(), 0);
        loop {
            let part = self.reply(xid, Kind::MultipartReply, limit)?;
            size += part.bytes.len();
            if size > MAX_REPLY {
                return Err(Trouble::Invalid(format!("a reply of more than {MAX_REPLY} bytes")));
            }
            let more = MultipartReply::decode(&part.bytes).map_err(invalid)?.more;
            parts.push(part);
            if !more {
                return Ok(parts);
            }
        }
    }

    /// Deletes all flows of the switch.
    ///
    /// # Errors
    /// The switch rejected that, or the connection failed.
    pub(super) fn delete_all(&mut self) -> Result<(), Trouble> {
        let has_tables = self.version.features().multiple_tables;
        let table = if has_tables { FlowMod::ALL_TABLES } else { 0 };
        self.flow_mod(FlowMod::delete(Match::new()).table(table))?;
        self.apply("flow-mods", 1, self.patience).map(drop)
    }

    /// Deletes all flows, and has the switch send packets without a flow to this side: whole, or at most
    /// [`MISS_SEND_LEN`] bytes of a packet that it buffers.
    ///
    /// # Errors
    /// The switch rejected that, or the connection failed.
    pub(super) fn reset_flows(&mut self, buffered: bool) -> Result<(), Trouble> {
        self.delete_all()?;
        let miss_send_len = if buffered { MISS_SEND_LEN } else { Action::NO_BUFFER };
        let config = SwitchConfig { flags: 0, miss_send_len };
        self.queue(|version, xid, room| config.encode_set(version, xid, room))?;
        if !self.version.features().miss_to_controller {
            let actions = [Action::Output { port: PortNo::CONTROLLER, max_len: miss_send_len }];
            self.flow_mod(FlowMod::add(Match::new()).priority(0).apply(&actions))?;
        }
        self.apply("flow-mods", 1, REPLY).map(drop)
    }

    /// Fails if the operator interrupted.
    ///
    /// # Errors
    /// [`Trouble::Interrupted`].
    pub(super) fn check_stop(&self) -> Result<(), Trouble> {
        if self.stop.load(Ordering::Relaxed) { Err(Trouble::Interrupted) } else { Ok(()) }
    }
}

/// Waits like [`wait`], until the operator interrupts.
fn wait_or_stop(
    readable: &[BorrowedFd<'_>],
    until: Instant,
    stop: &AtomicBool,
) -> Result<bool, Trouble> {
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Trouble::Interrupted);
        }
        let next = until.min(Instant::now() + TICK);
        if wait(readable, next).map_err(Trouble::Connection)? {
            return Ok(true);
        }
        if Instant::now() >= until {
            return Ok(false);
        }
    }
}

/// Describes bytes that cannot be decoded.
pub(super) fn invalid(error: impl std::fmt::Display) -> Trouble {
    Trouble::Invalid(error.to_string())
}
