//! Clients on other machines: TLS 1.3, with tokens or with certificates of the users' authority, and nothing else.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use control::northbound::Role;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType};
use rosemary_tests::apps::{configure, in_rust};
use rosemary_tests::developer::{refused, rosemary};
use rosemary_tests::net::SOON;
use rosemary_tests::pki::{Pki, SwitchKeys};
use rosemary_tests::{in_a_lab, kill, rosemary_binary};
use serde_json::Value;

use super::hostile::memory;
use super::wait_for_api;

/// An address that is not loopback. Connections of this machine to it have it as their source, too.
const OTHER: &str = "192.0.2.1";

/// The address of the interface with TLS.
const TLS: &str = "https://192.0.2.1:8443";

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The key and the certificate that a client presents.
#[derive(Debug, Clone)]
struct Certificate {
    key: PathBuf,
    cert: PathBuf,
}

/// Rosemary with both sets of keys.
struct Instance<'lab> {
    lab: &'lab Lab,
    pki: Pki<'lab>,
    rosemary: Rosemary<'lab>,
}

impl<'lab> Instance<'lab> {
    fn start(lab: &'lab Lab) -> anyhow::Result<Self> {
        lab.run("ip", &["address", "add", &format!("{OTHER}/32"), "dev", "lo"])?;
        let pki = Pki::init(lab, "pki")?;
        rosemary(lab, &["pki", "api", OTHER, "localhost", "--dir", pki.dir()])?;
        configure(&[&in_rust("observer", "stage = \"observe\"")])?;
        let addresses = ["--api", "127.0.0.1:8181", "--api", "0.0.0.0:8443"];
        let args = [&["--tls-dir", pki.dir()], &addresses[..]].concat();
        let rosemary = Rosemary::start(lab, &rosemary_binary(), &args)?;
        wait_for_api()?;
        Ok(Self { lab, pki, rosemary })
    }

    /// Makes a user with `rosemary pki user`.
    fn user(&self, name: &str, role: Role) -> anyhow::Result<Certificate> {
        let args = ["pki", "user", name, "--role", role.name(), "--dir", self.pki.dir()];
        let printed = rosemary(self.lab, &args)?;
        ensure!(printed.starts_with("curl --cacert "), "{printed}");
        Ok(self.shown(&format!("users/{name}")))
    }

    /// The files of a directory.
    fn shown(&self, dir: &str) -> Certificate {
        let dir = self.pki.file(dir);
        Certificate { key: dir.join("key.pem"), cert: dir.join("cert.pem") }
    }

    /// Sends a request; returns the status and the body, or how the connection failed.
    fn curl(
        &self,
        path: &str,
        shown: Option<&Certificate>,
        more: &[&str],
    ) -> Result<(u16, Value), String> {
        let authority = self.pki.file("api/ca-cert.pem");
        let mut command = self.lab.command("curl");
        command.args(["-sS", "-m", "20", "-w", "\n%{http_code}", "--cacert"]).arg(authority);
        if let Some(Certificate { key, cert }) = shown {
            command.arg("--key").arg(key).arg("--cert").arg(cert);
        }
        let output = command.args(more).arg(format!("{TLS}{path}")).output();
        let output = output.map_err(|error| error.to_string())?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}: {error}", output.status));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let (body, status) = text.trim().rsplit_once('\n').unwrap_or(("", text.trim()));
        let status = status.parse().map_err(|_| text.to_string())?;
        Ok((status, serde_json::from_str(body).unwrap_or(Value::Null)))
    }

    fn status(
        &self,
        path: &str,
        shown: Option<&Certificate>,
        more: &[&str],
    ) -> Result<u16, String> {
        self.curl(path, shown, more).map(|(status, _)| status)
    }

    /// Issues a certificate that `rosemary pki` would not: with these URIs, this purpose and this end, by the authority in `dir`.
    fn issue(
        &self,
        (dir, name): (&str, &str),
        uris: &[&str],
        purpose: ExtendedKeyUsagePurpose,
        end: SystemTime,
    ) -> anyhow::Result<Certificate> {
        let read = |file: &str| fs::read_to_string(self.pki.file(dir).join(file));
        let authority = KeyPair::from_pem(&read("ca-key.pem")?)?;
        let authority = Issuer::from_ca_cert_pem(&read("ca-cert.pem")?, authority)?;
        let mut params = CertificateParams::default();
        params.not_before = (end - 9 * DAY).into();
        params.not_after = end.into();
        params.extended_key_usages = vec![purpose];
        for uri in uris {
            params.subject_alt_names.push(SanType::URI((*uri).try_into()?));
        }
        let key = KeyPair::generate()?;
        let file = |part: &str| self.lab.files().join(format!("{name}-{part}.pem"));
        let shown = Certificate { key: file("key"), cert: file("cert") };
        fs::write(&shown.key, key.serialize_pem())?;
        fs::write(&shown.cert, params.signed_by(&key, &authority)?.pem())?;
        Ok(shown)
    }
}

fn client() -> ExtendedKeyUsagePurpose {
    ExtendedKeyUsagePurpose::ClientAuth
}

fn soon() -> SystemTime {
    SystemTime::now() + DAY
}

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

#[test]
fn strangers_learn_whether_rosemary_is_ready_and_not_why() {
    in_a_lab(|lab| {
        let it = Instance::start(lab)?;
        let alice = it.user("alice", Role::Viewer)?;
        let (status, good) = it.curl("/readyz", None, &[]).map_err(anyhow::Error::msg)?;
        ensure!(status == 200 && good == serde_json::json!({ "ready": true }), "{good}");
        let ask = || -> anyhow::Result<[(u16, Value); 3]> {
            let status = it.rosemary.status()?.context("it answers")?;
            if let Some(pid) = status.app("observer").and_then(|it| it.pid) {
                kill(pid)?;
            }
            let stranger = it.curl("/readyz", None, &[]).map_err(anyhow::Error::msg)?;
            let user = it.curl("/readyz", Some(&alice), &[]).map_err(anyhow::Error::msg)?;
            let local = super::get("/readyz")?;
            Ok([stranger, user, (local.status, local.json())])
        };
        let [stranger, user, local] = lab.wait_for("it is not ready", SOON, |evidence| {
            let answers = ask();
            evidence.0 = format!("{answers:?}");
            let is_unready =
                |them: &[(u16, Value); 3]| them.iter().all(|(status, _)| *status == 503);
            Ok(answers.ok().filter(is_unready).map(|them| them.map(|(_, body)| body)))
        })?;
        ensure!(stranger == serde_json::json!({ "ready": false }), "{stranger}");
        for known in [user, local] {
            let reason = known["reasons"][0].as_str().unwrap_or_default();
            ensure!(reason.starts_with("the app observer is "), "{known}");
        }
        Ok(())
    });
}

#[test]
fn certificate_gives_its_role_and_audit_names_its_user() {
    in_a_lab(|lab| {
        let it = Instance::start(lab)?;
        let (stop, start) = ("/api/v1/apps/observer/stop", "/api/v1/apps/observer/start");
        let post = ["-X", "POST"];
        for (role, reads, acts, configures) in [
            (Role::Viewer, 200, 403, 403),
            (Role::Operator, 200, 200, 403),
            (Role::Admin, 200, 200, 200),
        ] {
            let name = format!("the-{role}");
            let user = it.user(&name, role)?;
            let who = it.curl("/api/v1/session", Some(&user), &[]).map_err(anyhow::Error::msg)?.1;
            ensure!(who["role"] == role.name() && who["how"] == "certificate", "{who}");
            ensure!(who["user"].as_str().is_some_and(|it| it.contains(&name)), "{who}");
            ensure!(it.status("/api/v1/apps", Some(&user), &[]) == Ok(reads), "{role}");
            ensure!(it.status(stop, Some(&user), &post) == Ok(acts), "{role}");
            ensure!(it.status(start, Some(&user), &post) == Ok(acts), "{role}");
            ensure!(it.status("/api/v1/tokens", Some(&user), &[]) == Ok(configures), "{role}");
            let reload = it.status("/api/v1/reload?dry_run=true", Some(&user), &post);
            ensure!(reload == Ok(configures), "{role}: {reload:?}");
        }
        lab.wait_for("the audit records name the users", SOON, |evidence| {
            let log = rosemary(lab, &["logs", "audit"]).unwrap_or_default();
            let names = ["certificate the-operator (", "certificate the-admin ("];
            let has_all = names.iter().all(|name| log.contains(name));
            let has_viewer = log.contains("the-viewer");
            evidence.0 = log;
            Ok((has_all && !has_viewer).then_some(()))
        })?;
        Ok(())
    });
}

/// Requests that are sent over one connection, and what curl prints about each.
fn over_one_connection(
    it: &Instance<'_>,
    shown: &Certificate,
    requests: usize,
) -> anyhow::Result<std::process::Child> {
    let url = format!("{TLS}/api/v1/apps");
    let one = ["-o", "/dev/null", "-w", "%{http_code} %{num_connects}\\n", &url];
    let mut command = it.lab.command("curl");
    command.args(["-sS", "-N", "--rate", "2/s", "--cacert"]).arg(it.pki.file("api/ca-cert.pem"));
    command.arg("--key").arg(&shown.key).arg("--cert").arg(&shown.cert);
    command.args(std::iter::repeat_n(one, requests).flatten());
    Ok(command.stdout(std::process::Stdio::piped()).spawn()?)
}

#[test]
fn revoked_user_is_refused_at_once() {
    in_a_lab(|lab| {
        let it = Instance::start(lab)?;
        let apps = "/api/v1/apps";
        let alice = it.user("alice", Role::Admin)?;
        let bob = it.user("bob", Role::Admin)?;
        // A certificate whose file was replaced is revoked, too.
        let replaced = lab.files().join("replaced");
        lab.run(
            "cp",
            &["-r", &it.pki.file("users/alice").to_string_lossy(), &replaced.to_string_lossy()],
        )?;
        let replaced =
            Certificate { key: replaced.join("key.pem"), cert: replaced.join("cert.pem") };
        let make = ["pki", "user", "alice", "--role", "admin", "--force", "--dir", it.pki.dir()];
        rosemary(lab, &make)?;
        for shown in [&alice, &replaced, &bob] {
            ensure!(it.status(apps, Some(shown), &[]) == Ok(200));
        }
        let open = over_one_connection(&it, &alice, 8)?;
        std::thread::sleep(Duration::from_millis(1300));
        let revoke = ["pki", "revoke-user", "alice", "--json", "--dir", it.pki.dir()];
        let revoked: Value = serde_json::from_str(&rosemary(lab, &revoke)?)?;
        ensure!(revoked["in_effect"] == true, "{revoked}");
        for shown in [&alice, &replaced] {
            let (status, problem) = it.curl(apps, Some(shown), &[]).map_err(anyhow::Error::msg)?;
            let detail = problem["detail"].as_str().unwrap_or_default();
            ensure!(status == 401 && detail == "the certificate of alice was revoked", "{problem}");
        }
        ensure!(it.status(apps, Some(&bob), &[]) == Ok(200));
        // The connection that was open before.
        let printed = String::from_utf8(open.wait_with_output()?.stdout)?;
        let mut lines = printed.lines();
        ensure!(lines.next() == Some("200 1") && lines.last() == Some("401 0"), "{printed}");
        let before = revoked["before"].as_u64().context("a time")?;
        let record = format!("user 0 revoked the certificates of alice that begin before {before}");
        lab.wait_for("the audit record says so", SOON, |evidence| {
            evidence.0 = rosemary(lab, &["logs", "audit"]).unwrap_or_default();
            Ok(evidence.0.contains(&record).then_some(()))
        })?;
        // A later certificate of the same user is valid, the old ones never again.
        rosemary(lab, &make)?;
        ensure!(it.status(apps, Some(&alice), &[]) == Ok(200));
        ensure!(it.status(apps, Some(&replaced), &[]) == Ok(401));
        // Keys in another directory.
        let other = ["pki", "api", OTHER, "--dir", "/run/lab/other"];
        rosemary(lab, &other)?;
        let error = refused(lab, &["pki", "revoke-user", "bob", "--dir", "/run/lab/other"])?;
        ensure!(error.contains("still accepts the certificates of bob"), "{error}");
        ensure!(it.status(apps, Some(&bob), &[]) == Ok(200));
        // The next start knows the list.
        let Instance { pki, rosemary: up, .. } = it;
        up.stop(rustix::process::Signal::TERM)?;
        let revoke = ["pki", "revoke-user", "bob", "--json", "--dir", pki.dir()];
        let revoked: Value = serde_json::from_str(&rosemary(lab, &revoke)?)?;
        ensure!(revoked["in_effect"] == false, "{revoked}");
        let args = ["--tls-dir", pki.dir(), "--api", "127.0.0.1:8181", "--api", "0.0.0.0:8443"];
        let rosemary = Rosemary::start(lab, &rosemary_binary(), &args)?;
        wait_for_api()?;
        let it = Instance { lab, pki, rosemary };
        for (shown, status) in [(&alice, 200), (&replaced, 401), (&bob, 401)] {
            ensure!(it.status(apps, Some(shown), &[]) == Ok(status), "{shown:?}");
        }
        Ok(())
    });
}

/// Begins to receive events with a certificate, into a file.
fn follow(
    it: &Instance<'_>,
    shown: &Certificate,
    file: &str,
) -> anyhow::Result<std::process::Child> {
    let mut command = it.lab.command("curl");
    command.args(["-sSN", "-m", "60", "-o", file, "--cacert"]).arg(it.pki.file("api/ca-cert.pem"));
    command.arg("--key").arg(&shown.key).arg("--cert").arg(&shown.cert);
    let child = command.arg(format!("{TLS}/api/v1/events")).spawn()?;
    it.lab.wait_for("events arrive", SOON, |_| {
        let text = fs::read_to_string(file).unwrap_or_default();
        Ok(text.contains("event: hello").then_some(()))
    })?;
    Ok(child)
}

#[test]
fn event_streams_end_with_their_certificates() {
    in_a_lab(|lab| {
        let it = Instance::start(lab)?;
        let alice = it.user("alice", Role::Viewer)?;
        let bob = it.user("bob", Role::Viewer)?;
        let mut revoked = follow(&it, &alice, "/run/lab/alice")?;
        let mut valid = follow(&it, &bob, "/run/lab/bob")?;
        // The second in which a certificate expires belongs to its validity.
        let end = SystemTime::now() + Duration::from_secs(6);
        let carol = it.issue(("api", "carol"), &["rosemary:user:viewer:carol"], client(), end)?;
        let mut expires = follow(&it, &carol, "/run/lab/carol")?;
        ensure!(revoked.try_wait()?.is_none());
        rosemary(lab, &["pki", "revoke-user", "alice", "--dir", it.pki.dir()])?;
        // curl succeeds only if the body is complete.
        let ends_by = |child: &mut std::process::Child, deadline: SystemTime| loop {
            if let Some(status) = child.try_wait()? {
                ensure!(status.success(), "{status}");
                return Ok(());
            }
            ensure!(SystemTime::now() < deadline, "it goes on");
            std::thread::sleep(Duration::from_millis(20));
        };
        let second = Duration::from_secs(1);
        ends_by(&mut revoked, SystemTime::now() + second)?;
        ends_by(&mut expires, end + second)?;
        ensure!(valid.try_wait()?.is_none());
        valid.kill()?;
        valid.wait()?;
        Ok(())
    });
}

#[test]
fn other_certificates_are_refused() {
    in_a_lab(|lab| {
        let mut it = Instance::start(lab)?;
        let apps = "/api/v1/apps";
        let right = it.user("alice", Role::Viewer)?;
        ensure!(it.status(apps, Some(&right), &[]) == Ok(200));
        // The handshake fails, and the log has the reason.
        let (alice, bob) = ("rosemary:user:admin:alice", "rosemary:user:admin:bob");
        let switch = it.pki.switch("s1", &["--dpid", "1"])?;
        let switch = Certificate { key: switch.key, cert: switch.cert };
        let user_of_switches = it.issue((".", "user"), &[alice], client(), soon())?;
        rosemary(lab, &["pki", "api", OTHER, "--dir", "/run/lab/forged"])?;
        rosemary(lab, &["pki", "user", "alice", "--role", "admin", "--dir", "/run/lab/forged"])?;
        let forged = Path::new("/run/lab/forged/users/alice");
        let forged = Certificate { key: forged.join("key.pem"), cert: forged.join("cert.pem") };
        let old = it.issue(("api", "old"), &[alice], client(), SystemTime::now() - 2 * DAY)?;
        let future =
            it.issue(("api", "future"), &[alice], client(), SystemTime::now() + 11 * DAY)?;
        let server = it.shown("api");
        let unknown = "not issued by an authority of users";
        for (shown, why) in [
            (&switch, unknown),
            (&user_of_switches, unknown),
            (&forged, unknown),
            (&old, "certificate expired 2 days ago"),
            (&future, "not valid before"),
            (&server, "not meant for clients"),
        ] {
            let result = it.status(apps, Some(shown), &[]);
            let is_refused = result.as_ref().is_err_and(|error| error.contains("alert"));
            ensure!(is_refused, "{why}: {shown:?}: {result:?}");
            println!("{}", it.rosemary.wait_for_log(&["interface refused", why], SOON)?);
        }
        // The right authority, and a name that is nobody's.
        let dpid = "rosemary:dpid:00:00:00:00:00:00:00:01";
        for (number, (uris, why)) in [
            (&[][..], "names no user"),
            (&["https://example.org/alice"], "names no user"),
            (&[dpid], "not exactly the name of a user"),
            (&[alice, dpid], "not exactly the name of a user"),
            (&[alice, bob], "names 2 users"),
            (&["rosemary:user:Admin:alice"], "not exactly the name of a user"),
            (&["rosemary:user:admin:al%69ce"], "not exactly the name of a user"),
            (&["Rosemary:user:admin:alice"], "not exactly the name of a user"),
            (&["rosemary:user:root:alice"], "not exactly the name of a user"),
            (&["rosemary:user:admin"], "not exactly the name of a user"),
            (&["rosemary:users:admin:alice"], "not exactly the name of a user"),
        ]
        .into_iter()
        .enumerate()
        {
            let shown = it.issue(("api", &format!("n{number}")), uris, client(), soon())?;
            let (status, problem) = it.curl(apps, Some(&shown), &[]).map_err(anyhow::Error::msg)?;
            let detail = problem["detail"].as_str().unwrap_or_default();
            ensure!(status == 401 && detail.contains(why), "{uris:?}: {status} {problem}");
        }
        Ok(())
    });
}

#[test]
fn user_certificate_is_refused_from_a_switch() {
    in_a_lab(|lab| {
        let mut it = Instance::start(lab)?;
        let alice = it.user("alice", Role::Admin)?;
        let right = it.pki.switch("s1", &[])?;
        let s1 = lab.switch("s1", Of::V1_3)?;
        let keys =
            |shown: Certificate| SwitchKeys { key: shown.key, cert: shown.cert, ..right.clone() };
        keys(alice).give_to(&s1)?;
        println!("{}", it.rosemary.wait_for_log(&["not issued by an authority that"], SOON)?);
        // Even if the switches' authority has issued it.
        let name = "rosemary:user:admin:alice";
        keys(it.issue((".", "user"), &[name], client(), soon())?).give_to(&s1)?;
        let words = ["not exactly the name of a datapath", name];
        println!("{}", it.rosemary.wait_for_log(&words, SOON)?);
        ensure!(it.rosemary.status()?.and_then(|it| it.switches).map(|it| it.len()) == Some(0));
        right.give_to(&s1)?;
        it.rosemary.wait_for_switch(&s1)?;
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
