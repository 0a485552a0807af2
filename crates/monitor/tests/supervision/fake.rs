//! Plays the kernel, the log service or a zone for the monitor's tests, well or badly.
//!
//! The programs that the monitor finds are scripts. Each executes this test program again, with the name of one ignored
//! test and the variable [`NAME`]. The file `<name>.behaviour` beside the script says how to behave and is read at each
//! start. The messages that the program receives are appended to `<name>.received`.

use std::fs;
use std::io::{Write as _, stderr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use control::flight::FlightRecorder;
use control::kernel::{AnnouncedApp, KernelReply, KernelRequest, worker_name};
use control::log::{LogReply, LogRequest};
use control::service::{ServiceReply, ServiceRequest};
use control::zone::{ZoneReply, ZoneRequest};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, getpid, kill_process};
use sdk::services::REQUEST_HEAD;
use serde::de::DeserializeOwned;
use sys::channel::{Channel, ChannelError};
use sys::doorbell::Doorbell;
use sys::packets::Packets;

/// Names the script that was executed.
const NAME: &str = "ROSEMARY_TEST_FAKE";

/// Puts a script at `path` that plays the program of that name. `tmp` is on the same file system.
///
/// All scripts are links to one file, which is written before any test starts a process. A process that another thread
/// forks while a file is being written keeps that file open, and then it cannot be executed.
pub(crate) fn link(tmp: &Path, path: &Path) {
    static SCRIPT: OnceLock<PathBuf> = OnceLock::new();
    let script = SCRIPT.get_or_init(|| {
        let script = tmp.join("fake.sh");
        let test = std::env::current_exe().unwrap();
        let exec = format!("exec '{}' --ignored --exact fake::play --nocapture", test.display());
        let _ = fs::remove_file(&script);
        // With one processor, as in a zone with a quota, the test harness would print the test's name.
        let lines = format!("#!/bin/sh\n{NAME}=\"$0\" RUST_TEST_THREADS=2 {exec}\n");
        fs::write(&script, lines).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        script
    });
    fs::hard_link(script, path).unwrap();
}

#[test]
#[ignore = "executed by the other tests, to play the kernel, the log or a zone"]
fn play() {
    let Some(name) = std::env::var_os(NAME).map(PathBuf::from) else { return };
    sys::process::split_off_init().unwrap();
    let behaviour = fs::read_to_string(name.with_extension("behaviour")).unwrap_or_default();
    let fake = Fake { behaviour, monitor: Channel::from_stdin().unwrap(), name };
    match fake.name.file_name().and_then(|name| name.to_str()) {
        Some("rosemary-kernel") => fake.kernel(),
        Some(
            "rosemary-log" | "rosemary-storage" | "rosemary-broker" | "rosemary-ovsdb"
            | "rosemary-history",
        ) => {
            fake.service();
        }
        _ => fake.zone(),
    }
}

/// Writes to standard error, whether it is read or not.
fn print_lines(count: usize) {
    for number in 0..count {
        let _ = writeln!(stderr(), "this is line {number}");
    }
}

/// Uses more memory, for ever.
fn leak() {
    std::hint::black_box(Vec::leak(vec![1_u8; 1 << 20]));
}

struct Fake {
    name: PathBuf,
    behaviour: String,
    monitor: Channel,
}

impl Fake {
    fn note(&self, what: &str) {
        let path = self.name.with_extension("received");
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(format!("{what}\n").as_bytes()).unwrap(); // in one call, because other processes write there, too
    }

    /// Waits for a message; `None` after the monitor has ended.
    fn receive<T: DeserializeOwned>(&self) -> Option<(T, Vec<OwnedFd>)> {
        loop {
            poll(&mut [PollFd::new(&self.monitor, PollFlags::IN)], None).unwrap();
            match self.monitor.receive() {
                Ok(message) => return Some(message),
                Err(ChannelError::WouldBlock) => {}
                Err(_) => return None,
            }
        }
    }

    /// Returns whether the current behaviour is `how`, and if so changes it to `well`.
    fn behaves_once(&self, how: &str) -> bool {
        let file = self.name.with_extension("behaviour");
        let is_now = fs::read_to_string(&file).is_ok_and(|behaviour| behaviour == how);
        if is_now {
            fs::write(file, "well").unwrap();
        }
        is_now
    }

    /// A service; as the log service it confirms all lines and stores none.
    fn service(&self) {
        let mut client = None;
        let mut kept = 0;
        loop {
            let mut fds = vec![PollFd::new(&self.monitor, PollFlags::IN)];
            fds.extend(client.iter().map(|it| PollFd::new(it, PollFlags::IN)));
            poll(&mut fds, None).unwrap();
            match self.monitor.receive() {
                Ok((ServiceRequest::Start { .. }, _)) => {
                    self.monitor.send(&ServiceReply::Ready, &[]).unwrap();
                }
                Ok((ServiceRequest::Client(_), fds)) => {
                    client = fds.into_iter().next().map(Packets::from_fd);
                }
                Ok((ServiceRequest::Ping { number }, _)) => {
                    if self.behaves_once("spinning once") {
                        loop {
                            std::hint::spin_loop();
                        }
                    }
                    if self.behaviour == "leaking" {
                        leak();
                    }
                    self.monitor.send(&ServiceReply::Pong { number }, &[]).unwrap();
                }
                Ok((ServiceRequest::Apps { .. }, _)) | Err(ChannelError::WouldBlock) => {}
                Ok((ServiceRequest::Stop, _)) | Err(_) => return,
            }
            let mut room = vec![0; 64 * 1024];
            let Some(Ok((size, _))) = client.as_ref().map(|it| it.receive(&mut room)) else {
                continue;
            };
            let (id, request) = room[..size].split_at(REQUEST_HEAD);
            if let LogRequest::Keep(lines) = serde_json::from_slice(request).unwrap() {
                kept += lines.len() as u64;
            }
            let answer = serde_json::to_vec(&LogReply::Next(kept)).unwrap();
            client.as_ref().unwrap().send(&[id, &[0], &answer].concat()).unwrap();
        }
    }

    fn kernel(&self) {
        while let Some((request, fds)) = self.receive::<KernelRequest>() {
            match request {
                KernelRequest::Start { listeners, apps, .. } => {
                    let fds = fds.get(listeners.len()..);
                    self.note(&format!("start {}", fds.is_some()));
                    let hosted: Vec<AnnouncedApp> =
                        apps.into_iter().filter(|app| app.host.is_in_kernel()).collect();
                    if self.behaviour == "loud" {
                        print_lines(20_000);
                    }
                    self.host(&hosted, fds.unwrap_or_default());
                    self.monitor.send(&KernelReply::Ready, &[]).unwrap();
                    if self.behaviour == "leaking" {
                        std::thread::spawn(|| {
                            loop {
                                leak();
                                std::thread::sleep(Duration::from_millis(100));
                            }
                        });
                    }
                    if self.behaves_once("stuck once") {
                        Self::begin_endless_turn(fds.unwrap_or_default());
                    }
                    if let Some(app) = hosted.first() {
                        self.suffer_from(app, fds.unwrap_or_default());
                    }
                }
                KernelRequest::Attach { app, .. } => {
                    self.note("attach");
                    if self.behaves_once("no rings once") {
                        let why = "out of descriptors".into();
                        self.monitor.send(&KernelReply::NotAttached { app, why }, &[]).unwrap();
                        continue;
                    }
                    let bells: Vec<OwnedFd> = (0..4).map(|_| Doorbell::new().unwrap().1).collect();
                    let fds: Vec<BorrowedFd<'_>> = bells.iter().map(AsFd::as_fd).collect();
                    let attached = KernelReply::Attached { app, capacity: 4096, batch: 64 };
                    self.monitor.send(&attached, &fds).unwrap();
                    if self.behaves_once("fault once") {
                        let why = "Done(7) with 3 outstanding".into();
                        self.monitor.send(&KernelReply::Fault { app, why }, &[]).unwrap();
                    }
                }
                KernelRequest::Detach { .. } => self.note("detach"),
                KernelRequest::Know { .. } => self.note("know"),
                KernelRequest::Sessions { shares } => self.note(&format!("sessions {shares:?}")),
                KernelRequest::ChargeMemory { charge } => self.note(&format!("charge {charge}")),
                KernelRequest::LogLevel { level, .. } => {
                    self.note(&format!("log-level {}", level.name()));
                }
                KernelRequest::Forget { .. } => self.note("forget"),
                KernelRequest::AbsentApps { .. } => self.note("absent"),
                KernelRequest::Service { name, .. } => {
                    self.note(&format!("service {name} {}", fds.len()));
                }
                KernelRequest::Operator => {
                    let operator = Channel::from_fd(fds.into_iter().next().unwrap());
                    operator.send(&"the kernel's own answer", &[]).unwrap();
                }
                KernelRequest::Stop => {
                    self.note("stop");
                    if self.behaviour != "deaf" {
                        return;
                    }
                }
            }
        }
    }

    /// Runs a worker that begins one turn and stays busy in it.
    fn begin_endless_turn(fds: &[OwnedFd]) {
        let mut flight_slot = FlightRecorder::map(fds.last().unwrap()).unwrap().slot(3);
        let worker = std::thread::Builder::new().name(worker_name(3));
        let turn = move || {
            flight_slot.begin_turn();
            loop {
                std::hint::spin_loop();
            }
        };
        worker.spawn(turn).unwrap();
    }

    /// Loads the apps that the kernel hosts, with the descriptors that follow the listeners.
    fn host(&self, hosted: &[AnnouncedApp], fds: &[OwnedFd]) {
        if hosted.is_empty() {
            return assert_eq!(fds.len(), 1, "only the recorder, as no app is hosted");
        }
        assert_eq!(fds.len(), hosted.len() + 2, "configurations, an object each, the recorder");
        let text = |fd: &OwnedFd| {
            let mut text = [0; 100];
            let size = rustix::io::pread(fd, &mut text, 0).unwrap();
            String::from_utf8_lossy(&text[..size]).into_owned()
        };
        let configs = text(&fds[0]);
        let mut configs = configs.as_str();
        for (app, object) in hosted.iter().zip(&fds[1..]) {
            let (config, rest) = configs.split_at(app.config_size as usize);
            configs = rest;
            self.note(&format!("host {}: {}{config}", app.name, text(object)));
            let version = "0.2.0\u{1b}".into();
            let reply = KernelReply::Hosted { app: app.app, version, instances: 2 };
            self.monitor.send(&reply, &[]).unwrap();
        }
    }

    /// Lets `app` harm the kernel that hosts it, if that is the behaviour.
    fn suffer_from(&self, app: &AnnouncedApp, fds: &[OwnedFd]) {
        let recorder = FlightRecorder::map(fds.last().unwrap()).unwrap();
        let (mut first, mut other) = (recorder.slot(0), recorder.slot(15));
        let number = app.app.0.try_into().unwrap();
        let _called = other.begin_call(9_999.try_into().unwrap()); // not the number of an app, so no app is to blame
        if self.behaviour == "leaking in the app" {
            let charge = move || {
                loop {
                    leak();
                    first.charge(number, 1 << 20);
                    std::thread::sleep(Duration::from_millis(100));
                }
            };
            std::thread::spawn(charge);
        } else if self.behaves_once("panicking once") {
            let why = "it panicked: \u{1b}[31mred".to_owned();
            for _worker in 0..2 {
                let reply = KernelReply::Demoted { app: app.app, why: why.clone() };
                self.monitor.send(&reply, &[]).unwrap();
            }
        } else if self.behaves_once("dying in the app once") {
            let _call = first.begin_call(number);
            kill_process(getpid(), Signal::ABORT).unwrap();
            std::thread::park(); // the signal may hit another thread
        } else if self.behaves_once("leaving in the app once") {
            let _call = first.begin_call(number);
            #[expect(clippy::disallowed_methods, reason = "as an app may")]
            std::process::exit(0);
        } else if ["dying elsewhere", "dying elsewhere twice"].contains(&&*self.behaviour) {
            if self.behaviour.ends_with("twice") {
                fs::write(self.name.with_extension("behaviour"), "dying elsewhere once").unwrap();
            }
            kill_process(getpid(), Signal::ABORT).unwrap();
        } else if self.behaves_once("dying elsewhere once") {
            drop(first.begin_call(number));
            kill_process(getpid(), Signal::ABORT).unwrap();
        } else if self.behaves_once("lying in the app once") {
            let _call = first.begin_call(number);
            self.monitor.send(&"nonsense", &[]).unwrap();
            std::thread::park();
        } else if self.behaves_once("hosting another once") {
            let (app, version) = (control::app::AppId(7), "1".into());
            let reply = KernelReply::Hosted { app, version, instances: 2 };
            self.monitor.send(&reply, &[]).unwrap();
        }
    }

    fn zone(&self) {
        while let Some((request, fds)) = self.receive::<ZoneRequest>() {
            match request {
                ZoneRequest::Load { .. } => {
                    self.note(&format!("load {}", fds.len()));
                    let loaded = ZoneReply::Loaded { version: "0.1.0".into() };
                    match self.behaviour.as_str() {
                        "failing" => {
                            let why = "no symbol rosemary_app\nrosemary: all is well".into();
                            self.monitor.send(&ZoneReply::Failed { why }, &[]).unwrap();
                            return;
                        }
                        "no library" => {
                            let why = "could not load the app's object: libnone.so.1 is missing";
                            let answer = ZoneReply::NotLoaded { why: why.into() };
                            self.monitor.send(&answer, &[]).unwrap();
                            return;
                        }
                        "noisy" => {
                            let _ = stderr().write_all(b"\x1b[31mred\r\nERROR it says\n");
                            print_lines(1_000);
                            kill_process(getpid(), Signal::KILL).unwrap();
                        }
                        "forking" => {
                            let word = self.name.with_extension("sleep");
                            let script = "setsid sh -c 'sleep 60; :' \"$0\" &";
                            Command::new("sh").args(["-c", script]).arg(word).status().unwrap();
                            self.monitor.send(&loaded, &[]).unwrap();
                        }
                        "brief" => {
                            let _ = stderr().write_all(b"last words");
                            kill_process(getpid(), Signal::KILL).unwrap();
                        }
                        "nonsense" => self.monitor.send(&"nonsense", &[]).unwrap(),
                        "babbling" => while self.monitor.send(&"nonsense", &[]).is_ok() {},
                        "flooding" => while self.monitor.send(&loaded, &[]).is_ok() {},
                        _ => self.monitor.send(&loaded, &[]).unwrap(),
                    }
                }
                ZoneRequest::Try { .. } => return,
                ZoneRequest::Watch | ZoneRequest::Alert { .. } | ZoneRequest::LogLevel { .. } => {}
                ZoneRequest::Rings { .. } => self.note(&format!("rings {}", fds.len())),
                ZoneRequest::Service { name } => self.note(&format!("service {name}")),
                ZoneRequest::Client(client) => self.note(&format!("client {}", client.name)),
                ZoneRequest::Stop => {
                    self.note("stop");
                    if self.behaviour != "deaf" {
                        return;
                    }
                }
            }
        }
    }
}
