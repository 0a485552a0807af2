//! Asks the monitor, the kernel and the services of apps for their figures, once per interval, in a thread of its own.
//!
//! The clients of `view` wait for answers, so the thread may be late; the service itself never waits. The channel to the monitor admits
//! only requests that read. A round that is not taken within an interval delays the next one, so at most two wait.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use control::incident::IncidentId;
use rustix::pipe::{PipeFlags, pipe_with};
use sdk::services::layout::records;
use sdk::services::{Service, hosts, stats, table::Table as _, topology};
use sys::channel::Channel;
use tracing::{debug, warn};
use view::client::{ClientError, Kernel, Monitor, Provided};

use super::directory::Sample;
use super::samples::{Report, Sampler};

/// The services of apps that the history reads.
const SERVICES: [Service; 3] = [Service::Stats, Service::Topology, Service::Hosts];

/// Rounds after which a service that does not run is logged: it may still be starting.
const PATIENCE: u32 = 3;

/// The samples of one round.
#[derive(Debug, PartialEq, Eq)]
pub struct Round {
    /// Their time, in seconds since 1970.
    pub at: u64,
    /// The samples.
    pub samples: Vec<Sample>,
}

/// The service's end of the thread.
#[derive(Debug)]
pub struct Feed {
    rounds: Receiver<Round>,
    /// Readable when there is a round, or when the thread has ended.
    wake: OwnedFd,
    has_ended: bool,
}

impl Feed {
    /// Starts the thread, which speaks to the monitor over `requests`.
    ///
    /// # Errors
    /// The system has no descriptor or thread left.
    pub fn start(requests: OwnedFd, interval: Duration) -> io::Result<Self> {
        let (wake, waker) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
        let (sender, rounds) = sync_channel(1);
        let monitor = Monitor::over(Channel::from_fd(requests));
        thread::Builder::new()
            .name("feed".into())
            .spawn(move || Sources::new(monitor).run(interval, &sender, &waker))?;
        Ok(Self { rounds, wake, has_ended: false })
    }

    /// Takes the rounds that wait.
    pub fn take(&mut self) -> Vec<Round> {
        let mut room = [0; 64];
        let _ = rustix::io::read(&self.wake, &mut room); // the rounds say what there is
        let mut all = Vec::new();
        loop {
            match self.rounds.try_recv() {
                Ok(round) => all.push(round),
                Err(TryRecvError::Empty) => return all,
                Err(TryRecvError::Disconnected) => {
                    self.has_ended = true;
                    return all;
                }
            }
        }
    }

    /// Whether the thread has ended, because its connection to the monitor cannot be used.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }
}

impl AsFd for Feed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// A source of the thread's figures did not answer.
#[derive(Debug)]
enum Missing {
    /// It may answer in the next round.
    Now,
    /// The connection to the monitor is out of step.
    Monitor,
}

/// The connections of the thread.
#[derive(Debug)]
struct Sources {
    monitor: Monitor,
    kernel: Option<Kernel>,
    services: [Option<Provided>; SERVICES.len()],
    /// Rounds in which a service was missing, by service.
    missing: [u32; SERVICES.len()],
    /// The number of the next incident; `None` before the first round.
    incident: Option<IncidentId>,
}

impl Sources {
    fn new(monitor: Monitor) -> Self {
        Self {
            monitor,
            kernel: None,
            services: [const { None }; SERVICES.len()],
            missing: [0; SERVICES.len()],
            incident: None,
        }
    }

    /// Asks until the monitor cannot be asked any more, or the service has ended.
    fn run(mut self, interval: Duration, rounds: &SyncSender<Round>, waker: &OwnedFd) {
        let mut sampler = Sampler::default();
        let mut next = Instant::now();
        loop {
            let Ok(report) = self.read() else { return };
            let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let round = Round { at, samples: sampler.round(&report) };
            if rounds.send(round).is_err() {
                return;
            }
            let _ = rustix::io::write(waker, &[1]); // a full pipe wakes, too
            // A late round moves the next ones, so that rounds do not run one behind the other.
            next = (next + interval).max(Instant::now());
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }

    fn read(&mut self) -> Result<Report, Missing> {
        let mut report = Report {
            usage: optional(asked(self.monitor.usage()))?,
            incidents: optional(self.incidents())?,
            ..Report::default()
        };
        if let Some((switches, apps)) = optional(self.kernel())? {
            (report.switches, report.apps) = (Some(switches), Some(apps));
        }
        for (place, service) in SERVICES.into_iter().enumerate() {
            let is_there = optional(self.connect(place, service))?.is_some();
            self.note_missing(place, service, is_there);
            let Some(Some(table)) = self.services.get(place) else { continue };
            match service {
                Service::Stats => {
                    let all = records(table).filter_map(|it| stats::Record::of_slot(&it));
                    report.stats = Some(all.collect());
                }
                Service::Topology => {
                    let all = table.records().filter_map(|it| topology::Record::decode(&it.1));
                    report.topology = Some(all.collect());
                }
                _ => report.hosts = Some(hosts::hosts(table).count() as u64),
            }
        }
        Ok(report)
    }

    /// Returns the number of incidents that began since the last call.
    fn incidents(&mut self) -> Result<u64, Missing> {
        let from = self.incident.unwrap_or(IncidentId(0));
        let incidents = asked(self.monitor.incidents(from))?;
        let next = incidents.last().map_or(from, |it| IncidentId(it.id.0.saturating_add(1)));
        // Those from before the first round have a time of their own, which the history does not know.
        let count = self.incident.map_or(0, |_| incidents.len() as u64);
        self.incident = Some(next);
        Ok(count)
    }

    fn kernel(
        &mut self,
    ) -> Result<(Vec<control::query::SwitchStatus>, Vec<control::query::AppCounters>), Missing>
    {
        let kernel = match self.kernel.take() {
            Some(kernel) => kernel,
            None => asked(self.monitor.kernel())?,
        };
        // A connection that failed is out of step or of an earlier kernel, and is not used again.
        let both = kernel.switches().and_then(|switches| Ok((switches, kernel.apps()?)));
        match both {
            Ok(both) => {
                self.kernel = Some(kernel);
                Ok(both)
            }
            Err(error) => {
                debug!(%error, "the kernel did not report its figures");
                Err(Missing::Now)
            }
        }
    }

    /// Connects with a service, unless it is connected.
    fn connect(&mut self, place: usize, service: Service) -> Result<(), Missing> {
        let slot = self.services.get_mut(place).ok_or(Missing::Now)?;
        if slot.as_ref().is_some_and(|it| !it.is_open()) {
            *slot = None;
        }
        if slot.is_none() {
            *slot = Some(asked(self.monitor.service(service))?);
        }
        Ok(())
    }

    /// Logs once that a service does not run.
    fn note_missing(&mut self, place: usize, service: Service, is_there: bool) {
        let Some(rounds) = self.missing.get_mut(place) else { return };
        *rounds = if is_there { 0 } else { rounds.saturating_add(1) };
        if *rounds == PATIENCE {
            let hint = format!("type `rosemary app enable {service}`");
            warn!(
                service = service.name(),
                hint, "left out the figures of a service that does not run"
            );
        }
    }
}

/// Sorts errors of the connection to the monitor: after some of them, a late reply would be taken for that to the next request.
fn asked<T>(result: Result<T, ClientError>) -> Result<T, Missing> {
    result.map_err(|error| match error {
        ClientError::TimedOut { .. }
        | ClientError::NoReply { .. }
        | ClientError::Unexpected { .. } => {
            warn!(%error, "the monitor did not report its figures");
            Missing::Monitor
        }
        error => {
            debug!(%error, "a program did not report its figures");
            Missing::Now
        }
    })
}

fn optional<T>(result: Result<T, Missing>) -> Result<Option<T>, Missing> {
    match result {
        Ok(it) => Ok(Some(it)),
        Err(Missing::Now) => Ok(None),
        Err(Missing::Monitor) => Err(Missing::Monitor),
    }
}
