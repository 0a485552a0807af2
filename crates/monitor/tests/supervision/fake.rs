//! Plays the kernel, the log or a zone for the monitor's tests, well or badly.
//!
//! The programs that the monitor finds are scripts that execute this test program again, with one
//! ignored test's name and the variable [`NAME`]. How it plays, the file `<name>.play` beside the
//! script says, read at each start; what it hears is appended to `<name>.heard`.

use std::fs;
use std::io::{Write as _, stderr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use kernel::control::{Answer as KernelAnswer, App, Host, Request as KernelRequest, worker_name};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, getpid, kill_process};
use sdk::services::REQUEST_HEAD;
use serde::de::DeserializeOwned;
use services::control::{Answer as Done, Request as Order};
use services::log::messages::{Answer as Kept, Request as Log};
use sys::channel::{Channel, ChannelError};
use sys::doorbell::Doorbell;
use sys::flight::Recorder;
use sys::packets::Packets;
use zone::control::{Answer as ZoneAnswer, Request as ZoneRequest};

/// The script that stands for the program.
const NAME: &str = "ROSEMARY_TEST_FAKE";

/// Puts a script at `path` that plays the program of that name. `tmp` is on the same file system.
///
/// There is one script, written before any test starts a process, and links to it: a process that
/// another thread forks while a file is being written keeps it open, and then it cannot be executed.
pub(crate) fn link(tmp: &Path, path: &Path) {
    static SCRIPT: OnceLock<PathBuf> = OnceLock::new();
    let script = SCRIPT.get_or_init(|| {
        let script = tmp.join("fake.sh");
        let test = std::env::current_exe().unwrap();
        let exec = format!("exec '{}' --ignored --exact fake::play --nocapture", test.display());
        let _ = fs::remove_file(&script);
        // Who thinks that there is one processor, as a zone with its quota, begins a line with the test's name.
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
    let play = fs::read_to_string(name.with_extension("play")).unwrap_or_default();
    let fake = Fake { play, monitor: Channel::from_stdin().unwrap(), name };
    match fake.name.file_name().and_then(|name| name.to_str()) {
        Some("rosemary-kernel") => fake.kernel(),
        Some("rosemary-log") => fake.log(),
        _ => fake.zone(),
    }
}

/// Writes to standard error, whether it is read or not.
fn print_lines(count: usize) {
    for number in 0..count {
        let _ = writeln!(stderr(), "this is line {number}");
    }
}

struct Fake {
    name: PathBuf,
    play: String,
    monitor: Channel,
}

impl Fake {
    fn note(&self, what: &str) {
        let path = self.name.with_extension("heard");
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(format!("{what}\n").as_bytes()).unwrap(); // at once: others write there, too
    }

    /// Waits for a message; `None` when the monitor is gone.
    fn hear<T: DeserializeOwned>(&self) -> Option<(T, Vec<OwnedFd>)> {
        loop {
            poll(&mut [PollFd::new(&self.monitor, PollFlags::IN)], None).unwrap();
            match self.monitor.receive() {
                Ok(message) => return Some(message),
                Err(ChannelError::WouldBlock) => {}
                Err(_) => return None,
            }
        }
    }

    /// Whether it is told, at the moment, to play `how`, which it does once and then plays well.
    fn plays(&self, how: &str) -> bool {
        let play = self.name.with_extension("play");
        let told = fs::read_to_string(&play).is_ok_and(|told| told == how);
        if told {
            fs::write(play, "well").unwrap();
        }
        told
    }

    /// A log that takes everything and keeps nothing.
    fn log(&self) {
        let mut client = None;
        let mut kept = 0;
        loop {
            let mut fds = vec![PollFd::new(&self.monitor, PollFlags::IN)];
            fds.extend(client.iter().map(|it| PollFd::new(it, PollFlags::IN)));
            poll(&mut fds, None).unwrap();
            match self.monitor.receive() {
                Ok((Order::Start { .. }, _)) => self.monitor.send(&Done::Ready, &[]).unwrap(),
                Ok((Order::Client(_), fds)) => {
                    client = fds.into_iter().next().map(Packets::from_fd);
                }
                Err(ChannelError::WouldBlock) => {}
                Ok((Order::Stop, _)) | Err(_) => return,
            }
            let mut room = vec![0; 64 * 1024];
            let Some(Ok((size, _))) = client.as_ref().map(|it| it.receive(&mut room)) else {
                continue;
            };
            let (id, request) = room[..size].split_at(REQUEST_HEAD);
            if let Log::Keep(lines) = serde_json::from_slice(request).unwrap() {
                kept += lines.len() as u64;
            }
            let answer = serde_json::to_vec(&Kept::Next(kept)).unwrap();
            client.as_ref().unwrap().send(&[id, &[0], &answer].concat()).unwrap();
        }
    }

    fn kernel(&self) {
        while let Some((request, fds)) = self.hear::<KernelRequest>() {
            match request {
                KernelRequest::Start { listeners, apps, .. } => {
                    let fds = fds.get(listeners.len()..);
                    self.note(&format!("start {}", fds.is_some()));
                    let hosted: Vec<App> =
                        apps.into_iter().filter(|app| app.host == Host::Kernel).collect();
                    if self.play == "loud" {
                        print_lines(20_000);
                    }
                    self.host(&hosted, fds.unwrap_or_default());
                    self.monitor.send(&KernelAnswer::Ready, &[]).unwrap();
                    if self.plays("stuck once") {
                        Self::begin_endless_turn(fds.unwrap_or_default());
                    }
                    if let Some(app) = hosted.first() {
                        self.be_the_victim(app, fds.unwrap_or_default());
                    }
                }
                KernelRequest::Attach { app, .. } => {
                    self.note("attach");
                    if self.plays("no rings once") {
                        let why = "out of descriptors".into();
                        self.monitor.send(&KernelAnswer::NotAttached { app, why }, &[]).unwrap();
                        continue;
                    }
                    let bells: Vec<OwnedFd> = (0..4).map(|_| Doorbell::new().unwrap().1).collect();
                    let fds: Vec<BorrowedFd<'_>> = bells.iter().map(AsFd::as_fd).collect();
                    let attached = KernelAnswer::Attached { app, capacity: 4096, batch: 64 };
                    self.monitor.send(&attached, &fds).unwrap();
                    if self.plays("fault once") {
                        let why = "Done(7) with 3 outstanding".into();
                        self.monitor.send(&KernelAnswer::Fault { app, why }, &[]).unwrap();
                    }
                }
                KernelRequest::Detach { .. } => self.note("detach"),
                KernelRequest::Operator => {
                    let operator = Channel::from_fd(fds.into_iter().next().unwrap());
                    operator.send(&"the kernel's own answer", &[]).unwrap();
                }
                KernelRequest::Stop => {
                    self.note("stop");
                    if self.play != "deaf" {
                        return;
                    }
                }
            }
        }
    }

    /// A worker that turns once and never again, and is busy.
    fn begin_endless_turn(fds: &[OwnedFd]) {
        let mut seat = Recorder::map(fds.last().unwrap()).unwrap().seat(3);
        let worker = std::thread::Builder::new().name(worker_name(3));
        let turn = move || {
            seat.turn();
            loop {
                std::hint::spin_loop();
            }
        };
        worker.spawn(turn).unwrap();
    }

    /// Takes in the apps of the kernel, with what came behind the listeners.
    fn host(&self, hosted: &[App], fds: &[OwnedFd]) {
        if hosted.is_empty() {
            return assert_eq!(fds.len(), 1, "the recorder; there is nothing to host");
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
            let told = KernelAnswer::Hosted { app: app.app, version: "0.2.0\u{1b}".into() };
            self.monitor.send(&told, &[]).unwrap();
        }
    }

    /// What `app` does to the kernel that hosts it.
    fn be_the_victim(&self, app: &App, fds: &[OwnedFd]) {
        let recorder = Recorder::map(fds.last().unwrap()).unwrap();
        let (mut first, mut other) = (recorder.seat(0), recorder.seat(15));
        let number = app.app.0.try_into().unwrap();
        let _called = other.call(9_999.try_into().unwrap()); // no app's number, and so nobody's fault
        if self.plays("panicking once") {
            let why = "it panicked: \u{1b}[31mred".to_owned();
            for _worker in 0..2 {
                let told = KernelAnswer::Demoted { app: app.app, why: why.clone() };
                self.monitor.send(&told, &[]).unwrap();
            }
        } else if self.plays("dying in the app once") {
            let _call = first.call(number);
            kill_process(getpid(), Signal::ABORT).unwrap();
            std::thread::park(); // another thread may be the one that is hit
        } else if self.plays("leaving in the app once") {
            let _call = first.call(number);
            #[expect(clippy::disallowed_methods, reason = "as an app may")]
            std::process::exit(0);
        } else if self.plays("dying elsewhere once") {
            drop(first.call(number));
            kill_process(getpid(), Signal::ABORT).unwrap();
        } else if self.plays("lying in the app once") {
            let _call = first.call(number);
            self.monitor.send(&"nonsense", &[]).unwrap();
            std::thread::park();
        } else if self.plays("hosting another once") {
            let told = KernelAnswer::Hosted { app: kernel::control::AppId(7), version: "1".into() };
            self.monitor.send(&told, &[]).unwrap();
        }
    }

    fn zone(&self) {
        while let Some((request, fds)) = self.hear::<ZoneRequest>() {
            match request {
                ZoneRequest::Load { .. } => {
                    self.note(&format!("load {}", fds.len()));
                    let loaded = ZoneAnswer::Loaded { version: "0.1.0".into() };
                    match self.play.as_str() {
                        "failing" => {
                            let why = "no symbol rosemary_app\nrosemary: all is well".into();
                            self.monitor.send(&ZoneAnswer::Failed { why }, &[]).unwrap();
                            return;
                        }
                        "no library" => {
                            let why = "could not load the app's object: libnone.so.1 is missing";
                            let answer = ZoneAnswer::NotLoaded { why: why.into() };
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
                ZoneRequest::Watch | ZoneRequest::Alert { .. } => {}
                ZoneRequest::Rings { .. } => self.note(&format!("rings {}", fds.len())),
                ZoneRequest::Service { name } => self.note(&format!("service {name}")),
                ZoneRequest::Stop => {
                    self.note("stop");
                    if self.play != "deaf" {
                        return;
                    }
                }
            }
        }
    }
}
