//! A minimal controller on top of the codec: it connects to a listening switch, sends encoded
//! messages, and returns the switch's replies.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, bail};
use cli::lab::{Lab, Switch};
use openflow::{
    EncodeError, ErrorMessage, Header, Hello, Kind, Message, MultipartReply, MultipartRequest,
    Version, append, echo_reply,
};

/// Port on which the switches of these tests listen.
pub const PORT: u16 = 6654;

/// Time limit for a reply on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to a switch.
#[derive(Debug)]
pub struct Controller {
    stream: TcpStream,
    version: Version,
    xid: u32,
}

impl Controller {
    /// Makes the switch listen, connects to it, and negotiates its version.
    ///
    /// # Errors
    /// A step failed.
    pub fn call(lab: &Lab, switch: &Switch<'_>) -> anyhow::Result<Self> {
        switch.listen(PORT)?;
        let stream = lab.wait_for("the switch listens", PATIENCE, |_| {
            Ok(TcpStream::connect(("127.0.0.1", PORT)).ok())
        })?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?; // one packet per message, for captures
        let version = switch.of();
        let mut controller = Self { stream, version, xid: 0 };
        let ours = Hello::new(&[version]);
        controller.send(|_, xid, out| ours.encode(xid, out))?;
        let hello = Hello::decode(&controller.receive()?)?;
        let agreed = hello.negotiate(&[version])?;
        if agreed != version {
            bail!("agreed on OpenFlow {agreed}, not {version}");
        }
        Ok(controller)
    }

    /// Returns the xid of the last message sent.
    pub fn last_xid(&self) -> u32 {
        self.xid
    }

    /// Sends a message; returns its xid.
    ///
    /// # Errors
    /// It cannot be encoded or sent.
    pub fn send(
        &mut self,
        encode: impl Fn(Version, u32, &mut [u8]) -> Result<usize, EncodeError>,
    ) -> anyhow::Result<u32> {
        self.xid += 1;
        let mut message = Vec::new();
        append(&mut message, |out| encode(self.version, self.xid, out))?;
        self.stream.write_all(&message)?;
        Ok(self.xid)
    }

    /// Sends raw bytes with a new xid, which is returned.
    ///
    /// # Errors
    /// The bytes have no header or cannot be sent.
    pub fn send_bytes(&mut self, mut message: Vec<u8>) -> anyhow::Result<u32> {
        self.xid += 1;
        let xid = message.get_mut(4..8).context("a message has a header")?;
        xid.copy_from_slice(&self.xid.to_be_bytes());
        self.stream.write_all(&message)?;
        Ok(self.xid)
    }

    /// Receives the next message; echo requests are answered and skipped.
    ///
    /// # Errors
    /// None arrives.
    pub fn receive(&mut self) -> anyhow::Result<Vec<u8>> {
        loop {
            let mut message = vec![0; Header::SIZE];
            self.stream.read_exact(&mut message).context("no answer from the switch")?;
            let header = Header::decode(&message)?;
            message.resize(header.length.into(), 0);
            self.stream.read_exact(&mut message[Header::SIZE..])?;
            if Some(header.kind) != Kind::EchoRequest.to_wire(self.version) {
                return Ok(message);
            }
            let mut answer = Vec::new();
            append(&mut answer, |out| echo_reply(&message, out))?;
            self.stream.write_all(&answer)?;
        }
    }

    /// Waits until the switch has processed all earlier messages; returns its errors, each with the
    /// xid of the rejected message.
    ///
    /// # Errors
    /// No reply, or one that does not decode.
    pub fn barrier(&mut self) -> anyhow::Result<Vec<(u32, String)>> {
        let sent =
            self.send(|version, xid, out| Kind::BarrierRequest.encode_empty(version, xid, out))?;
        let mut errors = Vec::new();
        loop {
            let message = self.receive()?;
            let xid = Header::decode(&message)?.xid;
            match Message::decode(&message)?.kind() {
                Some(Kind::BarrierReply) if xid == sent => return Ok(errors),
                Some(Kind::Error) => {
                    ErrorMessage::decode(&message)?;
                    errors.push((xid, Message::decode(&message)?.to_string()));
                }
                _ => {}
            }
        }
    }

    /// Like [`Controller::barrier`]; an error of the switch is an error here.
    ///
    /// # Errors
    /// Like [`Controller::barrier`], and the switch's.
    pub fn must_all_be_accepted(&mut self) -> anyhow::Result<()> {
        let errors = self.barrier()?;
        if !errors.is_empty() {
            bail!("{} messages were refused: {errors:#?}", errors.len());
        }
        Ok(())
    }

    /// Requests statistics or a description; returns every part of the reply.
    ///
    /// # Errors
    /// No reply, an error message, or a reply that does not decode.
    pub fn ask(&mut self, request: &MultipartRequest<'_>) -> anyhow::Result<Vec<Vec<u8>>> {
        let sent = self.send(|version, xid, out| request.encode(version, xid, out))?;
        let mut parts = Vec::new();
        loop {
            let message = self.receive()?;
            if Header::decode(&message)?.xid != sent {
                continue;
            }
            let decoded = Message::decode(&message)?;
            if decoded.kind() != Some(Kind::MultipartReply) {
                bail!("{request:?} was answered by {decoded}");
            }
            let more = MultipartReply::decode(&message)?.more;
            parts.push(message);
            if !more {
                return Ok(parts);
            }
        }
    }
}
