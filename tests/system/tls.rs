//! Switches over TLS: only a switch with a valid certificate can connect, and the operator learns
//! the reason of a rejection.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary, Switch};
use rcgen::{CertificateParams, Issuer, KeyPair};
use rosemary_tests::net::{INTERVAL, Net, Over, SOON};
use rosemary_tests::pki::{Pki, SwitchKeys};
use rosemary_tests::{in_a_lab, kill, rosemary_binary};

use crate::duplicate_datapath_ids::refused;

pub(crate) const PORT: &str = "127.0.0.1:6653";

/// Starts Rosemary with TLS only, with its keys and a switch without keys.
fn start(lab: &Lab) -> anyhow::Result<(Pki<'_>, Rosemary<'_>, Switch<'_>)> {
    let pki = Pki::init(lab, "pki")?;
    let args = ["--tls-dir", pki.dir(), "--plain", "never"];
    let rosemary = Rosemary::start(lab, &rosemary_binary(), &args)?;
    Ok((pki, rosemary, lab.switch("s1", Of::V1_3)?))
}

#[test]
fn printed_pki_commands_work() {
    in_a_lab(|lab| {
        let (pki, mut rosemary, s1) = start(lab)?;
        let keys = pki.switch("s1", &["--dpid", "0000000000000001"])?;
        for command in &keys.commands {
            println!("{command}");
            lab.run("sh", &["-c", command])?;
        }
        let switch = rosemary.wait_for_switch(&s1)?;
        println!("{}", rosemary.wait_for_log(&["switch connected", "tls 1."], SOON)?);
        assert!(switch.transport.starts_with("tls 1."), "{switch:?}");
        Ok(())
    });
}

#[test]
fn forbidden_plain_tcp_receives_no_byte() {
    in_a_lab(|lab| {
        let (_pki, mut rosemary, _s1) = start(lab)?;
        println!("{}", rosemary.wait_for_log(&["plain TCP", "not allowed", "ssl:"], SOON)?);
        let mut peer = TcpStream::connect(PORT)?;
        peer.set_read_timeout(Some(Duration::from_secs(1)))?;
        let mut bytes = [0; 8];
        let silence = peer.read(&mut bytes).unwrap_err();
        assert_eq!(silence.kind(), std::io::ErrorKind::WouldBlock, "no hello after 300 ms");
        Ok(())
    });
}

#[test]
fn remote_plain_tcp_requires_permission() {
    in_a_lab(|lab| {
        // A local connection to this address also has it as source, so it is not loopback.
        lab.run("ip", &["address", "add", "192.0.2.1/32", "dev", "lo"])?;
        let pki = Pki::init(lab, "pki")?;
        let start = |more: &[&str]| {
            let args = [&["--listen", "0.0.0.0:6653"], more].concat();
            Rosemary::start_with(lab, &rosemary_binary(), &args)
        };
        let s1 = lab.switch("s1", Of::V1_3)?;
        s1.connect_to("tcp:192.0.2.1:6653")?;

        let mut rosemary = start(&[])?;
        println!("{}", rosemary.wait_for_log(&["connection refused", "rosemary pki init"], SOON)?);
        drop(rosemary);
        let mut rosemary = start(&["--tls-dir", pki.dir()])?;
        println!("{}", rosemary.wait_for_log(&["192.0.2.1", "use ssl: instead of tcp:"], SOON)?);
        pki.switch("s1", &[])?.give_to(&s1)?;
        s1.connect_to("ssl:192.0.2.1:6653")?;
        assert!(rosemary.wait_for_switch(&s1)?.transport.starts_with("tls"));
        drop(rosemary);

        s1.connect_to("tcp:192.0.2.1:6653")?;
        let mut rosemary = start(&["--plain", "any"])?;
        assert_eq!(rosemary.wait_for_switch(&s1)?.transport, "tcp");
        println!("{}", rosemary.wait_for_log(&["can pose as any switch"], SOON)?);
        Ok(())
    });
}

#[test]
fn certificate_of_another_datapath_is_rejected() {
    in_a_lab(|lab| {
        let (pki, mut rosemary, s1) = start(lab)?;
        pki.switch("other", &["--dpid", "0x2", "--dpid", "0x3"])?.give_to(&s1)?;
        let words =
            ["claims the datapath 00:00:00:00:00:00:00:01", "00:02, 00:00:00:00:00:00:00:03"];
        println!("{}", rosemary.wait_for_log(&words, SOON)?);
        assert_eq!(rosemary.status()?.and_then(|it| it.switches).map(|it| it.len()), Some(0));
        let incidents = refused(&mut rosemary, lab, ("127.0.0.1", &s1.dpid()))?;
        ensure!(incidents.len() == 1, "Open vSwitch connects again and again: {incidents:?}");
        let facts = incidents[0]["evidence"]["facts"].to_string();
        ensure!(words.iter().all(|word| facts.contains(word)), "{facts}");
        pki.switch("s1", &["--dpid", &s1.dpid()])?.give_to(&s1)?;
        rosemary.wait_for_switch(&s1)?;
        Ok(())
    });
}

#[test]
fn invalid_certificates_are_rejected_with_the_reason() {
    in_a_lab(|lab| {
        let (pki, mut rosemary, s1) = start(lab)?;
        let right = pki.switch("s1", &[])?;
        // The switch's CA is not ours, although the switch trusts us.
        let foreign = Pki::init(lab, "foreign")?.switch("s1", &[])?;
        let foreign = SwitchKeys { ca_cert: right.ca_cert.clone(), ..foreign };
        foreign.give_to(&s1)?;
        println!("{}", rosemary.wait_for_log(&["not issued by an authority"], SOON)?);

        let day = Duration::from_secs(24 * 3600);
        let now = SystemTime::now();
        issue(&pki, &right, "expired", now - 9 * day, now - 2 * day)?.give_to(&s1)?;
        println!("{}", rosemary.wait_for_log(&["certificate expired 2 days ago"], SOON)?);
        issue(&pki, &right, "future", now + 5 * day, now + 9 * day)?.give_to(&s1)?;
        println!("{}", rosemary.wait_for_log(&["not valid before"], SOON)?);

        // And the reverse: the switch does not trust us.
        let distrustful = SwitchKeys { ca_cert: foreign.cert, ..right.clone() };
        distrustful.give_to(&s1)?;
        println!("{}", rosemary.wait_for_log(&["does not accept this controller's"], SOON)?);
        right.give_to(&s1)?;
        rosemary.wait_for_switch(&s1)?;
        Ok(())
    });
}

/// Issues a certificate for other dates, which `rosemary pki` would not do.
fn issue(
    pki: &Pki<'_>,
    keys: &SwitchKeys,
    name: &str,
    not_before: SystemTime,
    not_after: SystemTime,
) -> anyhow::Result<SwitchKeys> {
    let read = |name: &str| fs::read_to_string(pki.file(name));
    let authority = KeyPair::from_pem(&read("ca-key.pem")?)?;
    let authority = Issuer::from_ca_cert_pem(&read("ca-cert.pem")?, authority)?;
    let mut params = CertificateParams::default();
    (params.not_before, params.not_after) = (not_before.into(), not_after.into());
    let key = KeyPair::generate()?;
    let issued = SwitchKeys {
        key: pki.file(&format!("{name}-key.pem")),
        cert: pki.file(&format!("{name}-cert.pem")),
        ..keys.clone()
    };
    fs::write(&issued.key, key.serialize_pem())?;
    fs::write(&issued.cert, params.signed_by(&key, &authority)?.pem())?;
    Ok(issued)
}

#[test]
fn certificates_of_ovs_pki_are_accepted() {
    in_a_lab(|lab| {
        let dir = lab.files().join("ovs-pki");
        let dir_option = format!("--dir={}", dir.display());
        let log = format!("--log={}", lab.files().join("ovs-pki.log").display());
        let ovs_pki = |args: &str| {
            let line = format!("cd {} && ovs-pki {log} {dir_option} {args}", lab.files().display());
            lab.run("sh", &["-c", &line])
        };
        ovs_pki("init")?;
        ovs_pki("--batch req+sign ctl controller")?;
        ovs_pki("--batch req+sign sc switch")?;
        // Under the file names that `rosemary up` expects, as described in SECURITY.md.
        let keys = lab.files().join("keys");
        for (mode, from, to) in [
            ("600", "ctl-privkey.pem", "controller-key.pem"),
            ("644", "ctl-cert.pem", "controller-cert.pem"),
            ("644", "ovs-pki/switchca/cacert.pem", "ca-cert.pem"),
        ] {
            let (from, to) = (lab.files().join(from), keys.join(to));
            let [from, to] = [from, to].map(|path| path.display().to_string());
            lab.run("install", &["-D", "-m", mode, &from, &to])?;
        }
        let keys = keys.display().to_string();
        let args = ["--tls-dir", &keys, "--plain", "never"];
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &args)?;
        let s1 = lab.switch("s1", Of::V1_3)?;
        let file = |name: &str| lab.files().join(name);
        let ca = dir.join("controllerca/cacert.pem");
        s1.connect_over_tls(&file("sc-privkey.pem"), &file("sc-cert.pem"), &ca)?;
        let switch = rosemary.wait_for_switch(&s1)?;
        assert!(switch.transport.starts_with("tls"), "{switch:?}");
        println!("{}", rosemary.wait_for_log(&["switch connected", "tls"], SOON)?);
        Ok(())
    });
}

#[test]
fn switch_certificate_cannot_impersonate_the_controller() {
    in_a_lab(|lab| {
        let pki = Pki::init(lab, "pki")?;
        let (thief, s1s) = (pki.switch("thief", &[])?, pki.switch("s1", &[])?);
        fs::copy(&thief.key, pki.file("controller-key.pem"))?;
        fs::copy(&thief.cert, pki.file("controller-cert.pem"))?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &["--tls-dir", pki.dir()])?;
        println!("{}", rosemary.wait_for_log(&["not meant for servers"], SOON)?);
        s1s.give_to(&lab.switch("s1", Of::V1_3)?)?;
        println!("{}", rosemary.wait_for_log(&["does not accept this controller's"], SOON)?);
        Ok(())
    });
}

#[test]
fn restarted_kernel_keeps_the_keys() {
    in_a_lab(|lab| {
        let mut net = Net::start_over(lab, Of::V1_3, Over::Tls)?;
        // Open vSwitch reads its own files again when it connects.
        fs::remove_file(lab.files().join("pki/controller-key.pem"))?;
        let before = net.status()?.programs.kernel.pid;
        kill(before.context("the kernel runs")?)?;
        let after = net.rosemary.wait_for("the kernel is back", SOON, |status| {
            status.programs.kernel.pid.filter(|pid| Some(*pid) != before)
        })?;
        let switch = net.switch_status()?;
        println!("kernel {before:?}, then {after}: {switch:?}");
        assert!(switch.transport.starts_with("tls"), "{switch:?}");
        Ok(())
    });
}

#[test]
fn tls_without_keys_names_the_command() {
    in_a_lab(|lab| {
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let mut peer = TcpStream::connect(PORT)?;
        peer.write_all(&client_hello())?;
        println!("{}", rosemary.wait_for_log(&["speaks TLS", "rosemary pki init"], SOON)?);
        Ok(())
    });
}

#[test]
fn broken_tls_is_recorded_and_the_switch_stays() {
    in_a_lab(|lab| {
        let mut net = Net::start_over(lab, Of::V1_3, Over::Tls)?;
        assert_eq!(net.h1.ping(&net.h2, 3, INTERVAL)?.lost(), 0);
        let epoch = net.switch_status()?.epoch;

        let hello = client_hello();
        let garbage = [hello.clone(), vec![0xa5; 50_000]].concat();
        let mut after_hello = TcpStream::connect(PORT)?;
        let _ = after_hello.write_all(&garbage); // it may be closed while we still send
        let address = after_hello.local_addr()?.to_string();
        println!("{}", net.rosemary.wait_for_log(&[&address, "it sent invalid TLS"], SOON)?);

        let mut gone = TcpStream::connect(PORT)?;
        gone.write_all(&hello)?;
        gone.shutdown(Shutdown::Write)?;
        let address = gone.local_addr()?.to_string();
        println!("{}", net.rosemary.wait_for_log(&[&address, "during the TLS handshake"], SOON)?);

        // A peer that sends half of its handshake and then waits.
        let mut half = TcpStream::connect(PORT)?;
        half.write_all(&hello[..hello.len() / 2])?;
        let address = half.local_addr()?.to_string();
        let late = Duration::from_secs(15);
        println!("{}", net.rosemary.wait_for_log(&[&address, "after 10 s"], late)?);

        let mut client = lab.command("openssl");
        client.args(["s_client", "-tls1_2", "-connect", PORT]).stdin(Stdio::null());
        let output = client.output()?;
        println!("{}", net.rosemary.wait_for_log(&["it showed no certificate"], SOON)?);
        let heard = String::from_utf8_lossy(&output.stderr);
        assert!(heard.contains("SSL alert"), "the peer also receives an alert: {heard}");

        assert_eq!(net.switch_status()?.epoch, epoch, "on the same connection");
        assert_eq!(net.h1.ping(&net.h3, 10, INTERVAL)?.lost(), 0);
        Ok(())
    });
}

#[test]
fn half_open_handshakes_block_no_switch() {
    in_a_lab(|lab| {
        sys::process::raise_descriptor_limit()?;
        let pki = Pki::init(lab, "pki")?;
        let args = ["--tls-dir", pki.dir()];
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &args)?;
        let s1 = lab.switch("s1", Of::V1_3)?;
        let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s1)?);
        pki.switch("both", &["--dpid", "0x1", "--dpid", "0x2"])?.give_to(&s1)?;
        // It may already be connected over plain TCP, and reconnects over TLS.
        rosemary.wait_for_log(&["switch connected", "transport=\"tls"], SOON)?;
        let before = rosemary.wait_for_switch(&s1)?;
        assert_eq!(h1.ping(&h2, 3, INTERVAL)?.lost(), 0);

        let start = Instant::now();
        let mut pings = h1.ping_in_background(&h2, 150, INTERVAL)?;
        pings.wait_for(5, SOON)?;
        let hello = client_hello();
        let mut peers = Vec::new();
        for number in 0..2_000 {
            let mut peer = TcpStream::connect(PORT)?;
            if number % 4 == 0 {
                let _ = peer.write_all(&hello);
            }
            peers.push(peer);
        }
        println!("2,000 connections after {:?}", start.elapsed());
        let s2 = lab.switch("s2", Of::V1_0)?;
        s2.connect_to("ssl:127.0.0.1:6653")?;
        let switch = rosemary.wait_for_switch(&s2)?;
        println!("s2 is in after {:?}, over {}", start.elapsed(), switch.transport);
        let pings = pings.finish()?;
        assert_eq!(pings.lost(), 0, "{pings:?}");
        assert_eq!(rosemary.wait_for_switch(&s1)?.epoch, before.epoch, "on the same connection");
        println!("{}", rosemary.wait_for_log(&["closed to admit another one"], SOON)?);
        drop(peers);
        Ok(())
    });
}

#[test]
fn invalid_keys_prevent_the_start() {
    in_a_lab(|lab| {
        let pki = Pki::init(lab, "pki")?;
        let up = |args: &[&str]| -> anyhow::Result<String> {
            let mut command = lab.command(rosemary_binary());
            let output = command.arg("up").args(args).stdin(Stdio::null()).output()?;
            assert!(matches!(output.status.code(), Some(1 | 78)), "{output:?}");
            let text = String::from_utf8(output.stderr)?;
            println!("{}", text.trim_end());
            Ok(text)
        };
        let keys = ["--tls-dir", pki.dir()];
        let key = pki.file("controller-key.pem");
        lab.run("chmod", &["644", &key.display().to_string()])?;
        assert!(up(&keys)?.contains("chmod 600"));
        fs::copy(pki.file("ca-key.pem"), &key)?;
        lab.run("chmod", &["600", &key.display().to_string()])?;
        assert!(up(&keys)?.contains("not the key of the certificate"));
        fs::remove_file(&key)?;
        let make = format!("rosemary pki controller --force --dir '{}'", pki.dir());
        assert!(up(&keys)?.contains(&make));
        let words = ["pki", "controller", "--force", "--dir", pki.dir()];
        lab.run(&rosemary_binary().display().to_string(), &words)?; // the advice works
        assert!(key.exists());
        if !Path::new("/etc/rosemary/pki").exists() {
            assert!(up(&["--plain", "never"])?.contains("no switch could connect"));
        }
        Ok(())
    });
}

/// Builds a `ClientHello` that any TLS server would answer, as sent by `openssl s_client` (RFC 8446
/// §4.1.2): TLS 1.2, one cipher suite, the curve P-256.
pub(crate) fn client_hello() -> Vec<u8> {
    let extensions = [
        &[0, 10, 0, 4, 0, 2, 0, 23][..],  // supported_groups: secp256r1
        &[0, 11, 0, 2, 1, 0],             // ec_point_formats: uncompressed
        &[0, 13, 0, 6, 0, 4, 4, 3, 8, 4], // signature_algorithms: ECDSA, RSA-PSS
        &[0, 23, 0, 0],                   // extended_master_secret
    ]
    .concat();
    let mut body = vec![3, 3];
    body.extend([7; 32]); // random
    body.extend([0, 0, 2, 0xc0, 0x2b, 1, 0]); // no session; ECDHE_ECDSA_AES_128_GCM; no compression
    body.extend([0, extensions.len().to_be_bytes()[7]]);
    body.extend(extensions);
    let length = body.len().to_be_bytes()[7];
    let mut hello = vec![0x16, 3, 1, 0, length + 4, 1, 0, 0, length];
    hello.extend(body);
    hello
}
