//! Operators change the configuration of a running Rosemary while established traffic goes on.

use std::fs;
use std::os::unix::fs::symlink;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of};
use control::operator::ProgramState;
use rosemary_tests::apps::{configure, in_c};
use rosemary_tests::developer::{
    CONFIG, Developer, INSTALLED, Quality, refused, refused_with, rosemary, trust,
};
use rosemary_tests::net::{APP, INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, kill, over_versions, rosemary_binary, schema};
use rustix::process::{Pid, Signal, kill_process};

const SWITCH: &str = "[[app]]\nname = \"learning-switch\"\n";

const FIREWALL: &str = "[[app]]\nname = \"firewall\"\nstage = \"guard\"\nconfig = \"firewall.toml\"\n\
                        capabilities = [\"flow.write\", \"stats.read\"]\n";

/// The firewall's own file.
const RULES: &str = "/etc/rosemary/firewall.toml";

const DENY_H3: &str = "[[deny]]\nto = \"10.0.0.3\"\nboth-ways = true\n";

fn pid(net: &mut Net<'_>, app: &str) -> anyhow::Result<u32> {
    Ok(net.rosemary.wait_for(&format!("{app} runs"), SOON, |status| {
        status.app(app).filter(|app| app.state == ProgramState::Running)?.pid
    })?)
}

/// Starts Rosemary with the learning switch, and traffic between h1 and h2.
fn start(lab: &Lab, of: Of) -> anyhow::Result<Net<'_>> {
    configure(&[SWITCH])?;
    let net = Net::start(lab, of)?;
    ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost() == 0);
    Ok(net)
}

fn wait_until_denied(net: &Net<'_>) -> anyhow::Result<()> {
    net.lab.wait_for("the firewall drops packets to h3", SOON, |_| {
        let flows = net.s1.dump_flows()?;
        let drops = |flow: &&String| flow.contains("10.0.0.3") && flow.ends_with("actions=drop");
        Ok((flows.iter().filter(drops).count() == 2).then_some(()))
    })?;
    assert_eq!(net.h1.ping(&net.h3, 5, INTERVAL)?.received, 0, "the firewall denies it");
    Ok(())
}

/// Starts a network whose firewall denies packets to h3.
fn with_firewall(lab: &Lab) -> anyhow::Result<Net<'_>> {
    configure(&[FIREWALL, SWITCH])?;
    fs::write(RULES, DENY_H3)?;
    Ok(Net::start(lab, Of::V1_3)?)
}

over_versions!(reload_adds_and_removes_a_guard, |of| in_a_lab(
    move |lab| adds_and_removes_a_guard(lab, of)
));

fn adds_and_removes_a_guard(lab: &Lab, of: Of) -> anyhow::Result<()> {
    let mut net = start(lab, of)?;
    let mut established = net.h1.ping_in_background(&net.h2, 400, INTERVAL)?;
    established.wait_for(3, SOON)?;
    let numbers = "/var/lib/rosemary/apps.json";
    let before = (fs::read(numbers)?, pid(&mut net, APP)?);

    configure(&[FIREWALL, SWITCH])?;
    fs::write(RULES, DENY_H3)?;
    let steps = rosemary(lab, &["reload", "--dry-run"])?;
    ensure!(steps.contains("start") && steps.contains("app firewall"), "{steps}");
    assert_eq!(net.status()?.programs.apps.len(), 1, "a dry run changes nothing");
    assert_eq!((fs::read(numbers)?, pid(&mut net, APP)?), before, "a dry run writes nothing");

    rosemary(lab, &["reload"])?;
    pid(&mut net, "firewall")?;
    wait_until_denied(&net)?;
    assert_eq!(rosemary(lab, &["reload"])?, "", "nothing is left to do");

    configure(&[SWITCH])?;
    let steps = rosemary(lab, &["reload"])?;
    ensure!(steps.contains("stop") && steps.contains("app firewall"), "{steps}");
    ensure!(net.status()?.app("firewall").is_none(), "it left");
    lab.wait_for("its flows are gone", SOON, |_| {
        let flows = net.s1.dump_flows()?;
        Ok((!flows.iter().any(|flow| flow.ends_with("actions=drop"))).then_some(()))
    })?;
    ensure!(net.h1.ping(&net.h3, 10, INTERVAL)?.received > 5, "nothing denies it any more");
    pid(&mut net, APP)?;
    assert_eq!(established.finish()?.lost(), 0, "flows stay in the switch");
    Ok(())
}

#[test]
fn mistake_in_the_configuration_changes_nothing() {
    in_a_lab(|lab| {
        let mut net = start(lab, Of::V1_3)?;
        let before = pid(&mut net, APP)?;
        configure(&[SWITCH, "[[app]]\nnam = \"firewall\"\n"])?;
        let (code, error) = refused_with(lab, &["reload"])?;
        assert_eq!(code, 78, "{error}");
        ensure!(error.contains(&format!("{CONFIG}:4:")) && error.contains("nam"), "{error}");
        let reasons = net.status()?.health.reasons.join("\n");
        ensure!(reasons.contains("the last reload was refused"), "{reasons}");
        ensure!(reasons.contains(":4:"), "{reasons}");
        let read = lab.command(rosemary_binary()).args(["apps", "--config", CONFIG]).output()?;
        ensure!(read.status.success(), "operators can look at what runs: {read:?}");
        ensure!(
            String::from_utf8_lossy(&read.stderr).contains("last good configuration"),
            "{read:?}"
        );
        fs::remove_file(CONFIG)?;
        let (_, error) = refused_with(lab, &["reload"])?;
        ensure!(error.contains("is gone; put it back, or restart Rosemary"), "{error}");
        symlink("/nowhere", CONFIG)?;
        let (code, error) = refused_with(lab, &["reload"])?;
        ensure!(code == 78 && error.contains("cannot read the configuration"), "{code}: {error}");
        fs::remove_file(CONFIG)?;
        configure(&["[controller]\nworkers = 1\n", SWITCH])?;
        let (code, error) = refused_with(lab, &["reload"])?;
        assert_eq!(code, 1, "the file is good: {error}");
        ensure!(error.contains("workers") && error.contains("restart of Rosemary"), "{error}");
        assert_eq!(pid(&mut net, APP)?, before, "it was not disturbed");
        configure(&[SWITCH])?;
        rosemary(lab, &["reload"])?;
        assert_eq!(net.status()?.programs.rejected, None);
        Ok(())
    });
}

#[test]
fn hangup_reloads_a_good_file_and_keeps_running_with_a_bad_one() {
    in_a_lab(|lab| {
        let mut net = start(lab, Of::V1_3)?;
        let mut established = net.h1.ping_in_background(&net.h2, 150, INTERVAL)?;
        established.wait_for(3, SOON)?;
        let rosemary = Pid::from_raw(net.rosemary.pid().try_into()?).context("it runs")?;
        configure(&[FIREWALL, SWITCH])?;
        fs::write(RULES, DENY_H3)?;
        kill_process(rosemary, Signal::HUP)?;
        let firewall = pid(&mut net, "firewall")?;
        configure(&[FIREWALL, SWITCH, "nonsense"])?;
        kill_process(rosemary, Signal::HUP)?;
        net.rosemary.wait_for("the mistake is shown", SOON, |status| {
            status.programs.rejected.as_ref().filter(|why| why.contains(CONFIG)).map(|_| ())
        })?;
        assert_eq!(pid(&mut net, "firewall")?, firewall);
        assert_eq!(established.finish()?.lost(), 0);
        Ok(())
    });
}

#[test]
fn mistake_in_an_apps_own_file_keeps_its_last_good_one() {
    in_a_lab(|lab| {
        let mut net = with_firewall(lab)?;
        ensure!(net.h1.ping(&net.h2, 20, INTERVAL)?.received >= 15);
        wait_until_denied(&net)?;
        let first = pid(&mut net, "firewall")?;
        fs::write(RULES, "[[deny]]\nwhither = \"10.0.0.3\"\n")?;
        let error = refused_change(lab, &["reload"])?;
        ensure!(error.contains("firewall") && error.contains("whither"), "{error}");
        ensure!(error.contains("exit status: 78"), "{error}");
        assert_eq!(pid(&mut net, "firewall")?, first, "it goes on");

        kill(first)?;
        let kept = net.rosemary.wait_for("another one runs", SOON, |status| {
            let app = status.app("firewall")?;
            let is_back = app.state == ProgramState::Running && app.pid != Some(first);
            is_back.then(|| app.kept.clone())
        })?;
        ensure!(kept.as_ref().is_some_and(|why| why.contains("whither")), "{kept:?}");
        wait_until_denied(&net)?;
        let reasons = net.status()?.health.reasons.join("\n");
        ensure!(reasons.contains("firewall goes on with its last good files"), "{reasons}");

        fs::write(RULES, [DENY_H3, "[[deny]]\nto = \"10.0.0.9\"\n"].concat())?;
        rosemary(lab, &["reload"])?;
        pid(&mut net, "firewall")?;
        assert_eq!(net.status()?.app("firewall").context("it is listed")?.kept, None);
        Ok(())
    });
}

#[test]
fn restart_with_a_mistake_in_the_apps_own_file_fails() {
    in_a_lab(|lab| {
        let mut net = with_firewall(lab)?;
        let first = pid(&mut net, "firewall")?;
        fs::write(RULES, "[[deny]]\nwhither = \"10.0.0.3\"\n")?;
        let error = refused_change(lab, &["app", "restart", "firewall"])?;
        ensure!(error.contains("the files with which it last ran"), "{error}");
        ensure!(error.contains("whither") && error.contains("exit status: 78"), "{error}");
        ensure!(pid(&mut net, "firewall")? != first, "it was restarted");
        wait_until_denied(&net)?;
        fs::write(RULES, DENY_H3)?;
        rosemary(lab, &["app", "restart", "firewall"])?;
        assert_eq!(net.status()?.app("firewall").context("it is listed")?.kept, None);
        Ok(())
    });
}

#[test]
fn dry_run_finds_what_a_reload_refuses() {
    in_a_lab(|lab| {
        let mut net = with_firewall(lab)?;
        let first = pid(&mut net, "firewall")?;
        let error_of = |args: &[&str]| -> anyhow::Result<String> {
            let error = refused_change(lab, args)?;
            ensure!(error.contains("exit status: 78"), "{error}");
            let (_, why) = error.split_once("the app firewall cannot run").context("it says so")?;
            Ok(why.lines().next().unwrap_or_default().to_owned())
        };
        for mistake in ["[[deny]]\nwhither = \"10.0.0.3\"\n", "[[deny]\n"] {
            fs::write(RULES, mistake)?;
            let planned = error_of(&["reload", "--dry-run"])?;
            ensure!(planned.contains(RULES), "{planned}");
            let app = net.status()?.app("firewall").context("it is listed")?.clone();
            assert_eq!((app.pid, app.kept), (Some(first), None), "a dry run changes nothing");
            assert_eq!(net.status()?.programs.rejected, None);
            assert_eq!(error_of(&["reload"])?, planned);
            fs::write(RULES, DENY_H3)?;
            rosemary(lab, &["reload"])?;
        }
        fs::write(RULES, [DENY_H3, "[[deny]]\nto = \"10.0.0.9\"\n"].concat())?;
        let steps = rosemary(lab, &["reload", "--dry-run"])?;
        ensure!(steps.contains("replace") && steps.contains("app firewall"), "{steps}");
        assert_eq!(pid(&mut net, "firewall")?, first, "a dry run changes nothing");
        Ok(())
    });
}

#[test]
fn enable_and_disable_leave_other_changes_to_a_reload() {
    in_a_lab(|lab| {
        let stats = "[[app]]\nname = \"stats\"\nenabled = false\n";
        let watcher = in_c(lab, "watcher", "apps/watcher.c", "stage = \"observe\"")?;
        configure(&[FIREWALL, SWITCH, &watcher, stats])?;
        fs::write(RULES, DENY_H3)?;
        let mut net = Net::start(lab, Of::V1_3)?;
        let mut pids = || -> anyhow::Result<Vec<u32>> {
            ["firewall", APP, "watcher"].into_iter().map(|app| pid(&mut net, app)).collect()
        };
        let before = pids()?;

        fs::write(RULES, [DENY_H3, "[[deny]]\nto = \"10.0.0.9\"\n"].concat())?;
        let said = rosemary(lab, &["app", "enable", "stats", "--json"])?;
        ensure!(said.contains("firewall: a change waits for `rosemary reload`"), "{said}");
        assert_eq!(pids()?, before, "only one app starts");

        fs::write(RULES, "[[deny]]\nwhither = \"10.0.0.3\"\n")?;
        fs::remove_file(lab.files().join("watcher.so"))?;
        configure(&[FIREWALL, SWITCH, "nonsense"])?;
        let said = rosemary(lab, &["app", "disable", "stats", "--json"])?;
        for waits in [&format!("{CONFIG} has changed"), "firewall: a change", "watcher: a change"] {
            ensure!(said.contains(waits), "{said}");
        }
        assert_eq!(pids()?, before, "only one app leaves");
        ensure!(net.status()?.app("stats").is_none(), "it left");

        configure(&[FIREWALL, SWITCH])?;
        refused_change(lab, &["reload"])?;
        fs::write(RULES, DENY_H3)?;
        rosemary(lab, &["reload"])?;
        Ok(())
    });
}

#[test]
fn app_that_a_reload_starts_has_not_left_the_configuration() {
    in_a_lab(|lab| {
        let topology = "[[app]]\nname = \"topology\"\n";
        configure(&[SWITCH, topology])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        pid(&mut net, "topology")?;
        configure(&[SWITCH, topology, "enabled = false\n"])?;
        rosemary(lab, &["reload"])?;
        ensure!(net.status()?.app("topology").is_none(), "it left");
        configure(&["[[app]]\nname = \"forwarding\"\n"])?;
        for args in [&["reload", "--dry-run", "--json"][..], &["reload", "--json"]] {
            let said = rosemary(lab, args)?;
            ensure!(said.contains("app topology"), "{said}");
            ensure!(!said.contains("topology left the configuration"), "{said}");
        }
        pid(&mut net, "topology")?;
        Ok(())
    });
}

#[test]
fn decision_of_an_operator_outlives_rosemary() {
    in_a_lab(|lab| {
        configure(&[SWITCH, "[[app]]\nname = \"stats\"\nenabled = false\n"])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        let text = rosemary(lab, &["status"])?;
        ensure!(text.contains("Not running: stats (disabled)"), "{text}");
        let apps = rosemary(lab, &["apps", "--json"])?;
        schema::check("apps", &apps)?;
        ensure!(apps.contains(r#"{"name":"stats","state":"disabled"}"#), "{apps}");
        let disabled = refused(lab, &["apps", "stats"])?;
        ensure!(disabled.contains("`rosemary app enable stats` runs it"), "{disabled}");
        rosemary(lab, &["app", "enable", "stats"])?;
        pid(&mut net, "stats")?;
        rosemary(lab, &["app", "disable", APP])?;
        ensure!(net.status()?.app(APP).is_none(), "it left");
        let unknown = refused(lab, &["app", "enable", "unknown"])?;
        ensure!(unknown.contains("neither configured nor installed"), "{unknown}");
        net.rosemary.stop(Signal::TERM)?;
        let mut again = cli::lab::Rosemary::start(lab, &rosemary_binary(), &[])?;
        let names = again.wait_for("it answers", SOON, |status| {
            Some(status.programs.apps.iter().map(|app| app.name.clone()).collect::<Vec<_>>())
        })?;
        assert_eq!(names, ["stats"]);
        rosemary(lab, &["app", "enable", APP])?;
        again.wait_for("it runs again", SOON, |status| status.app(APP).map(|_| ()))?;
        Ok(())
    });
}

#[test]
fn upgrade_is_taken_back_if_the_new_version_fails() {
    in_a_lab(|lab| {
        let joe = Developer::new(lab, "joe")?;
        joe.package(lab, "hub", "")?;
        let first = joe.version(lab, "0.1.0", Quality::Good)?;
        let second = joe.version(lab, "0.2.0", Quality::Good)?;
        let unfit = joe.version(lab, "0.3.0", Quality::Unfit)?;
        let crashing = joe.version(lab, "0.4.0", Quality::Crashing)?;
        let hub = format!("{SWITCH}[[app]]\nname = \"hub\"\n");
        trust(&[&joe.trust("")], &hub)?;
        rosemary(lab, &["app", "install", &first])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.received > 0);
        let mut established = net.h1.ping_in_background(&net.h2, 400, INTERVAL)?;
        established.wait_for(3, SOON)?;
        let runs = |net: &mut Net<'_>, version: &str| {
            net.rosemary.wait_for(&format!("version {version} runs"), SOON, |status| {
                let app = status.app("hub").filter(|app| app.state == ProgramState::Running)?;
                (app.version.as_deref() == Some(version)).then_some(app.pid?)
            })
        };
        runs(&mut net, "0.1.0")?;
        rosemary(lab, &["app", "upgrade", &second])?;
        runs(&mut net, "0.2.0")?;
        rosemary(lab, &["app", "rollback", "hub"])?;
        runs(&mut net, "0.1.0")?;
        rosemary(lab, &["app", "rollback", "hub"])?;
        let before = runs(&mut net, "0.2.0")?;

        let package = fs::read(INSTALLED)?;
        let error = refused_change(lab, &["app", "upgrade", &unfit])?;
        ensure!(error.contains("the app hub cannot run like this"), "{error}");
        assert_eq!(runs(&mut net, "0.2.0")?, before, "it was not disturbed");
        assert_eq!(fs::read(INSTALLED)?, package);

        rosemary(lab, &["app", "upgrade", &crashing])?;
        net.h1.ping(&net.h3, 1, INTERVAL)?;
        net.rosemary.wait_for_log(&["an upgraded app failed", "hub"], SOON)?;
        runs(&mut net, "0.2.0")?;
        lab.wait_for("an incident says so", SOON, |_| {
            let incidents = rosemary(lab, &["incidents", "--json"])?;
            Ok(incidents.contains("\"rollback\"").then_some(()))
        })?;
        lab.wait_for("the old package is back", SOON, |_| {
            Ok((fs::read(INSTALLED).ok().as_ref() == Some(&package)).then_some(()))
        })?;
        // A rollback leads to the version before, not to the version that was taken back.
        rosemary(lab, &["app", "rollback", "hub"])?;
        runs(&mut net, "0.1.0")?;
        rosemary(lab, &["app", "rollback", "hub"])?;
        runs(&mut net, "0.2.0")?;
        let error = refused_change(lab, &["app", "upgrade", &first])?;
        ensure!(error.contains("0.1.0 is an older version; confirm that with --yes"), "{error}");
        rosemary(lab, &["app", "upgrade", "--yes", &first])?;
        runs(&mut net, "0.1.0")?;
        assert_eq!(established.finish()?.lost(), 0, "flows stay in the switch");
        Ok(())
    });
}

/// Runs `rosemary`, which must fail after it printed the steps. Returns its error.
fn refused_change(lab: &Lab, args: &[&str]) -> anyhow::Result<String> {
    match rosemary(lab, args) {
        Ok(output) => anyhow::bail!("{args:?} should fail: {output}"),
        Err(error) => Ok(error.to_string()),
    }
}
