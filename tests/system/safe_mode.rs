//! Safe mode: it begins by rule or on request, starts the apps one at a time as user apps, names the app with which a fault
//! comes back, and ends on request.

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of};
use cli::status::Report;
use control::incident::{Cause, Incident};
use control::operator::{ProgramState, SafeModeStatus};
use rosemary_tests::apps::{configure, in_c, in_rust};
use rosemary_tests::net::{APP, INTERVAL, Net, SOON};
use rosemary_tests::schema;
use rosemary_tests::{in_a_lab_for, rosemary_binary};
use rustix::process::{Pid, Signal, kill_process};

/// An app that ends the kernel without being called.
const CULPRIT: &str = "timebomb";

/// A guard that stops marked packets only.
const GUARD: &str = "stage = \"guard\"\nfail = \"closed\"";

fn rosemary(lab: &Lab, args: &[&str]) -> anyhow::Result<String> {
    Ok(lab.run(&rosemary_binary().display().to_string(), args)?)
}

fn switch_in_kernel() -> String {
    format!("[[app]]\nname = \"{APP}\"\nhost = \"kernel\"\n")
}

/// Safe mode, once it has started all its apps.
fn wait_until_complete(net: &mut Net<'_>) -> anyhow::Result<(Report, SafeModeStatus)> {
    Ok(net.rosemary.wait_for("safe mode has started its apps", SOON * 6, |status| {
        let safe_mode = status.programs.safe_mode.clone().filter(|it| it.complete)?;
        Some((status.clone(), *safe_mode))
    })?)
}

fn wait_until_left(net: &mut Net<'_>) -> anyhow::Result<Report> {
    let dpid = net.s1.dpid();
    Ok(net.rosemary.wait_for(
        "the learning switch runs outside of safe mode",
        SOON * 3,
        |status| {
            let runs = status.app(APP).is_some_and(|app| app.state == ProgramState::Running);
            let is_over = status.programs.safe_mode.is_none() && status.switch(&dpid).is_some();
            (runs && is_over).then(|| status.clone())
        },
    )?)
}

#[test]
fn requested_safe_mode_runs_its_list_in_order_as_user_apps() {
    in_a_lab_for(SOON * 12, |lab| {
        let rules =
            "[safe-mode]\napps = [\"learning-switch\", \"observer\"]\nhealth-seconds = 0.5\n";
        configure(&[
            rules,
            &in_rust("guard", GUARD),
            &in_rust("observer", "stage = \"observe\""),
            &switch_in_kernel(),
        ])?;
        let mut net = Net::start_with(lab, Of::V1_3, &["--safe-mode"])?;
        let (status, safe_mode) = wait_until_complete(&mut net)?;
        ensure!(safe_mode.passed == [APP, "observer"], "{safe_mode:?}");
        ensure!(safe_mode.suspects.is_empty(), "{safe_mode:?}");
        ensure!(status.programs.apps.iter().all(|app| app.host == "user"), "{status:?}");
        let log = net.rosemary.log();
        let at = |app: &str| log.find(&format!("safe mode starts an app app=\"{app}\""));
        ensure!(at(APP).is_some() && at(APP) < at("observer") && at("guard").is_none(), "{log}");

        let guard = status.app("guard").context("it is configured")?;
        ensure!(guard.state == ProgramState::Stopped, "it is not in the list");
        let ping = net.h1.ping(&net.h2, 5, INTERVAL)?;
        ensure!(ping.received == 0, "a guard that fails closed does not run: {ping:?}");

        let reasons = status.health.reasons.join("\n");
        ensure!(reasons.contains("in safe mode: an operator requested it"), "{reasons}");
        let text = rosemary(lab, &["safe-mode", "status"])?;
        ensure!(text.contains("Ran well:       learning-switch, observer\n"), "{text}");
        let json = rosemary(lab, &["safe-mode", "status", "--json"])?;
        ensure!(json.starts_with("{\"active\":true,"), "{json}");
        schema::check("safe-mode", &json)?;
        schema::check("status", &serde_json::to_string(&status)?)?;
        let refused = rosemary(lab, &["app", "restart", "observer"]).map_err(|it| it.to_string());
        ensure!(refused.as_ref().is_err_and(|why| why.contains("safe-mode exit")), "{refused:?}");

        let refused = rosemary(lab, &["safe-mode", "exit"]).map_err(|it| it.to_string());
        ensure!(refused.as_ref().is_err_and(|why| why.contains("--yes")), "{refused:?}");
        rosemary(lab, &["safe-mode", "exit", "--yes"])?;
        let status = wait_until_left(&mut net)?;
        let switch = status.app(APP).context("it is configured")?;
        ensure!((switch.host.as_str(), &switch.demoted) == ("kernel", &None), "{switch:?}");
        lab.wait_for("pings are answered", SOON, |_| {
            Ok((net.h1.ping(&net.h2, 1, INTERVAL)?.received > 0).then_some(()))
        })?;
        let text = rosemary(lab, &["safe-mode", "status"])?;
        ensure!(text == "Rosemary is not in safe mode.\n", "{text}");
        Ok(())
    });
}

#[test]
fn apps_start_after_those_whose_services_they_use() {
    in_a_lab_for(SOON * 8, |lab| {
        let rules = "[safe-mode]\napps = [\"forwarding\"]\nhealth-seconds = 0.5\n";
        configure(&[rules, "[[app]]\nname = \"forwarding\"\n"])?;
        let mut net = Net::start_with(lab, Of::V1_3, &["--safe-mode"])?;
        let (status, safe_mode) = wait_until_complete(&mut net)?;
        ensure!(safe_mode.passed == ["topology", "hosts", "forwarding"], "{safe_mode:?}");
        let reasons = status.health.reasons.join("\n");
        ensure!(!reasons.contains("does not run"), "{reasons}");
        let ping = net.h1.ping(&net.h2, 5, INTERVAL)?;
        ensure!(ping.received > 0, "{ping:?}");
        Ok(())
    });
}

#[test]
fn app_that_ends_the_kernel_again_and_again_is_named() {
    in_a_lab_for(SOON * 16, |lab| {
        let rules = "[safe-mode]\nkernel-restarts = 3\nhealth-seconds = 1\n";
        let culprit =
            in_c(lab, CULPRIT, "apps/timebomb.c", "stage = \"observe\"\nhost = \"kernel\"")?;
        configure(&[rules, &culprit, &switch_in_kernel()])?;
        // The end of the kernel alone names the app already, so an operator begins safe mode here.
        let mut net = Net::start_with(lab, Of::V1_3, &["--safe-mode"])?;
        let (status, safe_mode) = wait_until_complete(&mut net)?;
        println!("{safe_mode:?}");
        let named: Vec<&str> = safe_mode.suspects.iter().map(|it| it.app.as_str()).collect();
        ensure!(named == [CULPRIT] && safe_mode.passed == [APP], "{safe_mode:?}");
        ensure!(safe_mode.suspects[0].why.contains("SIGABRT"), "{safe_mode:?}");
        let reasons = status.health.reasons.join("\n");
        ensure!(reasons.contains(&format!("the app {CULPRIT} is held")), "{reasons}");
        lab.wait_for("pings are answered", SOON, |_| {
            Ok((net.h1.ping(&net.h2, 1, INTERVAL)?.received > 0).then_some(()))
        })?;
        let incident = incident(lab)?;
        ensure!(incident.open && incident.evidence.blamed.as_deref() == Some(CULPRIT));

        let notices = rosemary(lab, &["safe-mode", "exit", "--yes", "--json"])?;
        ensure!(notices.contains("timebomb stays stopped"), "{notices}");
        let status = wait_until_left(&mut net)?;
        let culprit = status.app(CULPRIT).context("it is configured")?;
        ensure!(culprit.state == ProgramState::Stopped && culprit.host == "user", "{culprit:?}");
        let restarts = status.programs.kernel.restarts;
        lab.pause(INTERVAL * 100)?;
        ensure!(net.status()?.programs.kernel.restarts == restarts, "the kernel goes on");
        ensure!(!self::incident(lab)?.open);
        let demoted = std::fs::read_to_string("/var/lib/rosemary/demoted.json")?;
        ensure!(demoted.contains(CULPRIT) && !demoted.contains(APP), "{demoted}");
        Ok(())
    });
}

#[test]
fn end_of_the_kernel_during_a_trial_names_the_app_on_trial() {
    in_a_lab_for(SOON * 10, |lab| {
        let safe_mode = kernel_ends_during_a_trial(lab, Signal::KILL)?;
        ensure!(safe_mode.passed == ["observer", APP], "{safe_mode:?}");
        let [suspect] = safe_mode.suspects.as_slice() else {
            anyhow::bail!("one app is to be named: {safe_mode:?}");
        };
        ensure!(suspect.app == "watcher", "{suspect:?}");
        ensure!(suspect.why == "the kernel ended: killed by SIGKILL", "{suspect:?}");
        Ok(())
    });
}

#[test]
fn signal_from_outside_to_the_kernel_names_no_app() {
    in_a_lab_for(SOON * 10, |lab| {
        let safe_mode = kernel_ends_during_a_trial(lab, Signal::SEGV)?;
        ensure!(safe_mode.passed == ["observer", "watcher", APP], "{safe_mode:?}");
        ensure!(safe_mode.suspects.is_empty(), "{safe_mode:?}");
        Ok(())
    });
}

/// Sends a signal to the kernel while the app `watcher` is on trial. Returns safe mode after all trials.
fn kernel_ends_during_a_trial(lab: &Lab, signal: Signal) -> anyhow::Result<SafeModeStatus> {
    let observe = "stage = \"observe\"";
    let watcher = in_c(lab, "watcher", "apps/watcher.c", observe)?;
    let observers = [in_rust("observer", observe), watcher];
    let rules = "[safe-mode]\nhealth-seconds = 4\n";
    configure(&[rules, &observers.concat(), &format!("[[app]]\nname = \"{APP}\"\n")])?;
    let mut net = Net::start_with(lab, Of::V1_3, &["--safe-mode"])?;
    let kernel = net.rosemary.wait_for("the second app is on trial", SOON, |status| {
        let safe_mode = status.programs.safe_mode.as_ref()?;
        let is_loaded = status.app("watcher")?.state == ProgramState::Running;
        let is_on_trial = safe_mode.on_trial.as_deref() == Some("watcher");
        status.programs.kernel.pid.filter(|_| is_loaded && is_on_trial)
    })?;
    kill_process(Pid::from_raw(kernel.try_into()?).context("it runs")?, signal)?;
    let (status, safe_mode) = wait_until_complete(&mut net)?;
    ensure!(status.programs.kernel.restarts == 1, "the kernel ended: {status:?}");
    Ok(safe_mode)
}

/// The incident of safe mode.
fn incident(lab: &Lab) -> anyhow::Result<Incident> {
    let incidents: Vec<Incident> = serde_json::from_str(&rosemary(lab, &["incidents", "--json"])?)?;
    let mut found = incidents.into_iter().filter(|it| it.cause == Cause::SafeMode);
    found.next().context("safe mode is an incident")
}
