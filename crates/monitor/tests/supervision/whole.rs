//! The whole: what is started, what keeps it from starting, and how it ends.

use std::fs;
use std::time::{Duration, Instant};

use rosemary_monitor::admin::Status;
use rustix::process::Signal;

use super::house::{House, kill, runs};

#[test]
fn apps_of_the_configuration_run_each_in_its_zone_and_keep_their_numbers() {
    let mut house = House::build();
    fs::write(house.path("b.so"), "another object").unwrap();
    let file = house.path("rosemary.toml");
    let a = "[[app]]\nname = \"learning-switch\"\n";
    let b = "[[app]]\nname = \"b\"\nobject = \"b.so\"\nstage = \"observe\"\n";
    fs::write(&file, [b, a].concat()).unwrap();
    house.config = file.clone();
    house.start();
    let status = house.until_connected(2);
    let apps = |status: &Status| -> Vec<_> {
        status.apps.iter().map(|app| (app.name.clone(), app.number, app.stage.clone())).collect()
    };
    let one = |name: &str, number, stage: &str| (name.to_owned(), number, stage.to_owned());
    let both = [one("b", 1, "observe"), one("learning-switch", 2, "control")];
    assert_eq!(apps(&status), both);
    assert_eq!([status.apps[0].band, status.apps[1].band], [None, Some([1, 65_535])]);
    assert_ne!(status.apps[0].sha256, status.apps[1].sha256);
    house.signal(Signal::TERM);
    house.wait();
    fs::write(&file, [a, b].concat()).unwrap();
    house.start();
    let [b, a] = both;
    assert_eq!(apps(&house.until_connected(4)), [a, b]);
}

#[test]
fn what_is_wrong_with_the_apps_is_told_before_anything_is_made() {
    const ZERO: &str = "[[app]]\nname = \"a\"\nobject = \"/dev/zero\"\n";
    let mut house = House::build();
    house.config = house.path("rosemary.toml");
    let numbers = house.path("state/apps.json");
    for (config, args, said, code) in [
        ("[[app]]\nnam = \"a\"\n", &[][..], "rosemary.toml:2: unknown key \"nam\"", 78),
        ("[[app]]\nname = \"a\"\n", &[], "the app a is missing; looked for", 1),
        ("[[app]]\nname = \"a\"\nobject = \"x.so\"", &[], "x.so; build it, or correct `object`", 1),
        (ZERO, &[], "the object of the app a is /dev/zero, which is no regular file", 1),
        ("", &["--app", "b"], "examples/libb.so", 1),
        ("", &["--app", "b:kernel"], "examples/libb.so", 1),
        ("", &["--plain", "any"], "--allow-unsigned is for development", 78),
    ] {
        fs::write(&house.config, config).unwrap();
        let output = house.command("127.0.0.1:0").args(args).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(code) && message.contains(said), "{message}");
        assert!(!house.runtime_dir().exists() && !numbers.exists());
    }
    fs::remove_file(&house.config).unwrap();
    let output = house.command("127.0.0.1:0").output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("cannot read the configuration"), "{message}");
}

#[test]
fn damaged_numbers_keep_it_from_starting_and_stay_as_they_are() {
    let house = House::build();
    fs::create_dir(house.path("state")).unwrap();
    fs::write(house.path("state/apps.json"), "{\"format\":1,").unwrap();
    let output = house.command("127.0.0.1:0").output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("Put it back from a backup"), "{message}");
    assert_eq!(fs::read_to_string(house.path("state/apps.json")).unwrap(), "{\"format\":1,");
    assert!(!house.runtime_dir().exists());
}

#[test]
fn signals_that_ask_to_stop_and_a_closed_terminal_stop_everything_and_leave_nothing() {
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP] {
        let (mut house, status) = House::running();
        house.signal(signal);
        assert_eq!(house.wait().code(), Some(0), "{}", house.log());
        assert!(!runs(status.kernel.pid) && !runs(status.apps[0].pid));
        assert!(!house.runtime_dir().exists());
        assert_eq!(house.heard("rosemary-kernel", "stop"), 1);
        assert_eq!(house.heard("rosemary-zone", "stop"), 1);
        assert!(!house.log().contains("died"), "{}", house.log());
    }
}

#[test]
fn signals_that_mean_nothing_end_nothing() {
    let (mut house, before) = House::running();
    for signal in
        [Signal::USR1, Signal::USR2, Signal::ALARM, Signal::VTALARM, Signal::PROF, Signal::IO]
    {
        house.signal(signal);
    }
    kill(before.apps[0].pid); // what it goes on with
    let after = house.until_connected(2);
    assert_eq!((after.monitor.pid, after.kernel), (before.monitor.pid, before.kernel));
    house.signal(Signal::TERM);
    assert_eq!(house.wait().code(), Some(0), "{}", house.log());
}

#[test]
fn programs_that_do_not_stop_are_killed() {
    let mut house = House::build();
    house.play("rosemary-kernel", "deaf");
    house.play("rosemary-zone", "deaf");
    house.start();
    let status = house.until_connected(1);
    house.signal(Signal::TERM);
    let asked = Instant::now();
    assert_eq!(house.wait().code(), Some(0), "{}", house.log());
    let took = asked.elapsed();
    assert!(took >= Duration::from_millis(900), "they get a second, got {took:?}");
    assert!(!runs(status.kernel.pid) && !runs(status.apps[0].pid));
    assert!(house.log().contains("it did not end in time"), "{}", house.log());
}

#[test]
fn instance_started_to_outlive_its_terminal_outlives_it() {
    let mut house = House::build();
    house.command = "nohup";
    house.start().until_connected(1);
    house.signal(Signal::HUP);
    house.signal(Signal::TERM);
    assert_eq!(house.wait().code(), Some(0));
    assert!(!house.log().contains("asked to stop twice"), "{}", house.log());
}

#[test]
fn second_signal_kills_at_once() {
    let mut house = House::build();
    house.play("rosemary-kernel", "deaf");
    house.start().until_connected(1);
    house.signal(Signal::INT);
    house.until("asked", || (house.heard("rosemary-kernel", "stop") == 1).then_some(()));
    house.signal(Signal::INT);
    assert_eq!(house.wait().code(), Some(0));
    assert!(house.log().contains("asked to stop twice"), "{}", house.log());
}

#[test]
fn second_instance_is_refused_and_harms_nothing() {
    let (house, before) = House::running();
    let second = house.command(&before.kernel.listen[0]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let message = String::from_utf8(second.stderr).unwrap();
    assert!(message.contains(&format!("as process {}", before.monitor.pid)), "{message}");
    let after = house.status().unwrap();
    assert_eq!((after.kernel, after.apps), (before.kernel, before.apps));
}

#[test]
fn occupied_port_is_refused_and_nothing_is_left_behind() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let house = House::build();
    let output = house.command(&other.local_addr().unwrap().to_string()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("is taken by another program; `ss -ltnp"), "{message}");
    assert!(!house.runtime_dir().exists());
}

#[test]
fn killed_monitor_takes_its_children_along_and_the_next_one_takes_over() {
    let (mut house, before) = House::running();
    house.signal(Signal::KILL);
    house.wait();
    house.start_at(&before.kernel.listen[0]);
    let after = house.until_connected(2);
    assert!(!runs(before.kernel.pid) && !runs(before.apps[0].pid));
    assert_eq!(after.kernel.listen, before.kernel.listen);
    house.until_logged("took over");
    house.signal(Signal::TERM);
    house.wait();
    assert!(!house.runtime_dir().exists());
}
