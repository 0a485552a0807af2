//! Tests the real monitor with fake programs as kernel, log service and zone (`fake.rs`).

#![expect(clippy::unwrap_used, reason = "a test ends where something unexpected happens")]

mod fake;
mod incidents;
mod instance;
mod kernel_apps;
mod rules;
mod whole;

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use control::operator::ProgramState;
use control::operator::{OperatorReply, OperatorRequest};
use rustix::process::Signal;
use sys::channel::Channel;

use self::instance::{Instance, kill, receive};

#[test]
fn killed_zone_restarts_with_new_rings() {
    let (instance, before) = Instance::running();
    kill(before.apps[0].pid);
    let after = instance.until_connected(2);
    assert_eq!(after.kernel.pid, before.kernel.pid);
    assert_ne!(after.apps[0].pid, before.apps[0].pid);
    assert_eq!((after.apps[0].restarts, after.kernel.restarts), (1, 0));
    assert_eq!(after.apps[0].last_exit.as_deref(), Some("killed by SIGKILL"));
    assert_eq!(instance.received("rosemary-kernel", "detach"), 1);
}

#[test]
fn zone_survives_killed_kernel() {
    let (instance, before) = Instance::running();
    kill(before.kernel.pid);
    let after = instance.until_connected(2);
    assert_eq!(after.apps[0].pid, before.apps[0].pid);
    assert_eq!((after.apps[0].restarts, after.kernel.restarts), (0, 1));
    assert_eq!(after.kernel.listen, before.kernel.listen);
    assert_eq!(instance.received("rosemary-kernel", "start true"), 2);
    assert_eq!(instance.received("rosemary-zone", "load 2"), 1);
}

#[test]
fn zone_that_breaks_ring_rules_is_killed() {
    let mut instance = Instance::build();
    instance.set_behaviour("rosemary-kernel", "fault once");
    instance.start();
    instance.until_logged("its app broke a rule");
    instance.until("restarted", || {
        let app = instance.status()?.apps.remove(0);
        ((app.restarts, app.state) == (1, ProgramState::Running)).then_some(())
    });
    assert!(instance.log().contains("Done(7) with 3 outstanding"), "{}", instance.log());
}

#[test]
fn zone_that_breaks_the_protocol_is_killed() {
    let ways = [
        ("nonsense", "a malformed message"),
        ("babbling", "a malformed message"),
        ("flooding", "it reported twice"),
    ];
    for (how, reason) in ways {
        let mut instance = Instance::build();
        instance.set_behaviour("rosemary-zone", how);
        instance.start().until_logged(reason);
        instance.set_behaviour("rosemary-zone", "well");
        let status = instance.until_connected(1);
        assert_eq!(status.kernel.restarts, 0);
        let log = instance.log();
        assert_eq!(log.matches("killed the program").count(), log.matches("died").count(), "{log}");
    }
}

#[test]
fn failing_app_is_logged_and_restarted() {
    let mut instance = Instance::build();
    instance.set_behaviour("rosemary-zone", "failing");
    instance.start().until_logged(r#"why="no symbol rosemary_app\nrosemary: all is well""#);
    instance.set_behaviour("rosemary-zone", "well");
    let status = instance.until_connected(1);
    let last_exit = status.apps[0].last_exit.as_deref().unwrap_or_default();
    assert!(last_exit.starts_with("exited with code 0: no symbol rosemary_app"), "{last_exit}");
}

#[test]
fn unloadable_app_is_held_until_file_changes() {
    let mut instance = Instance::build_with("supervision = { min-run-seconds = 0.1 }");
    instance.set_behaviour("rosemary-zone", "no library");
    instance.start().until_logged("app was held");
    let log = instance.log();
    assert_eq!(log.matches("started program=\"zone learning-switch\"").count(), 5, "{log}");
    assert!(log.contains("libnone.so.1") && log.contains("start Rosemary again"), "{log}");
    instance.set_behaviour("rosemary-zone", "well");
    std::thread::sleep(Duration::from_secs(3));
    let app = &instance.status().unwrap().apps[0];
    assert_eq!((app.state, app.restarts), (ProgramState::Held, 4));
    assert!(app.last_exit.as_ref().unwrap().contains("libnone.so.1"), "{app:?}");
    fs::write(instance.path("examples/liblearning_switch.so"), "another").unwrap();
    instance.until_connected(1);
}

#[test]
fn changed_files_restart_the_load_count() {
    let mut instance = Instance::build_with("supervision = { min-run-seconds = 0.1 }");
    instance.set_behaviour("rosemary-zone", "no library");
    instance.start().until_logged("app failed");
    fs::write(instance.path("examples/liblearning_switch.so"), "another").unwrap();
    instance.until_logged("app was held");
    let log = instance.log();
    assert!(log.matches("started program=\"zone learning-switch\"").count() > 5, "{log}");
}

#[test]
fn forked_processes_end_with_app() {
    if !sys::process::can_make_pid_namespace() {
        println!("SKIPPED: making namespaces needs root");
        return;
    }
    let mut instance = Instance::build();
    instance.set_behaviour("rosemary-zone", "forking");
    instance.start();
    let status = instance.until_connected(1);
    let forked = |instance: &Instance| with_argument(&instance.path("rosemary-zone.sleep"));
    let one = || instance.until("forked", || <[String; 1]>::try_from(forked(&instance)).ok());
    let before = one();
    kill(status.apps[0].pid);
    instance.until_connected(2);
    assert!(!forked(&instance).contains(&before[0]), "it lives on");
    one();
    instance.signal(Signal::KILL);
    instance.wait();
    instance.until("gone", || forked(&instance).is_empty().then_some(()));
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
fn app_output_is_logged_limited_and_escaped() {
    let mut instance = Instance::build();
    instance.set_behaviour("rosemary-zone", "noisy");
    instance.start().until_logged("killed by SIGKILL");
    instance.set_behaviour("rosemary-zone", "well");
    instance.until_connected(1);
    let log = instance.log();
    assert!(!log.contains(['\x1b', '\r']), "{log}");
    assert!(log.contains(r" WARN app: learning-switch: \u{1b}[31mred\r"), "{log}");
    assert!(log.contains("ERROR app: learning-switch: it says"), "{log}");
    let lines = log.matches("this is line").count();
    assert!((100..=400).contains(&lines), "{lines} lines of\n{log}");
    assert!(log.contains("lines that exceeded its log limit"), "{log}");
}

#[test]
fn last_output_precedes_the_exit_line() {
    let mut instance = Instance::build();
    instance.set_behaviour("rosemary-zone", "brief");
    instance.start().until_logged("killed by SIGKILL");
    let log = instance.log();
    let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("no {text} in\n{log}"));
    assert!(at("app: learning-switch: last words") < at("killed by SIGKILL"), "{log}");
}

#[test]
fn unread_log_blocks_nothing() {
    let mut instance = Instance::build();
    instance.set_behaviour("rosemary-kernel", "loud");
    instance.set_behaviour("rosemary-zone", "noisy");
    let mut reader = instance.start_unread();
    instance.until("restarted", || (instance.status()?.apps[0].restarts >= 1).then_some(()));
    instance.set_behaviour("rosemary-zone", "well");
    let status = instance.until_connected(1);
    kill(status.apps[0].pid);
    instance.until_connected(2);
    instance.signal(Signal::TERM);
    assert_eq!(instance.wait().code(), Some(0));
    let mut log = String::new();
    reader.read_to_string(&mut log).unwrap();
    assert!(log.contains("this is line 0\n") && !log.contains("asked to stop"), "{log}");
}

#[test]
fn missing_object_keeps_the_last_one() {
    let (instance, before) = Instance::running();
    let object = instance.path("examples/liblearning_switch.so");
    let content = fs::read(&object).unwrap();
    fs::remove_file(&object).unwrap();
    kill(before.apps[0].pid);
    let status = instance.until_connected(2);
    assert!(status.apps[0].kept.as_ref().unwrap().contains("could not read"), "{status:?}");
    assert_eq!(instance.log().matches("could not read").count(), 1, "{}", instance.log());
    fs::write(&object, content).unwrap();
    kill(status.apps[0].pid);
    assert_eq!(instance.until_connected(3).apps[0].kept, None);
}

#[test]
fn refused_rings_are_requested_again() {
    let mut instance = Instance::build();
    instance.set_behaviour("rosemary-kernel", "no rings once");
    instance.start();
    let before = instance.until_connected(1);
    assert!(instance.log().contains("out of descriptors"), "{}", instance.log());
    assert_eq!(instance.received("rosemary-kernel", "attach"), 2);
    kill(before.apps[0].pid);
    assert_eq!(instance.until_connected(2).apps[0].restarts, 1);
}

#[test]
fn operator_is_connected_to_kernel() {
    let (instance, _) = Instance::running();
    let channel = instance.connect().unwrap();
    channel.send(&OperatorRequest::Kernel, &[]).unwrap();
    let (tell, fds) = receive::<OperatorReply>(&channel).unwrap();
    assert_eq!((tell, fds.len()), (OperatorReply::Kernel, 1));
    let kernel = Channel::from_fd(fds.into_iter().next().unwrap());
    assert_eq!(receive::<String>(&kernel).unwrap().0, "the kernel's own answer");
}

#[test]
fn silent_operators_delay_nothing() {
    let (instance, before) = Instance::running();
    let _silent: Vec<Channel> = (0..40).map(|_| instance.connect().unwrap()).collect();
    let asked = Instant::now();
    instance.status().unwrap();
    // This takes some milliseconds. A silent connection is dropped only after five seconds.
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    kill(before.apps[0].pid);
    assert_eq!(instance.until_connected(2).apps[0].restarts, 1);
}
