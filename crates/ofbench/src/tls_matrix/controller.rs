//! Probes a controller, with this program in the role of its switches.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use openflow::{Echo, Header, Hello, Kind as MessageKind, Version, append};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, StreamOwned};

use super::certificates::{Authority, Identity, Kind};
use super::hello::{self, ServerAnswer, Suite, WireVersion};
use super::{Cell, Rate, Verdict};
use crate::measure::summary::Summary;
use crate::switch::{Identity as SwitchIdentity, Switch};
use crate::tls::{TlsVersion, any_server};

/// Time limit of each step of a connection.
const PATIENCE: Duration = Duration::from_secs(3);

/// Verdict on a suite with which the connection ended without an answer.
const CLOSED: &str = "it closed the connection";

/// Connections with a suite before that verdict.
const TRIES: usize = 3;

/// Time between them.
const PAUSE: Duration = Duration::from_millis(100);

/// Payloads of echo requests, in bytes.
const ECHOES: [usize; 5] = [56, 248, 1016, 4088, 16376];

/// Number of echoes of each size.
const RUNS: usize = 200;

/// The controller and how long each rate is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    pub(super) interval: Duration,
}

impl Target {
    fn connect(self) -> io::Result<TcpStream> {
        let socket = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.set_nodelay(true)?;
        Ok(socket)
    }

    /// Probes each version with each of its suites.
    pub(super) fn suites(self, mut progress: impl FnMut(&str)) -> io::Result<Vec<Cell>> {
        let mut cells = Vec::new();
        for version in WireVersion::ALL {
            for suite in hello::suites_of(version) {
                progress(&format!("{} {}", version.name(), suite.1));
                let verdict = self.probe(version, suite)?;
                cells.push(Cell::new(version.name(), suite.1, verdict));
            }
        }
        Ok(cells)
    }

    /// Tries again if the connection ends without an answer: a controller that is starting or busy closes connections too.
    fn probe(self, version: WireVersion, suite: Suite) -> io::Result<Verdict> {
        let closed = Verdict::Refused(CLOSED.into());
        for _ in 1..TRIES {
            let verdict = self.probe_once(version, suite)?;
            if verdict != closed {
                return Ok(verdict);
            }
            std::thread::sleep(PAUSE);
        }
        self.probe_once(version, suite)
    }

    fn probe_once(self, version: WireVersion, suite: Suite) -> io::Result<Verdict> {
        let mut socket = self.connect()?;
        // The random bytes need not be secret: the handshake ends here.
        socket.write_all(&hello::client_hello(version, suite, [0x5b; 32]))?;
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
        let answer = loop {
            match socket.read(&mut buffer) {
                Ok(0) => return Ok(Verdict::Refused(CLOSED.into())),
                Ok(size) => bytes.extend_from_slice(&buffer[..size]),
                Err(error) => return Ok(Verdict::Refused(describe(&error))),
            }
            if let Some(answer) = hello::server_answer(&bytes) {
                break answer;
            }
        };
        Ok(match answer {
            ServerAnswer::Hello(chosen, number) if (chosen, number) == (version, suite.0) => {
                Verdict::Accepted
            }
            ServerAnswer::Hello(chosen, number) => Verdict::Refused(format!(
                "it chose {} with {}",
                chosen.name(),
                hello::suite_name(number)
            )),
            ServerAnswer::Alert(alert) => Verdict::Refused(format!("alert {alert}")),
            ServerAnswer::Other => Verdict::Refused("it does not speak TLS".into()),
        })
    }

    /// Presents a certificate of each kind, and none.
    pub(super) fn certificates(
        self,
        authority: &Authority,
        mut progress: impl FnMut(&str),
    ) -> anyhow::Result<Vec<Cell>> {
        let mut cells = Vec::new();
        for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            for kind in Kind::ALL.map(Some).into_iter().chain([None]) {
                let name = kind.map_or("none", Kind::name);
                progress(&format!("certificate {name}"));
                let identity = kind.map(|kind| authority.issue(kind)).transpose()?;
                let config = client(version, identity, false)?;
                let verdict = match self.session(&config).and_then(|mut tls| greet(&mut tls)) {
                    Ok(()) => Verdict::Accepted,
                    Err(error) => Verdict::Refused(describe(&error)),
                };
                cells.push(Cell::new(super::name_of(version), name, verdict));
            }
        }
        Ok(cells)
    }

    fn session(
        self,
        config: &Arc<ClientConfig>,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let name =
            rustls::pki_types::ServerName::try_from("controller").map_err(io::Error::other)?;
        let session = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
        let mut tls = StreamOwned::new(session, self.connect()?);
        while tls.conn.is_handshaking() {
            tls.conn.complete_io(&mut tls.sock)?;
        }
        Ok(tls)
    }

    /// Measures handshakes per second one after the other: whole ones, and resumed ones if the controller resumes.
    pub(super) fn rates(
        self,
        authority: &Authority,
        mut progress: impl FnMut(&str),
    ) -> anyhow::Result<Vec<Rate>> {
        let mut rates = Vec::new();
        for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            for resumes in [false, true] {
                progress("handshake rate");
                let config = client(version, Some(authority.issue(Kind::EcdsaP256)?), resumes)?;
                let (begin, mut count, mut resumed) = (Instant::now(), 0_u32, 0_u32);
                // The first connection obtains a ticket, in its first messages.
                let first = self.session(&config).and_then(|mut tls| greet(&mut tls));
                let mut failure = first.err().map(|error| describe(&error));
                while failure.is_none() && begin.elapsed() < self.interval {
                    match self.session(&config).and_then(|mut tls| greet(&mut tls).map(|()| tls)) {
                        Ok(tls) => {
                            count += 1;
                            let kind = tls.conn.handshake_kind();
                            resumed += u32::from(kind == Some(HandshakeKind::Resumed));
                        }
                        Err(error) => failure = Some(describe(&error)),
                    }
                }
                let per_second = f64::from(count) / begin.elapsed().as_secs_f64();
                let is_measured = failure.is_none() && count > 0 && (!resumes || resumed == count);
                let missing = "it does not resume sessions".to_owned();
                rates.push(Rate {
                    version: super::name_of(version).to_owned(),
                    handshake: if resumes { "resumed" } else { "whole" }.to_owned(),
                    per_second: is_measured.then_some(per_second),
                    reason: if is_measured { None } else { Some(failure.unwrap_or(missing)) },
                });
            }
        }
        Ok(rates)
    }

    /// Measures the time until the controller answers echo requests, by size.
    pub(super) fn echoes(
        self,
        authority: &Authority,
        mut progress: impl FnMut(&str),
    ) -> anyhow::Result<Vec<(usize, Summary)>> {
        let identity = authority.issue(Kind::EcdsaP256)?;
        let mut tls = self.session(&client(TlsVersion::Tls13, Some(identity), false)?)?;
        let mut peer = Peer::greet(&mut tls)?;
        let mut results = Vec::new();
        for size in ECHOES {
            progress(&format!("echo of {size} bytes"));
            let mut samples = Vec::new();
            for run in 0..RUNS {
                let xid = 0x4543_0000 | u32::try_from(run).unwrap_or(0);
                let (mut request, data) = (Vec::new(), vec![0x5a; size]);
                let version = peer.switch.identity().version;
                append(&mut request, |room| {
                    Echo { is_reply: false, xid, data: &data }.encode(version, room)
                })?;
                let begin = Instant::now();
                tls.write_all(&request)?;
                peer.until_echo(&mut tls, xid)?;
                samples.push(begin.elapsed().as_secs_f64() * 1e6);
            }
            results.extend(Summary::of(&samples).map(|summary| (size + 8, summary)));
        }
        Ok(results)
    }
}

/// Sends a hello and waits for the first bytes of the controller. With TLS 1.3 a refused certificate shows only then.
fn greet(tls: &mut StreamOwned<ClientConnection, TcpStream>) -> io::Result<()> {
    let mut hello = Vec::new();
    append(&mut hello, |room| Hello::new(Version::ALL).encode(1, room))
        .map_err(io::Error::other)?;
    tls.write_all(&hello)?;
    let mut buffer = [0; 8];
    tls.read_exact(&mut buffer)?;
    // The ticket of TLS 1.3 has been read by now, because the controller sends it first.
    Ok(())
}

/// An emulated switch that answers what the controller asks besides.
struct Peer {
    switch: Switch,
    input: Vec<u8>,
}

impl Peer {
    /// Sends the switch's hello.
    fn greet(tls: &mut StreamOwned<ClientConnection, TcpStream>) -> io::Result<Self> {
        let identity = SwitchIdentity {
            dpid: openflow::Dpid(0x0f_be6c),
            version: Version::NEWEST,
            ports: 2,
            n_buffers: 0,
            max_flows: 1000,
        };
        let (mut switch, mut out) = (Switch::new(identity), Vec::new());
        switch.send_hello(&mut out);
        tls.write_all(&out)?;
        Ok(Self { switch, input: Vec::new() })
    }

    fn until_echo(
        &mut self,
        tls: &mut StreamOwned<ClientConnection, TcpStream>,
        xid: u32,
    ) -> anyhow::Result<()> {
        let mut out = Vec::new();
        let mut buffer = vec![0; 32 * 1024];
        loop {
            while let Ok(header) = Header::decode(&self.input) {
                let size = usize::from(header.length).max(Header::SIZE);
                if self.input.len() < size {
                    break;
                }
                let message: Vec<u8> = self.input.drain(..size).collect();
                let kind = MessageKind::from_wire(self.switch.identity().version, header.kind);
                if kind == Ok(MessageKind::EchoReply) && header.xid == xid {
                    return Ok(());
                }
                out.clear();
                self.switch.receive(&message, &mut out)?;
                tls.write_all(&out)?;
            }
            match tls.read(&mut buffer)? {
                0 => anyhow::bail!("the controller closed the connection"),
                size => self.input.extend_from_slice(&buffer[..size]),
            }
        }
    }
}

/// Makes settings that accept any certificate of the controller, since this program asks what it offers.
fn client(
    version: TlsVersion,
    identity: Option<Identity>,
    resumes: bool,
) -> anyhow::Result<Arc<ClientConfig>> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = any_server(&provider);
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version.protocol()])?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match identity {
        Some(identity) => builder.with_client_auth_cert(identity.chain, identity.key)?,
        None => builder.with_no_client_auth(),
    };
    if !resumes {
        config.resumption = Resumption::disabled();
    }
    Ok(Arc::new(config))
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer".into(),
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::BrokenPipe => CLOSED.into(),
        _ => error.to_string(),
    }
}
