//! Services that apps provide: clients read the table in shared memory, follow its changes, and survive the end of the
//! provider.

use anyhow::{Context as _, ensure};
use cli::lab::Rosemary;
use config::instance::InstancePaths;
use control::operator::ProgramState;
use rosemary_sdk::services::Service;
use rosemary_sdk::services::table::Table as _;
use rosemary_tests::apps::{configure, in_rust};
use rosemary_tests::developer::{refused_with, rosemary as rosemary_command};
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, kill, rosemary_binary};

const FULL: &str = "[zones]\nrequire = \"full\"\n\n";

const READER: &str = "services = [\"topology\"]\ncapabilities = [\"packet-in\", \"topology.read\"]\nstage = \"observe\"";

fn publisher() -> String {
    let keys = "stage = \"observe\"\ncapabilities = [\"packet-in\"]\nservices = []";
    in_rust("publisher", keys).replacen("\"publisher\"", "\"topology\"", 1)
}

#[test]
fn clients_follow_a_table_over_the_end_of_its_provider() {
    in_a_lab(|lab| {
        configure(&[FULL, &in_rust("subscriber", READER), &publisher()])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let attached = "whole true, last [0, 0, 0, 0, 0, 0, 0]";
        // The provider may write its first records while the table is read, so all of them are there with the first change.
        let changed = "changed: slot 5, next true, slots [5, 99999]";
        println!(
            "{}",
            rosemary.wait_for_log(&["topology", "client subscriber", "may topology.read"], SOON)?
        );
        println!("{}", rosemary.wait_for_log(&["subscriber", attached], SOON)?);
        println!("{}", rosemary.wait_for_log(&["subscriber", changed], SOON)?);
        println!("{}", rosemary.wait_for_log(&["subscriber", "answer Ok", "HELLO"], SOON)?);
        println!(
            "{}",
            rosemary.wait_for_log(&["app reported an incident", "counting has begun"], SOON)?
        );

        let status = rosemary.status()?.context("it answers")?;
        let pid = |name: &str| {
            let app = status.app(name).filter(|app| app.state == ProgramState::Running);
            app.and_then(|app| app.pid).with_context(|| format!("{name} runs"))
        };
        kill(pid("topology")?)?;
        rosemary.wait_for_log(&["subscriber", "gone: true"], SOON)?;
        let lines = |rosemary: &Rosemary<'_>| rosemary.log().matches("attached: slots").count();
        let deadline = std::time::Instant::now() + SOON;
        while lines(&rosemary) < 2 && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        ensure!(lines(&rosemary) == 2, "{}", rosemary.log());
        let after = rosemary.status()?.context("it answers")?;
        ensure!(after.app("subscriber").and_then(|app| app.pid) == Some(pid("subscriber")?));
        Ok(())
    });
}

#[test]
fn operators_read_the_table_and_send_requests() {
    in_a_lab(|lab| {
        configure(&[FULL, &in_rust("subscriber", READER), &publisher()])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_log(&["subscriber", "changed: slot 5"], SOON)?;
        let monitor = cli::client::connect(&InstancePaths::default())?;
        let table = monitor.service(Service::Topology)?;
        let record = table.read(5);
        ensure!(record[0] > 0 && record == [record[0]; 7], "{record:?}");
        ensure!(table.request(b"operator")? == b"OPERATOR");
        let absent = monitor.service(Service::Hosts).unwrap_err().to_string();
        ensure!(absent.contains("rosemary app enable hosts"), "{absent}");
        Ok(())
    });
}

#[test]
fn client_without_the_capability_is_not_started() {
    in_a_lab(|lab| {
        let keys = "services = [\"topology\"]\ncapabilities = [\"packet-in\"]";
        configure(&[FULL, &in_rust("subscriber", keys), &publisher()])?;
        let error = Rosemary::start(lab, &rosemary_binary(), &[]).unwrap_err().to_string();
        ensure!(error.contains("add \"topology.read\" to capabilities"), "{error}");
        Ok(())
    });
}

#[test]
fn each_instance_in_the_kernel_follows_a_table() {
    in_a_lab(|lab| {
        let reader = format!("host = \"kernel\"\n{READER}");
        let workers = "[controller]\nworkers = 2\n\n";
        configure(&[workers, FULL, &in_rust("subscriber", &reader), &publisher()])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let wait_for = |rosemary: &Rosemary<'_>, what: &str, count: usize| {
            lab.wait_for(format!("{count} lines with {what:?}"), SOON, |evidence| {
                let log = rosemary.log();
                evidence.0 = log.lines().rev().take(12).collect::<Vec<_>>().join("\n");
                Ok((log.matches(what).count() >= count).then_some(()))
            })
        };
        wait_for(&rosemary, "attached: slots", 2)?;
        wait_for(&rosemary, "changed: slot 5, next true", 2)?;
        rosemary.wait_for_log(&["subscriber", "answer Ok", "HELLO"], SOON)?;
        let status = rosemary.status()?.context("it answers")?;
        ensure!(status.app("subscriber").is_some_and(|app| app.host == "kernel"));
        kill(status.app("topology").and_then(|app| app.pid).context("it runs")?)?;
        wait_for(&rosemary, "gone: true", 2)?;
        wait_for(&rosemary, "attached: slots", 4)?;
        let after = rosemary.status()?.context("it answers")?;
        ensure!(after.programs.kernel == status.programs.kernel, "the kernel goes on");
        ensure!(!rosemary.log().contains("refused a system call"), "{}", rosemary.log());
        Ok(())
    });
}

#[test]
fn stopped_or_disabled_provider_is_a_reason_of_the_status() {
    in_a_lab(|lab| {
        configure(&[FULL, &in_rust("subscriber", READER), &publisher()])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_log(&["subscriber", "changed: slot 5"], SOON)?;
        let reasons = |rosemary: &mut Rosemary<'_>| -> anyhow::Result<Vec<String>> {
            Ok(rosemary.status()?.context("it answers")?.health.reasons)
        };
        ensure!(reasons(&mut rosemary)?.is_empty());
        for (begin, end) in [("stop", "start"), ("disable", "enable")] {
            rosemary_command(lab, &["app", begin, "topology"])?;
            let found = reasons(&mut rosemary)?;
            let remedy = format!("use it: subscriber; `rosemary app {end} topology`");
            ensure!(found.len() == 1 && found[0].contains(&remedy), "{found:?}");
            rosemary_command(lab, &["app", end, "topology"])?;
            rosemary.wait_for("it is healthy again", SOON, |status| {
                status.health.reasons.is_empty().then_some(())
            })?;
        }
        Ok(())
    });
}

#[test]
fn provider_that_is_not_configured_cannot_be_disabled() {
    in_a_lab(|lab| {
        configure(&[FULL, "[[app]]\nname = \"forwarding\"\n"])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for("topology runs", SOON, |status| status.app("topology").map(|_| ()))?;
        let (_, why) = refused_with(lab, &["app", "disable", "topology"])?;
        ensure!(why.contains("apps name its service") && why.contains("enabled = false"), "{why}");
        let (_, why) = refused_with(lab, &["app", "disable", "topologie"])?;
        ensure!(why.contains("there is no app \"topologie\""), "{why}");
        Ok(())
    });
}
