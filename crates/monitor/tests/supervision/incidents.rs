//! Tests of incidents: what is recorded when a program ends, and that the records outlive the monitor.

use control::incident::{Cause, Incident, IncidentId, Program};
use control::operator::{OperatorReply, OperatorRequest};
use rustix::process::Signal;

use super::instance::{Instance, kill, receive};

/// All incidents, which fit into one message here.
pub(crate) fn incidents(instance: &Instance) -> Option<Vec<Incident>> {
    let channel = instance.connect()?;
    channel.send(&OperatorRequest::Incidents { from: IncidentId(0) }, &[]).ok()?;
    match receive(&channel)? {
        (OperatorReply::Incidents { incidents, more: false }, _) => Some(incidents),
        other => panic!("{other:?}"),
    }
}

/// Waits until there are `count` incidents and none of them lasts.
fn closed(instance: &Instance, count: usize) -> Vec<Incident> {
    instance.until("the programs run again", || {
        let all = incidents(instance)?;
        (all.len() == count && all.iter().all(|it| !it.open)).then_some(all)
    })
}

#[test]
fn incidents_outlive_a_killed_monitor() {
    let (mut instance, before) = Instance::running();
    assert_eq!(incidents(&instance), Some(Vec::new()), "a start is no incident");
    kill(before.apps[0].pid);
    let of_app = closed(&instance, 1).remove(0);
    assert_eq!(of_app.program, Program::app("learning-switch"));
    assert_eq!((&of_app.cause, of_app.count), (&Cause::Signal { signal: 9 }, 1));
    assert!(of_app.duration_ms.is_some());
    let [exit, ran] = &*of_app.evidence.facts else { panic!("{of_app:?}") };
    let pid = before.apps[0].pid.unwrap();
    assert_eq!(exit, "killed by SIGKILL");
    assert!(ran.starts_with(&format!("process {pid} ran ")), "{ran}");
    assert!(of_app.reaction[0].starts_with("restart "), "{of_app:?}");

    instance.until_connected(2); // the incident of the app ends before that
    kill(before.kernel.pid);
    let of_kernel = closed(&instance, 2).remove(1);
    assert_eq!(of_kernel.program, Program::kernel());
    assert_eq!((&of_kernel.evidence.blamed, &of_kernel.evidence.called), (&None, &Vec::new()));

    instance.until_connected(3);
    let stored = || std::fs::read_to_string(instance.path("state/incidents/incidents.log")).ok();
    let is_last =
        |text: &String| text.lines().last().is_some_and(|it| it.contains(r#""open":false"#));
    instance.until("the last state is stored", || stored().filter(is_last));
    instance.signal(Signal::KILL);
    instance.wait();
    instance.start();
    instance.until_connected(4);
    let after = closed(&instance, 3);
    assert_eq!(after[..2], [of_app, of_kernel]);
    assert_eq!((&after[2].program, &after[2].cause), (&Program::monitor(), &Cause::Unknown));
    instance.signal(Signal::TERM);
    instance.wait();
    instance.start();
    instance.until_connected(5);
    assert_eq!(incidents(&instance), Some(after), "a stop is no incident");
}

#[test]
fn reported_failure_is_the_cause() {
    let mut instance = Instance::build();
    instance.set_behaviour("rosemary-zone", "failing");
    instance.start().until_logged("app failed");
    let app = instance.until("an incident", || incidents(&instance)?.pop());
    assert_eq!((app.cause, app.open), (Cause::Panic, true));
    let facts = app.evidence.facts.join("; ");
    assert!(facts.contains(r"it reported: no symbol rosemary_app\nrosemary"), "{facts}");
    instance.set_behaviour("rosemary-zone", "well");
    closed(&instance, 1);
}
