//! Full flow tables: an app cannot exceed its flow quota, as counted by the switch, and the
//! operator gets a warning when a table is nearly full, with the app that fills it.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary, Switch};
use control::query::{Fullest, SwitchStatus};
use rosemary_tests::apps::{configure, in_rust};
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, in_a_lab_for, over_versions, rosemary_binary};

/// A nearly full table is queried every ten seconds.
const LOOKED_AT_AGAIN: Duration = Duration::from_secs(25);

/// Starts Rosemary with an app that adds `flows` flows, with further configuration `keys`. `size`
/// is the table size that the switch announces, if any.
fn start<'lab>(
    lab: &'lab Lab,
    of: Of,
    flows: u32,
    keys: &str,
    size: Option<u32>,
) -> anyhow::Result<(Rosemary<'lab>, Switch<'lab>)> {
    // The size is set before the connection: the filling app is known only from flows added since.
    let s1 = lab.switch("s1", of)?;
    size.map(|size| s1.hold_flows(size)).transpose()?;
    configure(&[&in_rust("adder", &format!("config = \"adder\"\n{keys}"))])?;
    fs::write("/etc/rosemary/adder", flows.to_string())?;
    Ok((Rosemary::start(lab, &rosemary_binary(), &[])?, s1))
}

/// Counts the app's flows in the switch.
fn own(s1: &Switch<'_>) -> anyhow::Result<usize> {
    Ok(s1.dump_flows()?.iter().filter(|flow| flow.contains("dl_dst=02:f1:")).count())
}

fn fullest(status: &SwitchStatus) -> Option<&Fullest> {
    status.fullest.as_ref().filter(|fullest| fullest.nearly_full)
}

fn quota(of: Of) {
    in_a_lab(move |lab| {
        let (mut rosemary, s1) = start(lab, of, 40, "flows = 10\n", None)?;
        rosemary.wait_for_switch(&s1)?;
        rosemary.wait_for_log(&["refused: it has as many flows in this switch"], SOON)?;
        let record = ["refused a message of an app", "adder", "as many flows in this switch"];
        println!("{}", rosemary.wait_for_log(&record, SOON)?);
        lab.pause(Duration::from_secs(3))?; // the app keeps trying
        let had = own(&s1)?;
        println!("{had} flows with a quota of 10");
        ensure!((10..=14).contains(&had), "{had}: no more than went while the switch answered");
        // After a deletion there is room again, which the next query of the switch reveals.
        s1.ofctl(&["del-flows", "dl_dst=02:f1:00:00:00:01"])?;
        lab.wait_for("there are as many as before", SOON, |_| {
            Ok((own(&s1).ok() >= Some(10)).then_some(()))
        })?;
        Ok(())
    });
}

over_versions!(flow_quota_is_enforced_and_freed, |of| quota(of));

/// The switch has no room for the kernel's entry when it connects, and in 1.3 drops what matches no flow.
#[test]
fn refused_table_miss_entry_is_shown_and_repeated() {
    in_a_lab_for(SOON * 10, |lab| {
        let s1 = lab.switch("s1", Of::V1_3)?;
        s1.hold_flows(2)?;
        for port in ["1", "2"] {
            s1.ofctl(&["add-flow", &format!("priority=9,tcp,tp_dst={port},actions=drop")])?;
        }
        configure(&[])?;
        let rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let shown_status = || {
            let output = lab.command(rosemary_binary()).arg("status").output().ok()?;
            Some((output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned()))
        };
        let entry = "the table-miss entry failed";
        let shown = lab.wait_for("the failure is shown", SOON, |_| {
            let is_shown = |(code, text): &(_, String)| *code == Some(3) && text.contains(entry);
            Ok(shown_status().filter(is_shown))
        })?;
        println!("{}", shown.1);
        ensure!(shown.1.contains("TABLE_FULL"), "{}", shown.1);
        lab.wait_for("the incident is there", SOON * 2, |_| {
            let incidents =
                lab.run(&rosemary_binary().display().to_string(), &["incidents", "--wide"])?;
            Ok(incidents.contains("does not carry out the table-miss entry").then_some(()))
        })?;
        s1.ofctl(&["del-flows", "tcp,tp_dst=1"])?;
        lab.wait_for("the entry is there", SOON * 3, |_| {
            let flows = s1.dump_flows().ok().unwrap_or_default();
            Ok(flows.iter().any(|flow| flow.contains("CONTROLLER:65535")).then_some(()))
        })?;
        lab.wait_for("the failure is over", SOON * 3, |_| {
            Ok(shown_status().filter(|(_, text)| !text.contains(entry)).map(drop))
        })?;
        println!("{}", rosemary.log());
        Ok(())
    });
}

fn alert(of: Of) {
    in_a_lab(move |lab| {
        // 18 or 19 of 20, depending on whether the switch has Rosemary's own flow.
        let (mut rosemary, s1) = start(lab, of, 18, "", Some(20))?;
        let told = ["a flow table is nearly full", "table=0", "size=20", "app=\"adder\""];
        println!("{}", rosemary.wait_for_log(&told, SOON * 2)?);
        let status = rosemary.wait_for_switch(&s1)?;
        let fullest = fullest(&status).with_context(|| format!("it is shown: {status:?}"))?;
        assert_eq!((fullest.table, fullest.size), (0, 20));
        assert_eq!(fullest.app.as_deref(), Some("adder"));
        let shown = lab.run(&rosemary_binary().display().to_string(), &["switches"])?;
        println!("{shown}");
        ensure!(
            shown.contains("table 0 nearly full (") && shown.contains("most by adder)"),
            "{shown}"
        );

        let status = lab.command(rosemary_binary()).arg("status").output()?;
        ensure!(status.status.code() == Some(3), "it is degraded: {status:?}");

        fs::write("/etc/rosemary/adder", "2")?; // for its next start
        let pid = rosemary.wait_for("it runs", SOON, |status| status.app("adder")?.pid)?;
        rosemary_tests::kill(pid)?;
        s1.ofctl(&["del-flows"])?;
        rosemary.wait_for_log(&["a flow table has room again", "table=0"], LOOKED_AT_AGAIN)?;
        let status = rosemary.wait_for_switch(&s1)?;
        ensure!(self::fullest(&status).is_none(), "{status:?}");
        let log = rosemary.log();
        let alerts = log.lines().filter(|line| line.contains("a flow table is nearly full"));
        assert_eq!(alerts.count(), 1, "one alert, whatever the app adds in the meantime");
        Ok(())
    });
}

over_versions!(nearly_full_table_is_reported_once, |of| alert(of));
