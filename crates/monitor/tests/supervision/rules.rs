//! Tests of the rules of supervision (`[supervision]`): back-off, hold, hangs and leaks of services and of
//! the kernel, and several services that fail.

use std::fs;

use control::change::{AppVerb, Change, ChangeRequest};
use control::incident::{Cause, Program};
use control::operator::{OperatorReply, OperatorRequest, ProgramState, ServiceStatus, Status};
use rustix::process::{Pid, Signal, kill_process};

use super::incidents::incidents;
use super::instance::{Instance, kill, receive};

/// An app that uses all services.
const USER: &str = "[[app]]\nname = \"learning-switch\"\nservices = [\"storage\", \"broker\"]\n";

/// A growth of 1 MiB in 4 s is a leak. A process that starts grows, too, but not in each half second.
const SMALL_LEAKS: &str = "[supervision]\nleak-growth = \"1 MiB\"\nleak-window-seconds = 4\n";

fn service<'s>(status: &'s Status, name: &str) -> &'s ServiceStatus {
    status.services.iter().find(|service| service.name == name).unwrap()
}

impl Instance {
    /// Waits until an incident with this cause is stored.
    fn until_recorded(&self, cause: &str) {
        let word = format!("{cause:?}");
        self.until("recorded", || {
            let stored = fs::read_to_string(self.path("state/incidents/incidents.log"));
            stored.unwrap_or_default().contains(&word).then_some(())
        });
    }

    /// Waits until the service was restarted `times` times and runs.
    fn until_service_restarted(&self, name: &str, times: u64) -> Status {
        self.until("restarted", || {
            let status = self.status()?;
            let service = service(&status, name);
            let runs = service.state == ProgramState::Running;
            (runs && service.restarts == times).then_some(status)
        })
    }
}

#[test]
fn app_that_ends_too_often_is_held_until_file_changes() {
    let mut instance = Instance::build_with("[supervision]\nmin-run-seconds = 0.1\nrestarts = 2\n");
    instance.set_behaviour("rosemary-zone", "brief");
    instance.start().until_logged("died too often and was held");
    let held = instance.until("held", || {
        let app = instance.status()?.apps.remove(0);
        (app.state == ProgramState::Held).then_some(app)
    });
    assert_eq!(held.restarts, 2);
    let why = held.last_exit.unwrap();
    assert!(why.contains("it ended 3 times in 3600 s"), "{why}");
    assert_eq!(instance.log().matches("started program=\"zone learning-switch\"").count(), 3);
    instance.set_behaviour("rosemary-zone", "well");
    fs::write(instance.path("examples/liblearning_switch.so"), "a better object").unwrap();
    instance.until_connected(1);
}

#[test]
fn hold_is_an_incident_that_ends_when_the_app_is_started() {
    let mut instance = Instance::build_with("[supervision]\nmin-run-seconds = 0.1\nrestarts = 2\n");
    instance.set_behaviour("rosemary-zone", "brief");
    instance.start().until_logged("rosemary app start learning-switch");
    instance.until_recorded("too-many-restarts");
    let hold = |instance: &Instance| {
        let all = incidents(instance)?;
        let mut holds = all.into_iter().filter(|it| it.cause == Cause::TooManyRestarts);
        Some((holds.next()?, holds.count()))
    };
    let (incident, others) = instance.until("recorded", || hold(&instance));
    assert_eq!((&incident.program, incident.open), (&Program::app("learning-switch"), true));
    assert_eq!(
        (&*incident.evidence.facts, others),
        (&["it ended 3 times in 3600 s".into()][..], 0)
    );
    let reaction = &incident.reaction[0];
    assert!(reaction.contains("`rosemary app start learning-switch`"), "{reaction}");
    let status = instance.status().unwrap();
    let why = status.apps[0].last_exit.as_deref().unwrap();
    assert!(why.contains("`rosemary app start learning-switch`"), "{why}");

    instance.set_behaviour("rosemary-zone", "well");
    let change = Change::App { app: "learning-switch".into(), verb: AppVerb::Start };
    let channel = instance.connect().unwrap();
    let request = ChangeRequest { change, confirmed: false };
    channel.send(&OperatorRequest::Change(request), &[]).unwrap();
    let reply: OperatorReply = receive(&channel).unwrap().0;
    assert!(matches!(&reply, OperatorReply::Change(it) if it.steps.len() == 1), "{reply:?}");
    instance.until_connected(1);
    instance.until("closed", || hold(&instance).filter(|(it, _)| !it.open));
}

#[test]
fn service_that_hangs_is_restarted() {
    let config = format!("supervision = {{ hang-seconds = 1, failed-services = 3 }}\n{USER}");
    let mut instance = Instance::build_with(&config);
    instance.set_behaviour("rosemary-storage", "spinning once");
    instance.start();
    let status = instance.until_service_restarted("storage", 1);
    let why = service(&status, "storage").last_exit.clone().unwrap();
    assert!(why.contains("it did not answer the monitor in"), "{why}");
    // A service that is stopped in the middle of its work.
    let pid = service(&status, "broker").pid.and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
    kill_process(pid.unwrap(), Signal::STOP).unwrap();
    let status = instance.until_service_restarted("broker", 1);
    let why = service(&status, "broker").last_exit.clone().unwrap();
    assert!(why.contains("with its main thread stopped"), "{why}");
    assert_eq!((status.kernel.restarts, status.apps[0].restarts), (0, 0));
}

#[test]
fn service_that_leaks_is_restarted() {
    let mut instance = Instance::build_with(&format!("{SMALL_LEAKS}{USER}"));
    instance.set_behaviour("rosemary-storage", "leaking");
    instance.start().until_logged("it leaks memory: ");
    instance.set_behaviour("rosemary-storage", "well");
    let status = instance.until_service_restarted("storage", 1);
    let why = service(&status, "storage").last_exit.clone().unwrap();
    assert_eq!(why.matches("iB, ").count(), 9, "{why}");
    assert_eq!((status.kernel.restarts, service(&status, "broker").restarts), (0, 0));
    instance.until_recorded("leak");
}

#[test]
fn kernel_that_leaks_is_restarted_and_no_app_blamed() {
    let app = "[[app]]\nname = \"learning-switch\"\nhost = \"kernel\"\n";
    let mut instance = Instance::build_with(&format!("{SMALL_LEAKS}{app}"));
    instance.set_behaviour("rosemary-kernel", "leaking");
    instance.start().until_logged("it leaks memory: ");
    instance.set_behaviour("rosemary-kernel", "well");
    let status = instance.until("restarted", || {
        let status = instance.status()?;
        let runs = status.apps[0].state == ProgramState::Running;
        (runs && status.kernel.restarts == 1).then_some(status)
    });
    let why = status.kernel.last_exit.unwrap();
    assert!(why.contains("leak-growth allows 1 MiB"), "{why}");
    assert_eq!((status.apps[0].host.as_str(), &status.apps[0].demoted), ("kernel", &None));
    instance.until_recorded("leak");
}

#[test]
fn leak_in_calls_of_an_app_names_and_moves_it() {
    let app = "[[app]]\nname = \"learning-switch\"\nhost = \"kernel\"\n";
    let mut instance = Instance::build_with(&format!("{SMALL_LEAKS}{app}"));
    instance.set_behaviour("rosemary-kernel", "leaking in the app");
    instance.start().until_logged("it leaks memory: ");
    let status = instance.until("moved", || {
        let status = instance.status()?;
        let runs = status.apps[0].state == ProgramState::Running;
        (runs && status.kernel.restarts == 1).then_some(status)
    });
    let why = status.kernel.last_exit.unwrap();
    assert!(why.contains("calls of its app learning-switch took"), "{why}");
    let app = &status.apps[0];
    assert_eq!(app.host, "user");
    assert!(app.demoted.as_ref().is_some_and(|it| it.contains("took")), "{app:?}");
    instance.until_recorded("leak");
    let of_kernel = incidents(&instance).unwrap().into_iter();
    let leak = of_kernel.clone().find(|it| it.cause == Cause::Leak).unwrap();
    assert_eq!(leak.evidence.blamed.as_deref(), Some("learning-switch"));
}

#[test]
fn several_failed_services_restart_rosemary() {
    let mut instance = Instance::build_with(USER);
    instance.start();
    let before = instance.until_connected(1);
    instance.until("ready", || {
        let status = instance.status()?;
        status.services.iter().all(|it| it.state == ProgramState::Running).then_some(())
    });
    kill(service(&before, "storage").pid);
    kill(service(&before, "broker").pid);
    instance.until_logged("restarted Rosemary");
    let after = instance.until_connected(2);
    assert_eq!(after.monitor.pid, before.monitor.pid);
    assert_eq!(after.kernel.listen, before.kernel.listen);
    assert_ne!(after.kernel.pid, before.kernel.pid);
    assert_ne!(after.apps[0].pid, before.apps[0].pid);
    assert_eq!((after.kernel.restarts, after.apps[0].restarts), (1, 1));
    for name in ["log", "storage", "broker"] {
        instance.until_service_restarted(name, 1);
    }
    instance.until_recorded("services");
    // Each was asked to stop.
    assert_eq!(instance.received("rosemary-kernel", "stop"), 1);
    assert_eq!(instance.received("rosemary-zone", "stop"), 1);
}
