//! The faults of processes and of the machine.

use std::num::NonZeroU16;
use std::time::Duration;

use control::incident::Cause;
use control::kernel::KernelReply;
use control::northbound::NorthboundReply;
use control::service::ServiceReply;
use control::zone::ZoneReply;
use supervisor::effects::{ProcessEvent, ProgramId, Reply};
use supervisor::program::ProgramKind;

use crate::machine::{Machine, Truth, kind_name};
use crate::tape::Tape;

/// How the main thread of a process hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hang {
    /// A signal has stopped it.
    Stopped,
    /// It uses all its processor time.
    Spins,
    /// It waits for something that does not come.
    Sleeps,
}

/// A fault of the next process of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Armed {
    /// It cannot be started.
    NotStarted,
    /// It dies before it is ready.
    DiesStarting,
    /// It is never ready.
    NeverReady,
    /// It does not end when it is asked to.
    IgnoresStop,
    /// It survives a kill for some time.
    SurvivesKill,
    /// It survives a kill for ever.
    SurvivesEver,
    /// The kernel has no room for rings.
    NoRings,
    /// Descriptors are lost on their way from the kernel.
    LosesDescriptors,
    /// The kernel cannot be asked for counters.
    DoesNotCount,
}

impl Armed {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NotStarted => "not started",
            Self::DiesStarting => "dies starting",
            Self::NeverReady => "never ready",
            Self::IgnoresStop => "ignores stop",
            Self::SurvivesKill => "survives a kill",
            Self::SurvivesEver => "survives all kills",
            Self::NoRings => "no rings",
            Self::LosesDescriptors => "loses descriptors",
            Self::DoesNotCount => "does not count",
        }
    }
}

/// The kinds of programs.
pub(crate) const KINDS: [&str; 7] =
    ["kernel", "zone", "log", "storage", "broker", "ovsdb", "northbound"];

/// The faults of every kind of program.
const OF_ALL: [&str; 15] = [
    "not started",
    "dies starting",
    "never ready",
    "ignores stop",
    "survives a kill",
    "crashes",
    "exits",
    "is killed",
    "is stopped",
    "spins",
    "sleeps",
    "breaks the protocol",
    "lies",
    "is deaf",
    "closes its socket",
];

/// Further faults of some kinds.
const OF_SOME: [(&str, &[&str]); 7] = [
    (
        "kernel",
        &[
            "leaks",
            "no rings",
            "loses descriptors",
            "ends in an app",
            "ends unexplained",
            "demotes an app",
            "reports a fault of an app",
            "hangs in an app",
            "leaks in an app",
            "reports",
            "does not count",
        ],
    ),
    ("zone", &["exceeds its memory", "is at its limit", "reports a failure", "reports"]),
    ("log", &["leaks", "reports a failure", "reports", "is silent"]),
    ("storage", &["leaks", "reports a failure", "reports"]),
    ("broker", &["leaks", "reports a failure"]),
    ("ovsdb", &["leaks", "reports a failure"]),
    ("northbound", &["leaks", "reports a failure"]),
];

/// The faults of the machine.
pub(crate) const OF_MACHINE: [&str; 6] = [
    "monitor is killed",
    "disk is full",
    "out of descriptors",
    "clock jumps",
    "file is unreadable",
    "object is replaced",
];

/// All pairs of a kind of program and a fault.
pub(crate) fn pairs() -> Vec<String> {
    let mut pairs = Vec::new();
    for kind in KINDS {
        pairs.extend(OF_ALL.iter().map(|fault| format!("{kind} {fault}")));
        let more = OF_SOME.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, it)| it);
        pairs.extend(more.iter().map(|fault| format!("{kind} {fault}")));
    }
    pairs.extend(OF_MACHINE.iter().map(|fault| format!("machine {fault}")));
    pairs
}

/// The effect of a fault.
#[derive(Debug)]
pub(crate) enum Provoked {
    /// It is to happen to a later process, or nothing is there to which it could happen.
    Later,
    /// It happens from now on.
    Now,
    /// It is this event.
    Event(ProgramId, ProcessEvent),
}

/// Lets a process of `kind` have a fault. The first kind is "kernel".
pub(crate) fn provoke(
    kind: &'static str,
    machine: &mut Machine,
    tape: &mut Tape,
) -> (&'static str, Provoked) {
    let more = OF_SOME.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, it)| it);
    // A kernel has no app half of the time.
    let of_apps = more.iter().filter(|fault| fault.ends_with("an app"));
    let rare = ["reports", "is silent"];
    let rare = more.iter().filter(|fault| matches!(kind, "zone" | "log") && rare.contains(fault));
    let of_apps = of_apps.chain(rare);
    let twice = of_apps.clone().chain(of_apps.clone());
    let often = twice.chain(of_apps.clone()).chain(of_apps);
    let all: Vec<&'static str> = OF_ALL.iter().chain(more).chain(often).copied().collect();
    let Some(fault) = tape.one(&all).copied() else { return ("", Provoked::Later) };
    let armed = match fault {
        "not started" => Some(Armed::NotStarted),
        "dies starting" => Some(Armed::DiesStarting),
        "never ready" => Some(Armed::NeverReady),
        "ignores stop" => Some(Armed::IgnoresStop),
        "survives a kill" if tape.below(9) == 8 => Some(Armed::SurvivesEver),
        "survives a kill" => Some(Armed::SurvivesKill),
        "no rings" => Some(Armed::NoRings),
        "loses descriptors" => Some(Armed::LosesDescriptors),
        "does not count" => Some(Armed::DoesNotCount),
        _ => None,
    };
    if let Some(armed) = armed {
        if machine.armed.len() < 40 {
            machine.armed.push((kind, armed));
        }
        return (fault, Provoked::Later);
    }
    let of_kind = machine.processes.iter().filter(|(_, it)| kind_name(&it.kind) == kind);
    let of_kind: Vec<ProgramId> =
        of_kind.filter(|(_, it)| it.is_ready && !it.is_killed).map(|(id, _)| *id).collect();
    let Some(program) = tape.one(&of_kind).copied() else { return (fault, Provoked::Later) };
    (fault, happen(fault, program, machine, tape))
}

/// The app that a kernel hosts, if it hosts one.
fn hosted(program: ProgramId, machine: &Machine, tape: &mut Tape) -> Option<NonZeroU16> {
    let process = machine.processes.get(&program)?;
    let hosted = process.apps.iter().filter(|app| app.host.is_in_kernel());
    let hosted: Vec<u16> = hosted.map(|app| app.app.0).collect();
    NonZeroU16::new(*tape.one(&hosted)?)
}

fn happen(fault: &str, program: ProgramId, machine: &mut Machine, tape: &mut Tape) -> Provoked {
    let now = Duration::ZERO;
    let signal = |signal| Cause::Signal { signal };
    let since = machine.now();
    match fault {
        "crashes" => machine.end(program, now, signal(11), Truth::Own),
        "exits" => {
            let code = i32::try_from(tape.below(3)).unwrap_or(0);
            machine.end(program, now, Cause::Exit { code }, Truth::Own);
        }
        "is killed" => machine.end(program, now, signal(9), Truth::Outside),
        "is at its limit" => {
            let limit = names::Limit::Memory.name().into();
            machine.end(program, now, Cause::Limit { limit }, Truth::Own);
        }
        "ends in an app" => {
            let Some(app) = hosted(program, machine, tape) else { return Provoked::Later };
            let truth = Truth::InApp(control::app::AppId(app.get()));
            machine.end(program, now, signal(11), truth);
        }
        "ends unexplained" => machine.end(program, now, signal(6), Truth::Unexplained),
        "breaks the protocol" => {
            let why = "it sent a message that is not JSON";
            return Provoked::Event(program, ProcessEvent::Broken(why.into()));
        }
        "closes its socket" => machine.close(program),
        "is silent" => {
            if !machine.make_log_silent(tape) {
                return Provoked::Later;
            }
        }
        "hangs in an app" => {
            let Some(app) = hosted(program, machine, tape) else { return Provoked::Later };
            machine.begin_call(program, app);
        }
        "lies"
        | "reports"
        | "reports a failure"
        | "demotes an app"
        | "reports a fault of an app" => {
            let Some(reply) = message(fault, program, machine, tape) else {
                return Provoked::Later;
            };
            return Provoked::Event(program, ProcessEvent::Received(Box::new(reply), Vec::new()));
        }
        _ => {
            let app = hosted(program, machine, tape);
            let Some(process) = machine.processes.get_mut(&program) else { return Provoked::Later };
            match fault {
                "is stopped" => process.hang = Some(Hang::Stopped),
                "spins" => process.hang = Some(Hang::Spins),
                "sleeps" => process.hang = Some(Hang::Sleeps),
                "is deaf" => process.is_deaf = true,
                "leaks" => process.leak = 4 << 20,
                "leaks in an app" => {
                    let Some(app) = app else { return Provoked::Later };
                    (process.leak, process.leaking_app) =
                        (4 << 20, Some(control::app::AppId(app.get())));
                }
                "exceeds its memory" => process.excess = 1 << 40,
                _ => return Provoked::Later,
            }
            process.sick_since.get_or_insert(since);
        }
    }
    Provoked::Now
}

/// A message that a process should not send, or that reports something.
fn message(fault: &str, program: ProgramId, machine: &Machine, tape: &mut Tape) -> Option<Reply> {
    let process = machine.processes.get(&program)?;
    let why = || "the disk is broken".to_owned();
    let app = process.apps.get(usize::try_from(tape.below(8)).unwrap_or(0)).map(|app| app.app);
    let some_app = app.unwrap_or(control::app::AppId(77));
    let choice = tape.below(6);
    Some(match (&process.kind, fault) {
        (ProgramKind::Kernel, "demotes an app") => {
            let app = control::app::AppId(hosted(program, machine, tape)?.get());
            Reply::Kernel(KernelReply::Demoted { app, why: "it panicked".into() })
        }
        (ProgramKind::Kernel, "reports a fault of an app") => {
            Reply::Kernel(KernelReply::Fault { app: some_app, why: "a record is too long".into() })
        }
        (ProgramKind::Kernel, "reports") => {
            let dpid = tape.below(40).to_string();
            Reply::Kernel(match choice {
                0 => KernelReply::SetAside { app: some_app, record: "00".into() },
                1 => KernelReply::MessageRecovered { dpid, message: "the table-miss entry".into() },
                2 => KernelReply::OtherController(control::kernel::OtherController {
                    dpid,
                    sign: control::kernel::OtherSign::Slave,
                }),
                3 => KernelReply::FlowsMissing(control::kernel::MissingFlows {
                    dpid,
                    loss: control::kernel::FlowLoss::EntryReported,
                    flows: 1,
                    ms: 10,
                    suppressed: None,
                }),
                4 => KernelReply::SwitchRefused(control::kernel::RefusedSwitch {
                    dpid,
                    address: ([10, 0, 0, 1], 6653).into(),
                    why: "it is connected".into(),
                    closed_by_switch: tape.below(2) == 0,
                }),
                _ => KernelReply::MessageFailed(control::kernel::FailedMessage {
                    dpid,
                    message: "the table-miss entry".into(),
                    why: "it refused it".into(),
                    effect: "nothing arrives".into(),
                }),
            })
        }
        (ProgramKind::Kernel, _) => Reply::Kernel(match choice {
            0 => KernelReply::Ready,
            1 => KernelReply::Hosted { app: some_app, version: "9".into(), instances: 40 },
            2 => KernelReply::Attached { app: some_app, capacity: 1, batch: 1 },
            3 => KernelReply::NotAttached { app: some_app, why: "no".into() },
            _ => KernelReply::Demoted { app: control::app::AppId(99), why: "it panicked".into() },
        }),
        (ProgramKind::Zone(_), "reports a failure") => {
            Reply::Zone(ZoneReply::Failed { why: "it panicked".into() })
        }
        (ProgramKind::Zone(_), "reports") => Reply::Zone(match choice {
            0 => ZoneReply::Problem { text: "there is no uplink".into() },
            1.. if matches!(&process.kind, ProgramKind::Zone(app) if app == "topology") => {
                ZoneReply::Audit { record: "user 0: drain 1".into() }
            }
            2 => ZoneReply::Problem { text: String::new() },
            _ => ZoneReply::Incident {
                summary: format!("host {} moved", tape.below(9)),
                evidence: "a packet".into(),
            },
        }),
        (ProgramKind::Zone(_), _) => Reply::Zone(match choice {
            0 | 1 => ZoneReply::Loaded { version: "2".into() },
            2 => ZoneReply::Audit { record: "user 0 did it".into() },
            3 => ZoneReply::Unfit { why: "no".into() },
            _ => ZoneReply::Confined { report: sys::sandbox::Report::default() },
        }),
        (ProgramKind::Service(_), "reports a failure") => {
            Reply::Service(ServiceReply::Failed { why: why() })
        }
        (ProgramKind::Service(_), "reports") => {
            Reply::Service(ServiceReply::Disk { failure: (choice < 3).then(why) })
        }
        (ProgramKind::Service(_), _) => Reply::Service(match choice {
            0 => ServiceReply::Ready,
            _ => ServiceReply::Pong { number: u64::MAX },
        }),
        (ProgramKind::Northbound, "reports a failure") => {
            Reply::Northbound(NorthboundReply::Failed { why: why() })
        }
        (ProgramKind::Northbound, _) => Reply::Northbound(match choice {
            0 => NorthboundReply::Used { id: "1".into() },
            1 => NorthboundReply::Ready,
            _ => NorthboundReply::Pong { number: u64::MAX },
        }),
    })
}
