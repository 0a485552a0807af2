//! Breaks the supervisor's decisions on purpose: a simulation must notice each.

use control::app::AbsentApp;
use control::kernel::KernelRequest;
use supervisor::Supervisor;
use supervisor::effects::{Attached, Effect, Fd, Message, ProgramId};

/// A way to break the supervisor. All but the last are twins of those of `make chaos`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sabotage {
    /// A program that has ended is not started again.
    NoRestart,
    /// The end of the kernel is blamed on another app.
    WrongBlame,
    /// Descriptors are kept.
    LeakFd,
    /// Switches lose the flows of an app that runs.
    WipeFlows,
    /// The kernel leaves a guard out.
    FailOpen,
    /// The time for a confirmation is not stored.
    ForgetConfirmation,
}

impl Sabotage {
    /// All of them, with their names.
    pub(crate) const ALL: [(&str, Self); 6] = [
        ("no-restart", Self::NoRestart),
        ("wrong-blame", Self::WrongBlame),
        ("leak-fd", Self::LeakFd),
        ("wipe-flows", Self::WipeFlows),
        ("fail-open", Self::FailOpen),
        ("forget-confirmation", Self::ForgetConfirmation),
    ];

    /// The one with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(it, _)| *it == name).map(|(_, it)| *it)
    }

    /// Changes effects. `kept` has the descriptors that are kept.
    pub(crate) fn apply(
        self,
        effects: &mut Vec<(ProgramId, Effect)>,
        supervisor: &Supervisor,
        kept: &mut Vec<Fd>,
    ) {
        let programs = supervisor.programs();
        match self {
            Self::NoRestart => effects.retain(|(program, effect)| {
                let is_restart = programs.app_of(*program).is_some_and(|app| {
                    app.program().is_some_and(|program| program.lifecycle().starts() > 1)
                });
                !(matches!(effect, Effect::Spawn(_)) && is_restart)
            }),
            // The machine forges the record, and the disk forgets the time.
            Self::WrongBlame | Self::ForgetConfirmation => {}
            Self::LeakFd => {
                for (_, effect) in effects.iter() {
                    if let Effect::Send(_, attached, _) = effect {
                        kept.extend(attached.iter().filter_map(|it| match it {
                            Attached::Fd(fd) => Some(fd.clone()),
                            _ => None,
                        }));
                    }
                }
            }
            Self::WipeFlows | Self::FailOpen => {
                let guard = programs.apps().find(|app| app.is_guard() && app.role().serves());
                let Some(app) = guard else { return };
                for (_, effect) in effects.iter_mut() {
                    if let Effect::Send(message, ..) = effect
                        && let Message::Kernel(request @ KernelRequest::LogLevel { .. }) =
                            message.as_mut()
                    {
                        *request = if self == Self::FailOpen {
                            KernelRequest::Forget { app: app.id }
                        } else {
                            let (app, name) = (app.id, app.name.clone());
                            let apps = vec![AbsentApp { app, name, remove: true }];
                            KernelRequest::AbsentApps { apps }
                        };
                    }
                }
            }
        }
    }
}
