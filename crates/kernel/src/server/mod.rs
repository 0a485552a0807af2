//! Runs the main thread, which serves the monitor's control socket and the questions of operators.
//!
//! It owns no switch. It forwards requests of the monitor to the workers and their events to the monitor; workers
//! answer questions of operators between two turns. If the monitor ends, the kernel ends too.

mod questions;
mod rings;
mod workers;

use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::flight::{FlightRecorder, LoadedModule, SLOTS};
use keys::{Keys, KeysError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sdk::abi::MAX_CONFIG;
use sys::channel::{Channel, ChannelError};
use sys::object::loaded_modules;
use sys::sandbox::seccomp;
use thiserror::Error;
use tracing::{info, warn};

use self::questions::Operator;
use self::rings::{Answered, Attempts};
use self::workers::Workers;
use crate::answer_part::Part;
use crate::app_port::{Code, Hostings};
use crate::flows::listing::Names;
use crate::ids::WorkerId;
use crate::sandbox::{self, KernelSandbox};
use crate::tls::{self, TransportPolicy};
use crate::worker::{Command, Known, Loaded, WorkerEvent, note};
use control::app::{AbsentApp, AppId};
use control::kernel::{AnnouncedApp, KernelReply, KernelRequest, ListensAt, Tuning};
use dal::drivers::driver_of;

/// Most operators at once; a further one replaces the oldest.
const OPERATORS: usize = 16;

/// How long the monitor may take to make room for a message.
const PATIENCE: Duration = Duration::from_secs(5);

/// The reason why the kernel must end.
#[derive(Debug, Error)]
pub enum ServerError {
    /// The monitor is gone, or its message is invalid.
    #[error("the monitor: {0}; rosemary-kernel is started by the monitor, see `rosemary up`")]
    Monitor(#[from] ChannelError),
    /// The first message was something else.
    #[error("the monitor's first message was not Start")]
    NotStarted,
    /// The message announced keys but did not carry them.
    #[error("the monitor's first message was without the keys that it announced")]
    NoKeys,
    /// The message carried no flight recorder.
    #[error("the monitor's first message was without the flight recorder")]
    NoRecorder,
    /// The keys are invalid. The monitor has checked them, so this should not happen.
    #[error("the keys for TLS: {0}")]
    Keys(#[from] KeysError),
    /// The system refused something.
    #[error("{what}: {error}")]
    System {
        /// The attempted operation.
        what: &'static str,
        /// The error of the system.
        error: io::Error,
    },
    /// A worker ended without a command.
    #[error("a worker ended unexpectedly")]
    Worker,
}

/// The main thread's state.
#[derive(Debug)]
struct Server {
    monitor: Channel,
    operators: Vec<Operator>,
    workers: Workers,
    attempts: Attempts,
    /// For each app in this process: the number of workers on which it runs, until one reports its failure.
    hosted: HashMap<AppId, usize>,
    /// The names of apps, for answers to operators.
    names: Names,
    /// Number of questions forwarded to workers.
    questions: u64,
}

/// Serves until the monitor sends `Stop`, and hosts apps by `hostings`.
///
/// # Errors
/// [`ServerError`]: the process is to end.
pub fn run(monitor: Channel, hostings: Hostings) -> Result<(), ServerError> {
    // A worker must not wait for the monitor, so apps in this process print without waiting for room in the pipe.
    sys::stdout::write_lines_at_once().map_err(system("preparing standard output"))?;
    let (request, fds) = monitor.wait()?;
    let KernelRequest::Start { listeners, run_as, apps, plain, tls, workers, tuning, installation } =
        request
    else {
        return Err(ServerError::NotStarted);
    };
    let hosting = apps.iter().filter(|app| app.host.is_in_kernel()).count();
    let maps_sealed = apps.iter().any(|app| app.host.is_in_kernel() && app.host.maps_sealed);
    // In the sandbox, the C library cannot find the main thread's stack.
    workers::record_crashes_of_thread(SLOTS - 1);
    let copied = objects_to_copy(&apps, &fds);
    let own_sandbox = KernelSandbox { monitor: &monitor, run_as, fds: &fds, objects: &copied };
    let confined = own_sandbox.enter().map_err(system("giving up privileges"))?;
    let mut fds = fds.into_iter();
    let sockets = fds.by_ref().take(listeners.len()).map(TcpListener::from);
    let versions = tuning.openflow.unwrap_or_default();
    let driven = |(socket, at): (_, &ListensAt)| (socket, driver_of(at.protocol, versions));
    let sockets = sockets.zip(&listeners).map(driven).collect();
    let tls = if tls { Some(take_keys(fds.by_ref())?) } else { None };
    let transport = TransportPolicy { plain, tls };
    let configs = match fds.by_ref().take(usize::from(hosting > 0)).next() {
        Some(fd) => sys::shm::read_sealed(fd, hosting * MAX_CONFIG),
        None => Ok(Vec::new()),
    };
    let configs = configs.map_err(system("reading the apps' configurations"))?;
    let objects: Vec<OwnedFd> = fds.by_ref().take(hosting).collect();
    let memory = fds.next().ok_or(ServerError::NoRecorder)?;
    let recorder = FlightRecorder::map(&memory).map_err(system("mapping the flight recorder"))?;
    if let Err(error) = recorder.record_crash(memory) {
        warn!(%error, "could not prepare to record a crash");
    }
    let names = apps.iter().map(|app| (app.app, app.name.clone())).collect();
    let (apps, not_loaded) = load(apps, hostings, &configs, objects, &confined.objects, &recorder);
    if maps_sealed {
        seccomp::forbid_new_code(seccomp::Further::Allowed)
            .map_err(system("giving up new code"))?;
    }
    let (report, listener) = sandbox::limit_calls(confined, &monitor);
    let listener_fd = listener.as_ref().map(OwnedFd::as_fd);
    monitor.send(&KernelReply::Confined { report }, listener_fd.as_slice())?;
    drop(listener); // only the monitor may have it
    let workers =
        Workers::start((workers, tuning, installation), sockets, &apps, &recorder, &transport);
    let workers = workers.map_err(system("starting the workers"))?;
    let addresses: Vec<String> = listeners.iter().map(|it| it.address.to_string()).collect();
    info!(listen = addresses.join(" "), workers = workers.count(), "kernel started");
    monitor.send(&KernelReply::Ready, &[])?;
    for (app, why) in not_loaded {
        let why = format!("its object could not be loaded: {why}");
        monitor.send(&KernelReply::Demoted { app, why }, &[])?;
    }
    let (operators, attempts, hosted) = (Vec::new(), Attempts::default(), HashMap::new());
    Server { monitor, operators, workers, attempts, hosted, names, questions: 0 }.serve()
}

/// The objects that the process loads from files in its root directory. They precede the last descriptor, in the order of the apps.
fn objects_to_copy<'f>(apps: &[AnnouncedApp], fds: &'f [OwnedFd]) -> Vec<BorrowedFd<'f>> {
    let in_kernel = || apps.iter().filter(|app| app.host.is_in_kernel());
    let end = fds.len().saturating_sub(1);
    let objects = fds.get(end.saturating_sub(in_kernel().count())..end).unwrap_or_default();
    let copied = in_kernel().zip(objects).filter(|(app, _)| !app.host.maps_sealed);
    copied.map(|(_, object)| object.as_fd()).collect()
}

/// Loads the objects of the apps that run in this process. `configs` holds their configurations, concatenated. Returns
/// all apps, and the reasons for those that could not be loaded.
fn load(
    apps: Vec<AnnouncedApp>,
    hostings: Hostings,
    mut configs: &[u8],
    objects: Vec<OwnedFd>,
    copies: &[PathBuf],
    recorder: &FlightRecorder,
) -> (Vec<Known>, Vec<(AppId, String)>) {
    let mut flight_slot = Some(recorder.slot(SLOTS - 1));
    let mut modules = Vec::new();
    note_modules(recorder, &mut modules, None);
    let mut not_loaded = Vec::new();
    let mut objects = objects.into_iter();
    let mut copies = copies.iter();
    let mut object_of = |app: &AnnouncedApp| {
        let object = objects.next()?;
        let (config, rest) = configs.split_at_checked(app.config_size as usize)?;
        configs = rest;
        let config = config.into();
        let _noted = note(&mut flight_slot, app.app); // its constructors run
        // The copies are in a file system of the kernel's own, and read-only; the descriptors are sealed.
        let copy = if app.host.maps_sealed { None } else { copies.next() };
        let code = copy.map_or(Code::Sealed(object), |copy| Code::Copy(copy));
        let loaded = hostings.load(app.host, code, &app.code);
        // The unwinder knows no compiled code of sealed memory.
        let owner = NonZeroU16::new(app.app.0).filter(|_| !app.host.maps_sealed);
        note_modules(recorder, &mut modules, owner);
        let loaded = loaded.map(|code| Arc::new(Loaded { code: code.into(), config }));
        loaded.map_err(|why| not_loaded.push((app.app, why.to_string()))).ok()
    };
    let with_object = |app: AnnouncedApp| {
        let object = app.host.is_in_kernel().then(|| object_of(&app)).flatten();
        Known { app, object }
    };
    (apps.into_iter().map(with_object).collect(), not_loaded)
}

/// Adds to `modules` what this process has loaded since, and notes all in the flight recorder. The first new one is the
/// object of `app`, and its libraries follow.
fn note_modules(
    recorder: &FlightRecorder,
    modules: &mut Vec<LoadedModule>,
    mut app: Option<NonZeroU16>,
) {
    for module in loaded_modules() {
        if modules.iter().all(|known| known.module != module) {
            modules.push(LoadedModule { module, app: app.take() });
        }
    }
    recorder.note_modules(&*modules);
}

/// Reads and checks the keys that came with `Start`.
fn take_keys(fds: impl Iterator<Item = OwnedFd>) -> Result<tls::Server, ServerError> {
    let fds: Vec<OwnedFd> = fds.take(Keys::FILES).collect();
    let fds = fds.try_into().map_err(|_| ServerError::NoKeys)?;
    let keys = Keys::from_fds(fds).map_err(system("reading the keys"))?;
    Ok(tls::Server::new(&keys)?)
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> ServerError {
    move |error| ServerError::System { what, error }
}

impl Server {
    fn serve(mut self) -> Result<(), ServerError> {
        loop {
            self.wait();
            self.workers.events_bell.silence();
            while let Ok(notice) = self.workers.events.try_recv() {
                self.report_to(notice)?;
            }
            loop {
                match self.monitor.receive() {
                    Ok((KernelRequest::Stop, _)) => return self.stop(),
                    Ok((request, fds)) => self.obey(request, fds),
                    Err(ChannelError::WouldBlock) => break,
                    Err(ChannelError::Closed) => return Err(ChannelError::Closed.into()),
                    // Most likely there was no room for its descriptors: the sender will try again.
                    Err(error) => warn!(%error, "ignored a request of the monitor"),
                }
            }
            self.answer_attempts()?;
            let Self { operators, workers, names, questions, .. } = &mut self;
            operators.retain_mut(|operator| operator.serve(workers, names, questions));
            self.workers.pool.memory().trim();
        }
    }

    /// Sleeps until a message waits.
    fn wait(&self) {
        let mut fds = vec![
            PollFd::new(&self.monitor, PollFlags::IN),
            PollFd::new(&self.workers.events_bell, PollFlags::IN),
        ];
        fds.extend(self.operators.iter().map(|operator| PollFd::new(operator, PollFlags::IN)));
        let _ = poll(&mut fds, None); // if interrupted, the caller checks all sources anyway
    }

    fn obey(&mut self, request: KernelRequest, fds: Vec<OwnedFd>) {
        match request {
            KernelRequest::Attach { app, name, policy } => {
                self.names.insert(app, name.clone());
                self.attempts.begin(&self.workers, app, &name, &policy);
            }
            KernelRequest::Detach { app } => self.workers.command(|| Command::Detach { app }),
            KernelRequest::Know { app, name, policy } => {
                self.names.insert(app, name.clone());
                let (name, policy) = (&name, &policy);
                self.workers.command(|| Command::Know {
                    app,
                    name: name.clone(),
                    policy: policy.clone(),
                });
            }
            KernelRequest::Sessions { shares } => {
                let shares = Arc::new(shares);
                self.workers.command(|| Command::Sessions { shares: Arc::clone(&shares) });
            }
            KernelRequest::ChargeMemory { charge } => {
                self.workers.command(|| Command::ChargeMemory { charge });
            }
            KernelRequest::LogLevel { app, level } => {
                self.workers.command(|| Command::LogLevel { app, level });
            }
            KernelRequest::Disable { app } => {
                self.hosted.insert(app, usize::MAX);
                self.workers.command(|| Command::Disable { app });
            }
            KernelRequest::Forget { app } => self.workers.command(|| Command::Forget { app }),
            KernelRequest::Service { app, name } => {
                let mut fds = fds.into_iter();
                let sockets: Vec<_> = fds.by_ref().take(self.workers.count()).collect();
                let table = fds.next().map(Arc::new);
                for (worker, socket) in sockets.into_iter().enumerate() {
                    let (name, table) = (name.clone(), table.clone());
                    let command = Command::Service { app, name, socket, table };
                    self.workers.commander.send(WorkerId(worker), command);
                }
            }
            KernelRequest::Operator => {
                if self.operators.len() == OPERATORS {
                    self.operators.remove(0);
                }
                let channels = fds.into_iter().take(1).map(Channel::from_fd);
                self.operators.extend(channels.map(Operator::new));
            }
            KernelRequest::AbsentApps { apps } => {
                for absent in &apps {
                    self.names.entry(absent.app).or_insert_with(|| absent.name.clone());
                }
                let apps: Arc<[AbsentApp]> = apps.into();
                self.workers.command(|| Command::Absent { apps: Arc::clone(&apps) });
            }
            KernelRequest::Start { .. } | KernelRequest::Stop => {
                warn!("ignored a second start by the monitor");
            }
        }
    }

    fn report_to(&mut self, notice: WorkerEvent) -> Result<(), ServerError> {
        match notice {
            WorkerEvent::Attached { attempt, result } => {
                self.attempts.note_result(attempt, result);
                self.answer_attempts()?;
            }
            WorkerEvent::Hosted { app, version } => {
                let count = self.hosted.entry(app).or_default();
                *count = count.saturating_add(1);
                if *count == self.workers.count() {
                    let instances = u16::try_from(*count).unwrap_or(u16::MAX); // at most MAX_WORKERS
                    let hosted = KernelReply::Hosted { app, version, instances };
                    report_to(&self.monitor, &hosted, &[])?;
                }
            }
            WorkerEvent::Demoted { app, why } => {
                // Only the first report counts: a zone may have taken over since.
                if self.hosted.insert(app, usize::MAX) != Some(usize::MAX) {
                    self.workers.command(|| Command::Disable { app });
                    report_to(&self.monitor, &KernelReply::Demoted { app, why }, &[])?;
                }
            }
            WorkerEvent::InstanceEnded { app, why } => {
                report_to(&self.monitor, &KernelReply::InstanceEnded { app, why }, &[])?;
            }
            WorkerEvent::Flows { question, part } => self.flows(question, part),
            WorkerEvent::FlowsMissing(missing) => {
                report_to(&self.monitor, &KernelReply::FlowsMissing(missing), &[])?;
            }
            WorkerEvent::MessageFailed(failed) => {
                report_to(&self.monitor, &KernelReply::MessageFailed(failed), &[])?;
            }
            WorkerEvent::MessageRecovered { dpid, message } => {
                let recovered = KernelReply::MessageRecovered { dpid, message };
                report_to(&self.monitor, &recovered, &[])?;
            }
            WorkerEvent::OtherController(other) => {
                report_to(&self.monitor, &KernelReply::OtherController(other), &[])?;
            }
            WorkerEvent::SwitchRefused(refused) => {
                report_to(&self.monitor, &KernelReply::SwitchRefused(refused), &[])?;
            }
            WorkerEvent::Ended => return Err(ServerError::Worker),
            WorkerEvent::Fault { app, fault } => {
                report_to(&self.monitor, &KernelReply::Fault { app, why: fault }, &[])?;
            }
            WorkerEvent::SetAside { app, record } => {
                let record = sys::text::hex(&record);
                match report_to(&self.monitor, &KernelReply::SetAside { app, record }, &[]) {
                    Err(ChannelError::TooLong { size }) => {
                        warn!(
                            app = app.0,
                            size, "did not report a record set aside, as it was too long"
                        );
                    }
                    result => result?,
                }
            }
        }
        Ok(())
    }

    /// Passes a worker's part of an answer to its operator, if that is still connected.
    fn flows(&mut self, question: u64, part: Part) {
        let waits = |operator: &&mut Operator| operator.waits_for(question);
        if let Some(operator) = self.operators.iter_mut().find(waits) {
            operator.take(part, &self.names);
        }
    }

    /// Reports the completed attempts to make rings to the monitor.
    fn answer_attempts(&mut self) -> Result<(), ServerError> {
        while let Some(Answered { app, rings, last }) = self.attempts.next_answered() {
            match rings {
                Ok(fds) => {
                    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
                    let Tuning { ring: capacity, batch, .. } = self.workers.pool.tuning();
                    report_to(
                        &self.monitor,
                        &KernelReply::Attached { app, capacity, batch },
                        &fds,
                    )?;
                }
                Err(why) => {
                    if last {
                        // Some workers may use their parts of incomplete rings.
                        self.workers.command(|| Command::Detach { app });
                    }
                    report_to(&self.monitor, &KernelReply::NotAttached { app, why }, &[])?;
                }
            }
        }
        Ok(())
    }

    fn stop(self) -> Result<(), ServerError> {
        self.workers.stop().map_err(system("a worker"))?;
        info!("kernel stopped");
        Ok(())
    }
}

/// Sends a message to the monitor, and waits for room if needed: the reports about apps that end together can exceed
/// its socket's buffer. No switch waits meanwhile, and the monitor never waits for the kernel.
fn report_to(
    monitor: &Channel,
    answer: &KernelReply,
    fds: &[BorrowedFd<'_>],
) -> Result<(), ChannelError> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let sent = monitor.send(answer, fds);
        let rest = give_up.saturating_duration_since(Instant::now());
        if !matches!(sent, Err(ChannelError::WouldBlock)) || rest.is_zero() {
            return sent;
        }
        let rest: Option<Timespec> = rest.try_into().ok();
        let _ = poll(&mut [PollFd::new(monitor, PollFlags::OUT)], rest.as_ref()); // then again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_reports_to_a_slow_monitor_arrive() {
        let (ours, monitors) = Channel::passing_pair().unwrap();
        let report =
            |number| KernelReply::SetAside { app: AppId(number), record: "ab".repeat(60_000) };
        // The socket's buffer holds some of the reports, and then is full.
        let full = (0..1_000).find(|number| ours.send(&report(*number), &[]).is_err()).unwrap();
        let monitor = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50)); // it does other things
            let mut received = 0;
            while received < 2 * full {
                match monitors.receive::<KernelReply>() {
                    Ok((answer, _)) => {
                        assert_eq!(answer, report(received));
                        received += 1;
                    }
                    Err(ChannelError::WouldBlock) => std::thread::yield_now(),
                    Err(error) => panic!("{error}"),
                }
            }
        });
        for number in full..2 * full {
            report_to(&ours, &report(number), &[]).unwrap();
        }
        monitor.join().unwrap();
    }
}
