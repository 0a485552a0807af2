//! A restart of the kernel ends each pending request of an app once, as lost.

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Rosemary};
use openflow::{Header, Kind, Version};
use rosemary_tests::apps::{configure, in_rust};
use rosemary_tests::fake::Fake;
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, kill, rosemary_binary};

/// The requests of the app `waiter` to a switch.
const REQUESTS: usize = 4;

#[test]
fn pending_requests_end_as_lost_over_openflow_1_0() {
    in_a_lab(|lab| pending_requests_end_as_lost(lab, Version::V1_0));
}

#[test]
fn pending_requests_end_as_lost_over_openflow_1_3() {
    in_a_lab(|lab| pending_requests_end_as_lost(lab, Version::V1_3));
}

fn pending_requests_end_as_lost(lab: &Lab, version: Version) -> anyhow::Result<()> {
    configure(&[&in_rust("waiter", "capabilities = [\"flow.write\", \"stats.read\"]\n")])?;
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    let mut switch = Fake::connect(version, 7)?;
    let first = requests(lab, &mut switch)?.swap_remove(0);
    // The reply to a barrier request has the next type.
    let reply = [first[0], first[1] + 1, 0, 8, first[4], first[5], first[6], first[7]];
    switch.send(&reply)?;
    rosemary.wait_for_log(&["waiter", "request 1 answered;"], SOON)?;

    kill_kernel(&mut rosemary)?;
    for lost in 2..=4 {
        rosemary.wait_for_log(&["waiter", &format!("request {lost} lost;")], SOON)?;
    }
    let mut switch = Fake::connect(version, 7)?;
    requests(lab, &mut switch)?;
    kill_kernel(&mut rosemary)?;
    for lost in 5..=8 {
        rosemary.wait_for_log(&["waiter", &format!("request {lost} lost;")], SOON)?;
    }
    let log = rosemary.log();
    for xid in 1..=8 {
        let ends = log.lines().filter(|line| line.contains(&format!("request {xid} "))).count();
        ensure!(ends == 1, "request {xid} ended {ends} times: {log}");
    }
    ensure!(log.matches("request to 00:00:00:00:00:00:00:07").count() == 7, "{log}");
    Ok(())
}

/// Answers the switch's session until the app's requests have come. Returns the barrier requests, which precede the other
/// one. The kernel sends a barrier of its own.
fn requests(lab: &Lab, switch: &mut Fake) -> anyhow::Result<Vec<Vec<u8>>> {
    let version = switch.version();
    Ok(lab.wait_for("the app's requests", SOON, |evidence| {
        switch.answer_for(SOON / 100);
        let kind = |message: &Vec<u8>| {
            let header = Header::decode(message).ok()?;
            Kind::from_wire(version, header.kind).ok()
        };
        evidence.0 = format!("{:?}", switch.received.iter().map(kind).collect::<Vec<_>>());
        let is_barrier = |message: &Vec<u8>| kind(message) == Some(Kind::BarrierRequest);
        let mut parts = switch.received.windows(REQUESTS);
        let app = parts.find_map(|part| {
            let (last, barriers) = part.split_last()?;
            let is_it = barriers.iter().all(is_barrier) && !is_barrier(last);
            is_it.then(|| barriers.to_vec())
        });
        Ok(app)
    })?)
}

fn kill_kernel(rosemary: &mut Rosemary<'_>) -> anyhow::Result<()> {
    let kernel = rosemary.wait_for("a kernel runs", SOON, |status| status.programs.kernel.pid)?;
    kill(kernel).context("it runs")?;
    rosemary.wait_for("another kernel runs", SOON, |status| {
        let other = status.programs.kernel.pid.filter(|pid| *pid != kernel);
        other.filter(|_| status.programs.kernel.state == control::operator::ProgramState::Running)
    })?;
    Ok(())
}
