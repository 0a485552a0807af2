//! Replies of switches: an app receives replies about its own entries only, and errors and removed
//! flows with its own ids; an operator sees who owns the flows of a switch.

use std::io::Read as _;
use std::process::Stdio;
use std::thread;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use control::query::{FLOWS_TIMEOUT, FlowStatus};
use openflow::{Dpid, Version};
use rosemary_tests::apps::{configure, in_rust};
use rosemary_tests::fake::Fake;
use rosemary_tests::net::{APP, INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, over_versions, rosemary_binary};

const SWITCH: &str = "[[app]]\nname = \"learning-switch\"\n";

/// Grants what the asker app does.
const ASKER: &str =
    "capabilities = [\"flow.write\", \"group.write\", \"meter.write\", \"stats.read\"]";

over_versions!(app_sees_only_its_own_entries_in_each_version, |of| in_a_lab(move |lab| {
    app_sees_only_its_own_entries(lab, of)
}));

#[test]
fn silent_switch_delays_no_other_query() {
    in_a_lab(|lab| {
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for("it answers", SOON, |status| Some(status.clone()))?;
        let mut silent = Fake::connect(Version::V1_3, 7)?;
        let silent = thread::spawn(move || while silent.answer_for(SOON) {});
        let connected = |status: &cli::status::Report| status.switch(&Dpid(7).to_string()).cloned();
        rosemary.wait_for("it connects", SOON, connected)?;

        let mut ask = lab.command(rosemary_binary());
        let ask = ask.args(["flows", "7"]).stdin(Stdio::null());
        let mut ask = ask.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut answered = 0;
        let status = lab.wait_for("`rosemary flows` ends", FLOWS_TIMEOUT, |_| {
            let path = rosemary_binary().display().to_string();
            answered += u32::from(lab.run(&path, &["switches", "--json"])?.contains("\"dpid\""));
            Ok(ask.try_wait().ok().flatten())
        })?;
        let mut error = String::new();
        ask.stderr.take().context("it is piped")?.read_to_string(&mut error)?;
        println!("{} others were answered before: {}", answered - 1, error.trim_end());
        assert_eq!(status.code(), Some(1));
        ensure!(error.contains("the switch does not answer"), "{error}");
        ensure!(answered > 2, "other queries were not answered in the meantime");
        drop(rosemary);
        silent.join().map_err(|_| anyhow::anyhow!("the switch panicked"))
    });
}

fn app_sees_only_its_own_entries(lab: &Lab, of: Of) -> anyhow::Result<()> {
    configure(&[SWITCH, &in_rust("asker", ASKER)])?;
    let mut net = Net::start(lab, of)?;
    assert_eq!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost(), 0);
    let mut heard = |words: &[&str]| -> anyhow::Result<String> {
        let line = net.rosemary.wait_for_log(&[&["asker"], words].concat(), SOON)?;
        println!("{line}");
        Ok(line)
    };
    heard(&["could not: FLOW_MOD_FAILED/OVERLAP, mine: true"])?;
    heard(&["barrier passed, true"])?;
    heard(&["gone: 0xabcdef012345, IdleTimeout, true"])?;
    // The learning switch's flows exist by now, and the expired one does not.
    let has_meters = of.features().meters;
    let (flows, rest) = if has_meters {
        ("flows [1234, 1235]", &["2 flows in all", "groups [Some(1)]", "meters [Some(3)]"][..])
    } else {
        ("flows [1234]", &[][..])
    };
    for told in [flows, "3 ports, packets: true"].iter().chain(rest) {
        heard(&["round 4: ", told])?;
    }
    net.rosemary.wait_for_log(&["switch sent an error", "asker", "OVERLAP"], SOON)?;

    let rosemary = rosemary_binary().display().to_string();
    let dpid = net.s1.dpid();
    let json = lab.run(&rosemary, &["flows", &dpid, "--json"])?;
    let mut flows: Vec<FlowStatus> = serde_json::from_str(&json)?;
    println!("{}", lab.run(&rosemary, &["flows", "1"])?);
    flows.sort_by(|a, b| (&a.owner, &a.cookie).cmp(&(&b.owner, &b.cookie)));
    let of_app = |owner: &str| -> Vec<&FlowStatus> {
        flows.iter().filter(|flow| flow.owner == owner).collect()
    };
    let cookies: Vec<&str> = of_app("asker").iter().map(|flow| flow.cookie.as_str()).collect();
    let learnt = of_app(APP);
    let has_one_flow = !has_meters;
    if has_one_flow {
        assert_eq!(cookies, ["0x1234"]);
    } else {
        assert_eq!(cookies, ["0x1234", "0x1235"]);
        let through = of_app("asker")[1];
        // The second app's numbers, as they appear on the switch.
        let number = net.status()?.app("asker").context("it runs")?.number;
        let group = u32::from(number) << 16 | 1;
        let actions = through.actions.strip_prefix("meter:").and_then(|it| it.split_once(','));
        let (meter, rest) = actions.with_context(|| through.actions.clone())?;
        // The app's own number of the meter is the last byte.
        assert_eq!((meter.parse::<u32>()? & 0xff, rest), (3, &*format!("group:{group}")));
        let miss = of_app("kernel");
        ensure!(miss.len() == 1 && miss[0].priority == 0, "{miss:?}");
        assert_eq!(miss[0].actions, "CONTROLLER");
    }
    assert_eq!(flows.len(), cookies.len() + learnt.len() + of_app("kernel").len());
    let to_h2 = learnt.iter().find(|flow| flow.match_.contains(&net.h2.mac()));
    let to_h2 = to_h2.context("the flow to h2")?;
    ensure!(to_h2.packets.is_some() && to_h2.idle_timeout == 60, "{to_h2:?}");

    for spelling in ["0x1", "0000000000000001"] {
        assert_eq!(
            serde_json::from_str::<Vec<FlowStatus>>(
                &lab.run(&rosemary, &["flows", spelling, "--json"])?
            )?
            .len(),
            flows.len()
        );
    }
    let mut other = lab.command(rosemary_binary());
    let other = other.args(["flows", "2"]).stdin(Stdio::null()).output()?;
    let error = String::from_utf8(other.stderr)?;
    println!("{}", error.trim_end());
    assert_eq!(other.status.code(), Some(1));
    ensure!(error.contains("00:00:00:00:00:00:00:02 is not connected"), "{error}");
    ensure!(error.contains(&format!("connected: {dpid}")), "{error}");

    // The asker logs anything that it must not see as an error.
    let log = net.rosemary.log();
    let seen = log.lines().find(|line| line.contains("ERROR") && line.contains("asker"));
    ensure!(seen.is_none(), "{seen:?}");

    let status = net.switch_status()?;
    println!("{status:?}");
    ensure!(status.n_tables > 0 && status.table_size.is_some_and(|size| size > 0), "{status:?}");
    assert_eq!(status.refused, 0, "{status:?}");
    Ok(())
}
