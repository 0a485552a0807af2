//! Probes a switch, with this program in the role of its controller.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use openflow::{Hello, Version, append};
use rustls::crypto::aws_lc_rs;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::certificates::{Authority, Identity, Kind};
use super::hello::{self, Offer, WireVersion};
use super::{Cell, Verdict};
use crate::measure::summary::Summary;
use crate::tls::TlsVersion;

/// Time limit of each step of a connection.
const PATIENCE: Duration = Duration::from_secs(3);

/// A listener that switches connect to again and again.
#[derive(Debug)]
pub(super) struct Target<'a> {
    pub(super) listener: &'a TcpListener,
    pub(super) patience: Duration,
}

impl Target<'_> {
    /// Waits for the next connection of the switch.
    fn accept(&self) -> anyhow::Result<TcpStream> {
        let until = Instant::now() + self.patience;
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => {
                    socket.set_nonblocking(false)?;
                    socket.set_read_timeout(Some(PATIENCE))?;
                    socket.set_write_timeout(Some(PATIENCE))?;
                    return Ok(socket);
                }
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error.into()),
                Err(_) if Instant::now() >= until => {
                    anyhow::bail!("no switch connected within {:?}", self.patience);
                }
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Reads what the switch offers.
    pub(super) fn offer(&self) -> anyhow::Result<Offer> {
        let mut socket = self.accept()?;
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            match socket.read(&mut buffer)? {
                0 => anyhow::bail!("the switch closed the connection before its hello"),
                size => bytes.extend_from_slice(&buffer[..size]),
            }
            if let Some(offer) = hello::offer(&bytes) {
                return Ok(offer);
            }
            if bytes.first() != Some(&22) || bytes.len() > 64 * 1024 {
                anyhow::bail!("the switch does not speak TLS");
            }
        }
    }

    /// Presents a certificate of each kind, with each version.
    pub(super) fn certificates(
        &self,
        authority: &Authority,
        mut progress: impl FnMut(&str),
    ) -> anyhow::Result<(Vec<Cell>, Vec<Summary>)> {
        let (mut cells, mut times) = (Vec::new(), Vec::new());
        for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
            let mut handshakes = Vec::new();
            for kind in Kind::ALL {
                progress(&format!("certificate {}", kind.name()));
                let config = server(version, authority.issue(kind)?)?;
                let socket = self.accept()?;
                let begin = Instant::now();
                let verdict = match greet(&config, socket) {
                    Ok(()) => {
                        handshakes.push(begin.elapsed().as_secs_f64() * 1e6);
                        Verdict::Accepted
                    }
                    Err(error) => Verdict::Refused(error.to_string()),
                };
                cells.push(Cell::new(super::name_of(version), kind.name(), verdict));
            }
            times.extend(Summary::of(&handshakes));
        }
        Ok((cells, times))
    }
}

/// Completes the handshake, sends a hello and waits for the switch's.
fn greet(config: &Arc<ServerConfig>, socket: TcpStream) -> io::Result<()> {
    let session = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
    let mut tls = StreamOwned::new(session, socket);
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock)?;
    }
    let mut hello = Vec::new();
    append(&mut hello, |room| Hello::new(Version::ALL).encode(1, room))
        .map_err(io::Error::other)?;
    tls.write_all(&hello)?;
    tls.read_exact(&mut [0; 8])
}

fn server(version: TlsVersion, identity: Identity) -> anyhow::Result<Arc<ServerConfig>> {
    // The switch's own certificate is not asked for: this is about what the switch accepts.
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[version.protocol()])?
        .with_no_client_auth()
        .with_single_cert(identity.chain, identity.key)?;
    Ok(Arc::new(config))
}

/// Returns what an offer contains as cells: each version that is probed elsewhere, and each suite.
pub(super) fn cells_of(offer: &Offer) -> Vec<Cell> {
    let mut cells = Vec::new();
    for version in WireVersion::ALL {
        let verdict = if offer.versions.contains(&version.0) {
            Verdict::Accepted
        } else {
            Verdict::Refused("not offered".into())
        };
        cells.push(Cell::new("version", version.name(), verdict));
    }
    let known = hello::SUITES_1_3.iter().chain(&hello::SUITES_1_2);
    cells.extend(known.map(|suite| {
        let verdict = if offer.suites.contains(&suite.0) {
            Verdict::Accepted
        } else {
            Verdict::Refused("not offered".into())
        };
        Cell::new("suite", suite.1, verdict)
    }));
    cells
}
