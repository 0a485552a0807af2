//! Attacks over TLS: switches and users with certificates that are not theirs, that name strange things, or that are revoked; and
//! handshakes that are broken, huge, or never end.

mod handshakes;
mod switches;
mod users;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType};
use rosemary_tests::apps::configure;
use rosemary_tests::developer::rosemary;
use rosemary_tests::net::{INTERVAL, Net};
use rosemary_tests::pki::Pki;
use rosemary_tests::rosemary_binary;

use super::beside::memory_kib;

const LIMIT: Duration = Duration::from_secs(300);

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The address of the interface with TLS. It is not loopback.
const OTHER: &str = "192.0.2.1";

const API_PORT: u16 = 8443;

/// Limit of a process's growth by an attack, in KiB.
const GROWTH: u64 = 64 * 1024;

/// A certificate and its key.
#[derive(Debug, Clone)]
struct Certificate {
    cert: PathBuf,
    key: PathBuf,
}

/// The network, whose switch is connected over TLS, and the keys.
struct Bed<'lab> {
    net: Net<'lab>,
    pki: Pki<'lab>,
}

fn start(lab: &Lab) -> anyhow::Result<Bed<'_>> {
    sys::process::raise_descriptor_limit()?;
    lab.run("ip", &["address", "add", &format!("{OTHER}/32"), "dev", "lo"])?;
    let pki = Pki::init(lab, "pki")?;
    rosemary(lab, &["pki", "api", OTHER, "localhost", "--dir", pki.dir()])?;
    configure(&["[[app]]\nname = \"learning-switch\"\n"])?;
    let address = format!("0.0.0.0:{API_PORT}");
    let args = ["--tls-dir", pki.dir(), "--plain", "never", "--api", "127.0.0.1:8181", "--api"];
    let mut rosemary =
        Rosemary::start(lab, &rosemary_binary(), &[&args[..], &[&address]].concat())?;
    let s1 = lab.switch("s1", Of::V1_3)?;
    let (h1, h2, h3) = (lab.host("h1", &s1)?, lab.host("h2", &s1)?, lab.host("h3", &s1)?);
    pki.switch("s1", &["--dpid", &s1.dpid()])?.give_to(&s1)?;
    rosemary.wait_for_switch(&s1)?;
    let net = Net { lab, rosemary, s1, h1, h2, h3 };
    ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.received > 0, "there is a flow");
    Ok(Bed { net, pki })
}

/// Issues a certificate by the authority in `dir`, which `rosemary pki` would not do.
fn issue(
    (lab, dir): (&Lab, &Path),
    name: &str,
    change: impl FnOnce(&mut CertificateParams) -> anyhow::Result<()>,
) -> anyhow::Result<Certificate> {
    let read = |file: &str| fs::read_to_string(dir.join(file));
    let authority = KeyPair::from_pem(&read("ca-key.pem")?)?;
    let authority = Issuer::from_ca_cert_pem(&read("ca-cert.pem")?, authority)?;
    let mut params = CertificateParams::default();
    (params.not_before, params.not_after) =
        ((SystemTime::now() - DAY).into(), (SystemTime::now() + DAY).into());
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    change(&mut params)?;
    let key = KeyPair::generate()?;
    let pem = params.signed_by(&key, &authority)?.pem();
    stored(lab, name, &pem, &key)
}

fn stored(lab: &Lab, name: &str, pem: &str, key: &KeyPair) -> anyhow::Result<Certificate> {
    let file = |part: &str| lab.files().join(format!("{name}-{part}.pem"));
    let issued = Certificate { cert: file("cert"), key: file("key") };
    fs::write(&issued.cert, pem)?;
    fs::write(&issued.key, key.serialize_pem())?;
    Ok(issued)
}

fn uri(name: &str) -> anyhow::Result<SanType> {
    Ok(SanType::URI(name.try_into()?))
}

fn dns(name: &str) -> anyhow::Result<SanType> {
    Ok(SanType::DnsName(name.try_into()?))
}

fn dpid_uri(dpid: &str) -> String {
    format!("rosemary:dpid:{dpid}")
}

/// Starts `tls.py`.
fn tls(lab: &Lab, attack: &str, shown: &Certificate, args: &[&str]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("system/outside/tls.py");
    let mut command = lab.command("python3");
    command.arg(script).arg(attack).arg(&shown.cert).arg(&shown.key).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A switch shows this certificate and claims datapath ids, one after the other. Returns the outcome of each claim.
fn claim(lab: &Lab, shown: &Certificate, dpids: &[&str]) -> anyhow::Result<Vec<String>> {
    let bare: Vec<String> = dpids.iter().map(|dpid| dpid.replace(':', "")).collect();
    let args: Vec<&str> = bare.iter().map(String::as_str).collect();
    let output = tls(lab, "switch", shown, &args).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// Fails unless each claim with this certificate is refused. Returns the outcomes.
fn none_admitted(
    lab: &Lab,
    name: &str,
    shown: &Certificate,
    dpids: &[&str],
) -> anyhow::Result<String> {
    let seen = claim(lab, shown, dpids)?;
    let is_refused = |it: &String| ["alert", "closed"].contains(&it.as_str());
    ensure!(seen.len() == dpids.len() && seen.iter().all(is_refused), "{name}: {seen:?}");
    Ok(seen.join(" "))
}

/// Runs an attack. The switch must then have the same connection, no other switch may be known, and the log may have no control
/// characters.
fn unharmed<'lab>(
    net: &mut Net<'lab>,
    attack: impl FnOnce(&mut Net<'lab>) -> anyhow::Result<String>,
) -> anyhow::Result<String> {
    let epoch = net.switch_status()?.epoch;
    let kernel = net.status()?.programs.kernel.pid.context("it runs")?;
    let before = memory_kib(kernel)?;
    let seen = attack(net)?;
    let status = net.status()?;
    let switches: Vec<_> = status.switches.iter().flatten().map(|it| it.dpid.clone()).collect();
    ensure!(switches == [net.s1.dpid()], "the switches are {switches:?}");
    ensure!(net.switch_status()?.epoch == epoch, "the switch was disconnected");
    let grown = memory_kib(kernel)?.saturating_sub(before);
    ensure!(grown < GROWTH, "the kernel grew by {grown} KiB");
    let log = net.rosemary.log();
    let bad = log.chars().find(|it| it.is_control() && *it != '\n' && *it != '\t');
    ensure!(bad.is_none(), "{bad:?} is in the log");
    Ok(format!("{seen}; kernel {grown} KiB more"))
}
