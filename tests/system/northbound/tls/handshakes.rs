//! Which connections become requests: TLS 1.3 alone, with the right keys, and in time.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use control::northbound::Role;
use rosemary_tests::developer::{refused, rosemary};
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, kill};

use super::super::hostile::memory;
use super::{Instance, OTHER};

#[test]
fn only_tls_1_3_with_a_token_or_a_certificate_passes() {
    in_a_lab(|lab| {
        let mut it = Instance::start(lab)?;
        let apps = "/api/v1/apps";
        let error = it.status(apps, None, &["--tls-max", "1.2"]).unwrap_err();
        ensure!(error.contains("alert protocol version"), "{error}");
        println!("{}", it.rosemary.wait_for_log(&["interface refused", "(1.3)"], SOON)?);
        let plain = lab.run("curl", &["-s", "-m", "5", &format!("http://{OTHER}:8443{apps}")]);
        ensure!(plain.is_err(), "{plain:?}");
        // Nobody, from here and from this machine.
        let from_here = ["--connect-to", "::127.0.0.1:"];
        for more in [&[][..], &from_here] {
            let (status, problem) = it.curl(apps, None, more).map_err(anyhow::Error::msg)?;
            ensure!(
                status == 401 && problem["hint"].to_string().contains("rosemary pki user"),
                "{problem}"
            );
            for path in ["/livez", "/readyz"] {
                ensure!(it.status(path, None, more) == Ok(200), "{path}");
            }
            let (_, who) = it.curl("/api/v1/session", None, more).map_err(anyhow::Error::msg)?;
            ensure!(who["role"].is_null(), "{who}");
        }
        let token = rosemary(lab, &["token", "create", "--role", "viewer", "--name", "ci"])?;
        let bearer = format!("Authorization: Bearer {}", token.trim());
        ensure!(it.status(apps, None, &["-H", &bearer]) == Ok(200));
        let stop = ["-X", "POST", "-H", &bearer];
        ensure!(it.status("/api/v1/apps/observer/stop", None, &stop) == Ok(403));
        // A wrong token counts, whatever certificate comes with it.
        let root = it.user("root", Role::Admin)?;
        ensure!(it.status(apps, Some(&root), &["-H", "Authorization: Bearer x"]) == Ok(401));
        // A name that the certificate has and `names` does not, as with DNS rebinding.
        ensure!(it.status(apps, Some(&root), &["-H", "Host: attacker.example"]) == Ok(421));
        ensure!(
            it.status(apps, Some(&root), &["-H", "Origin: https://attacker.example"]) == Ok(403)
        );
        let events =
            it.curl("/api/v1/events", Some(&root), &["-m", "2", "-N", "-o", "/run/lab/events"]);
        ensure!(events.is_err() && fs::read_to_string("/run/lab/events")?.contains("event: hello"));
        // A new process has the same keys.
        let find = |it: &Instance<'_>| -> anyhow::Result<u32> {
            let status = it.rosemary.status()?.context("it answers")?;
            let service = status.programs.services.iter().find(|it| it.name == "northbound");
            service.and_then(|it| it.pid).context("it runs")
        };
        let before = find(&it)?;
        fs::rename(it.pki.file("api"), it.pki.file("moved"))?;
        kill(before)?;
        fs::create_dir(it.pki.file("api"))?;
        fs::copy(it.pki.file("moved/ca-cert.pem"), it.pki.file("api/ca-cert.pem"))?;
        lab.wait_for("another process serves TLS", SOON, |evidence| {
            let status = it.status(apps, Some(&root), &[]);
            evidence.0 = format!("{status:?}");
            Ok((status == Ok(200)).then_some(()))
        })?;
        ensure!(find(&it)? != before);
        Ok(())
    });
}

/// The begin of a `ClientHello` of 65535 bytes, in records of 16 KiB (RFC 8446, sections 4 and 5.1).
fn endless_hello(size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < size {
        bytes.extend([0x16, 3, 1, 0x40, 0]);
        let begin: &[u8] = if bytes.len() == 5 { &[1, 0, 0xff, 0xff] } else { &[0; 4] };
        bytes.extend(begin);
        bytes.extend([0; 0x4000 - 4]);
    }
    bytes.truncate(size);
    bytes
}

#[test]
fn unfinished_handshakes_end_and_others_are_served() {
    in_a_lab(|lab| {
        let mut it = Instance::start(lab)?;
        let root = it.user("root", Role::Admin)?;
        let open = |size: usize| -> anyhow::Result<TcpStream> {
            let mut stream = TcpStream::connect((OTHER, 8443))?;
            stream.set_read_timeout(Some(Duration::from_secs(30)))?;
            let _ = stream.write_all(&endless_hello(size)); // it may be closed meanwhile
            Ok(stream)
        };
        let ends = |stream: &mut TcpStream| match stream.read_to_end(&mut Vec::new()) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        };
        let before = memory(&it.rosemary)?;
        let begin = Instant::now();
        let sizes = [0, 3, 20_000].into_iter().cycle().take(600);
        let mut slow = sizes.map(open).collect::<anyhow::Result<Vec<_>>>()?;
        ensure!(it.status("/api/v1/apps", Some(&root), &[]) == Ok(200));
        let grown = memory(&it.rosemary)?.saturating_sub(before);
        println!("600 unfinished handshakes took {grown} KiB");
        ensure!(grown < 60_000, "{grown} KiB");
        // A handshake longer than any valid one ends at once.
        ensure!(ends(&mut open(200_000)?) && begin.elapsed() < Duration::from_secs(8));
        println!("{}", it.rosemary.wait_for_log(&["interface refused", "too much"], SOON)?);
        ensure!(slow.iter_mut().all(ends), "they end");
        println!("the slow ones ended after {:?}", begin.elapsed());
        println!("{}", it.rosemary.wait_for_log(&["interface refused", "in time"], SOON)?);
        // Plain HTTP is refused.
        let mut garbage = TcpStream::connect((OTHER, 8443))?;
        garbage.set_read_timeout(Some(Duration::from_secs(30)))?;
        garbage.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        ensure!(ends(&mut garbage));
        ensure!(it.status("/api/v1/apps", Some(&root), &[]) == Ok(200));
        Ok(())
    });
}

#[test]
fn missing_and_wrong_keys_are_explained() {
    in_a_lab(|lab| {
        lab.run("ip", &["address", "add", &format!("{OTHER}/32"), "dev", "lo"])?;
        let dir = "/run/lab/pki";
        let up = ["up", "--allow-unsigned", "--app", "learning-switch", "--api", "192.0.2.1:8443"];
        let up = [&up[..], &["--tls-dir", dir]].concat();
        let check = [&up[..], &["--check"]].concat();
        rosemary(lab, &["pki", "init", "--dir", dir])?;
        for args in [&up, &check] {
            let error = refused(lab, args)?;
            ensure!(error.contains("rosemary pki api 192.0.2.1 --dir /run/lab/pki"), "{error}");
        }
        rosemary(lab, &["pki", "api", OTHER, "--dir", dir])?;
        rosemary(lab, &check)?;
        let key = fs::read(format!("{dir}/api/key.pem"))?;
        fs::copy(format!("{dir}/controller-key.pem"), format!("{dir}/api/key.pem"))?;
        for args in [&up, &check] {
            let error = refused(lab, args)?;
            let why = "api/key.pem: it is not the key of the certificate";
            ensure!(error.contains(why), "{error}");
        }
        fs::remove_file(format!("{dir}/api/key.pem"))?;
        let error = refused(lab, &up)?;
        ensure!(error.contains("api/key.pem") && error.contains("rosemary pki api"), "{error}");
        fs::write(format!("{dir}/api/key.pem"), key)?;
        lab.run("chmod", &["644", &format!("{dir}/api/key.pem")])?;
        let error = refused(lab, &check)?;
        ensure!(error.contains("chmod 600"), "{error}");
        Ok(())
    });
}
