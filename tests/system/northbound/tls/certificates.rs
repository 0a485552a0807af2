//! Whom a certificate names, and which certificates name nobody.

use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context as _, ensure};
use cli::lab::Of;
use control::northbound::Role;
use rosemary_tests::developer::rosemary;
use rosemary_tests::net::SOON;
use rosemary_tests::pki::SwitchKeys;
use rosemary_tests::{in_a_lab, kill};
use serde_json::Value;

use super::super::get;
use super::{Certificate, DAY, Instance, OTHER, client, soon};

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
            let local = get("/readyz")?;
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
