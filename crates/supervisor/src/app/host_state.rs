//! Tracks what hosts an app: the kernel, or a zone of its own.
//!
//! An app that panicked in the kernel, or in which the kernel ended, is demoted: it gets a zone, and later kernels start
//! without it: after a panic until Rosemary is restarted, after the end of a kernel until the operator promotes the app
//! (`demotions.rs` of the monitor).

use std::time::Instant;

use config::RestartPolicy;
use control::hosting::HostProcess;

use super::zone::Zone;
use crate::restart_policy::{Decision, RestartHistory};
use control::operator::ProgramState;

/// The state of an app's host.
#[derive(Debug)]
pub(super) enum HostState {
    /// The kernel, until the app is demoted.
    Kernel(InKernel),
    /// A zone.
    Zone {
        /// The zone.
        zone: Box<Zone>,
        /// Why the kernel no longer hosts the app; `None` if it never did.
        demotion: Option<Demotion>,
    },
}

/// An app that the kernel hosts.
#[derive(Debug, Default)]
pub(super) struct InKernel {
    /// How often a kernel was started with the app.
    starts: u64,
    /// How many instances the running kernel has loaded; 0 until it reports them.
    instances: u16,
    /// The ends of instances, if one has ended.
    ends: Option<Ends>,
}

/// The ends of a contained app's instances in the kernel.
#[derive(Debug)]
struct Ends {
    count: u64,
    history: RestartHistory,
    last: String,
}

/// How an app came out of the kernel.
#[derive(Debug)]
pub(super) struct Demotion {
    /// Why, as a phrase.
    pub(super) why: String,
    /// How often a kernel was started with the app before, and how often one made another instance.
    pub(super) kernel_starts: u64,
    /// When the kernel may host the app again.
    pub(super) until: Until,
}

/// When a kernel may host a demoted app again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// When the operator promotes the app, or at the latest when Rosemary is restarted, if no file keeps the demotion.
    Promotion,
    /// At the next start of a kernel after safe mode.
    NextKernel,
    /// At the end of a [trial](crate::comeback) of all kernel apps.
    Trial,
}

impl HostState {
    /// The process in which the app runs.
    pub(super) fn process(&self) -> HostProcess {
        match self {
            Self::Kernel(_) => HostProcess::Kernel,
            Self::Zone { .. } => HostProcess::Zone,
        }
    }

    /// How often a kernel was started with the app.
    pub(super) fn kernel_starts(&self) -> u64 {
        match self {
            Self::Kernel(in_kernel) => in_kernel.starts,
            Self::Zone { demotion, .. } => demotion.as_ref().map_or(0, |it| it.kernel_starts),
        }
    }

    /// Why an instance in the kernel ended last, if the app is there.
    pub(super) fn last_end_in_kernel(&self) -> Option<&str> {
        match self {
            Self::Kernel(in_kernel) => in_kernel.ends().1,
            Self::Zone { .. } => None,
        }
    }

    /// Why the app was demoted, if it was.
    pub(super) fn demoted(&self) -> Option<&str> {
        match self {
            Self::Kernel(_) => None,
            Self::Zone { demotion, .. } => demotion.as_ref().map(|it| it.why.as_str()),
        }
    }

    /// The zone, if the app has one.
    pub(super) fn zone(&self) -> Option<&Zone> {
        match self {
            Self::Kernel(_) => None,
            Self::Zone { zone, .. } => Some(zone),
        }
    }

    /// The zone, if the app has one.
    pub(super) fn zone_mut(&mut self) -> Option<&mut Zone> {
        match self {
            Self::Kernel(_) => None,
            Self::Zone { zone, .. } => Some(zone),
        }
    }

    /// Gives the app a zone made by `zone`. Returns whether the kernel hosted it until now; otherwise nothing changes.
    pub(super) fn demote(&mut self, why: &str, zone: impl FnOnce() -> Zone) -> bool {
        let Self::Kernel(in_kernel) = self else { return false };
        let starts = in_kernel.starts + in_kernel.ends().0;
        let why = why.to_owned();
        let demotion = Some(Demotion { why, kernel_starts: starts, until: Until::Promotion });
        *self = Self::Zone { zone: Box::new(zone()), demotion };
        true
    }

    /// Gives an app in the kernel a zone for the time of safe mode. An app on trial returns after safe mode as well.
    pub(super) fn demote_for_safe_mode(&mut self, zone: impl FnOnce() -> Zone) {
        let is_new = self.demote("in safe mode all apps are user apps", zone);
        if (is_new || self.is_out(Until::Trial))
            && let Self::Zone { demotion: Some(demotion), .. } = self
        {
            demotion.until = Until::NextKernel;
        }
    }

    /// Gives an app in the kernel a zone for a trial of all kernel apps. Returns whether the kernel hosted it until now.
    pub(super) fn demote_for_trial(&mut self, zone: impl FnOnce() -> Zone) -> bool {
        let why = "the kernel ended twice without a known cause; the app returns after a trial";
        let is_new = self.demote(why, zone);
        if is_new && let Self::Zone { demotion: Some(demotion), .. } = self {
            demotion.until = Until::Trial;
        }
        is_new
    }

    /// Whether the app is out of the kernel until then.
    pub(super) fn is_out(&self, until: Until) -> bool {
        matches!(self, Self::Zone { demotion: Some(it), .. } if it.until == until)
    }

    /// Whether the app is out of the kernel only for the time of safe mode.
    pub(super) fn is_out_for_safe_mode(&self) -> bool {
        self.is_out(Until::NextKernel)
    }

    /// Keeps an app out of the kernel after safe mode or a trial. Returns whether it was out only for that time.
    pub(super) fn keep_demotion(&mut self, why: &str) -> bool {
        match self {
            Self::Zone { demotion: Some(demotion), .. } if demotion.until != Until::Promotion => {
                (demotion.why, demotion.until) = (why.to_owned(), Until::Promotion);
                true
            }
            _ => false,
        }
    }

    /// Lets the next kernel host an app that was out of it for safe mode. The zone is dropped.
    pub(super) fn return_to_kernel(&mut self) {
        if self.is_out_for_safe_mode() {
            let starts = self.kernel_starts();
            *self = Self::Kernel(InKernel { starts, ..InKernel::default() });
        }
    }
}

impl InKernel {
    /// A kernel was started with the app.
    pub(super) fn kernel_started(&mut self) {
        self.starts += 1;
        self.instances = 0;
    }

    /// The kernel could not be started after all.
    pub(super) fn kernel_not_started(&mut self) {
        self.starts = self.starts.saturating_sub(1);
    }

    /// The kernel reports that it has loaded this number of instances. Returns whether this is its first report.
    pub(super) fn loaded(&mut self, instances: u16) -> bool {
        std::mem::replace(&mut self.instances, instances) == 0
    }

    /// How many instances the running kernel has loaded.
    pub(super) fn instances(&self) -> u16 {
        self.instances
    }

    /// An instance has ended for the reason `why`. Returns what follows.
    pub(super) fn instance_ended(
        &mut self,
        why: &str,
        policy: RestartPolicy,
        now: Instant,
    ) -> Decision {
        let ends = self.ends.get_or_insert_with(|| Ends {
            count: 0,
            history: RestartHistory::new(policy),
            last: String::new(),
        });
        ends.count += 1;
        why.clone_into(&mut ends.last);
        // The kernel itself makes pauses between instances.
        ends.history.ended(now, now)
    }

    /// How many instances have ended, and why the last one did.
    pub(super) fn ends(&self) -> (u64, Option<&str>) {
        self.ends.as_ref().map_or((0, None), |it| (it.count, Some(it.last.as_str())))
    }

    /// The kernel has ended.
    pub(super) fn kernel_ended(&mut self) {
        self.instances = 0;
    }

    /// The app's state in a kernel whose own state is `kernel`.
    pub(super) fn state(&self, kernel: ProgramState) -> ProgramState {
        match kernel {
            ProgramState::Running if self.instances == 0 => ProgramState::Starting,
            kernel => kernel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn app_in_kernel_runs_once_reported_loaded() {
        let mut app = InKernel::default();
        assert_eq!(app.state(ProgramState::Waiting), ProgramState::Waiting);
        app.kernel_started();
        assert_eq!(app.state(ProgramState::Starting), ProgramState::Starting);
        assert_eq!(app.state(ProgramState::Running), ProgramState::Starting);
        assert!(app.loaded(2) && !app.loaded(2));
        assert_eq!(app.instances(), 2);
        assert_eq!(app.state(ProgramState::Running), ProgramState::Running);
        assert_eq!(app.state(ProgramState::Stopping), ProgramState::Stopping);
        app.kernel_ended();
        assert_eq!(app.instances(), 0);
        app.kernel_started();
        assert_eq!(
            app.state(ProgramState::Running),
            ProgramState::Starting,
            "the new kernel has not reported it"
        );
        assert_eq!(app.starts, 2);
    }

    #[test]
    fn demoted_app_keeps_its_first_reason() {
        let mut host = HostState::Kernel(InKernel { starts: 3, instances: 2 });
        assert!(host.demote("it panicked", Zone::for_test));
        assert!(!host.demote("the instance of another worker panicked too", Zone::for_test));
        assert_eq!((host.process(), host.demoted()), (HostProcess::Zone, Some("it panicked")));
        assert_eq!(host.kernel_starts(), 3);
    }

    #[test]
    fn app_returns_to_the_kernel_after_safe_mode() {
        let mut host = HostState::Kernel(InKernel { starts: 3, instances: 2 });
        host.demote_for_safe_mode(Zone::for_test);
        assert!(host.is_out_for_safe_mode() && host.demoted().is_some());
        host.return_to_kernel();
        assert_eq!((host.process(), host.kernel_starts()), (HostProcess::Kernel, 3));
        host.demote_for_safe_mode(Zone::for_test);
        assert!(host.keep_demotion("the kernel ended") && !host.keep_demotion("again"));
        host.return_to_kernel();
        assert_eq!((host.process(), host.demoted()), (HostProcess::Zone, Some("the kernel ended")));
    }

    #[test]
    fn app_on_trial_returns_or_is_kept_out() {
        let mut host = HostState::Kernel(InKernel { starts: 3, instances: 2 });
        assert!(host.demote_for_trial(Zone::for_test));
        host.return_to_kernel();
        assert!(host.is_out(Until::Trial), "its trial lasts");
        host.demote_for_safe_mode(Zone::for_test);
        host.return_to_kernel();
        assert_eq!((host.process(), host.kernel_starts()), (HostProcess::Kernel, 3));
        host.demote_for_trial(Zone::for_test);
        assert!(host.keep_demotion("it leaks"));
        assert_eq!((host.is_out(Until::Trial), host.demoted()), (false, Some("it leaks")));
    }

    #[test]
    fn earlier_demotion_outlasts_safe_mode() {
        let mut host = HostState::Kernel(InKernel::default());
        host.demote("it panicked", Zone::for_test);
        host.demote_for_safe_mode(Zone::for_test);
        host.return_to_kernel();
        assert_eq!((host.process(), host.demoted()), (HostProcess::Zone, Some("it panicked")));
    }

    #[test]
    fn app_in_zone_cannot_be_demoted() {
        let mut host = HostState::Zone { zone: Box::new(Zone::for_test()), demotion: None };
        assert!(!host.demote("it panicked", Zone::for_test));
        assert_eq!(host.demoted(), None);
    }
}
