//! Time to seal and open a record in memory, by suite and size, with and without the processor's AES instructions.
//!
//! The library reads at its start from the environment variable `OPENSSL_ia32cap` which instructions it may use. So the
//! figures without them come from a child process of this program.

use std::io::{Read as _, Write as _};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rcgen::KeyPair;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use serde::{Deserialize, Serialize};

use crate::measure::summary::Summary;
use crate::tls::provider;

/// Bits of AES (57) and of the multiplication for GCM (33), both off.
const NO_AES: &str = "~0x200000200000000";
const VARIABLE: &str = "OPENSSL_ia32cap";

/// Sizes of records in bytes: of small OpenFlow messages up to the largest record.
pub(super) const SIZES: [usize; 5] = [64, 256, 1024, 4096, 16384];

/// Duration of the measurement of one size.
const TIME: Duration = Duration::from_millis(40);

/// The time of a suite with a size.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RecordTime {
    pub(super) suite: String,
    pub(super) bytes: usize,
    /// Whether AES instructions were used.
    pub(super) aes_instructions: bool,
    /// Median time to seal and open it, in microseconds.
    pub(super) median_us: f64,
}

/// Measures all suites in this process.
///
/// # Errors
/// A handshake in memory failed.
pub(super) fn measure(aes_instructions: bool) -> anyhow::Result<Vec<RecordTime>> {
    let mut times = Vec::new();
    for suite in rustls::crypto::aws_lc_rs::default_provider().cipher_suites {
        let suite = format!("{:?}", suite.suite());
        if suite.contains("RSA") {
            continue; // the same cipher as with ECDSA; only the handshake differs
        }
        let (mut client, mut server) = pair(&suite)?;
        for bytes in SIZES {
            let median_us = time(&mut client, &mut server, bytes)?;
            times.push(RecordTime { suite: suite.clone(), bytes, aes_instructions, median_us });
        }
    }
    Ok(times)
}

/// Measures all suites in a child process without AES instructions.
///
/// # Errors
/// The child cannot be started or failed.
pub(super) fn measure_without_aes() -> anyhow::Result<Vec<RecordTime>> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.args(["tls-matrix", "--records-only", "--json"]).env(VARIABLE, NO_AES);
    let output = command.output().context("cannot start a child process")?;
    if !output.status.success() {
        bail!("the child process failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("the child process printed something else")
}

/// Whether this process runs without AES instructions.
pub(super) fn is_without_aes() -> bool {
    std::env::var(VARIABLE).is_ok_and(|value| value == NO_AES)
}

/// Completes a handshake in memory.
fn pair(suite: &str) -> anyhow::Result<(ClientConnection, ServerConnection)> {
    let provider = Arc::new(provider(Some(suite))?);
    let key = KeyPair::generate()?;
    let certificate = rcgen::CertificateParams::new(vec!["ofbench".into()])?.self_signed(&key)?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone())?;
    let version =
        if suite.starts_with("TLS13") { &rustls::version::TLS13 } else { &rustls::version::TLS12 };
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[version])?
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?,
        )?;
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut client = ClientConnection::new(Arc::new(client), ServerName::try_from("ofbench")?)?;
    let mut server = ServerConnection::new(Arc::new(server))?;
    for _ in 0..10 {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes)?;
        }
        feed(&mut server, &bytes)?;
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes)?;
        }
        feed(&mut client, &bytes)?;
        if !client.is_handshaking() && !server.is_handshaking() {
            return Ok((client, server));
        }
    }
    bail!("the handshake with {suite} does not end")
}

fn feed<S>(to: &mut rustls::ConnectionCommon<S>, mut bytes: &[u8]) -> anyhow::Result<()>
where
    S: rustls::SideData,
{
    while !bytes.is_empty() {
        to.read_tls(&mut bytes)?;
        to.process_new_packets()?;
    }
    Ok(())
}

/// Returns the median time to seal and open a record, in microseconds.
fn time(
    client: &mut ClientConnection,
    server: &mut ServerConnection,
    bytes: usize,
) -> anyhow::Result<f64> {
    let (plain, mut opened) = (vec![0x5a; bytes], vec![0; bytes]);
    let (mut sealed, mut samples) = (Vec::with_capacity(bytes + 256), Vec::new());
    let end = Instant::now() + TIME;
    while Instant::now() < end {
        sealed.clear();
        let begin = Instant::now();
        client.writer().write_all(&plain)?;
        while client.wants_write() {
            client.write_tls(&mut sealed)?;
        }
        let mut rest = &sealed[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest)?;
            server.process_new_packets()?;
        }
        server.reader().read_exact(&mut opened)?;
        samples.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    Ok(Summary::of(&samples).map_or(0.0, |summary| summary.median))
}
