//! Attacks over TLS: switches and users with certificates that are not theirs, that name strange things, or that are revoked; and
//! handshakes that are broken, huge, or never end.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType,
};
use rosemary_tests::apps::configure;
use rosemary_tests::developer::rosemary;
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::pki::Pki;
use rosemary_tests::random::Random;
use rosemary_tests::verdicts::Verdicts;
use rosemary_tests::{in_a_lab_without_capture_for, rosemary_binary};

use super::beside::{lines, memory_kib, run};
use crate::tls::{PORT, client_hello};

const LIMIT: Duration = Duration::from_secs(300);

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The address of the interface with TLS. It is not loopback.
const OTHER: &str = "192.0.2.1";

const API_PORT: u16 = 8443;

/// Limit of a process's growth by an attack, in KiB.
const GROWTH: u64 = 64 * 1024;

/// Longest time after which an unfinished handshake has ended.
const HANDSHAKE: Duration = Duration::from_secs(15);

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

#[test]
#[ignore = "an attack of `make hostile`"]
fn certificates_of_hostile_switches_admit_nobody() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let Bed { mut net, pki } = start(lab)?;
        let mut verdicts = Verdicts::default();
        let mut attack = |name: &str, attack: &dyn Fn(&mut Net<'_>) -> anyhow::Result<String>| {
            verdicts.beside(&mut net, name, |net| unharmed(net, attack));
        };
        attack("switches with expired and other invalid certificates", &|net| invalid(net, &pki));
        attack("an authority with the same name as the true one", &|net| same_names(net, &pki));
        attack("certificates of users and of the controller at switches' port", &|net| {
            other_purposes(net, &pki)
        });
        attack("claims of datapaths that the certificate does not name", &|net| others(net, &pki));
        attack("names with NUL, control characters and other spellings", &|net| {
            spellings(net, &pki)
        });
        attack("certificates with thousands of names and long names", &|net| many(net, &pki));
        attack("chains of many authorities", &|net| chains(net, &pki));
        verdicts.finish()
    });
}

fn invalid(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let (lab, dpid) = (net.lab, net.s1.dpid());
    let by = (lab, Path::new(pki.dir()));
    let named = |params: &mut CertificateParams| -> anyhow::Result<()> {
        params.subject_alt_names = vec![uri(&dpid_uri(&net.s1.dpid()))?];
        Ok(())
    };
    let now = SystemTime::now();
    let expired = issue(by, "expired", |params| {
        (params.not_before, params.not_after) = ((now - 9 * DAY).into(), (now - DAY / 24).into());
        named(params)
    })?;
    let future = issue(by, "future", |params| {
        (params.not_before, params.not_after) = ((now + DAY / 24).into(), (now + DAY).into());
        named(params)
    })?;
    let reversed = issue(by, "reversed", |params| {
        (params.not_before, params.not_after) = ((now + DAY).into(), (now - DAY).into());
        named(params)
    })?;
    let server = issue(by, "server", |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        named(params)
    })?;
    let authority = issue(by, "authority", |params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        named(params)
    })?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    named(&mut params)?;
    let alone = stored(lab, "alone", &params.self_signed(&key)?.pem(), &key)?;
    let mut seen = Vec::new();
    for (name, shown) in [
        ("expired", &expired),
        ("future", &future),
        ("reversed", &reversed),
        ("server", &server),
        ("authority", &authority),
        ("self-signed", &alone),
    ] {
        seen.push(format!("{name} {}", none_admitted(lab, name, shown, &[&dpid])?));
    }
    Ok(seen.join(", "))
}

/// A false authority has the subject, and its switches the names, of the true ones.
fn same_names(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let (lab, dpid) = (net.lab, net.s1.dpid());
    let true_authority = pki.file("ca-cert.pem").display().to_string();
    let subject = lab.run("openssl", &["x509", "-in", &true_authority, "-noout", "-subject"])?;
    let false_dir = lab.files().join("false");
    fs::create_dir(&false_dir)?;
    let key = KeyPair::generate()?;
    // The same subject and extensions, by the true certificate itself: only the key is another.
    let config = lab.files().join("copy.pem");
    fs::copy(&true_authority, &config)?;
    let file = |name: &str| false_dir.join(name).display().to_string();
    fs::write(file("ca-key.pem"), key.serialize_pem())?;
    let config = config.display().to_string();
    let made = file("ca-cert.pem");
    let args = ["x509", "-in", &config, "-signkey", &file("ca-key.pem"), "-days", "9", "-out"];
    lab.run("openssl", &[&args[..], &[&made]].concat())?;
    let copied = lab.run("openssl", &["x509", "-in", &made, "-noout", "-subject"])?;
    ensure!(copied == subject, "{copied} is not {subject}");
    let forged = issue((lab, &false_dir), "forged", |params| {
        params.subject_alt_names = vec![uri(&dpid_uri(&dpid))?];
        Ok(())
    })?;
    let mut seen = none_admitted(lab, "forged", &forged, &[&dpid, "00:00:00:00:00:00:00:77"])?;
    // The forged certificate, and the true authority's behind it.
    for (number, more) in [&true_authority, &made].into_iter().enumerate() {
        let chained = lab.files().join(format!("forged-chain{number}.pem"));
        fs::write(&chained, [fs::read(&forged.cert)?, fs::read(more)?].concat())?;
        let shown = Certificate { cert: chained, key: forged.key.clone() };
        seen.push(' ');
        seen += &none_admitted(lab, "chained", &shown, &[&dpid])?;
    }
    Ok(format!("the same subject, {}: {seen}", subject.trim()))
}

fn other_purposes(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let (lab, dpid) = (net.lab, net.s1.dpid());
    rosemary(lab, &["pki", "user", "mallory", "--role", "admin", "--dir", pki.dir()])?;
    let pair = |cert: &str, key: &str| Certificate { cert: pki.file(cert), key: pki.file(key) };
    let user = pair("users/mallory/cert.pem", "users/mallory/key.pem");
    let controller = pair("controller-cert.pem", "controller-key.pem");
    let api = pair("api/cert.pem", "api/key.pem");
    let both = issue((lab, Path::new(pki.dir())), "both", |params| {
        let names = ["rosemary:user:admin:mallory".to_owned(), dpid_uri(&dpid)];
        params.subject_alt_names = vec![uri(&names[0])?, uri(&names[1])?];
        Ok(())
    })?;
    let mut seen = Vec::new();
    for (name, shown) in
        [("user", &user), ("controller", &controller), ("api", &api), ("both", &both)]
    {
        seen.push(format!("{name} {}", none_admitted(lab, name, shown, &[&dpid, "77"])?));
    }
    // And the reverse: the certificate of a switch at the interface of users.
    let switch = pki.switch("thief", &[])?;
    let switch = Certificate { cert: switch.cert, key: switch.key };
    let answer = curl(lab, pki, &switch);
    ensure!(answer.is_err(), "the interface answers {answer:?} to a switch");
    Ok(seen.join(", "))
}

fn others(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let (lab, dpid) = (net.lab, net.s1.dpid());
    let thief = pki.switch("thief77", &["--dpid", "0x77"])?;
    let thief = Certificate { cert: thief.cert, key: thief.key };
    let claims = [
        dpid.as_str(),
        "ffffffffffffffff",
        "0000000000000000",
        "0100000000000077",
        "0000000000000177",
        "7700000000000000",
    ];
    let seen = none_admitted(lab, "thief", &thief, &claims)?;
    // Claims of somebody else's datapath do not lock its owner's next claim out.
    let own = claim(lab, &thief, &["0000000000000077"])?;
    ensure!(own == ["admitted"], "its own datapath: {own:?}");
    net.rosemary.wait_for("only s1 is known", SOON, |status| {
        (status.switches.as_ref()?.len() == 1).then_some(())
    })?;
    Ok(seen)
}

/// Names that a careless reader would take for the datapath's: cut off at a NUL, folded, or decoded.
fn spellings(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let (lab, dpid) = (net.lab, net.s1.dpid());
    let good = dpid_uri(&dpid);
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\r\n2026-01-01T00:00:00Z ERROR forged";
    let names: Vec<Vec<SanType>> = vec![
        vec![uri(&format!("{good}\0"))?],
        vec![uri(&format!("{good}\0.example.org"))?],
        vec![uri(&format!("rosemary:dpid:00:00:00:00:00:00:00:77\0{good}"))?],
        vec![uri(&format!("{good}\n"))?],
        vec![uri(&format!(" {good}"))?],
        vec![uri(&format!("{good}{evil}"))?],
        vec![uri(&good.to_uppercase())?],
        vec![uri(&good.replace("dpid", "%64pid"))?],
        vec![uri(&good.replace("dpid", "%2564pid"))?],
        vec![uri(&good.replace(':', "%3a"))?],
        vec![uri("rosemary:dpid:0x1")?],
        vec![uri("rosemary:dpid:")?],
        vec![uri(&format!("{good}/"))?],
        vec![uri(&format!("{good}?x"))?],
        vec![uri(&format!("x:{good}"))?],
        vec![dns(&good)?],
        vec![dns(&format!("{good}\0.example.org"))?],
        vec![SanType::Rfc822Name(good.as_str().try_into()?)],
        vec![uri(&good)?, dns(&good)?],
        vec![uri(&good)?, uri("rosemary:dpid:all")?],
    ];
    let count = names.len();
    let by = (lab, Path::new(pki.dir()));
    for (number, names) in names.into_iter().enumerate() {
        let what = format!("{names:?}");
        let shown = issue(by, &format!("spelt{number}"), |params| {
            params.subject_alt_names = names;
            Ok(())
        })?;
        none_admitted(lab, &what, &shown, &[&dpid])?;
    }
    for (number, (kind, text)) in [
        (DnType::CommonName, good.clone()),
        (DnType::OrganizationName, format!("rosemary\0:dpid:{evil}")),
        (DnType::CommonName, format!("{evil}{good}{evil}")),
    ]
    .into_iter()
    .enumerate()
    {
        let shown = issue(by, &format!("subject{number}"), |params| {
            params.distinguished_name.push(kind, text);
            Ok(())
        })?;
        none_admitted(lab, &format!("subject {number}"), &shown, &[&dpid])?;
    }
    let forged = net.rosemary.log().lines().filter(|line| line.starts_with("2026-01-01")).count();
    ensure!(forged == 0, "{forged} forged lines are in the log");
    Ok(format!("{} certificates refused", count + 3))
}

/// Certificates of the true authority that are expensive to read. None names s1's datapath, so none may claim it.
fn many(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let (lab, dpid) = (net.lab, net.s1.dpid());
    let by = (lab, Path::new(pki.dir()));
    let range = |count: u64| (0x1000..0x1000 + count).map(|id| openflow::Dpid(id).to_string());
    let all =
        |names: Vec<String>| names.iter().map(|it| uri(it)).collect::<anyhow::Result<Vec<_>>>();
    let kinds: Vec<(&str, Vec<SanType>)> = vec![
        ("600 datapaths", all(range(600).map(|it| dpid_uri(&it)).collect())?),
        ("3,000 datapaths", all(range(3_000).map(|it| dpid_uri(&it)).collect())?),
        ("a datapath 600 times", all(vec![dpid_uri("00:00:00:00:00:00:00:77"); 600])?),
        ("a name of 25,000 bytes", vec![uri(&format!("rosemary:dpid:{}", "0".repeat(25_000)))?]),
        ("a name of 60,000 bytes", vec![uri(&format!("rosemary:dpid:{}", ":".repeat(60_000)))?]),
        ("nested encodings", vec![uri(&format!("rosemary:dpid:{}", "%25".repeat(8_000)))?]),
        ("2,000 other names", {
            let names = (0..2_000).map(|it| dns(&format!("a{it}.dpid.example")));
            let mut names = names.collect::<anyhow::Result<Vec<_>>>()?;
            names.push(uri(&dpid_uri("00:00:00:00:00:00:00:77"))?);
            names
        }),
    ];
    let mut seen = Vec::new();
    for (number, (name, names)) in kinds.into_iter().enumerate() {
        let shown = issue(by, &format!("many{number}"), |params| {
            params.subject_alt_names = names;
            Ok(())
        })?;
        let begin = Instant::now();
        let outcome = none_admitted(lab, name, &shown, &[&dpid])?;
        seen.push(format!("{name} {outcome} in {:.1?}", begin.elapsed()));
    }
    Ok(seen.join(", "))
}

/// A chain of authorities below the true one, and a long chain that does not lead to it.
fn chains(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let (lab, dpid) = (net.lab, net.s1.dpid());
    let mut seen = Vec::new();
    for (depth, is_ours) in [(40, true), (40, false), (120, false)] {
        let dir = if is_ours {
            PathBuf::from(pki.dir())
        } else {
            let dir = lab.files().join(format!("stranger{depth}"));
            rosemary(lab, &["pki", "init", "--dir", &dir.display().to_string()])?;
            dir
        };
        let read = |file: &str| fs::read_to_string(dir.join(file));
        let mut issuer = Issuer::from_ca_cert_pem(
            &read("ca-cert.pem")?,
            KeyPair::from_pem(&read("ca-key.pem")?)?,
        )?;
        let mut pems = Vec::new();
        for _ in 0..depth {
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            // All have the same name, so that each could be the issuer of each.
            params.distinguished_name.push(DnType::CommonName, "authority");
            pems.push(params.signed_by(&key, &issuer)?.pem());
            issuer = Issuer::new(params, key);
        }
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.subject_alt_names = vec![uri(&dpid_uri("00:00:00:00:00:00:00:77"))?];
        pems.push(params.signed_by(&key, &issuer)?.pem());
        pems.reverse();
        let name = format!("chain{depth}{is_ours}");
        let shown = stored(lab, &name, &pems.concat(), &key)?;
        let begin = Instant::now();
        let outcome = none_admitted(lab, &name, &shown, &[&dpid])?;
        seen.push(format!("{depth} authorities {outcome} in {:.1?}", begin.elapsed()));
    }
    Ok(seen.join(", "))
}

#[test]
#[ignore = "an attack of `make hostile`"]
fn broken_and_endless_handshakes_delay_no_switch() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let Bed { mut net, pki } = start(lab)?;
        let mut verdicts = Verdicts::default();
        let mut attack = |name: &str, attack: &dyn Fn(&mut Net<'_>) -> anyhow::Result<String>| {
            verdicts.beside(&mut net, name, |net| unharmed(net, attack));
        };
        attack("bytes of other protocols at the port of TLS", &plain);
        attack("huge ClientHellos, and garbage behind a good one", &garbage);
        attack("600 half handshakes that stay open", &|net| half_open(net, &pki));
        attack("key updates and renegotiations without end", &|net| updates(net, &pki));
        verdicts.finish()
    });
}

/// How a connection ends after these bytes: `None` if it does not within the time of a handshake.
fn end_of(bytes: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
    let mut stream = TcpStream::connect(PORT)?;
    stream.set_read_timeout(Some(HANDSHAKE))?;
    stream.set_write_timeout(Some(HANDSHAKE))?;
    let _ = stream.write_all(bytes); // it may be closed by now
    let mut received = Vec::new();
    match stream.read_to_end(&mut received) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        _ => Ok(Some(received)),
    }
}

/// Sends each text on a connection of its own, all at once. Each must end without a byte of OpenFlow.
fn all_end(texts: Vec<(&'static str, Vec<u8>)>) -> anyhow::Result<String> {
    let count = texts.len();
    let threads: Vec<_> = texts
        .into_iter()
        .map(|(name, bytes)| (name, thread::spawn(move || end_of(&bytes))))
        .collect();
    for (name, thread) in threads {
        let end = thread.join().ok().context("a thread panicked")??;
        let received = end.with_context(|| format!("{name}: the connection stays open"))?;
        let is_openflow = received.first().is_some_and(|it| (1..=6).contains(it));
        ensure!(!is_openflow, "{name}: OpenFlow was received: {received:?}");
    }
    Ok(format!("{count} connections ended"))
}

fn plain(net: &mut Net<'_>) -> anyhow::Result<String> {
    let hello = [4, 0, 0, 8, 0, 0, 0, 1];
    let features = [4, 6, 0, 32, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0];
    let random = Random::from(5).bytes(4_000);
    let seen = all_end(vec![
        ("OpenFlow", [&hello[..], &features, &[0; 8]].concat()),
        ("the largest OpenFlow message", [&[4, 0, 0xff, 0xff][..], &[0; 100_000]].concat()),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("SSH", b"SSH-2.0-OpenSSH_9.9\r\n".to_vec()),
        ("SSL 2", vec![0x80, 0x2e, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10, 1, 0, 0x80]),
        ("NUL", vec![0; 20_000]),
        ("0xff", vec![0xff; 20_000]),
        ("random bytes", random),
        ("nothing but the first byte", vec![0x16]),
        ("a proxy's line", b"PROXY TCP4 127.0.0.1 127.0.0.1 1 6653\r\n".to_vec()),
        ("JSON-RPC", b"{\"method\":\"echo\",\"params\":[],\"id\":0}".to_vec()),
    ])?;
    let count = lines(net, &["connection refused"]) + lines(net, &["during the TLS handshake"]);
    Ok(format!("{seen}, {count} lines"))
}

/// A `ClientHello` with this much padding in records of 16 KiB (RFC 7685, RFC 8446 §5.1).
fn padded(size: usize) -> Vec<u8> {
    let hello = client_hello();
    let mut body = hello[9..].to_vec();
    // The extensions are the last 28 bytes, behind their size.
    let old = 28;
    let length = u16::try_from(old + 4 + size).unwrap_or(u16::MAX).to_be_bytes();
    let extensions = body.len() - old;
    body.splice(extensions - 2..extensions, length);
    body.extend([0, 21]);
    body.extend(u16::try_from(size).unwrap_or(u16::MAX).to_be_bytes());
    body.extend(vec![0; size]);
    let mut message = vec![1];
    message.extend(&u32::try_from(body.len()).unwrap_or(0).to_be_bytes()[1..]);
    message.extend(body);
    let record = |part: &[u8]| {
        let size = u16::try_from(part.len()).unwrap_or(0).to_be_bytes();
        [&[0x16, 3, 1][..], &size, part].concat()
    };
    message.chunks(0x4000).flat_map(record).collect()
}

fn garbage(_: &mut Net<'_>) -> anyhow::Result<String> {
    let hello = client_hello();
    let with = |more: &[u8]| [&hello[..], more].concat();
    let record = |kind: u8, body: &[u8]| {
        let size = u16::try_from(body.len()).unwrap_or(0).to_be_bytes();
        [&[kind, 3, 3][..], &size, body].concat()
    };
    all_end(vec![
        ("a hello of 60 KB", padded(60_000)),
        ("a hello of 20 KB, then silence", padded(20_000)),
        (
            "a hello in records of a byte",
            hello[5..].iter().flat_map(|it| record(22, &[*it])).collect(),
        ),
        ("a message of 16 MiB", record(22, &[1, 0xff, 0xff, 0xff]).repeat(20_000)),
        ("records without content", record(22, &[]).repeat(40_000)),
        ("a record of 65,535 bytes", [&[0x16, 3, 1, 0xff, 0xff][..], &[0; 65_535]].concat()),
        ("random bytes behind a hello", with(&Random::from(6).bytes(50_000))),
        ("data before the handshake", with(&record(23, &[4, 0, 0, 8, 0, 0, 0, 1]))),
        ("alerts without end", with(&record(21, &[1, 90]).repeat(20_000))),
        ("changes of the cipher without end", with(&record(20, &[1]).repeat(20_000))),
        ("heartbeats", with(&record(24, &[1, 0x40, 0]).repeat(500))),
        ("a second hello", with(&hello)),
        (
            "a finished message",
            with(&record(22, &[20, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
        ),
    ])
}

/// Hundreds of peers send half of a hello, or a whole one, and then nothing. A switch connects beside them.
fn half_open(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let hello = client_hello();
    let mut peers = Vec::new();
    for number in 0..600 {
        let mut peer = TcpStream::connect(PORT)?;
        let size = [0, 1, 5, hello.len() / 2, hello.len()][number % 5];
        let _ = peer.write_all(&hello[..size]);
        peers.push(peer);
    }
    let late = pki.switch("late", &["--dpid", "0x88"])?;
    let begin = Instant::now();
    let shown = Certificate { cert: late.cert, key: late.key };
    let seen = claim(net.lab, &shown, &["0000000000000088"])?;
    let took = begin.elapsed();
    ensure!(seen == ["admitted"], "a good switch: {seen:?} after {took:?}");
    ensure!(took < Duration::from_secs(5), "a good switch waited for {took:?}");
    let end = Instant::now() + HANDSHAKE + SOON;
    let mut open = 0;
    for mut peer in peers {
        let rest = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(10));
        peer.set_read_timeout(Some(rest))?;
        let ended = peer.read_to_end(&mut Vec::new());
        open += usize::from(ended.is_err_and(|it| it.kind() == ErrorKind::WouldBlock));
    }
    ensure!(open == 0, "{open} of 600 connections stay open");
    Ok(format!("a good switch was admitted in {took:.1?}, all 600 ended"))
}

/// Clients with a good certificate change their keys, or begin another handshake, as fast as they can.
fn updates(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let made = pki.switch("updating", &["--dpid", "0x99"])?;
    let mut seen = Vec::new();
    let attacks = [
        ("-tls1_3", "K\n", "key updates that request one"),
        ("-tls1_3", "k\n", "key updates"),
        ("-tls1_2", "R\n", "renegotiations"),
    ];
    for (version, command, name) in attacks {
        let mut client = net.lab.command("openssl");
        client.args(["s_client", version, "-connect", PORT]).arg("-cert").arg(&made.cert);
        client.arg("-key").arg(&made.key);
        client.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut client = client.spawn()?;
        let mut input = client.stdin.take().context("an input")?;
        let end = Instant::now() + Duration::from_secs(6);
        let mut sent = 0;
        while Instant::now() < end && client.try_wait()?.is_none() {
            if input.write_all(command.as_bytes()).is_err() {
                break;
            }
            sent += 1;
            thread::sleep(Duration::from_millis(1));
        }
        let is_over = client.try_wait()?.is_some();
        drop(input);
        let _ = client.kill(); // it may have ended
        client.wait()?;
        ensure!(is_over, "{name}: the connection stays open after {sent} attempts");
        seen.push(format!("{name}: closed after at most {sent}"));
    }
    net.rosemary.wait_for("only s1 is known", SOON * 2, |status| {
        (status.switches.as_ref()?.len() == 1).then_some(())
    })?;
    Ok(seen.join(", "))
}

/// Requests the list of apps with a certificate; returns the status.
fn curl(lab: &Lab, pki: &Pki<'_>, shown: &Certificate) -> Result<u16, String> {
    let mut command = lab.command("curl");
    command.args(["-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", "--cacert"]);
    command.arg(pki.file("api/ca-cert.pem")).arg("--cert").arg(&shown.cert);
    command.arg("--key").arg(&shown.key);
    let output = command.arg(format!("https://{OTHER}:{API_PORT}/api/v1/apps")).output();
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    text.trim().parse().map_err(|_| text.into_owned())
}

fn user(lab: &Lab, pki: &Pki<'_>, name: &str, role: &str) -> anyhow::Result<Certificate> {
    rosemary(lab, &["pki", "user", name, "--role", role, "--dir", pki.dir()])?;
    let file = |part: &str| pki.file(&format!("users/{name}/{part}"));
    Ok(Certificate { cert: file("cert.pem"), key: file("key.pem") })
}

#[test]
#[ignore = "an attack of `make hostile`"]
fn certificates_of_hostile_users_give_no_role() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let Bed { mut net, pki } = start(lab)?;
        let mut verdicts = Verdicts::default();
        let mut attack = |name: &str, attack: &dyn Fn(&mut Net<'_>) -> anyhow::Result<String>| {
            verdicts.beside(&mut net, name, |net| unharmed(net, attack));
        };
        attack("a revoked user who resumes a session", &|net| resumed(net, &pki));
        attack("users with strange, long and many names", &|net| strange_users(net, &pki));
        attack("floods of refused certificates at the interface", &|net| refused_flood(net, &pki));
        attack("hundreds of idle connections of one user", &|net| idle_users(net, &pki));
        verdicts.finish()
    });
}

/// Lines that a child prints, one after the other.
fn next_line(output: &mut impl std::io::BufRead) -> anyhow::Result<String> {
    let mut line = String::new();
    output.read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

fn resumed(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let lab = net.lab;
    let alice = user(lab, pki, "alice", "admin")?;
    let port = API_PORT.to_string();
    let mut client = tls(lab, "resume", &alice, &[OTHER, &port]).spawn()?;
    let mut output = BufReader::new(client.stdout.take().context("an output")?);
    let first = next_line(&mut output)?;
    ensure!(first == "HTTP/1.1 200", "before: {first:?}");
    rosemary(lab, &["pki", "revoke-user", "alice", "--dir", pki.dir()])?;
    client.stdin.take().context("an input")?.write_all(b"\n")?;
    let second = next_line(&mut output)?;
    client.wait()?;
    ensure!(second.starts_with("HTTP/1.1 401 resumed=False"), "after: {second:?}");
    Ok(format!("before {first}, after {second}"))
}

fn strange_users(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let (lab, authority) = (net.lab, pki.file("api"));
    let evil = "\u{1b}]0;owned\u{7}\r\n2026-01-01T00:00:00Z ERROR forged";
    let name = "rosemary:user:admin:root";
    let all =
        |names: Vec<String>| names.iter().map(|it| uri(it)).collect::<anyhow::Result<Vec<_>>>();
    let kinds: Vec<Vec<SanType>> = vec![
        all(vec![format!("{name}\0")])?,
        all(vec![format!("{name}\0.example.org")])?,
        all(vec![format!("{name}{evil}")])?,
        all(vec![format!("rosemary:user:admin:{}", "r".repeat(65))])?,
        all(vec![format!("rosemary:user:admin:{}", "r".repeat(20_000))])?,
        all(vec!["rosemary:user:admin:../../root".into()])?,
        all(vec!["rosemary:user:admin:".into()])?,
        all(vec!["rosemary:user:viewer:a:admin:b".into()])?,
        all((0..500).map(|it| format!("rosemary:user:admin:u{it}")).collect())?,
        all(vec![name.into(); 500])?,
        vec![dns(name)?],
        vec![SanType::Rfc822Name(name.try_into()?)],
        vec![uri(name)?, dns(name)?],
    ];
    let count = kinds.len();
    for (number, names) in kinds.into_iter().enumerate() {
        let shown = issue((lab, &authority), &format!("user{number}"), |params| {
            params.subject_alt_names = names;
            Ok(())
        })?;
        let answer = curl(lab, pki, &shown);
        ensure!(answer == Ok(401) || answer.is_err(), "user {number}: {answer:?}");
    }
    let shown = issue((lab, &authority), "common", |params| {
        params.distinguished_name.push(DnType::CommonName, format!("{name}{evil}"));
        Ok(())
    })?;
    let answer = curl(lab, pki, &shown);
    ensure!(answer == Ok(401), "a common name: {answer:?}");
    let (_, audit) = run(lab, &["logs", "audit"])?;
    ensure!(!audit.lines().any(|line| line.starts_with("2026-01-01")), "a forged audit record");
    ensure!(!audit.contains('\u{1b}'), "an escape sequence is in the audit log");
    Ok(format!("{} certificates gave no role", count + 1))
}

/// Processor time and log lines of refusals are bounded, and a good user is served beside them.
fn refused_flood(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let lab = net.lab;
    let good = user(lab, pki, "good", "viewer")?;
    let switch = pki.switch("flood", &[])?;
    let now = SystemTime::now();
    let expired = issue((lab, &pki.file("api")), "late", |params| {
        params.subject_alt_names = vec![uri("rosemary:user:admin:late")?];
        (params.not_before, params.not_after) = ((now - 9 * DAY).into(), (now - DAY).into());
        Ok(())
    })?;
    let bad = [Certificate { cert: switch.cert, key: switch.key }, expired];
    let before = lines(net, &["interface refused"]);
    let (mut outcomes, mut slowest) = (BTreeMap::<String, usize>::new(), Duration::ZERO);
    for round in 0..60 {
        let outcome = match curl(lab, pki, &bad[round % 2]) {
            Ok(status) => status.to_string(),
            Err(_) => "refused".into(),
        };
        *outcomes.entry(outcome).or_default() += 1;
        if round % 10 == 9 {
            let begin = Instant::now();
            let answer = curl(lab, pki, &good);
            slowest = slowest.max(begin.elapsed());
            ensure!(answer == Ok(200), "a good user: {answer:?}");
        }
    }
    ensure!(outcomes.keys().all(|it| it == "refused"), "{outcomes:?}");
    ensure!(slowest < Duration::from_secs(5), "a good user waited for {slowest:?}");
    let count = lines(net, &["interface refused"]) - before;
    ensure!(count > 0 && count <= 60, "{count} lines");
    Ok(format!("{outcomes:?}, {count} lines, a good user in at most {slowest:.1?}"))
}

/// A user holds as many connections as it gets. The operator on this machine, and the switch, are served.
fn idle_users(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let lab = net.lab;
    let hog = user(lab, pki, "hog", "viewer")?;
    let port = API_PORT.to_string();
    let mut client = tls(lab, "idle", &hog, &[OTHER, &port, "900"]).spawn()?;
    let mut output = BufReader::new(client.stdout.take().context("an output")?);
    let held: usize = next_line(&mut output)?.parse().context("a number")?;
    let begin = Instant::now();
    let answer = rosemary_tests::http::request("GET", "/api/v1/apps", &[], b"")?;
    ensure!(answer.status == 200, "the operator: {answer:?}");
    let (code, said) = run(lab, &["apps"])?;
    ensure!(code == Some(0), "{said}");
    let took = begin.elapsed();
    ensure!(took < Duration::from_secs(5), "the operator waited for {took:?}");
    let late = pki.switch("late2", &["--dpid", "0x8a"])?;
    let shown = Certificate { cert: late.cert, key: late.key };
    let seen = claim(lab, &shown, &["000000000000008a"])?;
    ensure!(seen == ["admitted"], "a good switch: {seen:?}");
    drop(client.stdin.take());
    client.wait()?;
    let hog_answer = curl(lab, pki, &hog);
    net.rosemary.wait_for("only s1 is known", SOON, |status| {
        (status.switches.as_ref()?.len() == 1).then_some(())
    })?;
    ensure!(held <= 750, "{held} connections of one address");
    ensure!(hog_answer == Ok(200), "the user itself, afterwards: {hog_answer:?}");
    Ok(format!("{held} connections were held, the operator was served in {took:.1?}"))
}
