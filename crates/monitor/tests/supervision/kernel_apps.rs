//! Apps that the kernel hosts: started with it, blamed for its end, and then given a zone.

use std::fs;

use rosemary_monitor::admin::{AppStatus, Status};
use rosemary_monitor::supervise::State;
use rustix::process::Signal;

use super::house::{House, kill};

/// How the fake zone's program says what it was given: an app of this name.
const APP: &str = "learning-switch";

/// A house in which the kernel is to host the app, and plays `how` with it.
fn house(how: &str) -> House {
    let mut house = House::build();
    house.play("rosemary-kernel", how);
    house.config = house.path("rosemary.toml");
    fs::write(&house.config, format!("[[app]]\nname = \"{APP}\"\nhost = \"kernel\"\n")).unwrap();
    house.start();
    house
}

impl House {
    /// Waits until the kernel hosts the app, after `restarts` restarts of it.
    fn until_hosted(&self, restarts: u64) -> Status {
        self.until("hosted", || {
            let status = self.status()?;
            let app = status.apps.first()?;
            let runs = (app.state, app.host.as_str()) == (State::Running, "kernel");
            (runs && app.restarts == restarts).then_some(status)
        })
    }
}

fn app(status: &Status) -> &AppStatus {
    &status.apps[0]
}

#[test]
fn app_in_the_kernel_has_the_kernels_process_and_the_digest_of_its_file_and_no_zone() {
    let mut house = house("well");
    let status = house.until_hosted(0);
    assert_eq!(app(&status).pid, status.kernel.pid);
    assert_eq!(app(&status).version.as_deref(), Some(r"0.2.0\u{1b}"));
    assert_eq!(app(&status).demoted, None);
    assert_eq!(house.heard("rosemary-kernel", "host learning-switch: an object"), 1);
    assert_eq!(house.heard("rosemary-zone", "load 2"), 0);
    house.until_logged("app was loaded into the kernel");
    house.signal(Signal::TERM);
    assert_eq!(house.wait().code(), Some(0), "{}", house.log());
    let hosted = app(&status).sha256.clone();
    house.config = "/dev/null".into();
    house.start();
    let status = house.until_connected(1);
    assert_eq!((app(&status).host.as_str(), &app(&status).sha256), ("user", &hosted));
    assert!(hosted.is_some());
}

#[test]
fn kernel_killed_outside_of_its_app_comes_back_with_it_and_with_the_object_of_that_moment() {
    let house = house("well");
    let before = house.until_hosted(0);
    fs::write(house.path("examples/liblearning_switch.so"), "a new object").unwrap();
    kill(before.kernel.pid);
    let after = house.until_hosted(1);
    assert_eq!((after.kernel.restarts, app(&after).pid), (1, after.kernel.pid));
    assert_eq!(app(&after).last_exit.as_deref(), Some("killed by SIGKILL"));
    assert_ne!(app(&after).sha256, app(&before).sha256);
    assert_eq!(house.heard("rosemary-kernel", "host learning-switch: a new object"), 1);
    assert_eq!(house.heard("rosemary-zone", "load 2"), 0);
}

#[test]
fn app_that_panicked_in_the_kernel_gets_a_zone_and_stays_there_while_the_kernel_goes_on() {
    let house = house("panicking once");
    let status = house.until_connected(1);
    assert_eq!((status.kernel.restarts, app(&status).host.as_str()), (0, "user"));
    assert_eq!(app(&status).demoted.as_deref(), Some(r"it panicked: \u{1b}[31mred"));
    assert_eq!(app(&status).last_exit, app(&status).demoted);
    assert_eq!(app(&status).restarts, 1);
    assert_ne!(app(&status).pid, status.kernel.pid);
    house.until_logged("app was taken out of the kernel");
    kill(status.kernel.pid);
    let after = house.until_connected(2);
    assert_eq!((app(&after).pid, app(&after).host.as_str()), (app(&status).pid, "user"));
    assert_eq!(house.heard("rosemary-kernel", "host learning-switch: an object"), 1);
}

#[test]
fn app_that_ended_the_kernel_gets_a_zone_and_the_next_kernel_is_started_without_it() {
    for (how, why) in [
        ("dying in the app once", "the kernel ended in it: killed by SIGABRT"),
        ("leaving in the app once", "the kernel ended in it: exited with code 0"),
    ] {
        let house = house(how);
        let status = house.until_connected(1);
        assert_eq!((status.kernel.restarts, app(&status).host.as_str()), (1, "user"));
        assert_eq!(app(&status).demoted.as_deref(), Some(why));
        assert_eq!(house.heard("rosemary-kernel", "host learning-switch: an object"), 1);
    }
}

#[test]
fn app_that_the_kernel_did_not_end_in_is_not_blamed() {
    for how in ["dying elsewhere once", "lying in the app once", "hosting another once"] {
        let house = house(how);
        let status = house.until_hosted(1);
        assert_eq!((status.kernel.restarts, &app(&status).demoted), (1, &None), "{how}");
    }
}

#[test]
fn kernel_that_hangs_in_its_own_code_is_ended_and_its_app_is_not_blamed() {
    let house = house("stuck once");
    house.until_logged("its worker 3 hung");
    let status = house.until_hosted(1);
    assert_eq!((status.kernel.restarts, &app(&status).demoted), (1, &None));
    let why = app(&status).last_exit.as_deref().unwrap_or_default();
    assert!(why.contains("s of processor time in one turn of its loop"), "{why}");
}

#[test]
fn app_whose_object_is_missing_when_the_kernel_starts_again_waits_for_it_in_a_zone() {
    let house = house("well");
    let before = house.until_hosted(0);
    let object = house.path("examples/liblearning_switch.so");
    fs::remove_file(&object).unwrap();
    kill(before.kernel.pid);
    house.until_logged("app was taken out of the kernel");
    house.until("ready", || (house.status()?.kernel.state == State::Running).then_some(()));
    fs::write(&object, "an object").unwrap();
    let status = house.until_connected(1);
    let demoted = app(&status).demoted.clone().unwrap();
    assert!(demoted.starts_with("could not read "), "{demoted}");
    assert_eq!(app(&status).host, "user");
}
