//! Operators stop, start and restart apps while established traffic goes on.

use std::fs;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of};
use control::operator::ProgramState;
use rosemary_tests::apps::{configure, in_c_with};
use rosemary_tests::net::{APP, INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, over_versions, rosemary_binary};

/// Runs `rosemary` with these arguments. Returns its output.
fn rosemary(lab: &Lab, args: &[&str]) -> anyhow::Result<String> {
    Ok(lab.run(&rosemary_binary().display().to_string(), args)?)
}

/// Runs `rosemary`, which must fail. Returns its error.
fn refused(lab: &Lab, args: &[&str]) -> anyhow::Result<String> {
    match rosemary(lab, args) {
        Ok(output) => anyhow::bail!("{args:?} should fail: {output}"),
        Err(error) => Ok(format!("{error:#}")),
    }
}

fn state(net: &mut Net<'_>, app: &str) -> anyhow::Result<ProgramState> {
    Ok(net.status()?.app(app).context("the app is listed")?.state)
}

over_versions!(established_traffic_survives_stop_and_start, |of| in_a_lab(move |lab| {
    stop_and_start(lab, of)
}));

fn stop_and_start(lab: &Lab, of: Of) -> anyhow::Result<()> {
    let mut net = Net::start(lab, of)?;
    ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost() == 0);
    let mut established = net.h1.ping_in_background(&net.h2, 250, INTERVAL)?;
    established.wait_for(3, SOON)?;
    let first = net.status()?.app(APP).and_then(|app| app.pid).context("it runs")?;

    let steps = rosemary(lab, &["app", "stop", APP])?;
    ensure!(steps.contains("stop") && steps.contains("app learning-switch"), "{steps}");
    assert_eq!(state(&mut net, APP)?, ProgramState::Stopped);
    let again = refused(lab, &["app", "stop", APP])?;
    ensure!(again.contains("stopped already"), "{again}");
    ensure!(net.h1.ping(&net.h3, 3, INTERVAL)?.received == 0, "nothing answers the switch");
    net.rosemary.wait_for_log(&["operator requested a change", "user 0", "stop learning"], SOON)?;

    rosemary(lab, &["app", "start", APP])?;
    assert_eq!(state(&mut net, APP)?, ProgramState::Running);
    ensure!(net.h1.ping(&net.h3, 10, INTERVAL)?.received > 5, "it answers the switch again");
    rosemary(lab, &["app", "restart", APP])?;
    let last = net.status()?.app(APP).and_then(|app| app.pid).context("it runs")?;
    ensure!(last != first, "{last}");
    let unknown = refused(lab, &["app", "stop", "unknown"])?;
    ensure!(unknown.contains("the apps are: learning-switch"), "{unknown}");
    assert_eq!(established.finish()?.lost(), 0, "flows stay in the switch");
    Ok(())
}

#[test]
fn kernel_app_is_restarted_only_with_yes() {
    in_a_lab(|lab| {
        let mut net = Net::start_with(lab, Of::V1_3, &["--app", "learning-switch:kernel"])?;
        ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost() == 0);
        let before = net.status()?.programs.kernel.pid;
        let mut established = net.h1.ping_in_background(&net.h2, 250, INTERVAL)?;
        established.wait_for(3, SOON)?;
        let error = refused(lab, &["app", "restart", APP])?;
        ensure!(error.contains("--yes"), "{error}");
        assert_eq!(net.status()?.programs.kernel.pid, before);

        rosemary(lab, &["app", "stop", APP, "--yes"])?;
        let stopped = net.status()?;
        ensure!(stopped.programs.kernel.pid != before, "another kernel runs");
        assert_eq!(state(&mut net, APP)?, ProgramState::Stopped);
        rosemary(lab, &["app", "start", APP, "--yes"])?;
        let running = net.status()?;
        let app = running.app(APP).context("it is listed")?;
        assert_eq!((app.pid, app.host.as_str()), (running.programs.kernel.pid, "kernel"));
        net.rosemary.wait_for_switch(&net.s1)?;
        ensure!(net.h1.ping(&net.h3, 10, INTERVAL)?.received > 0);
        assert_eq!(established.finish()?.lost(), 0, "flows stay in the switch");
        Ok(())
    });
}

over_versions!(stopped_app_loses_its_flows_if_configured, |of| in_a_lab(move |lab| {
    stop_removes_flows(lab, of)
}));

fn stop_removes_flows(lab: &Lab, of: Of) -> anyhow::Result<()> {
    configure(&["[[app]]\nname = \"learning-switch\"\non-stop = \"remove\"\n"])?;
    let net = Net::start(lab, of)?;
    ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost() == 0);
    ensure!(!net.flows_to(&net.h2)?.is_empty());
    rosemary(lab, &["app", "stop", APP])?;
    lab.wait_for("its flows are gone", SOON, |_| {
        let flows = [net.flows_to(&net.h1)?, net.flows_to(&net.h2)?].concat();
        Ok(flows.is_empty().then_some(()))
    })?;
    rosemary(lab, &["app", "start", APP])?;
    ensure!(net.h1.ping(&net.h2, 10, INTERVAL)?.received > 5);
    ensure!(!net.flows_to(&net.h2)?.is_empty(), "it may have flows again");
    Ok(())
}

#[test]
fn promoted_app_returns_to_the_kernel() {
    in_a_lab(|lab| {
        let keys = "stage = \"observe\"\nhost = \"kernel\"";
        let misfit = in_c_with(lab, "misfit", "system/misfit.c", keys, &["-DBAD=3"])?;
        configure(&["[[app]]\nname = \"learning-switch\"\n", &misfit])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost() == 0);
        let mut established = net.h1.ping_in_background(&net.h2, 250, INTERVAL)?;
        established.wait_for(3, SOON)?;
        let error = refused(lab, &["app", "promote", "misfit"])?;
        ensure!(error.contains("was not taken out of the kernel"), "{error}");
        net.h3.ping(&net.h1, 1, INTERVAL)?; // it aborts the kernel
        net.rosemary.wait_for("it has a zone", SOON, |status| {
            let app = status.app("misfit").filter(|app| app.host == "user")?;
            let switch_is_back = status.switches.as_ref().is_some_and(|it| !it.is_empty());
            (app.state == ProgramState::Running && switch_is_back).then_some(())
        })?;
        let error = refused(lab, &["app", "promote", "misfit"])?;
        ensure!(error.contains("--yes"), "{error}");
        rosemary(lab, &["app", "promote", "misfit", "--yes"])?;
        net.rosemary.wait_for("the kernel hosts it again", SOON, |status| {
            let app = status.app("misfit").filter(|app| app.host == "kernel")?;
            (app.state == ProgramState::Running && app.demoted.is_none()).then_some(())
        })?;
        assert_eq!(established.finish()?.lost(), 0, "flows stay in the switch");
        Ok(())
    });
}

#[test]
fn stopped_guard_that_fails_closed_passes_no_new_traffic() {
    in_a_lab(|lab| {
        configure(&[
            "[[app]]\nname = \"firewall\"\nstage = \"guard\"\nconfig = \"firewall.toml\"\n\
                     capabilities = [\"flow.write\", \"stats.read\"]\n\
                     [[app]]\nname = \"learning-switch\"\n",
        ])?;
        fs::write("/etc/rosemary/firewall.toml", "[[deny]]\nto = \"10.0.0.99\"\n")?;
        let net = Net::start(lab, Of::V1_3)?;
        ensure!(net.h1.ping(&net.h2, 20, INTERVAL)?.received >= 15);
        rosemary(lab, &["app", "stop", "firewall"])?;
        assert_eq!(net.h1.ping(&net.h3, 10, INTERVAL)?.received, 0, "it fails closed");
        assert_eq!(net.h1.ping(&net.h2, 10, INTERVAL)?.lost(), 0, "flows stay in the switch");
        rosemary(lab, &["app", "start", "firewall"])?;
        lab.wait_for("new traffic passes", SOON, |_| {
            let pings = net.h1.ping(&net.h3, 3, INTERVAL)?;
            Ok((pings.received > 0).then_some(()))
        })?;
        Ok(())
    });
}
