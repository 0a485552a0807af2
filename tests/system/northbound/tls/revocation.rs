//! Revoked certificates are refused at once, and end the streams that they began.

use std::fs;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use cli::lab::Rosemary;
use control::northbound::Role;
use rosemary_tests::developer::{audit_records, refused, rosemary};
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, rosemary_binary};
use serde_json::Value;

use super::super::wait_for_api;
use super::{Certificate, Instance, OTHER, TLS, client};

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
        let record = format!(
            "user 0 revoked the certificates of \"alice\": valid -> revoked if they begin before {before} (seconds since 1970)"
        );
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
        // The list is read again, and has no news of alice.
        refused(lab, &["pki", "revoke-user", "alice", "--dir", "/run/lab/other"])?;
        ensure!(it.status(apps, Some(&bob), &[]) == Ok(200));
        let revocations =
            audit_records(lab).into_iter().filter(|it| it.contains("certificates of"));
        ensure!(revocations.eq([record]), "{:#?}", audit_records(lab));
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
