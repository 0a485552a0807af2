//! The process that runs one app: its start, its rings, and the checks that it does not hang.

use std::time::{Duration, Instant};

use control::flight::OngoingCall;
use control::query::AppCounters;
use control::zone::{ZoneRequest, ZoneSandbox};
use sys::process::PidNamespace;
use tracing::{info, warn};

use super::hold::Hold;
use crate::attachment::{Attachment, ReplyFor};
use crate::effects::{Attached, Effects, Fd};
use crate::hang::events::EventProgress;
use crate::hang::{CallProgress, Progress};
use crate::incidents::Incidents;
use crate::program::{Executable, Program, ProgramKind};
use crate::system::System;
use crate::text::shortened;
use crate::usage::meter::{LimitEvent, Meter};
use config::{Limits, RestartPolicy};

/// How to make and confine the zone of one app.
#[derive(Debug)]
pub(super) struct ZoneSettings {
    pub(super) app: String,
    pub(super) executable: Executable,
    /// `None` to run the zone without a sandbox.
    pub(super) sandbox: Option<ZoneSandbox>,
    /// How processes that the zone forks are made to end with it.
    pub(super) apart: PidNamespace,
    /// The user of the monitor.
    pub(super) own_uid: u32,
    pub(super) limits: Limits,
    pub(super) effects: Effects,
    pub(super) incidents: Incidents,
    /// How long a call of the app may take.
    pub(super) longest_call: Duration,
    /// When the zone is started again.
    pub(super) restart: RestartPolicy,
}

/// One app's zone.
#[derive(Debug)]
pub struct Zone {
    app: String,
    pub(super) program: Program,
    rings: Attachment,
    /// Watches the app's calls while the process runs.
    calls: Option<CallProgress>,
    events: EventProgress,
    longest_call: Duration,
    memory: MemoryChecks,
    pub(super) hold: Hold,
    /// Whether the process has reported that it failed. It must send nothing after that.
    pub(super) has_failed: bool,
}

/// When to check the memory of a process that no group counts.
#[derive(Debug, Default)]
struct MemoryChecks {
    /// `None` while there is no process, and where a group counts its memory.
    due: Option<Instant>,
    /// Whether the log already says that the memory of this process cannot be read.
    is_unreadable: bool,
}

impl ZoneSettings {
    /// Makes the zone, without starting its process.
    pub(super) fn make(&self) -> Zone {
        let kind = ProgramKind::Zone(self.app.clone());
        Zone {
            app: self.app.clone(),
            program: Program::new(
                kind,
                self.executable.clone(),
                self.apart,
                self.limits,
                self.restart,
                (self.effects.clone(), self.incidents.clone()),
            ),
            rings: Attachment::default(),
            calls: None,
            events: EventProgress::default(),
            longest_call: self.longest_call,
            memory: MemoryChecks::default(),
            hold: Hold::default(),
            has_failed: false,
        }
    }

    /// The user that the zone runs as.
    pub(super) fn uid(&self) -> u32 {
        let run_as = self.sandbox.as_ref().and_then(|sandbox| sandbox.run_as);
        run_as.unwrap_or(self.own_uid)
    }
}

impl Zone {
    /// Starts the process and sends it `load` with the app's files.
    pub(super) fn start(&mut self, load: ZoneRequest, files: Vec<Fd>, now: Instant) {
        self.has_failed = false;
        self.events.restart();
        self.program.start(now);
        self.memory = MemoryChecks::default();
        self.program.send(load, files);
        self.program.send_with(ZoneRequest::Watch, vec![Attached::Recorder]);
        self.calls = Some(CallProgress::new(now));
    }

    /// The process was started.
    pub(super) fn started(&mut self, system: &dyn System, now: Instant) {
        self.memory.due = system.is_memory_uncounted().then_some(now);
    }

    /// The process could not be started.
    pub(super) fn not_started(&mut self) {
        self.calls = None;
        self.memory = MemoryChecks::default();
    }

    /// The process has ended. Returns whether the kernel holds rings of it.
    pub(super) fn ended(&mut self, now: Instant) -> bool {
        if let Some(why) = self.hold.reason() {
            self.program.hold(now, why);
        }
        self.calls = None;
        self.memory = MemoryChecks::default();
        self.rings.zone_ended()
    }

    /// When [`check_calls`](Self::check_calls) is due.
    pub(super) fn calls_due(&self) -> Option<Instant> {
        self.calls.as_ref().map(CallProgress::next_due)
    }

    /// Kills the process if a call of the app takes too long.
    pub(super) fn check_calls(&mut self, system: &dyn System, now: Instant) {
        let Some(calls) = self.calls.as_mut().filter(|calls| calls.next_due() <= now) else {
            return;
        };
        let program = self.program.id();
        // The main thread makes the calls. Processor time of other threads does not count for a call.
        let progress = |_: &OngoingCall| match system.main_thread(program) {
            Some(thread) => Progress::ProcessorTime(thread.used),
            None => Progress::Unknown,
        };
        let longest = |_| self.longest_call;
        let ongoing = system.calls(program).into_iter();
        if let Some(hung) = calls.check(now, ongoing, progress, longest) {
            self.program.kill_for_own_failure(&format!("its app hung: {hung}"));
        }
    }

    /// Kills the process if it is stopped, or if events wait in its rings and it handles none.
    pub(super) fn check_events(&mut self, counters: &AppCounters, system: &dyn System) {
        if !self.program.has_process() {
            return;
        }
        let activity = || system.activity(self.program.id(), counters.waiting > 0);
        let stalled = self.events.check(counters, activity, self.longest_call);
        if let Some(stalled) = stalled {
            self.program.kill_for_own_failure(&format!("its app hung: {stalled}"));
        }
    }

    /// When [`check_memory`](Self::check_memory) is due.
    pub(super) fn memory_due(&self) -> Option<Instant> {
        self.memory.due
    }

    /// Checks memory that no group counts, as it was just read, more often near the limit. Returns a kill if it is above the limit.
    pub(super) fn check_memory(
        &mut self,
        memory: Option<Result<u64, String>>,
        meter: &Meter,
        now: Instant,
    ) -> Option<LimitEvent> {
        // A process that was killed is not checked again.
        self.memory.due = None;
        let memory = match memory? {
            Ok(memory) => {
                self.memory.is_unreadable = false;
                memory
            }
            Err(error) => {
                if !std::mem::replace(&mut self.memory.is_unreadable, true) {
                    let hint = "mount /proc without hidepid, or run Rosemary as root";
                    warn!(app = self.app, error, hint, "could not read the memory of an app");
                }
                0
            }
        };
        self.memory.due = Some(now + meter.next_memory_check(memory));
        meter.memory_excess(memory)
    }

    /// The monitor has requested rings from the kernel.
    pub(super) fn rings_requested(&mut self) {
        self.rings.requested();
    }

    /// The kernel made rings of `capacity` bytes and calls the app with at most `batch` records. Returns whether the
    /// monitor had requested them.
    pub fn rings_made(&mut self, (capacity, batch): (u32, u16), fds: Vec<Fd>) -> bool {
        match self.rings.attached() {
            ReplyFor::NoRequest => return false,
            // They belong to a process that has ended. Dropping the descriptors frees them.
            ReplyFor::EarlierZone => {}
            ReplyFor::CurrentZone => {
                self.program.send(ZoneRequest::Rings { capacity, batch }, fds);
                info!(app = self.app, "app was connected to the kernel");
            }
        }
        true
    }

    /// The kernel made no rings, or they were lost on the way. Returns whether the monitor had requested them.
    pub fn rings_failed(&mut self, why: &str, now: Instant) -> bool {
        match self.rings.not_attached(now) {
            ReplyFor::NoRequest => return false,
            ReplyFor::EarlierZone => {}
            ReplyFor::CurrentZone => {
                warn!(app = self.app, why, "could not connect the app to the kernel; trying again");
            }
        }
        true
    }

    /// Whether the kernel owes no reply about its rings.
    pub(super) fn is_unattached(&self) -> bool {
        self.rings.is_settled()
    }

    /// Whether the kernel has given it rings.
    pub(super) fn is_connected(&self) -> bool {
        self.rings.is_connected()
    }

    /// Takes over the replies that the kernel owes a former zone of the app.
    pub(super) fn take_attachment(&mut self, former: &mut Self) {
        self.rings = std::mem::take(&mut former.rings);
    }

    /// When [`must_retry`](Self::must_retry) is due.
    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.rings.retry_at()
    }

    /// Returns once, at that time, that the monitor must request rings again.
    pub fn must_retry(&mut self, now: Instant) -> bool {
        self.rings.take_retry(now)
    }

    /// The kernel reports that the zone broke the rules of its rings.
    pub fn fault(&mut self, why: &str) {
        // The report may be about a process that has ended: only rings that this one has count.
        if self.rings.is_connected() {
            self.program
                .kill(&format!("its app broke a rule of its rings: {}", shortened(why, 400)));
        }
    }

    /// The kernel has ended, and with it the rings.
    pub(super) fn kernel_ended(&mut self) {
        self.rings.kernel_ended();
    }

    /// Asks the process to end, if it runs, and starts it again at once.
    pub fn restart(&mut self, now: Instant) {
        if self.program.request_restart(now) {
            self.program.send(ZoneRequest::Stop, Vec::new());
        }
    }

    /// Asks the process to end, if it runs.
    pub fn stop(&mut self, now: Instant) {
        if self.program.request_stop(now) {
            self.program.send(ZoneRequest::Stop, Vec::new());
        }
    }

    #[cfg(test)]
    pub(super) fn for_test() -> Self {
        ZoneSettings {
            app: "a".into(),
            executable: std::path::PathBuf::from("/nowhere").into(),
            sandbox: None,
            apart: PidNamespace::No,
            own_uid: 0,
            limits: Limits::none(),
            effects: Effects::default(),
            incidents: Incidents::default(),
            longest_call: Duration::from_secs(1),
            restart: RestartPolicy::default(),
        }
        .make()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::Nothing;

    #[test]
    fn memory_is_checked_from_the_start_of_the_process_on() {
        let (mut zone, now) = (Zone::for_test(), Instant::now());
        let meter = Meter::new(Limits::none(), Vec::new());
        zone.start(ZoneRequest::Stop, Vec::new(), now);
        assert_eq!(zone.memory_due(), None, "there is no process yet");
        zone.started(&Nothing, now);
        assert_eq!(zone.memory_due(), Some(now));
        zone.check_memory(Some(Err("/proc hides it".into())), &meter, now);
        assert!(zone.memory_due() > Some(now), "it is tried again");
        zone.check_memory(None, &meter, now);
        assert_eq!(zone.memory_due(), None, "it was killed");
    }
}
