//! Tests of apps that the kernel hosts: their start, their demotion, and the blame for the kernel's end.

use std::fs;
use std::time::Duration;

use control::operator::ProgramState;
use control::operator::{AppStatus, Status};
use rustix::process::Signal;

use super::incidents::incidents;
use super::instance::{Instance, kill};

/// The app of these tests.
const APP: &str = "learning-switch";

/// Starts an instance in which the kernel hosts the app and has the behaviour `how`.
fn instance_with(how: &str) -> Instance {
    let mut instance = Instance::build();
    instance.set_behaviour("rosemary-kernel", how);
    instance.config = instance.path("rosemary.toml");
    fs::write(&instance.config, format!("[[app]]\nname = \"{APP}\"\nhost = \"kernel\"\n")).unwrap();
    instance.start();
    instance
}

/// As [`instance_with`], and a kernel that ends starts again at once; programs run well after a second.
fn quick_instance_with(how: &str) -> Instance {
    let rules = "[supervision]\nmin-run-seconds = 0.1\n[safe-mode]\nhealth-seconds = 1\n";
    let app = format!("{rules}[[app]]\nname = \"{APP}\"\nhost = \"kernel\"\n");
    let mut instance = Instance::build_with(&app);
    instance.set_behaviour("rosemary-kernel", how);
    instance.start();
    instance
}

impl Instance {
    /// Waits until the kernel hosts the app, after `restarts` restarts of it.
    fn until_hosted(&self, restarts: u64) -> Status {
        self.until("hosted", || {
            let status = self.status()?;
            let app = status.apps.first()?;
            let runs = (app.state, app.host.as_str()) == (ProgramState::Running, "kernel");
            (runs && app.restarts == restarts).then_some(status)
        })
    }
}

fn app(status: &Status) -> &AppStatus {
    &status.apps[0]
}

#[test]
fn app_in_kernel_has_no_zone() {
    let mut instance = instance_with("well");
    let status = instance.until_hosted(0);
    assert_eq!(app(&status).pid, status.kernel.pid);
    assert_eq!(app(&status).version.as_deref(), Some(r"0.2.0\u{1b}"));
    assert_eq!(app(&status).demoted, None);
    assert_eq!(instance.received("rosemary-kernel", "host learning-switch: an object"), 1);
    assert_eq!(instance.received("rosemary-zone", "load 2"), 0);
    instance.until_logged("app was loaded into the kernel");
    instance.signal(Signal::TERM);
    assert_eq!(instance.wait().code(), Some(0), "{}", instance.log());
    let hosted = app(&status).sha256.clone();
    instance.config = "/dev/null".into();
    instance.start();
    let status = instance.until_connected(1);
    assert_eq!((app(&status).host.as_str(), &app(&status).sha256), ("user", &hosted));
    assert!(hosted.is_some());
}

#[test]
fn each_instance_in_the_kernel_gets_its_own_socket() {
    let app = format!("[[app]]\nname = \"{APP}\"\nhost = \"kernel\"\nservices = [\"storage\"]\n");
    let mut instance = Instance::build_with(&app);
    instance.start();
    let connected = |count| {
        instance.until("connected", || {
            (instance.received("rosemary-kernel", "service storage 2") == count).then_some(())
        });
    };
    connected(1);
    let status = instance.until_hosted(0);
    kill(status.kernel.pid);
    connected(2);
    let storage = status.services.iter().find(|it| it.name == "storage").unwrap();
    kill(storage.pid);
    connected(3);
}

#[test]
fn killed_kernel_restarts_with_changed_object() {
    let instance = instance_with("well");
    let before = instance.until_hosted(0);
    fs::write(instance.path("examples/liblearning_switch.so"), "a new object").unwrap();
    kill(before.kernel.pid);
    let after = instance.until_hosted(1);
    assert_eq!((after.kernel.restarts, app(&after).pid), (1, after.kernel.pid));
    let exits = (after.kernel.last_exit.as_deref(), app(&after).last_exit.as_deref());
    assert_eq!(exits, (Some("killed by SIGKILL"), None), "the end was not the app's");
    assert_ne!(app(&after).sha256, app(&before).sha256);
    assert_eq!(instance.received("rosemary-kernel", "host learning-switch: a new object"), 1);
    assert_eq!(instance.received("rosemary-zone", "load 2"), 0);
}

/// An end from outside names no app. The kernel that follows at once has the apps still, and safe mode replaces it.
#[test]
fn kernel_of_safe_mode_hosts_nothing() {
    let rules = "[supervision]\nmin-run-seconds = 0.1\n[safe-mode]\nkernel-restarts = 2\nhealth-seconds = 1\n";
    let app_entry = format!("{rules}[[app]]\nname = \"{APP}\"\nhost = \"kernel\"\n");
    let mut instance = Instance::build_with(&app_entry);
    instance.start();
    for restarts in 0..2 {
        let status = instance.until_hosted(restarts);
        std::thread::sleep(Duration::from_millis(300)); // longer than the least run
        kill(status.kernel.pid);
    }
    let status = instance.until("a zone in safe mode", || {
        let status = instance.status()?;
        let kernel = &status.kernel;
        let runs = kernel.state == ProgramState::Running && kernel.restarts == 2;
        (runs && app(&status).state == ProgramState::Running).then_some(status)
    });
    assert_eq!(app(&status).host, "user");
    assert!(instance.received("rosemary-kernel", "host learning-switch: an object") <= 2);
}

#[test]
fn app_that_panicked_in_kernel_is_demoted() {
    let instance = instance_with("panicking once");
    let status = instance.until_connected(1);
    assert_eq!((status.kernel.restarts, app(&status).host.as_str()), (0, "user"));
    assert_eq!(app(&status).demoted.as_deref(), Some(r"it panicked: \u{1b}[31mred"));
    assert_eq!(app(&status).last_exit, app(&status).demoted);
    assert_eq!(app(&status).restarts, 1);
    assert_ne!(app(&status).pid, status.kernel.pid);
    instance.until_logged("app was taken out of the kernel");
    kill(status.kernel.pid);
    let after = instance.until_connected(2);
    assert_eq!((app(&after).pid, app(&after).host.as_str()), (app(&status).pid, "user"));
    assert_eq!(instance.received("rosemary-kernel", "host learning-switch: an object"), 1);
}

#[test]
fn app_that_ended_kernel_is_demoted() {
    for (how, why) in [
        ("dying in the app once", "the kernel ended in it: killed by SIGABRT"),
        ("leaving in the app once", "the kernel ended in it: exited with code 0"),
    ] {
        let instance = instance_with(how);
        let status = instance.until_connected(1);
        assert_eq!((status.kernel.restarts, app(&status).host.as_str()), (1, "user"));
        assert_eq!(app(&status).demoted.as_deref(), Some(why));
        assert_eq!(instance.received("rosemary-kernel", "host learning-switch: an object"), 1);
    }
}

#[test]
fn demotion_outlasts_a_restart_of_rosemary() {
    let mut instance = instance_with("dying in the app once");
    instance.until_connected(1);
    instance.signal(Signal::TERM);
    assert_eq!(instance.wait().code(), Some(0), "{}", instance.log());
    instance.start();
    let status = instance.until_connected(2);
    let why = "the kernel ended in it: killed by SIGABRT";
    assert_eq!((app(&status).host.as_str(), app(&status).demoted.as_deref()), ("user", Some(why)));
    instance.until_logged("app stays out of the kernel");
    assert_eq!(instance.received("rosemary-kernel", "host learning-switch: an object"), 1);
}

#[test]
fn app_not_called_at_kernel_end_stays() {
    for how in ["dying elsewhere once", "lying in the app once", "hosting another once"] {
        let instance = instance_with(how);
        let status = instance.until_hosted(1);
        assert_eq!((status.kernel.restarts, &app(&status).demoted), (1, &None), "{how}");
    }
}

#[test]
fn kernel_that_hangs_is_restarted_with_app() {
    let instance = instance_with("stuck once");
    instance.until_logged("its worker 3 hung");
    let status = instance.until_hosted(1);
    assert_eq!((status.kernel.restarts, &app(&status).demoted), (1, &None));
    let why = status.kernel.last_exit.as_deref().unwrap_or_default();
    assert!(why.contains("s of processor time in one turn of its loop"), "{why}");
    assert_eq!(app(&status).last_exit, None, "the end was not the app's");
}

#[test]
fn apps_return_after_two_unexplained_ends_of_the_kernel() {
    let instance = quick_instance_with("dying elsewhere twice");
    instance.until_logged("the kernel ended twice without a known cause; its apps moved to zones");
    let status = instance.until_connected(1);
    let why = "the kernel ended twice without a known cause; the app returns after a trial";
    assert_eq!((app(&status).host.as_str(), app(&status).demoted.as_deref()), ("user", Some(why)));
    let status = instance.until("returned", || {
        let status = instance.status()?;
        let runs = app(&status).state == ProgramState::Running;
        (runs && app(&status).host == "kernel").then_some(status)
    });
    assert_eq!((&app(&status).demoted, &app(&status).last_exit), (&None, &None));
    instance.until_logged("the kernel ran without a fault after an app had returned");
    assert_eq!(instance.log().matches("died program=\"kernel\"").count(), 2);
}

#[test]
fn app_with_which_unexplained_ends_return_is_named() {
    let instance = quick_instance_with("dying elsewhere");
    instance.until_logged("the app with which the kernel's fault came back was named");
    let status = instance.until_connected(2);
    let why = app(&status).demoted.as_deref().unwrap_or_default();
    assert!(why.starts_with("the kernel ended with it and ran without it: "), "{why}");
    assert_eq!(app(&status).host, "user");
    instance.set_behaviour("rosemary-kernel", "well");
    let all = incidents(&instance).unwrap();
    let named = all.iter().filter(|it| it.evidence.blamed.as_deref() == Some("learning-switch"));
    assert_eq!(named.count(), 1, "{all:#?}");
}

#[test]
fn app_without_object_waits_in_zone() {
    let instance = instance_with("well");
    let before = instance.until_hosted(0);
    let object = instance.path("examples/liblearning_switch.so");
    fs::remove_file(&object).unwrap();
    kill(before.kernel.pid);
    instance.until_logged("app was taken out of the kernel");
    instance.until("ready", || {
        (instance.status()?.kernel.state == ProgramState::Running).then_some(())
    });
    fs::write(&object, "an object").unwrap();
    let status = instance.until_connected(1);
    let demoted = app(&status).demoted.clone().unwrap();
    assert!(demoted.starts_with("could not read "), "{demoted}");
    assert_eq!(app(&status).host, "user");
}
