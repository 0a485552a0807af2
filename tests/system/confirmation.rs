//! A configuration waits for a confirmation, returns without one, also if the monitor dies, and is undone later.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Rosemary};
use rosemary_tests::apps::configure;
use rosemary_tests::developer::{CONFIG, must_have_audited, refused, rosemary};
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, rosemary_binary, schema};
use rustix::process::Signal;
use serde_json::Value;

const SWITCH: &str = "[[app]]\nname = \"learning-switch\"\n";
const STATS: &str = "[[app]]\nname = \"stats\"\n";

fn start(lab: &Lab) -> anyhow::Result<Rosemary<'_>> {
    Ok(Rosemary::start(lab, &rosemary_binary(), &[])?)
}

/// Waits until exactly these apps are in the table, and nothing waits for a confirmation unless `waits`.
fn wait_for_apps(rosemary: &mut Rosemary<'_>, apps: &[&str], waits: bool) -> anyhow::Result<()> {
    Ok(rosemary.wait_for("these apps run", SOON, |status| {
        let names = status.programs.apps.iter().map(|app| app.name.as_str());
        let are_there = names.eq(apps.iter().copied());
        (are_there && status.programs.unconfirmed.is_some() == waits).then_some(())
    })?)
}

/// The outcomes of the changes, the oldest first.
fn outcomes(lab: &Lab) -> anyhow::Result<Vec<String>> {
    let json = rosemary(lab, &["changes", "--json"])?;
    schema::check("config-changes", &json)?;
    let changes: Vec<Value> = serde_json::from_str(&json)?;
    let outcome = |it: &Value| Some(it["outcome"].as_str()?.to_owned());
    changes.iter().map(|it| outcome(it).context("an outcome")).collect()
}

#[test]
fn configuration_without_confirmation_returns_and_a_confirmed_one_stays() {
    in_a_lab(|lab| {
        configure(&[SWITCH])?;
        let mut running = start(lab)?;
        configure(&[SWITCH, STATS])?;
        let report = rosemary(lab, &["reload", "--confirm", "2", "--json"])?;
        schema::check("change", &report)?;
        ensure!(report.contains("rosemary confirm"), "{report}");
        for args in [&["reload"][..], &["undo", "1"]] {
            let error = refused(lab, args)?;
            ensure!(error.contains("change 2 of the configuration waits"), "{error}");
        }
        wait_for_apps(&mut running, &["learning-switch", "stats"], true)?;
        wait_for_apps(&mut running, &["learning-switch"], false)?;
        assert_eq!(fs::read_to_string(CONFIG)?, SWITCH, "the next start agrees");

        configure(&[SWITCH, STATS])?;
        rosemary(lab, &["reload", "--confirm", "600"])?;
        let status = rosemary(lab, &["status"])?;
        ensure!(status.contains("WAITING: change 4 of the configuration"), "{status}");
        rosemary(lab, &["confirm"])?;
        let error = refused(lab, &["confirm"])?;
        ensure!(error.contains("no configuration waits"), "{error}");
        wait_for_apps(&mut running, &["learning-switch", "stats"], false)?;
        assert_eq!(outcomes(lab)?, ["applied", "taken back", "applied", "confirmed"]);
        must_have_audited(
            lab,
            &[
                "user 0 requested: reload --confirm 2 (change 1)",
                "Rosemary requested: undo 2, as nobody confirmed it (change 2)",
                "user 0: confirm (change 4) is done",
            ],
        )
    });
}

#[test]
fn undo_restores_the_configuration_before_a_change() {
    in_a_lab(|lab| {
        configure(&[SWITCH])?;
        let mut running = start(lab)?;
        configure(&[SWITCH, STATS])?;
        rosemary(lab, &["reload"])?;
        let shown = rosemary(lab, &["changes", "2"])?;
        ensure!(shown.contains("app.stats.name none -> \"stats\""), "{shown}");
        let steps = rosemary(lab, &["undo", "2", "--dry-run"])?;
        ensure!(steps.contains("stop") && steps.contains("app stats"), "{steps}");
        configure(&[SWITCH, STATS, "# edited\n"])?;
        let error = refused(lab, &["undo", "2"])?;
        ensure!(error.contains("was edited since it was loaded"), "{error}");
        wait_for_apps(&mut running, &["learning-switch", "stats"], false)?;
        let steps = rosemary(lab, &["undo", "2", "--force"])?;
        ensure!(steps.contains("app stats"), "{steps}");
        wait_for_apps(&mut running, &["learning-switch"], false)?;
        assert_eq!(fs::read_to_string(CONFIG)?, SWITCH);
        let edited = fs::read_to_string(format!("{CONFIG}.edited"))?;
        ensure!(edited.ends_with("# edited\n"), "{edited}");
        for (id, why) in [("1", "no configuration before it"), ("99", "there is no change 99")] {
            let error = refused(lab, &["undo", id])?;
            ensure!(error.contains(why), "{error}");
        }
        let list = rosemary(lab, &["changes"])?;
        ensure!(list.contains("undo 2 --force") && list.contains("user 0"), "{list}");
        Ok(())
    });
}

#[test]
fn time_for_a_confirmation_outlives_the_monitor() {
    in_a_lab(|lab| {
        configure(&[SWITCH])?;
        let running = start(lab)?;
        configure(&[SWITCH, STATS])?;
        rosemary(lab, &["reload", "--confirm", "4"])?;
        running.stop(Signal::KILL)?;
        let mut running = start(lab)?;
        wait_for_apps(&mut running, &["learning-switch", "stats"], true)?;
        wait_for_apps(&mut running, &["learning-switch"], false)?;
        assert_eq!(fs::read_to_string(CONFIG)?, SWITCH);

        configure(&[SWITCH, STATS])?;
        rosemary(lab, &["reload", "--confirm", "1"])?;
        running.stop(Signal::KILL)?;
        std::thread::sleep(Duration::from_millis(1_200)); // the time is over while nothing runs
        let mut running = start(lab)?;
        wait_for_apps(&mut running, &["learning-switch"], false)?;
        assert_eq!(fs::read_to_string(CONFIG)?, SWITCH);
        let list = rosemary(lab, &["changes"])?;
        ensure!(list.contains("nobody confirmed the last one"), "{list}");
        Ok(())
    });
}
