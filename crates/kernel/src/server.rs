//! The main thread: serves the monitor's control socket and operators' questions.
//!
//! It owns no switch. The monitor asks, the worker acts, the monitor is told; an operator asks,
//! the worker answers between two turns. If the monitor goes away, so does the kernel.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use sys::channel::{Channel, ChannelError};
use sys::doorbell::{Doorbell, Ringer};
use sys::flight::{Recorder, SEATS};
use sys::object::Object;
use thiserror::Error;
use tracing::{error, info, warn};

use crate::control::{Answer, App, AppId, Host, Request};
use crate::flows::{Flows, Names, Part};
use crate::query::{Query, Reply};
use crate::tls::{
    self, Entrance,
    keys::{Keys, KeysError},
};
use crate::worker::{Apps, Command, Known, Notice, Wires, Worker, note};

/// Most operators at once; the oldest gives way.
const OPERATORS: usize = 16;

/// How long a worker may take to answer an operator.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why the kernel cannot go on.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The monitor is gone, or does not say what it should.
    #[error("the monitor: {0}; rosemary-kernel is started by the monitor, see `rosemary up`")]
    Monitor(#[from] ChannelError),
    /// The first message was something else.
    #[error("the monitor's first message was not Start")]
    NotStarted,
    /// Keys were announced and did not come.
    #[error("the monitor's first message was without the keys that it announced")]
    NoKeys,
    /// Apps are to run in this process, and their objects or the flight recorder did not come.
    #[error("the monitor's first message was without the flight recorder that it announced")]
    NoRecorder,
    /// The monitor has checked them, so this should not happen.
    #[error("the keys for TLS: {0}")]
    Keys(#[from] KeysError),
    /// The system refused something.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Its answer.
        error: io::Error,
    },
    /// A worker ended by itself.
    #[error("a worker ended")]
    Worker,
}

/// The main thread's state.
#[derive(Debug)]
struct Server {
    monitor: Channel,
    operators: Vec<Operator>,
    worker: Link,
    /// For what operators are told.
    names: Names,
    /// How many questions workers were asked for operators.
    questions: u64,
}

/// Somebody whom the monitor has authenticated.
#[derive(Debug)]
struct Operator {
    channel: Channel,
    /// What they asked for and was not told wholly.
    flows: Option<Flows>,
}

/// The server's ends of the wires to the worker.
#[derive(Debug)]
struct Link {
    commands: Sender<Command>,
    commands_bell: Ringer,
    notices: Receiver<Notice>,
    notices_bell: Doorbell,
    thread: JoinHandle<io::Result<()>>,
}

/// Serves until the monitor says stop.
///
/// # Errors
/// [`ServerError`]: the process is to end.
pub fn run(monitor: Channel) -> Result<(), ServerError> {
    let (request, fds) = wait_for(&monitor)?;
    let Request::Start { listeners, run_as, apps, plain, tls } = request else {
        return Err(ServerError::NotStarted);
    };
    let confined = match run_as {
        Some(id) => sys::process::drop_privileges(id),
        None => sys::process::forbid_new_privileges(),
    };
    confined.map_err(system("giving up privileges"))?;
    sys::process::raise_descriptor_limit().map_err(system("raising the limit of descriptors"))?;
    let mut fds = fds.into_iter();
    let sockets: Vec<TcpListener> =
        fds.by_ref().take(listeners.len()).map(TcpListener::from).collect();
    let tls = if tls { Some(take_keys(fds.by_ref())?) } else { None };
    let entrance = Entrance { plain, tls };
    let hosting = apps.iter().filter(|app| app.host == Host::Kernel).count();
    let objects: Vec<OwnedFd> = fds.by_ref().take(hosting).collect();
    let recorder = if hosting > 0 {
        let fd = fds.next().ok_or(ServerError::NoRecorder)?;
        Some(Recorder::map(&fd).map_err(system("mapping the flight recorder"))?)
    } else {
        None
    };
    let names = apps.iter().map(|app| (app.app, app.name.clone())).collect();
    let (apps, not_loaded) = load(apps, objects, recorder.as_ref());
    let apps = Apps { apps, seat: recorder.map(|recorder| recorder.seat(0)) };
    let worker = Link::start(sockets, apps, entrance).map_err(system("starting the worker"))?;
    let addresses: Vec<String> = listeners.iter().map(ToString::to_string).collect();
    info!(listen = addresses.join(" "), "kernel started");
    monitor.send(&Answer::Ready, &[])?;
    for (app, why) in not_loaded {
        let why = format!("its object could not be loaded: {why}");
        monitor.send(&Answer::Demoted { app, why }, &[])?;
    }
    Server { monitor, operators: Vec::new(), worker, names, questions: 0 }.serve()
}

/// Loads the objects of those that run in this process. The second list is of those that could not
/// be, and why.
fn load(
    apps: Vec<App>,
    objects: Vec<OwnedFd>,
    recorder: Option<&Recorder>,
) -> (Vec<Known>, Vec<(AppId, String)>) {
    let mut seat = recorder.map(|recorder| recorder.seat(SEATS - 1));
    let mut not_loaded = Vec::new();
    let mut objects = objects.into_iter();
    let mut object_of = |app: &App| {
        let object = objects.next()?;
        let _noted = note(&mut seat, app.app); // its constructors run
        let loaded = Object::load(object);
        loaded.map(Arc::new).map_err(|why| not_loaded.push((app.app, why.to_string()))).ok()
    };
    let with_object = |app: App| match app.host {
        Host::User => Known { app, object: None },
        Host::Kernel => {
            let object = object_of(&app);
            Known { app, object }
        }
    };
    (apps.into_iter().map(with_object).collect(), not_loaded)
}

/// Makes of the keys that came with `Start` what is needed to serve.
fn take_keys(fds: impl Iterator<Item = OwnedFd>) -> Result<tls::Server, ServerError> {
    let fds: Vec<OwnedFd> = fds.take(Keys::DESCRIPTORS).collect();
    let fds = fds.try_into().map_err(|_| ServerError::NoKeys)?;
    let keys = Keys::from_fds(fds).map_err(system("reading the keys"))?;
    Ok(keys.check()?)
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> ServerError {
    move |error| ServerError::System { what, error }
}

fn wait_for(monitor: &Channel) -> Result<(Request, Vec<OwnedFd>), ServerError> {
    loop {
        match monitor.receive() {
            Err(ChannelError::WouldBlock) => {
                let mut fds = [PollFd::new(monitor, PollFlags::IN)];
                let _ = poll(&mut fds, None); // interrupted: look again
            }
            result => return Ok(result?),
        }
    }
}

impl Link {
    fn start(listeners: Vec<TcpListener>, apps: Apps, entrance: Entrance) -> io::Result<Self> {
        let (commands, to_obey) = channel();
        let (to_tell, notices) = channel();
        let (commands_bell, hears) = Ringer::new()?;
        let (notices_bell, rings) = Doorbell::new()?;
        let ended = (to_tell.clone(), Ringer::from_fd(rings.try_clone()?));
        let wires = Wires {
            commands: to_obey,
            commands_bell: Doorbell::from_fd(hears),
            notices: to_tell,
            notices_bell: Ringer::from_fd(rings),
        };
        let thread = std::thread::Builder::new().name("worker-0".into()).spawn(move || {
            // Made in its own thread: instances of apps never leave the thread that made them.
            let work = || Worker::new(listeners, apps, entrance, wires).and_then(Worker::run);
            // A panic is one of ours; the server ends the process over it.
            let result = catch_unwind(AssertUnwindSafe(work));
            if let Ok(Err(error)) = &result {
                error!(%error, "a worker ended");
            }
            let (notices, bell) = ended;
            let _ = notices.send(Notice::Ended);
            bell.ring();
            result.unwrap_or_else(|_| Err(io::Error::other("it panicked")))
        })?;
        Ok(Self { commands, commands_bell, notices, notices_bell, thread })
    }

    fn command(&self, command: Command) {
        // A worker that ended is noticed by its bell.
        let _ = self.commands.send(command);
        self.commands_bell.ring();
    }
}

impl Server {
    fn serve(mut self) -> Result<(), ServerError> {
        loop {
            self.wait();
            self.worker.notices_bell.silence();
            while let Ok(notice) = self.worker.notices.try_recv() {
                self.tell(notice)?;
            }
            loop {
                match self.monitor.receive() {
                    Ok((Request::Stop, _)) => return self.stop(),
                    Ok((request, fds)) => self.obey(request, fds),
                    Err(ChannelError::WouldBlock) => break,
                    Err(ChannelError::Closed) => return Err(ChannelError::Closed.into()),
                    // Most likely descriptors that found no room: whoever waits will ask again.
                    Err(error) => warn!(%error, "left out a request of the monitor"),
                }
            }
            let Self { operators, worker, names, questions, .. } = &mut self;
            operators.retain_mut(|operator| operator.hear(worker, names, questions));
        }
    }

    /// Sleeps until somebody has said something.
    fn wait(&self) {
        let mut fds = vec![
            PollFd::new(&self.monitor, PollFlags::IN),
            PollFd::new(&self.worker.notices_bell, PollFlags::IN),
        ];
        fds.extend(
            self.operators.iter().map(|operator| PollFd::new(&operator.channel, PollFlags::IN)),
        );
        let _ = poll(&mut fds, None); // interrupted: everything is looked at anyway
    }

    fn obey(&mut self, request: Request, fds: Vec<OwnedFd>) {
        match request {
            Request::Attach { app, name, policy } => {
                self.names.insert(app, name.clone());
                self.worker.command(Command::Attach { app, name, policy });
            }
            Request::Detach { app } => self.worker.command(Command::Detach { app }),
            Request::Operator => {
                if self.operators.len() == OPERATORS {
                    self.operators.remove(0);
                }
                let channels = fds.into_iter().take(1).map(Channel::from_fd);
                let operator = |channel| Operator { channel, flows: None };
                self.operators.extend(channels.map(operator));
            }
            Request::Start { .. } | Request::Stop => warn!("the monitor started a kernel twice"),
        }
    }

    fn tell(&mut self, notice: Notice) -> Result<(), ServerError> {
        match notice {
            Notice::Attached { app, capacity, fds } => {
                let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
                self.monitor.send(&Answer::Attached { app, capacity }, &fds)?;
            }
            Notice::Hosted { app, version } => {
                self.monitor.send(&Answer::Hosted { app, version }, &[])?;
            }
            Notice::Demoted { app, why } => {
                self.worker.command(Command::Disable { app });
                self.monitor.send(&Answer::Demoted { app, why }, &[])?;
            }
            Notice::Flows { question, part } => self.flows(question, part),
            Notice::Ended => return Err(ServerError::Worker),
            Notice::NotAttached { app, why } => {
                self.monitor.send(&Answer::NotAttached { app, why }, &[])?;
            }
            Notice::Fault { app, fault } => {
                self.monitor.send(&Answer::Fault { app, why: fault }, &[])?;
            }
            Notice::SetAside { app, record } => {
                let record = hex(&record);
                match self.monitor.send(&Answer::SetAside { app, record }, &[]) {
                    Err(ChannelError::TooLong { size }) => {
                        warn!(app = app.0, size, "a record set aside was too long to report");
                    }
                    result => result?,
                }
            }
        }
        Ok(())
    }

    /// Takes in what a worker said to a question; whoever asked it may have gone.
    fn flows(&mut self, question: u64, part: Part) {
        let asked = |operator: &&mut Operator| {
            operator.flows.as_ref().is_some_and(|flows| flows.is_about(question))
        };
        let Some(operator) = self.operators.iter_mut().find(asked) else { return };
        let reply = operator.flows.as_mut().and_then(|flows| flows.take(part, &self.names));
        if let Some(reply) = reply {
            operator.tell(&reply); // one that cannot be told is noticed when it is heard
        }
    }

    fn stop(self) -> Result<(), ServerError> {
        self.worker.command(Command::Stop);
        match self.worker.thread.join() {
            Ok(result) => result.map_err(system("the worker"))?,
            Err(_) => return Err(ServerError::Worker),
        }
        info!("kernel stopped");
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string takes everything");
    }
    text
}

impl Operator {
    /// Answers questions. `false` when the operator is to be forgotten.
    fn hear(&mut self, worker: &Link, names: &Names, questions: &mut u64) -> bool {
        match self.channel.receive() {
            Ok((Query::Switches { after }, _)) => {
                let (reply, answer) = channel();
                worker.command(Command::Switches { after, reply });
                let Ok((switches, more)) = answer.recv_timeout(PATIENCE) else { return false };
                self.tell(&Reply::Switches { switches, more })
            }
            Ok((Query::Apps, _)) => {
                let (reply, answer) = channel();
                worker.command(Command::Apps { reply });
                let Ok(apps) = answer.recv_timeout(PATIENCE) else { return false };
                self.tell(&Reply::Apps(apps))
            }
            Ok((Query::Flows { dpid }, _)) => {
                *questions += 1;
                let question = *questions;
                self.flows = Some(Flows::new(question, 1));
                worker.command(Command::Flows { dpid, question });
                true
            }
            Ok((Query::MoreFlows, _)) => match &mut self.flows {
                Some(flows) if flows.is_complete() => {
                    let page = flows.page(names);
                    self.tell(&page)
                }
                _ => false, // there is nothing more, and it was told so
            },
            Err(ChannelError::WouldBlock) => true,
            Err(_) => false,
        }
    }

    /// Answers. `false` if that cannot be done.
    fn tell(&mut self, reply: &Reply) -> bool {
        if matches!(
            reply,
            Reply::Flows { more: false, .. } | Reply::NoSwitch | Reply::Failed { .. }
        ) {
            self.flows = None;
        }
        self.channel.send(reply, &[]).is_ok()
    }
}
