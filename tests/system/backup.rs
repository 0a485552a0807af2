//! `rosemary backup` of a running Rosemary, and `rosemary restore` on a machine that has lost everything.

use std::fs;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use rosemary_tests::developer::{
    CONFIG, Developer, Quality, must_have_audited, refused_with, rosemary, trust,
};
use rosemary_tests::net::SOON;
use rosemary_tests::pki::Pki;
use rosemary_tests::{in_a_lab, rosemary_binary};
use rustix::process::Signal;

const FILE: &str = "/run/lab/rosemary.backup";
const PASSWORD: [&str; 2] = ["--password-file", "/run/lab/backup-password"];

/// What identifies an app in switches and packages: name, version, hash and number.
fn identities(lab: &Lab) -> anyhow::Result<serde_json::Value> {
    let status = rosemary(lab, &["status", "--json"])?;
    let status: serde_json::Value = serde_json::from_str(&status)?;
    let apps = status["apps"].as_array().with_context(|| status.to_string())?;
    let keys = ["name", "version", "sha256", "signed_by", "uid"];
    Ok(apps.iter().map(|app| keys.map(|key| app[key].clone()).to_vec()).collect())
}

#[test]
fn running_instance_is_saved_and_everything_returns() {
    in_a_lab(|lab| {
        fs::write(PASSWORD[1], "violet heron counts seven ladders\n")?;
        let joe = Developer::new(lab, "joe")?;
        joe.package(lab, "hub", "")?;
        let package = joe.version(lab, "0.1.0", Quality::Good)?;
        let apps = "[[app]]\nname = \"learning-switch\"\n[[app]]\nname = \"hub\"\n";
        trust(&[&joe.trust("")], apps)?;
        rosemary(lab, &["app", "install", &package])?;
        rosemary(lab, &["pki", "init"])?;
        let keys = Pki::default_dir(lab).switch("s1", &["--dpid", "1"])?;
        rosemary(lab, &["pki", "api", "localhost"])?;

        let args = ["--plain", "never"];
        let mut up = Rosemary::start_with(lab, &rosemary_binary(), &args)?;
        let s1 = lab.switch("s1", Of::V1_3)?;
        keys.give_to(&s1)?;
        up.wait_for_switch(&s1)?;
        rosemary(lab, &["app", "enable", "operator"])?;
        let flow = ["flows", "add", "1", "--match", "in_port=1", "--actions", "output:2"];
        rosemary(lab, &[&flow[..], &["--priority", "49600"]].concat())?;
        let token = rosemary(lab, &["token", "create", "--role", "admin", "--name", "ci"])?;
        let before = identities(lab)?;
        ensure!(before.to_string().contains("operator"), "{before}");

        // Rosemary runs meanwhile, and nothing that matters is missing.
        rosemary(lab, &[&["backup", FILE][..], &PASSWORD].concat())?;
        up.must_run()?;
        let mode = lab.run("stat", &["-c", "%a", FILE])?;
        ensure!(mode.trim() == "600", "{mode}");
        let restore = [&["restore", FILE][..], &PASSWORD].concat();
        let (_, error) = refused_with(lab, &[&restore[..], &["--force"]].concat())?;
        ensure!(error.contains("runs") && error.contains("stop"), "{error}");

        // A change after the backup is not in it.
        rosemary(lab, &["flows", "delete", "1"])?;
        rosemary(lab, &["token", "revoke", "ci"])?;
        ensure!(!s1.dump_flows()?.iter().any(|it| it.contains("priority=49600")));
        let changes = [
            "user 0 requested: enable operator (change 1)",
            "user 0: enable operator (change 1) is done: ...app operator: enabled as configured -> by an operator, state ...",
            "user 0: add a flow to 00:00:00:00:00:00:00:01: none -> priority=49600,in_port=1 actions=output:2",
            "user 0 made the token \"ci\" (...): none -> role admin, without an end",
            "user 0: delete flows of 00:00:00:00:00:00:00:01: priority=49600,in_port=1 actions=output:2 -> none",
            "user 0 revoked the token \"ci\" (...): role admin, without an end -> none",
        ];
        must_have_audited(lab, &changes)?;
        up.stop(Signal::TERM)?;
        let config = fs::read_to_string(CONFIG)?;
        for dir in ["/etc/rosemary", "/var/lib/rosemary"] {
            lab.run("find", &[dir, "-mindepth", "1", "-delete"])?;
        }
        rosemary(lab, &restore)?;
        ensure!(fs::read_to_string(CONFIG)? == config);
        let mode = lab.run("stat", &["-c", "%a", "/etc/rosemary/pki/controller-key.pem"])?;
        ensure!(mode.trim() == "600", "{mode}");
        ensure!(fs::metadata("/etc/rosemary/pki/api/key.pem")?.is_file());

        let mut up = Rosemary::start_with(lab, &rosemary_binary(), &args)?;
        // The switch has kept its keys, which the same authority has issued.
        up.wait_for_switch(&s1)?;
        ensure!(identities(lab)? == before, "{before}");
        lab.wait_for("the operator's flow is back", SOON * 2, |evidence| {
            let flows = s1.dump_flows().unwrap_or_default();
            evidence.0 = flows.join("\n");
            Ok(evidence.0.contains("priority=49600").then_some(()))
        })?;
        let bearer = format!("Authorization: Bearer {}", token.trim());
        let url = "http://127.0.0.1:8181/api/v1/tokens";
        let tokens = lab.run("curl", &["-sf", "-m", "10", "-H", &bearer, url])?;
        ensure!(tokens.contains("\"ci\""), "{tokens}");
        let (_, error) = refused_with(lab, &restore)?;
        ensure!(error.contains("runs"), "{error}");
        up.stop(Signal::TERM)?;
        let (_, error) = refused_with(lab, &restore)?;
        ensure!(error.contains("--force"), "it exists: {error}");
        fs::write(PASSWORD[1], "another password entirely here\n")?;
        let (_, error) = refused_with(lab, &[&restore[..], &["--force"]].concat())?;
        ensure!(error.contains("password"), "{error}");
        ensure!(fs::read_to_string(CONFIG)? == config, "nothing was changed");
        Ok(())
    });
}
