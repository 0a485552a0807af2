//! The real monitor with programs that play kernel and zone (`fake.rs`).

#![expect(clippy::unwrap_used, reason = "a test ends where something unexpected happens")]

mod fake;
mod house;
mod kernel_apps;
mod whole;

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rosemary_monitor::admin::{Ask, Tell};
use rosemary_monitor::supervise::State;
use rustix::process::Signal;
use sys::channel::Channel;

use self::house::{House, kill, receive};

#[test]
fn killed_zone_comes_back_with_new_rings_while_the_kernel_stays() {
    let (house, before) = House::running();
    kill(before.apps[0].pid);
    let after = house.until_connected(2);
    assert_eq!(after.kernel.pid, before.kernel.pid);
    assert_ne!(after.apps[0].pid, before.apps[0].pid);
    assert_eq!((after.apps[0].restarts, after.kernel.restarts), (1, 0));
    assert_eq!(after.apps[0].last_exit.as_deref(), Some("killed by SIGKILL"));
    assert_eq!(house.heard("rosemary-kernel", "detach"), 1);
}

#[test]
fn killed_kernel_comes_back_and_the_zone_runs_on_with_new_rings() {
    let (house, before) = House::running();
    kill(before.kernel.pid);
    let after = house.until_connected(2);
    assert_eq!(after.apps[0].pid, before.apps[0].pid);
    assert_eq!((after.apps[0].restarts, after.kernel.restarts), (0, 1));
    assert_eq!(after.kernel.listen, before.kernel.listen);
    assert_eq!(house.heard("rosemary-kernel", "start true"), 2);
    assert_eq!(house.heard("rosemary-zone", "load 2"), 1);
}

#[test]
fn zone_that_breaks_a_rule_of_its_rings_is_killed_with_the_reason_in_the_log() {
    let mut house = House::build();
    house.play("rosemary-kernel", "fault once");
    house.start();
    house.until_logged("its app broke a rule");
    house.until("restarted", || {
        let app = house.status()?.apps.remove(0);
        ((app.restarts, app.state) == (1, State::Running)).then_some(())
    });
    assert!(house.log().contains("Done(7) with 3 outstanding"), "{}", house.log());
}

#[test]
fn zone_that_talks_nonsense_or_floods_is_killed_by_name_and_hurts_nobody() {
    let ways = [("nonsense", "not one"), ("babbling", "not one"), ("flooding", "it said twice")];
    for (how, reason) in ways {
        let mut house = House::build();
        house.play("rosemary-zone", how);
        house.start().until_logged(reason);
        house.play("rosemary-zone", "well");
        let status = house.until_connected(1);
        assert_eq!(status.kernel.restarts, 0);
        let log = house.log();
        assert_eq!(log.matches("killed it").count(), log.matches("died").count(), "{log}");
    }
}

#[test]
fn app_that_cannot_be_loaded_says_why_in_one_line_and_is_tried_again() {
    let mut house = House::build();
    house.play("rosemary-zone", "failing");
    house.start().until_logged(r#"why="no symbol rosemary_app\nrosemary: all is well""#);
    house.play("rosemary-zone", "well");
    let status = house.until_connected(1);
    assert_eq!(status.apps[0].last_exit.as_deref(), Some("exited with code 0"));
}

#[test]
fn app_that_the_system_cannot_load_is_tried_five_times_and_held_until_a_file_changes() {
    let mut house = House::build();
    house.play("rosemary-zone", "no library");
    house.start().until_logged("app was held");
    let log = house.log();
    assert_eq!(log.matches("started program=\"zone learning-switch\"").count(), 5, "{log}");
    assert!(log.contains("libnone.so.1") && log.contains("start Rosemary again"), "{log}");
    house.play("rosemary-zone", "well");
    std::thread::sleep(Duration::from_secs(3));
    let app = &house.status().unwrap().apps[0];
    assert_eq!((app.state, app.restarts), (State::Held, 4));
    assert!(app.last_exit.as_ref().unwrap().contains("libnone.so.1"), "{app:?}");
    fs::write(house.path("examples/liblearning_switch.so"), "another").unwrap();
    house.until_connected(1);
}

#[test]
fn files_that_changed_are_tried_five_times_anew() {
    let mut house = House::build();
    house.play("rosemary-zone", "no library");
    house.start().until_logged("app failed");
    fs::write(house.path("examples/liblearning_switch.so"), "another").unwrap();
    house.until_logged("app was held");
    let log = house.log();
    assert!(log.matches("started program=\"zone learning-switch\"").count() > 5, "{log}");
}

#[test]
fn what_an_app_forks_ends_with_it_and_with_rosemary() {
    if !sys::process::can_make_pid_namespace() {
        println!("SKIPPED: making namespaces needs root");
        return;
    }
    let mut house = House::build();
    house.play("rosemary-zone", "forking");
    house.start();
    let status = house.until_connected(1);
    let forked = |house: &House| with_argument(&house.path("rosemary-zone.sleep"));
    let one = || house.until("forked", || <[String; 1]>::try_from(forked(&house)).ok());
    let before = one();
    kill(status.apps[0].pid);
    house.until_connected(2);
    assert!(!forked(&house).contains(&before[0]), "it lives on");
    one();
    house.signal(Signal::KILL);
    house.wait();
    house.until("gone", || forked(&house).is_empty().then_some(()));
}

/// Processes with `path` among their arguments.
fn with_argument(path: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let names = processes.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|pid| {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let path = path.to_str().unwrap().as_bytes();
            arguments.split(|&byte| byte == 0).any(|argument| argument == path)
        })
        .collect()
}

#[test]
fn what_an_app_writes_stands_under_its_name_bounded_and_harmless() {
    let mut house = House::build();
    house.play("rosemary-zone", "noisy");
    house.start().until_logged("killed by SIGKILL");
    house.play("rosemary-zone", "well");
    house.until_connected(1);
    let log = house.log();
    assert!(!log.contains(['\x1b', '\r']), "{log}");
    assert!(log.contains(r" WARN app: learning-switch: \u{1b}[31mred\r"), "{log}");
    assert!(log.contains("ERROR app: learning-switch: it says"), "{log}");
    let lines = log.matches("this is line").count();
    assert!((100..=400).contains(&lines), "{lines} lines of\n{log}");
    assert!(log.contains("lines were left out, it wrote too many"), "{log}");
}

#[test]
fn last_words_of_an_app_stand_before_its_death() {
    let mut house = House::build();
    house.play("rosemary-zone", "brief");
    house.start().until_logged("killed by SIGKILL");
    let log = house.log();
    let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("no {text} in\n{log}"));
    assert!(at("app: learning-switch: last words") < at("killed by SIGKILL"), "{log}");
}

#[test]
fn reader_of_the_log_who_stopped_stops_nobody() {
    let mut house = House::build();
    house.play("rosemary-kernel", "loud");
    house.play("rosemary-zone", "noisy");
    let mut reader = house.start_unread();
    house.until("restarted", || (house.status()?.apps[0].restarts >= 1).then_some(()));
    house.play("rosemary-zone", "well");
    let status = house.until_connected(1);
    kill(status.apps[0].pid);
    house.until_connected(2);
    house.signal(Signal::TERM);
    assert_eq!(house.wait().code(), Some(0));
    let mut log = String::new();
    reader.read_to_string(&mut log).unwrap();
    assert!(log.contains("this is line 0\n") && !log.contains("asked to stop"), "{log}");
}

#[test]
fn object_that_is_missing_later_is_named_once_and_waited_for() {
    let (house, before) = House::running();
    let object = house.path("examples/liblearning_switch.so");
    fs::remove_file(&object).unwrap();
    kill(before.apps[0].pid);
    house.until_logged("could not read");
    let status = house.status().unwrap();
    assert_eq!((status.apps[0].pid, status.apps[0].state), (None, State::Held));
    assert!(status.apps[0].last_exit.as_ref().unwrap().contains("could not read"));
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(house.log().matches("could not read").count(), 1, "{}", house.log());
    fs::write(&object, "an object").unwrap();
    house.until_connected(2);
}

#[test]
fn app_that_the_kernel_has_no_room_for_is_connected_a_moment_later() {
    let mut house = House::build();
    house.play("rosemary-kernel", "no rings once");
    house.start();
    let before = house.until_connected(1);
    assert!(house.log().contains("out of descriptors"), "{}", house.log());
    assert_eq!(house.heard("rosemary-kernel", "attach"), 2);
    kill(before.apps[0].pid);
    assert_eq!(house.until_connected(2).apps[0].restarts, 1);
}

#[test]
fn operator_is_connected_to_the_kernel_itself() {
    let (house, _) = House::running();
    let channel = house.connect().unwrap();
    channel.send(&Ask::Kernel, &[]).unwrap();
    let (tell, fds) = receive::<Tell>(&channel).unwrap();
    assert_eq!((tell, fds.len()), (Tell::Kernel, 1));
    let kernel = Channel::from_fd(fds.into_iter().next().unwrap());
    assert_eq!(receive::<String>(&kernel).unwrap().0, "the kernel's own answer");
}

#[test]
fn silent_operators_keep_nothing_from_working() {
    let (house, before) = House::running();
    let _silent: Vec<Channel> = (0..40).map(|_| house.connect().unwrap()).collect();
    let asked = Instant::now();
    house.status().unwrap();
    // It takes some milliseconds; a silent connection is dropped after five seconds.
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    kill(before.apps[0].pid);
    assert_eq!(house.until_connected(2).apps[0].restarts, 1);
}
