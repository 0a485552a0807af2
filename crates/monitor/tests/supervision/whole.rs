//! Tests of a whole run: which programs start, what prevents a start, and how a run ends.

use std::fs;
use std::time::{Duration, Instant};

use control::operator::Status;
use rustix::process::Signal;

use super::instance::{Instance, kill, runs};

#[test]
fn configured_apps_keep_their_numbers() {
    let mut instance = Instance::build();
    fs::write(instance.path("b.so"), "another object").unwrap();
    let file = instance.path("rosemary.toml");
    let a = "[[app]]\nname = \"learning-switch\"\n";
    let b = "[[app]]\nname = \"b\"\nobject = \"b.so\"\nstage = \"observe\"\n";
    fs::write(&file, [b, a].concat()).unwrap();
    instance.config = file.clone();
    instance.start();
    let status = instance.until_connected(2);
    let apps = |status: &Status| -> Vec<_> {
        status.apps.iter().map(|app| (app.name.clone(), app.number, app.stage.clone())).collect()
    };
    // An installation has a random first number.
    let first = status.apps[0].number;
    let one = |name: &str, number, stage: &str| (name.to_owned(), number, stage.to_owned());
    let both = [one("b", first, "observe"), one("learning-switch", first + 1, "control")];
    assert_eq!(apps(&status), both);
    assert_eq!([status.apps[0].band, status.apps[1].band], [None, Some([1, 65_535])]);
    assert_ne!(status.apps[0].sha256, status.apps[1].sha256);
    instance.signal(Signal::TERM);
    instance.wait();
    fs::write(&file, [a, b].concat()).unwrap();
    instance.start();
    let [b, a] = both;
    assert_eq!(apps(&instance.until_connected(4)), [a, b]);
}

#[test]
fn bad_configuration_prevents_the_start() {
    let mut instance = Instance::build();
    instance.config = instance.path("rosemary.toml");
    let numbers = instance.path("state/apps.json");
    for (config, args, said, code) in [
        ("[[app]]\nnam = \"a\"\n", &[][..], "rosemary.toml:1:1: an [[app]] without a name", 78),
        ("[[app]]\nname = \"a\"\n", &[], "rosemary.toml:2:8: the app a is missing; looked for", 78),
        ("", &["--app", "b"], "examples/libb.so", 78),
        ("", &["--app", "b:kernel"], "examples/libb.so", 78),
        ("", &["--plain", "any"], "--allow-unsigned is for development", 78),
    ] {
        fs::write(&instance.config, config).unwrap();
        let output = instance.command("127.0.0.1:0").args(args).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(code) && message.contains(said), "{message}");
        assert!(!instance.runtime_dir().exists() && !numbers.exists());
    }
    fs::remove_file(&instance.config).unwrap();
    let output = instance.command("127.0.0.1:0").output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("cannot read the configuration"), "{message}");
}

#[test]
fn app_whose_object_cannot_be_used_is_held() {
    for (object, why) in [
        ("x.so", "x.so; build it, or correct `object`"),
        ("/dev/zero", "the object of the app a is /dev/zero, which is not a regular file"),
    ] {
        let mut instance = Instance::build();
        instance.config = instance.path("rosemary.toml");
        let app = format!("[[app]]\nname = \"a\"\nobject = \"{object}\"\nstage = \"observe\"\n");
        fs::write(&instance.config, format!("[[app]]\nname = \"learning-switch\"\n{app}")).unwrap();
        instance.start();
        let apps = instance.until_connected(1).apps;
        assert_eq!(apps[1].state, control::operator::ProgramState::Held, "{:?}", apps[1]);
        assert!(apps[1].last_exit.as_deref().is_some_and(|it| it.contains(why)), "{:?}", apps[1]);
    }
}

#[test]
fn damaged_numbers_prevent_the_start() {
    let instance = Instance::build();
    fs::create_dir(instance.path("state")).unwrap();
    fs::write(instance.path("state/apps.json"), "{\"format\":1,").unwrap();
    let output = instance.command("127.0.0.1:0").output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("Put it back from a backup"), "{message}");
    assert_eq!(fs::read_to_string(instance.path("state/apps.json")).unwrap(), "{\"format\":1,");
    assert!(!instance.runtime_dir().exists());
}

#[test]
fn stop_signals_end_all_programs() {
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let (mut instance, status) = Instance::running();
        instance.signal(signal);
        assert_eq!(instance.wait().code(), Some(0), "{}", instance.log());
        assert!(!runs(status.kernel.pid) && !runs(status.apps[0].pid));
        assert!(!instance.runtime_dir().exists());
        assert_eq!(instance.received("rosemary-kernel", "stop"), 1);
        assert_eq!(instance.received("rosemary-zone", "stop"), 1);
        assert!(!instance.log().contains("died"), "{}", instance.log());
    }
}

#[test]
fn other_signals_have_no_effect() {
    let (mut instance, before) = Instance::running();
    for signal in
        [Signal::USR1, Signal::USR2, Signal::ALARM, Signal::VTALARM, Signal::PROF, Signal::IO]
    {
        instance.signal(signal);
    }
    kill(before.apps[0].pid); // something to react to
    let after = instance.until_connected(2);
    assert_eq!((after.monitor.pid, after.kernel), (before.monitor.pid, before.kernel));
    instance.signal(Signal::TERM);
    assert_eq!(instance.wait().code(), Some(0), "{}", instance.log());
}

#[test]
fn program_that_does_not_stop_is_killed() {
    let mut instance = Instance::build();
    instance.set_behaviour("rosemary-kernel", "deaf");
    instance.set_behaviour("rosemary-zone", "deaf");
    instance.start();
    let status = instance.until_connected(1);
    instance.signal(Signal::TERM);
    let asked = Instant::now();
    assert_eq!(instance.wait().code(), Some(0), "{}", instance.log());
    let took = asked.elapsed();
    assert!(took >= Duration::from_millis(900), "they get a second, got {took:?}");
    assert!(!runs(status.kernel.pid) && !runs(status.apps[0].pid));
    assert!(instance.log().contains("it did not end in time"), "{}", instance.log());
}

#[test]
fn nohup_instance_survives_hangup() {
    let mut instance = Instance::build();
    instance.command = "nohup";
    instance.start().until_connected(1);
    instance.signal(Signal::HUP);
    instance.signal(Signal::TERM);
    assert_eq!(instance.wait().code(), Some(0));
    assert!(!instance.log().contains("asked to stop twice"), "{}", instance.log());
}

#[test]
fn second_stop_signal_kills_at_once() {
    let mut instance = Instance::build();
    instance.set_behaviour("rosemary-kernel", "deaf");
    instance.start().until_connected(1);
    instance.signal(Signal::INT);
    instance.until("asked", || (instance.received("rosemary-kernel", "stop") == 1).then_some(()));
    std::thread::sleep(Duration::from_millis(250)); // sooner, it belongs to the first signal
    instance.signal(Signal::INT);
    assert_eq!(instance.wait().code(), Some(0));
    assert!(instance.log().contains("asked to stop twice"), "{}", instance.log());
}

#[test]
fn signals_sent_together_are_one_request() {
    let mut instance = Instance::build();
    instance.start().until_connected(1);
    instance.signal(Signal::TERM);
    instance.signal(Signal::INT);
    assert_eq!(instance.wait().code(), Some(0));
    assert!(!instance.log().contains("asked to stop twice"), "{}", instance.log());
}

#[test]
fn second_instance_is_refused() {
    let (instance, before) = Instance::running();
    let second = instance.command(&before.kernel.listen[0]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let message = String::from_utf8(second.stderr).unwrap();
    assert!(message.contains(&format!("as process {}", before.monitor.pid)), "{message}");
    let after = instance.status().unwrap();
    assert_eq!((after.kernel, after.apps), (before.kernel, before.apps));
}

#[test]
fn occupied_port_prevents_the_start() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let instance = Instance::build();
    let output = instance.command(&other.local_addr().unwrap().to_string()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("is taken by another program; `ss -ltnp"), "{message}");
    assert!(!instance.runtime_dir().exists());
}

#[test]
fn killed_monitor_takes_children_along() {
    let (mut instance, before) = Instance::running();
    instance.signal(Signal::KILL);
    instance.wait();
    instance.start_at(&before.kernel.listen[0]);
    let after = instance.until_connected(2);
    assert!(!runs(before.kernel.pid) && !runs(before.apps[0].pid));
    assert_eq!(after.kernel.listen, before.kernel.listen);
    instance.until_logged("took over");
    instance.signal(Signal::TERM);
    instance.wait();
    assert!(!instance.runtime_dir().exists());
}
