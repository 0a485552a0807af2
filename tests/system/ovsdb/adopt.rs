//! `rosemary switch adopt` and `rosemary switch ovsdb` with real Open vSwitch.

use std::fs;
use std::time::{Duration, SystemTime};

use anyhow::ensure;
use cli::lab::{Lab, Of, Rosemary, database};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rosemary_tests::pki::Pki;
use rosemary_tests::{in_a_lab, rosemary_binary, schema};
use serde_json::Value;

use super::{errors, rosemary, vsctl};

fn json(lab: &Lab, args: &[&str]) -> anyhow::Result<Value> {
    let output = rosemary(lab, &[args, &["--json"]].concat())?;
    ensure!(output.status.success(), "{args:?}: {output:?}");
    let text = String::from_utf8(output.stdout)?;
    schema::check(args[1], &text)?;
    Ok(serde_json::from_str(&text)?)
}

#[test]
fn adopted_bridge_connects() {
    in_a_lab(|lab| {
        let mut rosemary_up = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let s1 = lab.switch_without_controller("s1", Of::V1_5)?;
        s1.stand_alone()?;
        let database = database();
        let before = vsctl(lab, &["list", "bridge"])?;
        let dry = json(lab, &["switch", "adopt", &database, "--dry-run"])?;
        assert_eq!((&dry["connected"], &dry["dry_run"]), (&Value::Null, &Value::Bool(true)));
        let settings: Vec<_> = dry["changes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|it| it["setting"].clone())
            .collect();
        assert_eq!(settings, ["controller", "protocols", "fail_mode"]);
        assert_eq!(vsctl(lab, &["list", "bridge"])?, before, "nothing was changed");

        let output = rosemary(lab, &["switch", "adopt", &database, "--name", "edge 7"])?;
        ensure!(output.status.success(), "{output:?}");
        let shown = String::from_utf8(output.stdout.clone())?;
        for word in [
            "tcp:127.0.0.1:6653",
            "OpenFlow15",
            "OpenFlow10 OpenFlow12 OpenFlow13 OpenFlow14",
            "standalone",
            "dp-desc",
        ] {
            ensure!(shown.contains(word), "{word}: {shown}");
        }
        ensure!(
            errors(&output).contains("the switch has connected to tcp:127.0.0.1:6653"),
            "{output:?}"
        );
        rosemary_up.wait_for_switch(&s1)?;
        let switch = rosemary(lab, &["switches", "s1"])?;
        ensure!(String::from_utf8_lossy(&switch.stdout).contains("datapath edge 7"), "{switch:?}");

        let again = json(lab, &["switch", "adopt", &database, "--name", "edge 7"])?;
        assert_eq!(
            (again["changes"].as_array().map(Vec::len), &again["connected"]),
            (Some(0), &Value::Bool(true))
        );
        let owner = vsctl(lab, &["get", "controller", "s1", "external-ids:rosemary-owner"])?;
        assert_eq!(owner.trim(), "operator");
        Ok(())
    });
}

#[test]
fn bridge_of_another_controller_is_not_taken() {
    in_a_lab(|lab| {
        let s1 = lab.switch_without_controller("s1", Of::V1_3)?;
        s1.connect_to("tcp:192.0.2.9:6653")?;
        let database = database();
        let adopt = |more: &[&str]| {
            rosemary(lab, &[&["switch", "adopt", &database, "--wait", "0"], more].concat())
        };
        let refused = adopt(&[])?;
        assert_eq!(refused.status.code(), Some(1));
        ensure!(
            errors(&refused).contains("s1 belongs to tcp:192.0.2.9:6653; --replace"),
            "{refused:?}"
        );
        assert_eq!(vsctl(lab, &["get-controller", "s1"])?.trim(), "tcp:192.0.2.9:6653");
        let taken = adopt(&["--replace"])?;
        ensure!(taken.status.success(), "{taken:?}");
        assert_eq!(vsctl(lab, &["get-controller", "s1"])?.trim(), "tcp:127.0.0.1:6653");
        // Nobody listens there.
        let output = rosemary(lab, &["switch", "adopt", &database, "--wait", "1"])?;
        assert_eq!(output.status.code(), Some(1));
        ensure!(
            errors(&output).contains("has not connected to tcp:127.0.0.1:6653 within 1 s"),
            "{output:?}"
        );

        lab.switch_without_controller("s2", Of::V1_3)?;
        let several = adopt(&[])?;
        ensure!(errors(&several).contains("bridges s1, s2; name one with --bridge"), "{several:?}");
        let keys = adopt(&["--bridge", "s2", "--controller", "ssl:192.0.2.1:6653"])?;
        ensure!(errors(&keys).contains("the switch has no keys for TLS"), "{keys:?}");
        let listens = adopt(&["--bridge", "s2", "--controller", "6653"])?;
        assert_eq!(listens.status.code(), Some(2));
        Ok(())
    });
}

#[test]
fn bridge_is_adopted_over_tls() {
    in_a_lab(|lab| {
        let init = rosemary(lab, &["pki", "init"])?;
        ensure!(init.status.success(), "{init:?}");
        let pki = Pki::default_dir(lab);
        fs::write("/etc/rosemary/rosemary.toml", "[controller]\nplain = \"never\"\n")?;
        let mut rosemary_up = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let s1 = lab.switch_without_controller("s1", Of::V1_3)?;
        let adopt = ["switch", "adopt", "ssl:127.0.0.1:6640"];

        let give = |name: &str, dpid: &str| -> anyhow::Result<[String; 3]> {
            let keys = pki.switch(name, &["--dpid", dpid])?;
            let paths = [&keys.key, &keys.cert, &keys.ca_cert].map(|it| it.display().to_string());
            vsctl(lab, &["set-ssl", &paths[0], &paths[1], &paths[2]])?;
            Ok(paths)
        };
        let other = give("other", "2")?;
        vsctl(lab, &["set-manager", "pssl:6640:127.0.0.1"])?;
        let refused = rosemary(lab, &adopt)?;
        let error = errors(&refused);
        ensure!(
            error.contains("the certificate of the switch is for 00:00:00:00:00:00:00:02"),
            "{error}"
        );
        assert_eq!(vsctl(lab, &["get-controller", "s1"])?, "");

        let own = give("s1", &s1.dpid())?;
        ensure!(other != own);
        let paths =
            ["--switch-key", &own[0], "--switch-cert", &own[1], "--switch-ca-cert", &own[2]];
        let adopted = json(lab, &[&adopt[..], &paths].concat())?;
        assert_eq!(adopted["controller"], "ssl:127.0.0.1:6653");
        assert_eq!(adopted["connected"], true);
        ensure!(rosemary_up.wait_for_switch(&s1)?.transport.starts_with("tls"));

        // The controller's certificate of earlier versions is none of a client.
        issue_for_servers(&pki)?;
        let output = rosemary(lab, &adopt)?;
        ensure!(errors(&output).contains("rosemary pki controller --force"), "{output:?}");
        let renewed = rosemary(lab, &["pki", "controller", "--force"])?;
        ensure!(renewed.status.success(), "{renewed:?}");
        ensure!(rosemary(lab, &adopt)?.status.success());
        Ok(())
    });
}

/// Replaces the controller's certificate by one for servers only.
fn issue_for_servers(pki: &Pki<'_>) -> anyhow::Result<()> {
    let read = |name: &str| fs::read_to_string(pki.file(name));
    let authority = KeyPair::from_pem(&read("ca-key.pem")?)?;
    let authority = Issuer::from_ca_cert_pem(&read("ca-cert.pem")?, authority)?;
    let mut params = CertificateParams::default();
    let now = SystemTime::now();
    params.not_before = (now - Duration::from_secs(3600)).into();
    params.not_after = (now + Duration::from_secs(3600)).into();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &authority)?;
    fs::write(pki.file("controller-cert.pem"), certificate.pem())?;
    fs::write(pki.file("controller-key.pem"), key.serialize_pem())?;
    Ok(())
}

#[test]
#[expect(clippy::too_many_lines, reason = "one database, compared part by part")]
fn database_of_a_switch_is_shown() {
    in_a_lab(|lab| {
        let s1 = lab.switch_without_controller("s1", Of::V1_3)?;
        let (_h1, _h2) = (lab.host("h1", &s1)?, lab.host("h2", &s1)?);
        s1.connect_to("tcp:127.0.0.1:6653")?;
        let port = vsctl(lab, &["list-ports", "s1"])?;
        let port = port.lines().next().unwrap_or_default();
        vsctl(
            lab,
            &[
                "--id=@q",
                "create",
                "queue",
                "other-config:max-rate=1000000",
                "--",
                "--id=@qos",
                "create",
                "qos",
                "type=linux-htb",
                "other-config:max-rate=10000000",
                "queues:3=@q",
                "--",
                "set",
                "port",
                port,
                "qos=@qos",
                "tag=7",
            ],
        )?;
        vsctl(
            lab,
            &[
                "--id=@p",
                "get",
                "port",
                port,
                "--",
                "--id=@m",
                "create",
                "mirror",
                "name=m1",
                "select-src-port=@p",
                "output-vlan=9",
                "--",
                "set",
                "bridge",
                "s1",
                "mirrors=@m",
            ],
        )?;
        vsctl(
            lab,
            &[
                "--id=@s",
                "create",
                "sflow",
                "agent=lo",
                "target=\"127.0.0.1:6343\"",
                "sampling=64",
                "polling=10",
                "--",
                "--id=@n",
                "create",
                "netflow",
                "target=\"127.0.0.1:2055\"",
                "--",
                "set",
                "bridge",
                "s1",
                "sflow=@s",
                "netflow=@n",
            ],
        )?;
        let database = database();
        let shown = json(lab, &["switch", "ovsdb", &database])?;
        assert_eq!(shown["bridges"][0]["controllers"][0]["target"], "tcp:127.0.0.1:6653");
        let port = shown["ports"].as_array().into_iter().flatten().find(|it| it["tag"] == 7);
        let qos = port.map(|it| it["qos"].clone());
        assert_eq!(qos, Some(shown["qos"][0]["id"].clone()));
        assert_eq!(
            (&shown["queues"][0]["number"], &shown["queues"][0]["config"]["max-rate"]),
            (&3.into(), &"1000000".into())
        );
        assert_eq!(shown["mirrors"][0]["output_vlan"], 9);
        assert_eq!(
            (&shown["sflow"][0]["sampling"], &shown["netflow"][0]["bridge"]),
            (&64.into(), &"s1".into())
        );
        let interfaces = shown["interfaces"].as_array().into_iter().flatten();
        assert_eq!(
            interfaces
                .filter(|it| it["link_state"] == "up" && it["ofport"].as_i64() > Some(0))
                .count(),
            2
        );

        let table = rosemary(lab, &["switch", "ovsdb", &database])?;
        ensure!(table.status.success(), "{table:?}");
        let text = String::from_utf8(table.stdout)?;
        for word in [
            "BRIDGE",
            "PORT",
            "INTERFACE",
            "QOS",
            "QUEUE",
            "MIRROR",
            "EXPORT",
            "max-rate=1000000",
            "VLAN 9",
            "sampling=64",
        ] {
            ensure!(text.contains(word), "{word}: {text}");
        }
        ensure!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        println!("{text}");
        Ok(())
    });
}
