//! The real monitor with programs that play kernel and zone (`fake.rs`).

#![expect(clippy::unwrap_used, reason = "a test ends where something unexpected happens")]

mod fake;
mod kernel_apps;

use std::fs;
use std::io::{PipeReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rosemary_monitor::admin::{Ask, Status, Tell};
use rosemary_monitor::supervise::State;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use sys::channel::Channel;

/// Nothing here takes longer, on a machine that does other things too.
const LONG: Duration = Duration::from_secs(15);

/// An installation of its own, with a monitor that runs in it.
struct House {
    dir: tempfile::TempDir,
    /// Apart, because the name of a socket must be short.
    run: tempfile::TempDir,
    monitor: Option<Child>,
    /// An empty one, unless a test writes one.
    config: PathBuf,
    /// What executes the monitor.
    command: &'static str,
}

impl House {
    fn build() -> Self {
        let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let dir = tempfile::tempdir_in(tmp).unwrap();
        let monitor = env!("CARGO_BIN_EXE_rosemary-monitor");
        fake::link(tmp, &dir.path().join("rosemary-kernel"));
        fake::link(tmp, &dir.path().join("rosemary-zone"));
        fake::link(tmp, &dir.path().join("rosemary-log"));
        fs::hard_link(monitor, dir.path().join("rosemary-monitor")).unwrap();
        fs::create_dir(dir.path().join("examples")).unwrap();
        fs::write(dir.path().join("examples/liblearning_switch.so"), "an object").unwrap();
        Self {
            dir,
            run: tempfile::tempdir().unwrap(),
            monitor: None,
            config: "/dev/null".into(),
            command: "env",
        }
    }

    fn play(&self, program: &str, how: &str) {
        fs::write(self.path(program).with_extension("play"), how).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn runtime_dir(&self) -> PathBuf {
        self.run.path().join("rosemary")
    }

    fn command(&self, listen: &str) -> Command {
        let mut command = Command::new(self.command);
        command
            .arg(self.path("rosemary-monitor"))
            .args(["--allow-unsigned", "--listen", listen, "--runtime-dir"])
            .arg(self.runtime_dir())
            .arg("--config")
            .arg(&self.config)
            .arg("--state-dir")
            .arg(self.path("state"));
        command.env("ROSEMARY_LOG", "debug").stdin(Stdio::null());
        command
    }

    fn start(&mut self) -> &mut Self {
        self.start_at("127.0.0.1:0")
    }

    fn start_at(&mut self, listen: &str) -> &mut Self {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path("log")).unwrap();
        self.monitor = Some(self.command(listen).stderr(log).spawn().unwrap());
        self
    }

    /// With a log that nobody reads as long as what is returned lives.
    fn start_unread(&mut self) -> PipeReader {
        let (reader, writer) = std::io::pipe().unwrap();
        self.monitor = Some(self.command("127.0.0.1:0").stderr(writer).spawn().unwrap());
        reader
    }

    fn running() -> (Self, Status) {
        let mut house = Self::build();
        house.start();
        let status = house.until_connected(1);
        (house, status)
    }

    /// Waits until the zone was given rings `times` times in all, and both run.
    fn until_connected(&self, times: usize) -> Status {
        self.until("connected", || {
            let status = self.status()?;
            let runs = status.apps[0].state == State::Running;
            (runs && status.kernel.state == State::Running).then_some(())?;
            (self.heard("rosemary-zone", "rings 4") >= times).then_some(status)
        })
    }

    fn until<T>(&self, what: &str, condition: impl Fn() -> Option<T>) -> T {
        let give_up = Instant::now() + LONG;
        loop {
            if let Some(value) = condition() {
                return value;
            }
            assert!(Instant::now() < give_up, "never {what}; the log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    fn until_logged(&self, text: &str) {
        self.until(text, || self.log().contains(text).then_some(()));
    }

    fn heard(&self, program: &str, what: &str) -> usize {
        let text = fs::read_to_string(self.path(program).with_extension("heard"));
        text.unwrap_or_default().lines().filter(|line| *line == what).count()
    }

    fn connect(&self) -> Option<Channel> {
        sys::named::connect_to(&self.runtime_dir().join("admin.sock")).ok()
    }

    fn status(&self) -> Option<Status> {
        let channel = self.connect()?;
        channel.send(&Ask::Status, &[]).ok()?;
        match receive(&channel)? {
            (Tell::Status(status), _) => Some(status),
            other => panic!("{other:?}"),
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.monitor.as_ref().unwrap()), signal).unwrap();
    }

    fn wait(&mut self) -> ExitStatus {
        let monitor = self.monitor.as_mut().unwrap();
        let give_up = Instant::now() + LONG;
        loop {
            if let Some(status) = monitor.try_wait().unwrap() {
                self.monitor = None;
                return status;
            }
            assert!(Instant::now() < give_up, "the monitor did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if let Some(mut monitor) = self.monitor.take() {
            monitor.kill().unwrap();
            monitor.wait().unwrap();
        }
    }
}

fn receive<T: DeserializeOwned>(channel: &Channel) -> Option<(T, Vec<std::os::fd::OwnedFd>)> {
    let time = Timespec { tv_sec: 10, tv_nsec: 0 };
    poll(&mut [PollFd::new(channel, PollFlags::IN)], Some(&time)).unwrap();
    channel.receive().ok()
}

fn kill(pid: Option<u32>) {
    let pid = Pid::from_raw(pid.unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

/// Whether the process exists and is not a zombie that its new parent has not noticed yet.
fn runs(pid: Option<u32>) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.unwrap())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

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
fn what_an_app_forks_ends_with_it_and_with_rosemary() {
    if !sys::process::can_set_apart() {
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
fn object_that_is_missing_later_is_named_and_tried_again() {
    let (house, before) = House::running();
    let object = house.path("examples/liblearning_switch.so");
    fs::remove_file(&object).unwrap();
    kill(before.apps[0].pid);
    house.until_logged("could not read");
    let status = house.status().unwrap();
    assert_eq!((status.apps[0].pid, status.apps[0].state), (None, State::Waiting));
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
    let _silent: Vec<Channel> = (0..15).map(|_| house.connect().unwrap()).collect();
    kill(before.apps[0].pid);
    assert_eq!(house.until_connected(2).apps[0].restarts, 1);
}

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
    let mut house = House::build();
    house.config = house.path("rosemary.toml");
    let numbers = house.path("state");
    for (config, args, said) in [
        ("[[app]]\nnam = \"a\"\n", &[][..], "rosemary.toml:2: unknown key \"nam\""),
        ("[[app]]\nname = \"a\"\n", &[], "the app a is missing; looked for"),
        ("[[app]]\nname = \"a\"\nobject = \"x.so\"", &[], "x.so; build it, or correct `object`"),
        ("", &["--app", "b"], "examples/libb.so"),
        ("", &["--app", "b:kernel"], "examples/libb.so"),
        ("", &["--plain", "any"], "--allow-unsigned is for development"),
    ] {
        fs::write(&house.config, config).unwrap();
        let output = house.command("127.0.0.1:0").args(args).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && message.contains(said), "{message}");
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
fn sigterm_sigint_and_a_closed_terminal_stop_everything_and_leave_nothing() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
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
